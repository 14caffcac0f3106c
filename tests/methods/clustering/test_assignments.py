"""Labels of a coreset's points are computed once for each set of centers, and never kept in the coreset."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from unittest.mock import patch

import numpy as np

from batch2online import OnlineClustering
from batch2online.methods.clustering import problem
from batch2online.methods.clustering.problem import Assignments
from batch2online.sketches.base import Coreset

X = np.random.default_rng(0).normal(size=(500, 2))
CENTERS = X[:3]


def coreset(rows=X):
    return Coreset(rows.copy(), None, np.ones(len(rows)), np.arange(len(rows)))


def counted(known, sample, *sets):
    """How often distances are computed to answer these questions."""
    with patch.object(problem, "nearest", wraps=problem.nearest) as nearest:
        for centers in sets:
            known.of(sample, centers)
        return nearest.call_count


def test_each_set_of_centers_is_assigned_once():
    known, sample = Assignments(), coreset()
    assert counted(known, sample, CENTERS, CENTERS.copy(), CENTERS + 1, CENTERS) == 2
    assert counted(known, sample, CENTERS, CENTERS + 1) == 0


def test_another_coreset_is_assigned_anew():
    known, sample, other = Assignments(), coreset(), coreset(X[:400] + 1)
    known.of(sample, CENTERS)
    labels, squared = known.of(other, CENTERS)
    distances = np.square(other.points[:, None] - CENTERS).sum(axis=2)
    assert np.array_equal(labels, distances.argmin(axis=1))
    np.testing.assert_allclose(squared, distances.min(axis=1), rtol=1e-12, atol=1e-12)


def test_a_copy_begins_empty_and_holds_no_rows():
    known, sample = Assignments(), coreset()
    known.of(sample, CENTERS)
    for twin in (copy.deepcopy(known), pickle.loads(pickle.dumps(known))):
        assert counted(twin, sample, CENTERS) == 1
    assert CENTERS.tobytes() not in pickle.dumps(known)


def test_the_coreset_of_a_learner_is_not_written_into():
    model = OnlineClustering(3, coreset_size=50, random_state=0).partial_fit(X)
    sample = model._stream.view().construction.coreset()
    model._stream.problem.cost(model._stream.model, model._stream.construction)
    assert set(vars(sample)) == {field.name for field in dataclasses.fields(Coreset)}
