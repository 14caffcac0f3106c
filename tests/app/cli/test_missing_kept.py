"""``--missing keep``: rows with missing values are learned, and predicted, by an estimator that takes them."""

import json

import numpy as np
import pandas as pd
import pytest

from batch2online import load
from batch2online.app.cli.app import run_safely

CASES = {
    "regression": ["--target", "y", "--exclude", "kind", "--estimator", "sklearn.tree.DecisionTreeRegressor"],
    "classification": ["--target", "kind", "--exclude", "y", "--estimator", "sklearn.tree.DecisionTreeClassifier"],
}


@pytest.mark.parametrize("task", CASES)
def test_rows_with_missing_values_are_predicted_by_the_estimator(task, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(400, 3)).round(3), columns=["a", "b", "c"])
    rows["y"] = (rows["a"] - rows["b"]).round(3)
    rows["kind"] = np.where(rows["y"] > 0, "high", "low")
    rows[["a", "b", "c"]] = rows[["a", "b", "c"]].mask(rng.random((400, 3)) < 0.2)
    rows.to_csv("rows.csv", index=False)
    words = [*CASES[task][:4], "--task", task, "--missing", "keep", *CASES[task][4:], "--set", "max_depth=6"]
    assert run_safely(["run", "rows.csv", *words, "--out", "out", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["rows"], result["rows_dropped"]) == (400, 0)
    new = rows.drop(columns=["y", "kind"])
    new.to_csv("new.csv", index=False)
    assert run_safely(["predict", "out", "new.csv", *words[-4:], "--out", "p.csv"]) == 0
    assert all((tmp_path / "p.csv").read_text().splitlines())
    found, model = pd.read_csv("p.csv"), load("out/model.b2o", trusted=True)
    answers = model.model_.predict(new.to_numpy())
    assert len(set(answers)) > (1 if task == "classification" else 20)
    if task == "classification":
        assert found["prediction"].tolist() == answers.tolist()
    else:
        np.testing.assert_allclose(found["prediction"], answers, rtol=1e-12)
    assert run_safely(["predict", "out", "new.csv", *words[-4:], "--out", "p.parquet"]) == 0
    assert (pd.read_parquet("p.parquet")["prediction"] == answers).all()
