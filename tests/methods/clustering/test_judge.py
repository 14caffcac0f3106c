"""Whether other centers replace the current ones: judged out of sample, at a price for labels that change."""

from __future__ import annotations

import numpy as np
import pytest

from batch2online import OnlineClustering
from batch2online.methods.clustering import solver
from batch2online.methods.clustering.judge import Judge, left_out
from batch2online.methods.clustering.lloyd import WeightedPoints
from batch2online.methods.clustering.problem import Centers
from batch2online.numerics.distances import nearest
from batch2online.results import ChangeEvent

RNG = np.random.default_rng
SQUARE = RNG(0).uniform(-1, 1, size=(4_000, 2)) * [1.02, 1.0]
LEFT_RIGHT, UP_DOWN = np.array([[-0.51, 0.0], [0.51, 0.0]]), np.array([[0.0, -0.5], [0.0, 0.5]])


def chosen(price, points, current, *others, weights=None):
    judge = Judge(price)
    weighted = WeightedPoints(points, np.ones(len(points)) if weights is None else weights)
    return judge.choice(weighted, nearest(points, current)[0], np.stack([current, *others]), 2.0)


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
    assert chosen(0.0, points, np.array([[0.5]]), np.array([[0.4975]])) == 0
    many = np.repeat([[0.0], [1.0]], [130_000, 100_000], axis=0)
    assert chosen(0.0, many, np.array([[0.5]]), np.array([[0.45]])) == 1


def test_a_point_is_scored_by_centers_fitted_without_it():
    rng = RNG(1)
    points, weights, labels = rng.normal(size=(40, 2)), rng.uniform(1, 3, size=40), None
    centers = points[:5]
    for _ in range(30):
        labels = np.square(points - centers[:, None]).sum(axis=2).argmin(axis=0)
        centers = np.stack([np.average(points[labels == j], axis=0, weights=weights[labels == j]) for j in range(5)])
    [(found, losses)] = left_out(WeightedPoints(points, weights), centers[None], 2.0)
    for i, point in enumerate(points):
        own = (found == found[i]) & (np.arange(40) != i)
        fitted = centers[np.arange(5) != found[i]]
        if own.any():
            fitted = np.vstack([fitted, np.average(points[own], axis=0, weights=weights[own])])
        assert losses[i] == pytest.approx(np.square(fitted - point).sum(axis=1).min())


@pytest.mark.parametrize(("far_rows", "choice"), [(1, 0), (2, 1)])
def test_a_center_for_a_single_row_gains_nothing(far_rows, choice):
    """Nobody knows whether there is another row so far away, until there is."""
    near = RNG(2).normal(size=(400, 1))
    points = np.vstack([near, np.full((far_rows, 1), 200.0) + np.arange(far_rows)[:, None]])
    halves = np.array([[near[near < 0].mean()], [points[points > 0].mean()]])
    assert chosen(0.0, points, halves, np.array([[near.mean()], [points[400:].mean()]])) == choice


def test_a_sample_keeps_points_that_cost_much():
    points = RNG(3).normal(size=(9_000, 2))
    points[7] = [500.0, 0.0]
    every = WeightedPoints(points, RNG(4).uniform(1, 2, size=9_000))
    some, labels = solver._sampled(every, points[:3], 2.0, 0, 1_000)
    assert np.array_equal(labels, nearest(some.points, points[:3])[0])
    assert 400 < len(some.points) < 1_100
    assert some.weights[some.points[:, 0] == 500.0] == every.weights[7]
    for centers in (points[:3], points[10:14]):
        cost = [solver.cost(own.points, own.weights, centers, 2.0) for own in (every, some)]
        assert cost[1] == pytest.approx(cost[0], rel=0.1)
    assert solver._sampled(every, points[:3], 2.0, 0, 9_000)[0] is every


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


@pytest.mark.parametrize("settings", [{}, {"history": "coreset"}, {"z": 1.0}], ids=["memory", "coreset", "medians"])
def test_every_change_of_labels_has_its_price(settings):
    """Steps of the current centers too: at any price, however high, no label changes."""
    model = label_changes(1e9, **settings)[1]
    assert all(change.churn == 0 for change in model.changes_)
    for change in label_changes(0.5, **settings)[1].changes_:
        assert change.gain >= 0.5 * change.at / (change.at + 50 * 7) * change.churn * 0.999


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
