"""Other losses and named sets of classes on the command line: comparisons, rivals, residuals in the report."""

from __future__ import annotations

import json

import numpy as np
import pytest

from batch2online import OnlineClassifier, OnlineRegression, datasets
from batch2online.app.cli.app import run_safely
from batch2online.baselines.peers import of_loss
from batch2online.datasets.tables import LABELS, load_table
from batch2online.evaluate.losses import of_regression

LOSSES = {
    "huber": (["--delta", "1.5"], "scikit-learn Passive-Aggressive"),
    "absolute": ([], "scikit-learn SGDRegressor"),
    "quantile": (["--quantile", "0.8"], "refit on all rows at doublings"),
    "poisson": ([], "uniform sample of equal size"),
    "gamma": ([], "refit on all rows at doublings"),
    "tweedie": (["--power", "1.7"], "uniform sample of equal size"),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.few(3)
@pytest.mark.slow
def test_compare_knows_all_losses(loss, capsys):
    further, rival = LOSSES[loss]
    words = ["compare", "--dataset", "diabetes", "--task", "regression", "--loss", loss, *further, "--seeds", "1"]
    assert run_safely([*words, "--json"]) == 0
    found = {run["model"]: run["loss"] / run["optimum"] for run in json.loads(capsys.readouterr().out)["rows"]}
    assert rival in found
    assert 1 < found["batch2online"] < 1.3
    assert all(np.isfinite(ratio) and ratio > 0.99 for ratio in found.values())


@pytest.mark.parametrize("loss", ["huber", "absolute", "poisson", "gamma"])
def test_the_best_model_in_hindsight_is_that_of_the_loss(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.exp(X @ [0.5, -0.2]) * rng.gamma(3.0, size=300)
    measure = of_regression(loss)
    best = OnlineRegression(loss=loss, coreset_size=10**6).fit(X, y)
    least = measure.hindsight(X, y).sum()
    assert least == pytest.approx(measure.losses(best.predict(X), X, y).sum(), rel=1e-9)
    for name, rival in of_loss(loss, 100).items():
        if hasattr(rival, "partial_fit"):
            costs = measure.losses(rival.partial_fit(X, y).predict(X), X, y).sum()
            assert costs > least * (1 - (1e-2 if loss == "huber" else 1e-4)), name


@pytest.mark.parametrize("name", ["breast_cancer", "digits"])
@pytest.mark.few(1)
def test_named_sets_of_classes_equal_the_library(name, capsys):
    table = load_table(name)
    assert run_safely(["run", "--dataset", name, "--task", "classification", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    X = np.column_stack([table.columns[column] for column in table.rows])
    y = table.columns[LABELS[name]]
    model = OnlineClassifier(random_state=0).partial_fit(X, y.astype(str) if y.dtype == object else y)
    assert result["last_model"]["coef"] == model.coef_.tolist()


@pytest.mark.slow
def test_all_sets_of_classes_have_their_labels():
    assert set(LABELS) == set(datasets.CLASSIFICATION)
    for name, label in LABELS.items():
        try:
            table = load_table(name)
        except datasets.MissingPackageError:
            continue
        assert table.label == label
        assert label in table.columns
        assert label not in (*table.inputs, *table.rows)


def test_classes_of_equal_weight_on_the_command_line(capsys):
    words = ["run", "--dataset", "breast_cancer", "--task", "classification", "--class-weight", "balanced", "--json"]
    assert run_safely(words) == 0
    result = json.loads(capsys.readouterr().out)
    table = load_table("breast_cancer")
    X = np.column_stack([table.columns[column] for column in table.rows])
    model = OnlineClassifier(random_state=0, class_weight="balanced")
    assert result["last_model"]["coef"] == model.partial_fit(X, table.columns["diagnosis"].astype(str)).coef_.tolist()
    assert "--class-weight balanced" in result["command"]
