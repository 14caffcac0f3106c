"""Whether other centers replace the current ones: judged out of sample, at a price for labels that change."""

from __future__ import annotations

import numpy as np
import pytest

from batch2online import OnlineClustering
from batch2online.methods.clustering import solver
from batch2online.methods.clustering.judge import Judge
from batch2online.methods.clustering.lloyd import WeightedPoints
from batch2online.methods.clustering.problem import Centers
from batch2online.results import ChangeEvent

RNG = np.random.default_rng
SQUARE = RNG(0).uniform(-1, 1, size=(4_000, 2)) * [1.02, 1.0]
LEFT_RIGHT, UP_DOWN = np.array([[-0.51, 0.0], [0.51, 0.0]]), np.array([[0.0, -0.5], [0.0, 0.5]])


def chosen(price, points, current, *others, weights=None):
    judge = Judge(np.zeros(len(points), dtype=bool), price)
    weighted = WeightedPoints(points, np.ones(len(points)) if weights is None else weights)
    return judge.choice(weighted, current, [current, *others], 2.0)


def test_labels_have_a_price():
    """The other cut of a nearly square set gains 4 % and changes half of the labels."""
    cost = [solver.cost(SQUARE, np.ones(len(SQUARE)), centers, 2.0) for centers in (UP_DOWN, LEFT_RIGHT)]
    assert 0.002 < 1 - cost[1] / cost[0] < 0.06
    assert chosen(0.0, SQUARE, UP_DOWN, LEFT_RIGHT) == 1
    assert chosen(0.2, SQUARE, UP_DOWN, LEFT_RIGHT) == 0
    assert chosen(100.0, SQUARE, UP_DOWN, UP_DOWN[::-1] * 0.99 + [0, 0.003]) == 0
    assert chosen(0.2, SQUARE, UP_DOWN * 3, UP_DOWN[::-1]) == 1  # the same clusters by other numbers are no change


def test_a_gain_must_exceed_noise():
    """Centers that gain on a third of the rows what they lose on the others but for a little."""
    points = np.repeat([[0.0], [1.0]], [101, 100], axis=0)
    assert chosen(0.0, points, np.array([[0.5]]), np.array([[0.49]])) == 0
    many = np.repeat([[0.0], [1.0]], [130_000, 100_000], axis=0)
    assert chosen(0.0, many, np.array([[0.5]]), np.array([[0.45]])) == 1


def test_candidates_do_not_depend_on_the_points_that_judge():
    """Points that judge may be anything: the options come from the other half alone."""
    points, fitted = RNG(1).normal(size=(600, 3)), np.arange(600) % 2 == 0
    current = points[:4].copy()
    other = points.copy()
    other[~fitted] *= 1.0001  # decides the same, and would move centers fitted to it
    found = []
    for some in (points, other):
        weighted = WeightedPoints(some, np.ones(600))
        found.append(solver._options(weighted, 4, 2.0, 0, current, 8, Judge(fitted, 0.0)))
    assert len(found[0]) == 2
    np.testing.assert_array_equal(*found)


def overlapping(n=12_000, seed=3):
    rng = RNG(seed)
    return rng.normal(size=(12, 4))[rng.integers(12, size=n)] + 0.6 * rng.normal(size=(n, 4))


def label_changes(price, **settings):
    X = RNG(5).normal(size=(10_000, 3))  # many solutions that cost nearly the same
    model, total = OnlineClustering(7, churn_price=price, random_state=0, **settings), 0.0
    before = model.partial_fit(X[:1_000]).predict(X)
    for start in range(1_000, len(X), 1_000):
        after = model.partial_fit(X[start : start + 1_000]).predict(X)
        total, before = total + float((before != after).mean()), after
    return total, model


@pytest.mark.parametrize("settings", [{}, {"history": "coreset"}, {"z": 1.0}], ids=["memory", "coreset", "medians"])
def test_labels_change_less_at_a_higher_price(settings):
    free, priced = (label_changes(price, **settings) for price in (0.0, 1.0))
    assert priced[0] < free[0]
    assert priced[1].inertia_ < 1.1 * free[1].inertia_


def test_hindsight_has_no_price():
    """The optimum is that of a search without regard to labels."""
    model = OnlineClustering(8, churn_price=1e6, random_state=0).partial_fit(overlapping())
    stream = model._stream
    bad = Centers(stream.model.points[:1].repeat(8, axis=0) + 1e-3 * np.arange(8)[:, None])
    data = stream.snapshot()
    assert stream.problem.optimum(data, bad) < 1.05 * stream.problem.optimum(data, stream.model)


def test_the_price_is_a_number_that_is_not_negative():
    for price in (-0.1, np.inf, np.nan, "high", None, True):
        with pytest.raises(ValueError, match="churn_price must be a finite number that is not negative"):
            OnlineClustering(3, churn_price=price).partial_fit(overlapping(50))


def test_a_change_says_what_it_gained():
    event = ChangeEvent(9, "scheduled", 1.0, cost_before=4.0, cost_after=3.0)
    assert event.gain == 0.25
    assert ChangeEvent(9, "scheduled", 1.0, cost_before=0.0, cost_after=0.0).gain == 0.0
