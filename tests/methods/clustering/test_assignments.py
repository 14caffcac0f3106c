"""Labels of a coreset's points are computed once for each set of centers, and never kept in the coreset."""

from __future__ import annotations

import dataclasses
from unittest.mock import patch

import numpy as np

from batch2online import OnlineClustering
from batch2online.coresets import Clustering
from batch2online.methods.clustering import problem
from batch2online.sketches.base import Coreset, Snapshot

X = np.random.default_rng(0).normal(size=(500, 2))
CENTERS = X[:3]


def data(rows=X):
    built = Clustering(2, coreset_size=10**6, random_state=0).add(rows)
    return Snapshot(built.sketch, built.history)


def counted(known, *sets):
    """How often distances are computed to answer these questions."""
    with patch.object(problem, "nearest", wraps=problem.nearest) as nearest:
        for centers in sets:
            problem._assignment(known, centers)
        return nearest.call_count


def test_each_set_of_centers_is_assigned_once():
    known = data()
    assert counted(known, CENTERS, CENTERS.copy(), CENTERS + 1, CENTERS) == 2
    assert counted(known, CENTERS, CENTERS + 1) == 0


def test_another_coreset_is_assigned_anew():
    problem._assignment(data(), CENTERS)
    other = data(X[:400] + 1)
    labels, squared = problem._assignment(other, CENTERS)
    distances = np.square(other.coreset.points[:, None] - CENTERS).sum(axis=2)
    assert np.array_equal(labels, distances.argmin(axis=1))
    np.testing.assert_allclose(squared, distances.min(axis=1), rtol=1e-12, atol=1e-12)


def test_the_coreset_of_a_learner_is_not_written_into():
    model = OnlineClustering(3, coreset_size=50, random_state=0).partial_fit(X)
    known = model._stream.snapshot()
    model._stream.problem.cost(model._stream.model, known)
    assert set(vars(known.coreset)) == {field.name for field in dataclasses.fields(Coreset)}
