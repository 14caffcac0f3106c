"""What a look costs: how often rows are predicted."""

from __future__ import annotations

import copy

import numpy as np
from sklearn.linear_model import Ridge

from batch2online import BatchToOnline
from batch2online.problems.remembered import LastLosses
from batch2online.refresh import Geometric
from wrapped_cases import assert_same, data, learned


def test_a_look_predicts_the_coreset_once_for_each_model():
    X, y = data("regression")
    calls = []

    def loss(model, points, targets):
        calls.append(len(points))
        return np.square(targets - model.predict(points))

    model = BatchToOnline(Ridge(), loss=loss, refresh=Geometric(2.0, start=50), random_state=0)
    model.partial_fit(X[:99], y[:99])
    calls.clear()
    model.partial_fit(X[99:100], y[99:100])
    assert calls == [50, 100, 100]  # the rows that waited, then all rows under the old model and under the new one


def test_remembered_losses_are_those_of_the_same_rows_alone():
    known, ids = LastLosses(), np.array([3, 4])
    assert known.of(ids, lambda: np.array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert known.of(ids.copy(), lambda: np.zeros(2)).tolist() == [1.0, 2.0]
    assert copy.deepcopy(known).of(ids, lambda: np.zeros(2)).tolist() == [0.0, 0.0]
    assert known.of(np.array([3, 5]), lambda: np.ones(2)).tolist() == [1.0, 1.0]
    assert known.of(ids, lambda: np.zeros(2)).tolist() == [0.0, 0.0]


def test_what_is_remembered_changes_nothing():
    model = copy.deepcopy(learned("Ridge"))
    assert_same(model, learned("Ridge"), "Ridge")
