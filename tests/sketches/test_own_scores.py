"""Scores of one's own and the error of a coreset, by brute force on small inputs."""

from __future__ import annotations

import numpy as np
import pytest

from batch2online import coresets
from batch2online.methods import scores
from batch2online.methods.any_estimator.sensitivity import LewisScore
from batch2online.methods.clustering import coreset_error
from batch2online.sketches.base import Coreset

RNG = np.random.default_rng
every_power = pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])


# -- scores of one's own -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_lewis_weights_satisfy_their_equation(p):
    columns = RNG(8).standard_t(2, size=(40, 3))
    w = scores.lewis(columns, p)
    inner = np.linalg.inv(columns.T @ (columns * (w ** (1 - 2 / p))[:, None]))
    np.testing.assert_allclose(w ** (2 / p), np.einsum("ij,jk,ik->i", columns, inner, columns), rtol=1e-4)
    assert w.sum() == pytest.approx(3, rel=1e-4)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_row_of_weight_w_scores_like_w_rows(p, intercept):
    points, repeats = RNG(9).normal(size=(12, 2)), np.arange(12) % 3 + 1
    score = LewisScore(p, intercept)
    heavy = score(points, repeats.astype(float))
    origin = np.arange(12).repeat(repeats)
    light = score(points[origin], np.ones(len(origin)))
    np.testing.assert_allclose(heavy, np.bincount(origin, light), rtol=1e-4)
    assert heavy.sum() == pytest.approx(2 + intercept, rel=1e-4)


def test_scores_in_proportion_give_the_size_asked_for():
    """About 190 of 2,000 rows, standard deviation below 14: 100 to 280 is six of them and more either way."""
    rows = RNG(12).uniform(1, 2, size=(2_000, 3))
    coreset = (
        coresets.Sensitivity(lambda points, weights: weights, coreset_size=200, random_state=0).add(rows).coreset()
    )
    assert 100 < len(coreset) < 280


# -- the error of a coreset ------------------------------------------------------------------------------------------


def test_the_error_where_all_rows_cost_nothing():
    rows = np.zeros((20, 2))
    right = Coreset(rows[:1], None, np.array([20.0]), np.array([0]))
    wrong = Coreset(rows[:1] + 1.0, None, np.array([20.0]), np.array([0]))
    assert coresets.error(right, rows, k=1) == 0.0
    judge = coreset_error._Judge(wrong, rows, np.ones(20), 2.0)
    assert judge.error(np.zeros((1, 2))) == 1.0


@every_power
def test_errors_are_searched_on_both_sides(z):
    """Weights that are too small: all errors are negative, and moves make them larger in absolute value."""
    rows = RNG(16).normal(size=(400, 2))
    low = Coreset(rows[::8].copy(), None, np.full(50, 3.0), np.arange(0, 400, 8))
    found = coreset_error.errors(low, rows, k=2, z=z, solutions=8)
    worst = max(np.abs(found[kind]).max() for kind in ("solved", "seeded", "random"))
    assert all((values < 0).all() for values in found.values())
    assert np.abs(found["moved"]).min() >= worst * (1 - 1e-12)
    assert np.abs(found["moved"]).max() > worst
    assert coresets.error(low, rows, k=2, z=z, solutions=8) == pytest.approx(np.abs(found["moved"]).max())


@every_power
def test_the_error_is_the_relative_difference_of_costs(z):
    rng = RNG(17)
    rows, weights, centers = rng.normal(size=(50, 2)), rng.uniform(0.5, 2, size=50), rng.normal(size=(3, 2))
    half = Coreset(rows[:25].copy(), None, 2 * weights[:25], np.arange(25))

    def cost(points, own):
        return own @ np.linalg.norm(points[:, None] - centers, axis=2).min(axis=1) ** z

    judge = coreset_error._Judge(half, rows, weights, z)
    expected = cost(rows[:25], 2 * weights[:25]) / cost(rows, weights) - 1
    assert judge.error(centers) == pytest.approx(expected)
