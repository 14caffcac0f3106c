"""The solver for weighted (k,z)-clustering: against brute force where there is any, and by the laws it must obey."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from batch2online.methods.clustering import solver
from batch2online.methods.clustering.lloyd import WeightedPoints, means_after, raced, refined
from batch2online.methods.clustering.solver import Search
from batch2online.numerics.distances import nearest

POWERS = [1.0, 1.5, 2.0, 3.0]
every_power = pytest.mark.parametrize("z", POWERS)


@st.composite
def problems(draw):
    n, d = draw(st.integers(1, 80)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    points = rng.standard_t(draw(st.sampled_from([1.5, 30])), size=(n, d))
    if draw(st.booleans()):
        points = points[rng.integers(1 + n // 5, size=n)]
    if draw(st.booleans()):
        points = np.round(points)
    weights = 10.0 ** rng.uniform(-2, 2, size=n) if draw(st.booleans()) else np.ones(n)
    return points, weights, draw(st.integers(1, 6)), draw(st.sampled_from(POWERS)), rng


def blobs(k, n=400, d=3, seed=0, spread=20.0):
    """Clusters far apart, so that there is one best solution by far."""
    rng = np.random.default_rng(seed)
    centers = spread * rng.permutation(np.stack(np.meshgrid(*[np.arange(3.0)] * d), axis=-1).reshape(-1, d))[:k]
    return centers[np.arange(n) % k] + rng.normal(size=(n, d)), centers


def distinct(points):
    return len(np.unique(points, axis=0))


def plain_cost(points, weights, centers, z):
    return weights @ np.linalg.norm(points[:, None] - centers, axis=2).min(axis=1) ** z


# -- steps ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("z", [3.0, 4.0])
def test_steps_of_high_powers_end_at_the_minimum(z):
    """On a line, where a step that ignores how fast the force grows goes to the other side and never ends."""
    line = WeightedPoints(np.array([[-3.0], [-1.0], [4.0]]), np.array([1.0, 2.0, 3.0]))
    centers = line.points[:1][None]
    for _ in range(60):
        centers = line.stepped(centers, z, *line.assigned(centers))
    force = line.weights @ (np.sign(line.points - centers[0]) * np.abs(line.points - centers[0]) ** (z - 1))
    assert force == pytest.approx(0.0, abs=1e-6)


@given(problems())
@settings(max_examples=100, deadline=None)
def test_no_step_of_lloyd_raises_the_cost(problem):
    points, weights, k, _, rng = problem
    k = min(k, len(points))
    around_zero = WeightedPoints(points - points.mean(axis=0), weights)
    centers = around_zero.points[rng.integers(len(points), size=(2, k))]
    squared, members = around_zero.assigned(centers)
    least = squared @ weights
    for _ in range(8):
        centers = around_zero.stepped(centers, 2.0, squared, members)
        squared, members = around_zero.assigned(centers)
        assert (squared @ weights <= least * (1 + 1e-9) + 1e-9 * weights @ around_zero.lengths).all()
        least = squared @ weights


@given(problems())
@settings(max_examples=100, deadline=None)
def test_a_race_ends_with_what_it_says_and_not_above_any_start(problem):
    points, weights, k, z, rng = problem
    k = min(k, len(points))
    around_zero = WeightedPoints(points - points.mean(axis=0), weights)
    starts = around_zero.points[rng.integers(len(points), size=(4, k))]
    centers, least = raced(around_zero, starts, z, 10)
    assert centers.shape == starts.shape[1:]
    rounding = 1e-7 * float(weights @ around_zero.lengths ** (z / 2))
    assert abs(refined(around_zero, centers[None], z, 0)[1][0] - least) <= rounding
    assert least <= refined(around_zero, starts, z, 0)[1].min() + rounding


def test_a_race_drops_no_start_that_could_still_win():
    points, _ = blobs(6)
    around_zero = WeightedPoints(points - points.mean(axis=0), np.ones(len(points)))
    starts = around_zero.points[np.random.default_rng(3).integers(len(points), size=(8, 6))]
    assert raced(around_zero, starts, 2.0, 30)[1] <= refined(around_zero, starts, 2.0, 30)[1].min() * (1 + 1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_bounded_steps_are_those_of_lloyd(seed):
    rng = np.random.default_rng(seed)
    middles = 0.3 * rng.normal(size=(8, 100))
    points = middles[rng.integers(8, size=500)] + rng.normal(size=(500, 100))
    weights = rng.uniform(0.5, 3, size=500)
    full = WeightedPoints(points, weights)
    labels = nearest(points, middles[:6])[0]
    centers = np.stack([np.average(points[labels == j], axis=0, weights=weights[labels == j]) for j in range(6)])
    found, cost, final, *_ = means_after(full, middles[:6], 50)
    least = refined(full, centers[None], 2.0, 50)[1]
    np.testing.assert_allclose(cost, least[0], rtol=1e-4)
    np.testing.assert_allclose(plain_cost(points, weights, found, 2.0), cost, rtol=1e-4)
    assert (final == nearest(points, found)[0]).mean() > 0.99
    assert plain_cost(points, weights, found, 2.0) <= cost * (1 + 1e-9)


@pytest.mark.parametrize("far", [0.0, 3.0, 1e3])
def test_single_precision_decides_no_label(far):
    """Far from zero, squared distances are differences of large numbers."""
    rng = np.random.default_rng(0)
    points = 0.3 * rng.normal(size=(8, 100))[rng.integers(8, size=900)] + rng.normal(size=(900, 100))
    points[:300] += far
    halfway = 0.5 + 1e-8 * rng.normal(size=(100, 1))  # rounding is larger than the difference of both distances
    points[400:500] = halfway * points[300] + (1 - halfway) * points[301]
    full, sets = WeightedPoints(points, np.ones(900)), np.stack([points[:20], points[290:310]])
    for where in (None, np.arange(0, 900, 7)):
        rows = points if where is None else points[where]
        for found, centers in zip(full.two_nearest_of_each(sets, where), sets, strict=True):
            distances = np.sort(np.linalg.norm(rows[:, None] - centers, axis=2), axis=1)
            assert np.array_equal(found.labels, np.square(rows[:, None] - centers).sum(axis=2).argmin(axis=1))
            np.testing.assert_allclose(found.first, distances[:, 0], rtol=1e-3, atol=1e-6 * (1 + far))
            np.testing.assert_allclose(found.second, distances[:, 1], rtol=1e-3)


def test_bounded_steps_give_up_when_a_cluster_is_empty():
    points = np.random.default_rng(0).normal(size=(50, 100))
    assert means_after(WeightedPoints(points, np.ones(50)), np.stack([points[0], points[0] + 1e6]), 10) is None


@given(problems())
@settings(max_examples=100, deadline=None)
@pytest.mark.slow
def test_refining_never_ends_above_its_start_and_more_steps_never_above_fewer(problem):
    points, weights, k, z, rng = problem
    k = min(k, len(points))
    around_zero = WeightedPoints(points - points.mean(axis=0), weights)
    start = around_zero.points[rng.integers(len(points), size=(3, k))]
    costs = np.array([refined(around_zero, start, z, steps)[1] for steps in (0, 1, 2, 5, 20)])
    assert (np.diff(costs, axis=0) <= 0).all()
    centers, least = refined(around_zero, start, z, 20)
    expected = [plain_cost(around_zero.points, weights, own, z) for own in centers]
    scale = plain_cost(around_zero.points, weights, np.zeros((1, points.shape[1])), z)
    np.testing.assert_allclose(least, expected, rtol=1e-6, atol=1e-6 * scale)


# -- solutions -----------------------------------------------------------------------------------------


@given(problems())
@settings(max_examples=100, deadline=None)
@pytest.mark.slow
def test_no_cluster_is_empty_and_few_points_are_their_own_centers(problem):
    points, weights, k, z, _ = problem
    centers = solver.solve(points, weights, k, z, seed=1)
    assert centers.shape == (k, points.shape[1])
    if distinct(points) <= k:
        assert distinct(centers) == distinct(points)
        assert solver.cost(points, weights, centers, z) == 0
    else:
        assert len(np.unique(nearest(points, centers)[0])) == k
    assert np.array_equal(centers, solver.solve(points.copy(), weights.copy(), k, z, seed=1))


@every_power
@pytest.mark.parametrize("seed", range(4))
def test_one_center_is_where_a_general_minimiser_puts_it(z, seed):
    rng = np.random.default_rng(seed)
    points, weights = rng.standard_t(3, size=(30, 2)), rng.uniform(0.1, 3, size=30)
    found = solver.solve(points, weights, 1, z, 0)
    best = min(
        (
            minimize(
                lambda c: plain_cost(points, weights, c[None], z), start, method="Nelder-Mead", options={"fatol": 1e-10}
            )
            for start in (points.mean(axis=0), np.median(points, axis=0))
        ),
        key=lambda result: result.fun,
    )
    assert plain_cost(points, weights, found, z) == pytest.approx(best.fun, rel=1e-5)
    np.testing.assert_allclose(found[0], best.x, atol=0.02)


@pytest.mark.parametrize("z", [1.0, 1.2])
def test_a_point_heavier_than_all_others_holds_the_center(z):
    rng = np.random.default_rng(1)
    points = rng.normal(size=(40, 3))
    weights = np.where(np.arange(40) == 7, 1000.0, 1.0)
    found = solver.solve(points, weights, 1, z, 0)
    np.testing.assert_allclose(found[0], points[7], atol=1e-3)
    light = np.where(np.arange(40) == 7, 1e-6, 1.0)  # a start at a point of no weight must not stick there
    start = points[7:8]
    assert plain_cost(points, light, solver.solve(points, light, 1, z, 0, start), z) < 0.99 * plain_cost(
        points, light, start, z
    )


def alone(points, weights, z):
    """The cost of one cluster."""
    return plain_cost(points, weights, solver.solve(points, weights, 1, z, 0), z)


@pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("seed", range(2))
def test_tiny_problems_are_solved_to_the_optimum(z, seed):
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(7, 2)), rng.uniform(0.5, 2, size=7)
    sides = [np.array([*side, 0], dtype=bool) for side in product((0, 1), repeat=6) if any(side)]
    best = min(alone(points[side], weights[side], z) + alone(points[~side], weights[~side], z) for side in sides)
    assert plain_cost(points, weights, solver.solve(points, weights, 2, z, 0), z) <= 1.0001 * best


# -- what must not matter ------------------------------------------------------------------------------


@every_power
def test_whole_weights_are_repetitions(z):
    points, times = blobs(4, n=120)[0], np.random.default_rng(0).integers(1, 4, size=120)
    weighted = solver.solve(points, times.astype(float), 4, z, 0)
    repeated = solver.solve(np.repeat(points, times, axis=0), np.ones(times.sum()), 4, z, 0)
    np.testing.assert_allclose(sorted(weighted.tolist()), sorted(repeated.tolist()), atol=1e-2)
    costs = [plain_cost(points, times, centers, z) for centers in (weighted, repeated)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-5)


@every_power
def test_many_columns_are_solved_through_a_projection(z):
    rng = np.random.default_rng(0)
    centers = 5 * rng.normal(size=(6, 300))
    points = centers[np.arange(600) % 6] + rng.normal(size=(600, 300))
    found = solver.solve(points, np.ones(600), 6, z, 0)
    assert solver.cost(points, np.ones(600), found, z) <= solver.cost(points, np.ones(600), centers, z)
    assert len(np.unique(nearest(centers, found)[0])) == 6


# -- local optima --------------------------------------------------------------------------------------


CENTERS = np.array([[0.0, 0.0], [100.0, 0.0], [110.0, 0.0], [0.0, 100.0], [100.0, 100.0], [50.0, 300.0]])


def planted_local_optimum():
    """Two centers share a cluster, one center holds two clusters: no step of Lloyd's leads out of it."""
    points = CENTERS[np.arange(600) % 6] + np.random.default_rng(0).normal(size=(600, 2))
    bad = CENTERS.copy()
    bad[:3] = [[0.8, 0.0], [-0.8, 0.0], [105.0, 0.0]]
    return points, bad, solver.cost(points, np.ones(600), CENTERS, 2.0)


def test_swaps_leave_a_local_optimum_that_steps_do_not():
    points, bad, good = planted_local_optimum()
    origin = points.mean(axis=0)
    full = WeightedPoints(points - origin, np.ones(len(points)))
    stuck, costs = refined(full, (bad - origin)[None], 2.0, 100)
    assert costs[0] > 3 * good
    search = Search(full, 6, 2.0, seed=0)
    low = search._lowered(stuck[0])
    swapped = search._swapped(low, float(search.low.assigned(low[None])[0].sum()), patience=2)
    swapped = search.raised(swapped[None])[0] + origin
    assert solver.cost(points, np.ones(600), swapped, 2.0) < 1.01 * good


def test_the_solver_leaves_a_local_optimum_that_it_is_started_from():
    points, bad, good = planted_local_optimum()
    assert (
        solver.cost(points, np.ones(600), solver.solve(points, np.ones(600), 6, 2.0, 0, bad, starts=1), 2.0)
        < 1.01 * good
    )
