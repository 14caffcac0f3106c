"""Sums over a night that is read in several batches and follows a trend: they are those of all its rows."""

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from batch2online import load
from batch2online.app.cli.app import run_safely

TARGET = ["--task", "regression", "--target", "y"]
TASKS = {
    "regression": TARGET,
    "absolute": [*TARGET, "--loss", "absolute"],
    "wrapped": [*TARGET, "--estimator", "sklearn.linear_model.Ridge"],
    "low rank": ["--task", "lowrank", "--k", "1"],
    "clusters": ["--task", "clustering", "--k", "2"],
}


def rows(start, stop):
    """Return rows whose values rise; one in twenty has a missing value."""
    rng, time = np.random.default_rng(start), np.arange(start, stop) / 30
    table = pd.DataFrame({"a": rng.normal(size=len(time)) + time, "y": 5 * time + rng.normal(size=len(time))})
    return table.mask(rng.random(table.shape) < 0.025)


pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # rows are arrays here


def residuals(task, model, night):
    """Return the residuals of rows, or their distances, under a model."""
    X = night[["a"]].to_numpy() if TARGET[-1] in TASKS[task] else night.to_numpy()
    if task == "clusters":
        return X, None, model.transform(X).min(axis=1)
    if task == "low rank":
        return X, None, np.linalg.norm(X - model.inverse_transform(model.transform(X)), axis=1)
    return X, night["y"].to_numpy(), np.abs(night["y"].to_numpy() - model.predict(X))


def measures(task, found, values):
    """Return the measures of rows of these residuals; ``values`` are what a model explains."""
    share, root = 1 - np.square(found).sum() / np.square(values).sum(), np.sqrt(np.square(found).mean())
    return {
        "absolute": {"MAE": found.mean(), "mean loss": found.mean()},
        "low rank": {"variance kept": share, "RMS distance": root},
        "clusters": {"mean distance": found.mean()},
    }.get(task, {"R2": share, "RMSE": root, "MAE": found.mean()})


@pytest.mark.parametrize(
    ("task", "sizes", "file"), [*((task, [90] * 3, "csv") for task in TASKS), ("regression", [3 << 16], "parquet")]
)
def test_sums_of_a_night_are_those_of_all_its_rows(task, sizes, file, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    tables = [rows(0, 150), *(rows(150 + size * i, 150 + size * (i + 1)) for i, size in enumerate(sizes))]
    names = [f"{number}.{file}" for number in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        getattr(table, f"to_{file}")(name, index=False)
    words = [*TASKS[task], "--missing", "drop", "--state", "m.b2o", "--quiet"]
    assert run_safely(["run", names[0], *words]) == 0
    model = load("m.b2o", trusted=True)
    usual, n_before, n_changes = model.metrics_, model.n_seen_, model.n_changes_
    capfd.readouterr()
    assert run_safely(["learn", "m.b2o", *names[1:], "--alarms", "none", "--json"]) == 0
    said, learned = json.loads(capfd.readouterr().out), load("m.b2o", trusted=True)

    whole = pd.concat(tables[1:])
    night = whole.dropna()
    X, y, before = residuals(task, model, night)
    bounds = [0, *(event["at"] - n_before for event in said["changes"]), len(X)]
    parts = []
    for start, stop in pairwise(bounds):  # each row is predicted by the model before it
        parts.append(residuals(task, model, night[start:stop])[2])
        model.partial_fit(X[start:stop], None if y is None else y[start:stop])
    values = X if y is None else y - y.mean()
    assert said["quality_before"] == pytest.approx(measures(task, before, values), rel=1e-6)
    assert said["quality_learning"] == pytest.approx(measures(task, np.concatenate(parts), values), rel=1e-6)
    assert said["quality_of_earlier_rows"] == pytest.approx(usual, rel=1e-9)
    assert (said["rows"], said["rows_dropped"]) == (len(X), len(whole) - len(X))
    assert said["rows_seen"] == learned.n_seen_ == n_before + len(X)
    assert len(said["changes"]) == learned.n_changes_ - n_changes > 0
    assert learned.metrics_ == pytest.approx(model.metrics_, rel=1e-9)
