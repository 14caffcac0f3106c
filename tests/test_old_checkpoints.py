"""Checkpoints written by earlier versions still load, and go on as they did."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import batch2online
from batch2online.methods import scores

FOLDER = Path(__file__).parent / "data" / "schema1"
TABLE = np.loadtxt(FOLDER / "rows.csv", delimiter=",")
ROWS, TARGETS = np.ascontiguousarray(TABLE[:, :3]), TABLE[:, 3].copy()


def targets_for(name):
    if name == "wrapped_logistic":
        return np.where(TARGETS > 0, "up", "down")
    return TARGETS if name in ("regression", "regression_history", "wrapped_ridge") else None


def check(model, expected, rel=1e-9):
    coreset = model.coreset_
    assert model.n_seen_ == expected["n_seen"]
    assert [event.at for event in model.changes_] == expected["changes"]
    assert coreset.ids.tolist() == expected["ids"]
    # weights are powers of 1 + epsilon, and powers differ in the last bit between machines
    np.testing.assert_allclose(coreset.weights, expected["weights"], rtol=1e-13)
    assert model.regret_.loss == pytest.approx(expected["loss"], rel=rel)
    output = model.predict(ROWS[:5]) if hasattr(model, "predict") else model.transform(ROWS[:5])
    if isinstance(expected["output"][0], str):
        assert output.tolist() == expected["output"]
    else:
        np.testing.assert_allclose(output, expected["output"], rtol=1e-8, atol=1e-9)


def check_other_scores(model, expected):
    """Rows were kept by other scores in version 0.1: none may be kept with a larger probability than it was then."""
    (part,) = model._engine.construction.parts
    first = np.column_stack([np.ones(365), ROWS[:365]])  # the others wait
    np.testing.assert_allclose(part.limits, 10 * scores.ridge_leverage(first, 3)[part.rows.ids], rtol=1e-9)
    assert model.coreset_.weights.sum() == pytest.approx(model.n_seen_, rel=0.3)
    assert model.n_seen_ == expected["n_seen"]
    assert [event.at for event in model.changes_] == expected["changes"]
    assert model.regret_.loss == pytest.approx(expected["loss"], rel=1e-9)
    np.testing.assert_allclose(model.transform(ROWS[:5]), expected["output"], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.b2o")), ids=lambda path: path.stem)
def test_a_checkpoint_of_schema_1_loads_and_goes_on(path):
    expected, targets = json.loads(path.with_suffix(".json").read_text()), targets_for(path.stem)
    model = batch2online.load(path, refit="wrapped" in path.stem)  # these hold rows, and no fitted model
    if path.stem == "pca":
        check_other_scores(model, expected["saved"])
    elif path.stem != "clustering_bounded":  # rows are thinned at other row counts than in version 0.1
        check(model, expected["saved"])
    model.partial_fit(ROWS[507:], None if targets is None else targets[507:])
    if path.stem == "clustering_bounded":
        assert model.n_seen_ == expected["continued"]["n_seen"]
        assert model.regret_.loss == pytest.approx(expected["continued"]["loss"], rel=0.05)
    elif path.stem == "pca":
        assert model.n_seen_ == expected["continued"]["n_seen"]
        assert model.regret_.loss == pytest.approx(expected["continued"]["loss"], rel=0.05)
        assert model.coreset_.weights.sum() == pytest.approx(model.n_seen_, rel=0.5)
    else:  # the solver of clusters takes other steps than in version 0.1
        check(model, expected["continued"], rel=1e-4 if path.stem == "clustering_two_stages" else 1e-9)


def test_sentences_of_schema_1_become_numbers():
    model = batch2online.load(FOLDER / "regression_history.b2o")
    kinds = {event.kind for event in model.changes_}
    assert kinds == {"scheduled", "forgotten"}
    scheduled = [event for event in model.changes_ if event.kind == "scheduled"]
    assert all(0.0075 <= event.allowed <= 0.015 for event in scheduled)
    assert [event.rows for event in model.changes_ if event.kind == "forgotten"] == [2]
