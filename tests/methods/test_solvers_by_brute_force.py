"""What batch solvers promise, by brute force on small inputs: costs, drawing, swaps, centers that are never worse."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import SGDRegressor

from batch2online.coresets import Leverage, RidgeLeverage
from batch2online.methods.any_estimator import weighted_fit
from batch2online.methods.clustering import solver as kz
from batch2online.methods.clustering.lloyd import WeightedPoints, means_after, refined
from batch2online.methods.clustering.solver import Search
from batch2online.methods.least_squares import solver as least_squares
from batch2online.methods.least_squares.moments import Moments
from batch2online.methods.low_rank import solver as low_rank
from batch2online.sketches.base import Coreset

every_power = pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])


def plain_losses(points, centers, z):
    return np.array([min(np.linalg.norm(point - center) ** z for center in centers) for point in points])


def plain_cost(points, weights, centers, z):
    return float(np.asarray(weights) @ plain_losses(points, centers, z))


def plain_labels(points, centers):
    return np.linalg.norm(points[:, None] - centers, axis=2).argmin(axis=1)


# -- costs ---------------------------------------------------------------------------------------------


@every_power
def test_losses_and_cost_are_sums_of_powers_of_distances(z):
    rng = np.random.default_rng(0)
    points, centers, weights = rng.normal(size=(40, 3)), rng.normal(size=(4, 3)), rng.uniform(0.1, 3, size=40)
    np.testing.assert_allclose(kz.losses(points, centers, z), plain_losses(points, centers, z), rtol=1e-9)
    for own in (weights, np.ones(40)):
        np.testing.assert_allclose(kz.cost(points, own, centers, z), plain_cost(points, own, centers, z), rtol=1e-9)


@pytest.mark.parametrize("z", [1.0, 3.0, 5.0])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_the_result_costs_no_more_than_current_centers_that_are_settled(z, shift):
    """Wide rows are searched in few columns and refined by few steps, which end above centers after 300 steps."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        points, weights = rng.standard_t(2, size=(60, 80)) + shift, rng.uniform(0.3, 3, size=60)
        full, current = WeightedPoints(points - shift, weights), kz.solve(points, weights, 3, z, seed)[None] - shift
        for _ in range(300):
            current = full.stepped(current, z, *full.assigned(current))
        settled = current[0] + shift
        found = kz.solve(points, weights, 3, z, seed + 9, settled)
        assert plain_cost(points, weights, found, z) <= plain_cost(points, weights, settled, z) * (1 + 1e-9)


@every_power
def test_the_current_centers_of_far_points_are_a_start(z):
    """Thirty groups, of which random starts find a part; the mean is far from zero."""
    rng = np.random.default_rng(3)
    middles = 1e5 + 100 * rng.normal(size=(30, 2))
    sizes = rng.integers(1, 20, size=30)
    points = middles.repeat(sizes, axis=0) + 0.01 * rng.normal(size=(sizes.sum(), 2))
    found = kz.solve(points, np.ones(len(points)), 30, z, 0, middles, starts=1)
    assert plain_cost(points, np.ones(len(points)), found, z) <= plain_cost(points, np.ones(len(points)), middles, z)


# -- the search ------------------------------------------------------------------------------------------


def search_of(points, weights, z=2.0, seed=0, k=2):
    return Search(WeightedPoints(points, weights), k, z, seed)


def test_no_uniform_is_drawn_twice():
    search = search_of(np.arange(5.0)[:, None], np.ones(5))
    drawn = np.concatenate([search._uniforms(count) for count in (3, 1, 40, 7)])
    assert len(np.unique(drawn)) == 51
    again = search_of(np.arange(5.0)[:, None], np.ones(5))
    assert np.array_equal(again._uniforms(51), drawn)


def test_points_are_drawn_in_proportion_to_the_mass_of_their_own_row(monkeypatch):
    """With uniforms on a grid, counts are the shares to within one."""
    search = search_of(np.arange(4.0)[:, None], np.ones(4))
    grid = (np.arange(1000) + 0.5) / 1000
    monkeypatch.setattr(search, "_uniforms", lambda count: np.tile(grid, count // 1000))
    mass = np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 1e-3, 3e-3, 0.0]])
    drawn = search._drawn(mass, 1000)
    for row, own in zip(drawn, mass, strict=True):
        assert np.abs(np.bincount(row, minlength=4) - 1000 * own / own.sum()).max() <= 1


def test_seeds_are_drawn_by_weight_and_the_candidate_of_least_cost_is_taken(monkeypatch):
    points = np.array([[0.0], [1.0], [5.0], [5.5], [100.0]])
    weights = np.array([1.0, 2.0, 3.0, 1.0, 1e-9])  # the last point is as good as absent
    for z in (1.0, 2.0):
        seeded = search_of(points, weights, z)._seeded(16)
        assert (seeded * 100 < 50).all()
    for pair in ((1, 3), (2, 4), (3, 2), (4, 1)):
        search = search_of(points, weights)
        drawn = iter([np.array([[0]]), np.array([pair])])
        monkeypatch.setattr(search, "_drawn", lambda mass, count, drawn=drawn: next(drawn))
        taken = search._seeded(1)[0, :, 0] * search.full.scale
        better = min(pair, key=lambda i: plain_cost(points, weights, points[[0, i]], 2.0))
        np.testing.assert_allclose(taken, [0.0, points[better, 0]], rtol=1e-6)


@every_power
def test_swaps_are_those_of_least_cost(z, monkeypatch):
    """All exchanges of a center for a point, priced one by one."""
    rng = np.random.default_rng(5)
    points, weights = rng.normal(size=(12, 2)), rng.uniform(0.2, 3, size=12)
    search = search_of(points, weights, z)
    low, share = search.low.points.astype(np.float64), search.low.weights.astype(np.float64)
    centers = search.low.points[:3]
    monkeypatch.setattr(search, "_drawn", lambda mass, count: np.arange(12)[None])
    options = search._swaps(centers)
    priced = [
        min(plain_cost(low, share, np.vstack([np.delete(low[:3], out, axis=0), low[into]]), z) for out in range(3))
        for into in range(12)
    ]
    found = [plain_cost(low, share, option, z) for option in options]
    np.testing.assert_allclose(found, np.sort(priced)[: len(found)], rtol=1e-4)


def test_centers_in_all_columns_are_the_weighted_means_of_the_clusters_found():
    rng = np.random.default_rng(2)
    points = 5 * np.repeat(rng.normal(size=(3, 80)), 20, axis=0) + rng.normal(size=(60, 80))
    weights = rng.uniform(0.1, 5, size=60)
    search = search_of(points, weights, z=1.0)
    assert search.projection is not None
    groups = np.arange(60) // 20
    low = np.stack([search.low.points[groups == j].mean(axis=0) for j in range(3)])
    expected = [np.average(points[groups == j], axis=0, weights=weights[groups == j]) for j in range(3)]
    np.testing.assert_allclose(search.raised(low[None])[0], expected, rtol=1e-5, atol=1e-5)


# -- steps -------------------------------------------------------------------------------------------------


def test_an_empty_cluster_goes_where_most_is_lost():
    points = np.array([[0.0], [0.1], [6.0], [9.0]])
    weights = np.array([1.0, 1.0, 10.0, 1.0])
    full = WeightedPoints(points, weights)
    centers = np.array([[[0.0], [50.0]]])
    stepped = full.stepped(centers, 2.0, *full.assigned(centers))
    assert stepped[0, 1, 0] == 6.0  # 36 times 10 is more than 81


@every_power
def test_refining_gives_the_best_centers_it_met_and_their_cost(z):
    rng = np.random.default_rng(4)
    for _ in range(20):
        points, weights = rng.standard_t(2, size=(25, 2)), rng.uniform(0.1, 3, size=25)
        full, starts = WeightedPoints(points, weights), points[rng.integers(25, size=(4, 3))]
        centers, costs = refined(full, starts, z, 8)
        for own, cost, start in zip(centers, costs, starts, strict=True):
            np.testing.assert_allclose(cost, plain_cost(points, weights, own, z), rtol=1e-6)
            assert cost <= plain_cost(points, weights, start, z) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_bounds_never_hide_a_point_that_changes_its_cluster(seed):
    """Every step of the bounded form gives the clusters of a plain step, though it looks at few points."""
    rng = np.random.default_rng(seed)
    middles = rng.normal(size=(5, 4))
    points = middles[rng.integers(5, size=300)] + 0.8 * rng.normal(size=(300, 4))
    weights = rng.uniform(0.1, 4, size=300)
    start = points[rng.integers(300, size=5)]
    labels = plain_labels(points, start)
    if len(np.unique(labels)) < 5:
        return
    for steps in range(12):
        found = means_after(WeightedPoints(points, weights), start, steps)
        means = np.stack([np.average(points[labels == j], axis=0, weights=weights[labels == j]) for j in range(5)])
        assert found is not None
        np.testing.assert_allclose(found[0], means, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found[1], weights @ np.square(points - means[labels]).sum(axis=1), rtol=1e-7)
        assert np.array_equal(found[2], labels)
        following = plain_labels(points, means)
        if weights @ np.square(points - means[following]).sum(axis=1) > found[1] * (1 - 1e-3):
            break
        labels = following


# -- weighted rows for any estimator -----------------------------------------------------------------------


def coreset_of(weights, points=None, targets=None, ids=None):
    n = len(weights)
    points = np.zeros((n, 1)) if points is None else points
    return Coreset(points, targets, np.array(weights, dtype=float), np.arange(n) if ids is None else ids)


def test_copies_are_unbiased():
    """Hoeffding's bound for 40,000 points of each weight: a false alarm in one of 10^6 runs, at 0.014."""
    for weight in (0.3, 1.0, 1.7, 2.45):
        weights = np.r_[np.full(40_000, weight), np.full(40_000, 1.0)]
        copies = weighted_fit.copy_counts(coreset_of(weights), 0.1, seed=5)
        scale = 1.1 ** np.floor(np.log(weights.mean()) / np.log(1.1) + 1e-9)
        for own, exact in ((copies[:40_000], weight / scale), (copies[40_000:], 1 / scale)):
            assert {*own.tolist()} <= {int(exact), int(exact) + 1}
            assert abs(own.mean() - exact) < np.sqrt(np.log(2e6) / 80_000)


def test_copies_of_a_point_change_only_with_its_weight_or_the_grid():
    """One weight is changed by half: the mean moves, the grid of scales does not."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(1.2, 1.6, size=2_000)
    before = weighted_fit.copy_counts(coreset_of(weights), 0.5, seed=1)
    for i in range(30):
        changed = weights.copy()
        changed[i] *= 1.5
        after = weighted_fit.copy_counts(coreset_of(changed), 0.5, seed=1)
        assert np.array_equal(np.delete(before, i), np.delete(after, i))
    kept = np.arange(0, 2_000, 2)
    fewer = weighted_fit.copy_counts(coreset_of(weights[kept], ids=kept), 0.5, seed=1)
    assert np.array_equal(fewer, before[kept])


@pytest.mark.parametrize("given", [None, np.random.RandomState(0)])
def test_the_seed_alone_decides_what_a_random_estimator_does(given):
    states = {weighted_fit.seeded(SGDRegressor(random_state=given), seed).random_state for seed in (1, 1, 2)}
    assert len(states) == 2
    assert all(isinstance(state, int) for state in states)
    assert weighted_fit.seeded(SGDRegressor(random_state=9), 1).random_state == 9


# -- least squares and subspaces from moments ----------------------------------------------------------------


CASES = list(product([False, True], [1, 3], [0.0, 1e6]))


@pytest.mark.parametrize(("intercept", "n_targets", "shift"), CASES)
def test_least_squares_of_a_weighted_coreset_is_that_of_lapack(intercept, n_targets, shift):
    rng = np.random.default_rng(1)
    points, weights = rng.normal(size=(50, 3)) + shift, rng.uniform(0.1, 9, size=50)
    targets = points @ rng.normal(size=(3, n_targets)) + 4.0 + shift + rng.normal(size=(50, n_targets))
    moments = least_squares.coreset_moments(coreset_of(weights, points, targets), intercept)
    found = least_squares.least_squares(moments)
    design = np.column_stack([np.ones(50), points - shift]) if intercept else points
    root = np.sqrt(weights)[:, None]
    norms = np.linalg.norm(design * root, axis=0)  # without an intercept, a common offset makes columns collinear
    solution = np.linalg.lstsq(design * root / norms, (targets - shift * intercept) * root, rcond=1e-6)[0]
    expected = solution / norms[:, None]
    predicted = points @ found.coefficients.T + found.intercepts
    np.testing.assert_allclose(predicted, design @ expected + shift * intercept, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_the_subspace_of_a_weighted_coreset_is_that_of_repeated_rows(intercept):
    rng = np.random.default_rng(2)
    points, weights = rng.normal(size=(30, 5)) * [5, 4, 1, 1, 1] + 3.0, rng.integers(1, 9, size=30)
    moments = low_rank.coreset_moments(coreset_of(weights, points), 2, intercept)
    components = low_rank.leading_subspace(moments, 2)
    repeated = points.repeat(weights, axis=0)
    right = np.linalg.svd(repeated - repeated.mean(axis=0) * intercept, full_matrices=False)[2][:2]
    np.testing.assert_allclose(components.T @ components, right.T @ right, atol=1e-9)


def test_moments_of_no_rows_have_a_model():
    empty = SimpleNamespace(moments=Moments.empty(2, 1, True))
    assert least_squares.least_squares(empty.moments).coefficients.tolist() == [[0.0, 0.0]]
    assert Leverage(random_state=0).n_rows == RidgeLeverage(1, random_state=0).n_rows == 0


@pytest.mark.parametrize("weight", [0.5, 1.0, 2.5, 10.0])
def test_a_point_at_its_center_holds_it_by_its_own_weight(weight):
    """Vardi and Zhang: the others pull with a force; what is more than the weight moves the center."""
    points = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0], [5.0, 1.0]])
    weights = np.array([weight, 1.0, 1.0, 1.0])
    full, center = WeightedPoints(points, weights), np.zeros((1, 1, 2))
    moved = full.stepped(center, 1.0, *full.assigned(center))[0]
    units = points[1:] / np.linalg.norm(points[1:], axis=1, keepdims=True)
    force = np.linalg.norm(units.sum(axis=0))
    whole = units.sum(axis=0) / (1 / np.linalg.norm(points[1:], axis=1)).sum()
    np.testing.assert_allclose(moved[0], max(0.0, 1 - weight / force) * whole, rtol=1e-9, atol=1e-12)
    assert plain_cost(points, weights, moved, 1.0) <= plain_cost(points, weights, center[0], 1.0)
