"""Estimators of one's own: names of classes, learned attributes, the error of the hindsight optimum."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from batch2online import OnlineClustering, OnlineRegression, load
from batch2online.checks import check_estimator
from batch2online.extend import OnlineEstimator, storable
from batch2online.storage.tree import CheckpointError

sys.path.append(str(Path(__file__).parents[2] / "examples"))
import k_medoids
import own_problem

ROWS = np.random.default_rng(0).laplace(size=(6_000, 2))


def test_a_class_of_the_name_of_ours_is_refused_and_ours_is_still_stored(tmp_path):
    model = OnlineClustering(2, random_state=0).fit(ROWS[:100])
    with pytest.raises(TypeError, match=r"Centers and batch2online\.methods\.clustering.*Centers have the same name"):

        @storable
        @dataclass(frozen=True)
        class Centers:
            points: int

    with pytest.raises(TypeError, match="have the same name, by which files refer to classes: rename yours"):
        type("OnlineRegression", (OnlineEstimator,), {"__module__": "mine"})
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").cluster_centers_, model.cluster_centers_)
    assert OnlineRegression().fit(ROWS[:50], ROWS[:50, 0]).n_seen_ == 50


def test_a_class_may_be_defined_again():
    for _ in range(2):

        @storable
        @dataclass(frozen=True)
        class Again:
            x: int


def test_attributes_set_by_finish_fit_are_kept_until_the_next_fit():
    class Ranked(own_problem.OnlineMedian):
        def _finish_fit(self, X):
            self.largest_ = float(np.max(X))

    model = Ranked(random_state=0).fit(ROWS)
    assert model.largest_ == ROWS.max()
    assert model.fit(ROWS[:10]).largest_ == ROWS[:10].max()


def test_a_hindsight_measured_on_a_coreset_has_an_error():
    whole, sampled = (own_problem.OnlineMedian(coreset_size=n, random_state=0).fit(ROWS) for n in (10_000, 500))
    optimum = np.abs(ROWS - np.median(ROWS, axis=0)).sum()
    assert whole.regret_.error == 0
    assert whole.regret_.optimum == pytest.approx(optimum, rel=1e-9)
    assert 0.01 < sampled.regret_.error < 0.3
    assert sampled.regret_.optimum / (1 + sampled.regret_.error) < optimum


def test_a_file_of_a_class_that_was_not_imported_names_the_way_on(tmp_path, monkeypatch):
    from batch2online import estimator, schema

    own_problem.OnlineMedian(random_state=0).fit(ROWS).save(tmp_path / "model")
    monkeypatch.delitem(schema.classes, "Medians")
    monkeypatch.delitem(estimator.estimators, "OnlineMedian")
    with pytest.raises(CheckpointError, match="OnlineMedian: if it is your class, import its module first"):
        load(tmp_path / "model")


@pytest.mark.parametrize("history", ["memory", "coreset"])
def test_the_example_of_medoids_passes_the_checks(history):
    bounded = {"merges_exactly": False, "lacks": {"forget": "needs the history"}, "history": {}}
    check_estimator(k_medoids.OnlineKMedoids(3, history=history), **(bounded if history == "coreset" else {}))


def test_medoids_are_rows_from_the_first_one_on():
    model = k_medoids.OnlineKMedoids(3, random_state=0)
    for row in ROWS[:40]:
        model.learn_one(row)
        assert all((center == ROWS[:40]).all(axis=1).any() for center in model.cluster_centers_)
    assert model.partial_fit(ROWS[40:]).regret_.ratio < 1.1
