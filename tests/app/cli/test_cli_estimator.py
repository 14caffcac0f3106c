"""Any batch algorithm on the command line: results equal to the library's, and a file runs no code of others."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from batch2online import BatchToOnline
from batch2online.app.cli.app import run_safely
from batch2online.methods.any_estimator.problem import EstimatorProblem

RIDGE = ["--estimator", "sklearn.linear_model.Ridge", "--set", "alpha=0.5"]
TASKS = {
    "regression": ["--target", "y", "--exclude", "kind", "--estimator", "sklearn.linear_model.Ridge"],
    "classification": ["--target", "kind", "--exclude", "y", "--estimator", "sklearn.linear_model.LogisticRegression"],
    "clustering": ["--exclude", "kind,y", "--estimator", "sklearn.cluster.KMeans", "--set", "n_clusters=3"],
    "density": ["--exclude", "kind,y", "--estimator", "sklearn.mixture.GaussianMixture", "--set", "n_components=2"],
    "anomaly": ["--exclude", "kind,y", "--estimator", "sklearn.ensemble.IsolationForest", "--set", "n_estimators=5"],
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300), "c": rng.choice(["u", "v"], 300)})
    frame["y"] = frame["a"] - 2 * (frame["c"] == "u") + rng.normal(size=300) / 10
    frame["kind"] = np.where(frame["y"] > -1, "high", "low")
    path = tmp_path_factory.mktemp("data") / "rows.csv"
    frame.to_csv(path, index=False)
    return path


def said(*words, capsys, code=0):
    assert run_safely([str(word) for word in words]) == code
    found = capsys.readouterr()
    return found.err if code else found.out


def test_a_run_equals_the_library(rows, capsys):
    words = [
        "run",
        rows,
        "--task",
        "regression",
        "--target",
        "y",
        "--exclude",
        "kind,c",
        *RIDGE,
        "--json",
        "--chunk",
        7,
    ]
    result = json.loads(said(*words, capsys=capsys))
    frame = pd.read_csv(rows, float_precision="round_trip")
    model = BatchToOnline(Ridge(alpha=0.5), loss="squared", random_state=0)
    model.partial_fit(frame[["a", "b"]].to_numpy(), frame["y"].to_numpy())
    assert result["loss"] == model.regret_.loss
    assert result["changes"] == model.n_changes_
    assert "--estimator sklearn.linear_model.Ridge --set alpha=0.5" in result["command"]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.few(1)
@pytest.mark.slow
def test_each_task_runs_reports_shows_and_predicts(task, rows, tmp_path, capsys):
    named = TASKS[task][TASKS[task].index("--estimator") :]
    headline = said("run", rows, "--task", task, *TASKS[task], "--out", tmp_path, capsys=capsys)
    assert "300" in headline
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Feature importance" in report
    assert ("Partial dependence" in report) == (task in ("regression", "classification"))
    assert "rows seen" in said("show", tmp_path, *named, capsys=capsys)
    lines = said("predict", tmp_path, rows, *named, capsys=capsys).splitlines()
    assert len(lines) == 301


def test_a_state_goes_on(rows, tmp_path, capsys):
    words = ["run", rows, "--task", "regression", "--target", "y", "--exclude", "kind", *RIDGE, "--json"]
    once = json.loads(said(*words, "--state", tmp_path / "state.b2o", capsys=capsys))
    again = json.loads(said(*words, "--state", tmp_path / "state.b2o", capsys=capsys))
    assert again["loss"] == once["loss"]


def test_rivals_are_refits_on_all_rows(rows, capsys):
    words = ["compare", rows, "--task", "regression", "--target", "y", "--exclude", "kind", *RIDGE, "--seeds", 1]
    assert "refit on all rows, at doublings" in said(*words, capsys=capsys)
    density = ["compare", rows, "--task", "density", *TASKS["density"]]
    assert "has no other learners" in said(*density, capsys=capsys, code=2)


@pytest.mark.slow
def test_a_python_file_with_a_model(rows, tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("from sklearn.linear_model import Ridge\n\nmodel = Ridge(alpha=2.0)\n")
    words = ["run", rows, "--task", "regression", "--target", "y", "--exclude", "kind", "--estimator", path]
    said(*words, "--set", "alpha=3.0", "--out", tmp_path / "out", capsys=capsys)
    assert "Ridge(alpha=3.0)" in said(
        "show", tmp_path / "out", "--estimator", path, "--set", "alpha=3.0", capsys=capsys
    )


@pytest.mark.parametrize(
    ("estimator", "needs_trust"), [("tree.DecisionTreeRegressor", False), ("neighbors.KNeighborsRegressor", True)]
)
def test_a_file_predicts_with_the_fitted_model(estimator, needs_trust, rows, tmp_path, capsys, monkeypatch):
    words = ["--task", "regression", "--target", "y", "--exclude", "kind", "--estimator", f"sklearn.{estimator}"]
    said("run", rows, *words, "--out", tmp_path, capsys=capsys)
    monkeypatch.setattr(EstimatorProblem, "fit_on", None)
    if needs_trust:
        refused = said("predict", tmp_path, rows, capsys=capsys, code=2)
        assert "add --trust if you trust it, or give --estimator" in refused
    assert "prediction" in said("predict", tmp_path, rows, *["--trust"] * needs_trust, capsys=capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "density"], "needs --estimator, such as sklearn.mixture.GaussianMixture"),
        (
            ["--task", "lowrank", "--estimator", "sklearn.decomposition.PCA"],
            "--task lowrank does not accept --estimator",
        ),
        (["--task", "regression", *RIDGE], "needs --target"),
        (["--task", "clustering", "--k", "3", *RIDGE], "use --set n_clusters=K"),
        (["--task", "density", "--estimator", "Ridge"], "is neither a dotted name"),
        (["--task", "density", "--estimator", "sklearn.nothing.Ridge"], "cannot be imported"),
        (["--task", "density", "--estimator", "sklearn.mixture.Nothing"], "has no Nothing"),
        (["--task", "density", "--estimator", "missing.py"], "there is no such file"),
        (
            ["--task", "density", "--estimator", "sklearn.mixture.GaussianMixture", "--set", "k"],
            "not of the form name=value",
        ),
        (["--task", "density", "--estimator", "sklearn.mixture.GaussianMixture", "--set", "k=1"], "these parameters"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(words, message, rows, capsys):
    assert message in said("run", rows, *words, capsys=capsys, code=2)
