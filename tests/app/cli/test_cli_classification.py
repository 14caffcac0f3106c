"""Classes and other losses on the command line: results equal to the library's, labels as they come."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pyarrow.csv
import pytest

import batch2online
from batch2online import OnlineClassifier, OnlineRegression
from batch2online.app.cli.app import run_safely

LABELS = {"text": ["on time", "late, very", "<b>"], "numbers": [7, -1, 3]}


def write(path, X, y):
    lines = [",".join(map(repr, row)) + f',"{label}"' for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    path.write_text("a,b,kind\n" + "\n".join(lines) + "\n")
    return path


def others(*values):
    return pytest.param(values, marks=pytest.mark.full)


@pytest.fixture(scope="module", params=[("text", 3), ("numbers", 2), others("text", 2), others("numbers", 3)], ids=str)
def stream(request, tmp_path_factory):
    """Rows of two inputs with two or three labels, as CSV."""
    kind, count = request.param
    rng = np.random.default_rng(count)
    X = rng.normal(size=(1500, 2))
    logits = X @ np.array([[2.0, 0.0, -1.0], [0.0, 1.0, 1.0]])[:, :count]
    chosen = np.argmax(logits + rng.gumbel(size=(1500, count)), axis=1)
    y = np.array(LABELS[kind])[chosen]
    return SimpleNamespace(path=write(tmp_path_factory.mktemp("data") / "rows.csv", X, y), X=X, y=y, count=count)


def result_of(*words, capsys):
    assert run_safely([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("no_report")
def test_a_run_equals_the_library(stream, tmp_path, capsys):
    task = ["--task", "classification", "--target", "kind"]
    result = result_of("run", stream.path, *task, "--out", tmp_path / "out", "--chunk", 77, capsys=capsys)
    model = OnlineClassifier(random_state=0).partial_fit(stream.X, stream.y)
    assert result["last_model"]["coef"] == model.coef_.tolist()
    assert result["last_model"]["classes"] == sorted(set(stream.y.tolist()))
    assert result["last_model"]["error"] == model.error_
    assert result["inputs"] == ["a", "b"]
    assert result["headline"].startswith("kind: better than guessing, wrong on ")
    assert "log loss" in result["headline"]
    stored = batch2online.load(tmp_path / "out" / "model.b2o")
    assert stored.classes_.tolist() == model.classes_.tolist()
    shown = result_of("show", tmp_path / "out", capsys=capsys)["in_units"]["classes"]
    assert len(shown) == (1 if stream.count == 2 else 3)
    last = shown[str(model.classes_[-1])]
    assert list(last["coefficients"].values()) == pytest.approx(model.coef_[-1].tolist())
    assert run_safely(["show", str(tmp_path / "out")]) == 0
    table = pyarrow.csv.read_csv(tmp_path / "out" / "coreset.csv")
    assert [table.column("kind")[j].as_py() for j in range(5)] == [
        stream.y[table.column("id")[j].as_py()] for j in range(5)
    ]


@pytest.mark.usefixtures("no_report")
def test_labels_are_predicted_with_their_probabilities(stream, tmp_path, capsys):
    run_safely(
        ["run", str(stream.path), "--task", "classification", "--target", "kind", "--out", str(tmp_path / "o"), "-q"]
    )
    capsys.readouterr()
    model = OnlineClassifier(random_state=0).partial_fit(stream.X, stream.y)
    out = tmp_path / "p.csv"
    assert run_safely(["predict", str(tmp_path / "o"), str(stream.path), "--probabilities", "--out", str(out)]) == 0
    found = pyarrow.csv.read_csv(out)
    assert found.column_names == ["prediction", *(f"probability of {label}" for label in model.classes_)]
    assert found.column(0).to_pylist() == model.predict(stream.X).tolist()
    shares = np.column_stack([column.to_numpy() for column in found.columns[1:]])
    np.testing.assert_allclose(shares, model.predict_proba(stream.X), atol=1e-12)


def test_random_order_and_a_state_keep_labels(stream, tmp_path, capsys):
    words = ["run", stream.path, "--task", "classification", "--target", "kind", "--order", "random"]
    once = result_of(*words, capsys=capsys)
    assert once["last_model"]["classes"] == sorted(set(stream.y.tolist()))
    order = np.random.default_rng(0).permutation(len(stream.X))
    model = OnlineClassifier(random_state=0).partial_fit(stream.X[order], stream.y[order])
    assert once["last_model"]["coef"] == model.coef_.tolist()
    kept = [result_of(*words, "--state", tmp_path / "s.b2o", capsys=capsys) for _ in range(2)]
    assert kept[0] == kept[1] == once


def test_a_grown_file_goes_on_with_a_label_that_is_new(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), rng.choice(["x", "y"], 600).astype("U12")
    y[400:] = np.where(X[400:, 0] > 1, "a longer one", y[400:])
    path = write(tmp_path / "rows.csv", X[:400], y[:400])
    words = ["run", path, "--task", "classification", "--target", "kind", "--state", tmp_path / "s.b2o"]
    assert result_of(*words, capsys=capsys)["last_model"]["classes"] == ["x", "y"]
    write(path, X, y)
    resumed = result_of(*words, capsys=capsys)
    assert resumed["last_model"]["classes"] == ["a longer one", "x", "y"]
    assert resumed["last_model"] == result_of(*words[:-2], capsys=capsys)["last_model"]


def test_emitted_predictions_are_labels(stream, capsys):
    words = ["run", str(stream.path), "--task", "classification", "--target", "kind", "--emit", "predictions", "-q"]
    assert run_safely(words) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["target"] for line in lines] == stream.y.tolist()
    assert {line["prediction"] for line in lines[100:]} <= set(stream.y.tolist())


def test_compare_names_the_rivals(stream, capsys):
    words = ["compare", stream.path, "--task", "classification", "--target", "kind", "--seeds", 1]
    losses = {run["model"]: run["loss"] / run["optimum"] for run in result_of(*words, capsys=capsys)["rows"]}
    rivals = {
        "refit on all rows at doublings",
        "scikit-learn SGDClassifier",
        "scikit-learn Passive-Aggressive, by margins",
    }
    assert rivals <= set(losses)
    assert 0.99 < losses["batch2online"] < 1.2
    assert losses["batch2online"] < losses["scikit-learn SGDClassifier"]


@pytest.mark.parametrize("is_sorted", [False, True])
def test_check_tells_the_order_of_labels(is_sorted, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 2)), rng.choice(["x", "y"], 3000)
    path = write(tmp_path / "rows.csv", X, np.sort(y) if is_sorted else y)
    found = result_of("check", path, "--target", "kind", capsys=capsys)
    assert (found["alarm"] is not None) == is_sorted


LOSSES = {
    "huber": {"delta": 1.1},
    "absolute": {},
    "quantile": {"quantile": 0.9},
    "poisson": {"alpha": 0.01},
    "gamma": {},
    "tweedie": {"alpha": 0.1, "l1_ratio": 0.5, "power": 1.8},
    "squared": {"alpha": 0.1},
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.few(1)
@pytest.mark.slow
def test_losses_and_penalties_equal_the_library(loss, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.exp(X @ [0.5, -0.2]) * rng.gamma(3.0, size=400)
    path = write(tmp_path / "rows.csv", X, y)
    given = [word for name, value in LOSSES[loss].items() for word in (f"--{name.replace('_', '-')}", value)]
    words = ["run", path, "--task", "regression", "--target", "kind", "--loss", loss, *given, "--out", tmp_path / "o"]
    result = result_of(*words, capsys=capsys)
    model = OnlineRegression(loss=loss, random_state=0, **LOSSES[loss]).partial_fit(X, y)
    assert result["last_model"]["coef"] == model.coef_.tolist()
    assert f"--loss {loss}" in result["command"]
    page = (tmp_path / "o" / "report.html").read_text()
    assert ("exp of the intercept" in page) == (loss in ("poisson", "gamma", "tweedie"))
    share = 100 * np.mean(y <= model.predict(X))  # all rows fit into the coreset
    assert (f"{share:.1f} % of the targets are below it" in page) == (loss == "quantile")
    assert "Lines are each" not in page


def test_a_target_out_of_range_is_named_with_its_line(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    path.write_text("a,kind\n" + "1,\n2,3\n" * 20 + "2,0\n3,-2\n")
    words = ["run", str(path), "--task", "regression", "--target", "kind", "--missing", "drop", "-q", "--loss"]
    assert run_safely([*words, "poisson"]) == 2
    assert "line 43, column 'kind': -2 must be 0 or more" in capsys.readouterr().err
    assert run_safely([*words, "gamma"]) == 2
    assert "line 42, column 'kind': 0 must be above 0" in capsys.readouterr().err
    assert run_safely([*words, "huber"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "classification"], "line 3, column 'kind': 1.5 is not a class label"),
        (["--task", "classification", "--loss", "huber"], "--task classification has no --loss: remove it"),
        (["--task", "regression", "--delta", "1.5"], "--delta needs --loss huber"),
    ],
)
def test_what_does_not_fit_is_refused(words, message, tmp_path, capsys):
    path = tmp_path / "rows.csv"
    path.write_text("a,kind\n1,1\n2,1.5\n")
    assert run_safely(["run", str(path), "--target", "kind", *words, "-q"]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_label_is_a_gap(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    path.write_text("a,kind\n" + "1,x\n2,y\n" * 20 + "3,\n")
    words = ["run", path, "--task", "classification", "--target", "kind"]
    result = result_of(*words, capsys=capsys)
    assert (result["rows"], result["rows_dropped"]) == (40, 1)
