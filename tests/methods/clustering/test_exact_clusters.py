"""Centers that are means of all rows, where a coreset found the clusters."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from batch2online import OnlineClustering
from batch2online.history import History
from batch2online.methods.clustering import solver
from batch2online.methods.clustering.lloyd import WeightedPoints, means_after
from batch2online.numerics.distances import nearest, sums_of_clusters
from batch2online.refresh import Geometric
from batch2online.rows import Rows, ones

RNG = np.random.default_rng


def blobs(n=6_000, k=5, seed=0, columns=4):
    rng = RNG(seed)
    return 2.0 * rng.normal(size=(k, columns))[rng.integers(k, size=n)] + rng.normal(size=(n, columns))


def cost(X, centers):
    return float(nearest(X, centers)[1].sum())


@pytest.mark.parametrize("shift", [0.0, 1e7])
@pytest.mark.parametrize("columns", [1, 4, 200])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_sums_are_those_of_each_cluster(is_weighted, columns, shift):
    X = blobs(1_500, columns=columns) + shift
    weights = RNG(1).uniform(1, 9, size=len(X)) if is_weighted else None
    centers, others = X[:6], X[6:12]
    labels, each = nearest(X, centers)[0], np.ones(len(X)) if weights is None else weights
    found, of_others = sums_of_clusters(X, weights, np.stack([centers, others])).of_each()
    masses = np.array([each[labels == c].sum() for c in range(6)])
    np.testing.assert_allclose(found.masses, masses, rtol=1e-12)
    expected = [each[labels == c] @ X[labels == c] for c in range(6)]
    np.testing.assert_allclose(found.of_points, expected, rtol=1e-10, atol=1e-9 * np.abs(X).max())
    assert found.squares == pytest.approx(each @ np.square(X).sum(axis=1))
    alone = sums_of_clusters(X, weights, others[None]).of_each()[0]
    np.testing.assert_allclose(of_others.of_points, alone.of_points, rtol=1e-10, atol=1e-9 * np.abs(X).max())
    np.testing.assert_allclose(of_others.masses, alone.masses, rtol=1e-12)


def test_blocks_are_the_same_wherever_rows_were_cut():
    X = blobs(100)
    cut = []
    for ends in ([30, 60, 90, 100], [3, 7, 30, 41, 60, 90, 91, 100]):
        history = History(30, 4, 0)
        for start, end in zip([0, *ends], ends, strict=False):
            rows = Rows(X[start:end], np.empty((end - start, 0)), ones(end - start), np.arange(start, end))
            history = history.append(rows)
        cut.append(history)
    for one, other in zip(cut[0].blocks(), cut[1].blocks(), strict=True):
        assert np.array_equal(one.points, other.points)
        assert np.array_equal(one.ids, other.ids)


def test_steps_with_given_sums_begin_at_the_means_of_all_rows():
    X = blobs()
    part, start = X[::10], X[:5]
    (sums,) = sums_of_clusters(X, None, start[None]).of_each()
    found = means_after(WeightedPoints(part, np.full(len(part), 10.0)), start, 0, sums)
    np.testing.assert_allclose(found[0], sums.of_points / sums.masses[:, None])


def test_sums_of_the_points_themselves_change_nothing():
    X, weights = blobs(500), RNG(2).uniform(1, 3, size=500)
    points = WeightedPoints(X, weights)
    start = means_after(points, X[:5], 50).centers + 0.1
    plain, given = (
        means_after(points, start, 50),
        means_after(points, start, 50, sums_of_clusters(X, weights, start[None]).of_each()[0]),
    )
    assert not np.array_equal(plain.labels, points.two_nearest(start).labels)
    np.testing.assert_allclose(plain.centers, given.centers)
    assert plain.cost == pytest.approx(given.cost)


@pytest.mark.parametrize("columns", [4, 100])
@pytest.mark.few(1)
@pytest.mark.slow
def test_exact_sums_remove_most_of_the_noise_of_a_small_coreset(columns):
    """Over ten streams more than half of it; with the noise left in, nothing."""
    excess = []
    for seed in range(10):
        X = blobs(seed=seed, columns=columns)
        settings = {"coreset_size": 300, "refresh": Geometric(2, start=1_500), "random_state": seed}
        exact, plain = (OnlineClustering(5, solve=how, **settings).fit(X) for how in ("exact", "coreset"))
        best = means_after(WeightedPoints(X, np.ones(len(X))), exact.cluster_centers_, 100)[0]
        assert cost(X, exact.cluster_centers_) < cost(X, plain.cluster_centers_)
        excess.append([cost(X, model.cluster_centers_) / cost(X, best) - 1 for model in (exact, plain)])
    of_exact, of_plain = np.mean(excess, axis=0)
    assert of_exact < 0.5 * of_plain


def test_sums_tell_what_all_rows_cost():
    X, weights = blobs(500), RNG(3).uniform(1, 3, size=500)
    centers = X[:5] + 0.1
    (sums,) = sums_of_clusters(X, weights, centers[None]).of_each()
    labels = nearest(X, centers)[0]
    means = np.stack([np.average(X[labels == c], axis=0, weights=weights[labels == c]) for c in range(5)])
    assert sums.cost(centers) == pytest.approx(weights @ np.square(X - centers[labels]).sum(axis=1))
    assert sums.least_cost() == pytest.approx(weights @ np.square(X - means[labels]).sum(axis=1))


def test_a_solve_from_sums_says_what_old_and_new_centers_cost_all_rows():
    """What the coreset, here a tenth of the rows, adds to the cost of the new ones is off by less than two percent."""
    X = blobs()
    current, some = X[:5] + 0.2, X[RNG(5).permutation(len(X))[: len(X) // 10]]
    sums_of = partial(sums_of_clusters, X, None)
    found = solver.solved(some, np.full(len(some), 10.0), 5, 2.0, 0, current, sums_of=sums_of)
    before, after = found.costs
    assert before == pytest.approx(cost(X, current))
    assert after == pytest.approx(cost(X, found.centers), rel=0.02)
    assert after < before


def test_sums_of_centers_that_nearly_all_rows_leave_are_not_used():
    """What is left of them is noise: centers far from their means must not cost more than those of the coreset."""
    X = blobs()
    current, some = X[:5] + 0.2, X[::10]
    weights, sums_of = np.full(len(some), 10.0), partial(sums_of_clusters, X, None)
    assert means_after(WeightedPoints(some, weights), current, 10, sums_of(current[None]).of_each()[0]) is None
    found = solver.solved(some, weights, 5, 2.0, 0, current, sums_of=sums_of).centers
    assert cost(X, found) <= cost(X, solver.solve(some, weights, 5, 2.0, 0, current)) * 1.001


def test_all_rows_decide_between_two_sets_of_centers():
    """The coreset makes so much of two small groups that a center should be taken from the large ones."""
    groups = np.array([[0.0, 0.0], [6.0, 0.0], [100.0, 0.0], [100.0, 8.0]])
    X = np.repeat(groups, [500, 500, 50, 50], axis=0) + 0.3 * RNG(0).normal(size=(1100, 2))
    coreset, weights = X[::10], np.where(X[::10, 0] > 50, 200.0, 10.0)
    current, asked = np.array([[0.0, 0.0], [6.0, 0.0], [100.0, 4.0]]), []

    def sums_of(centers, origin):
        asked.append(centers)
        return sums_of_clusters(X, None, centers, origin)

    misled = solver.solved(coreset, weights, 3, 2.0, 0, current)[0]
    found = solver.solved(coreset, weights, 3, 2.0, 0, current, sums_of=sums_of)[0]
    assert [len(centers) for centers in asked] == [2]
    assert (misled[:, 0] > 50).sum() == 2
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], current, atol=0.5)


@pytest.mark.parametrize("settings", [{"z": 1.0}, {"history": "coreset"}], ids=str)
def test_without_means_or_rows_the_coreset_is_all_there_is(settings):
    X = blobs(2_000)
    one, other = (
        OnlineClustering(5, solve=how, coreset_size=200, random_state=0, **settings).fit(X)
        for how in ("exact", "coreset")
    )
    assert np.array_equal(one.cluster_centers_, other.cluster_centers_)


@pytest.mark.parametrize("solve", ["exact", "coreset"])
@pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])
def test_the_optimum_is_settled_on_all_rows_that_are_kept(z, solve):
    """Centers that are best for a small coreset cost all rows some per cent more than they need to."""
    X = np.repeat([[0.0, 0.0], [7.0, 0.0], [0.0, 9.0]], 7000, axis=0) + RNG(0).normal(size=(21_000, 2))
    X = X[RNG(1).permutation(len(X))]
    model = OnlineClustering(3, z=z, solve=solve, coreset_size=60, random_state=0).partial_fit(X)
    best = solver.cost(X, np.ones(len(X)), solver.solve(X, np.ones(len(X)), 3, z, 0), z)
    assert (
        solver.cost(X, np.ones(len(X)), solver.solve(model.coreset_.points, model.coreset_.weights, 3, z, 0), z)
        > 1.005 * best
    )
    known = model.regret_
    assert known.error == 0
    assert best * (1 - 1e-9) <= known.optimum <= best * (1 + 3e-4)


def test_rows_share_the_cost_by_their_weights():
    """A row of weight w counts as w rows do; few rows with most of the cost leave less than their number."""
    X = np.repeat([[0.0, 0.0], [7.0, 0.0], [0.0, 9.0]], 100, axis=0) + RNG(0).standard_t(3, size=(300, 2))
    weights = RNG(1).integers(1, 6, 300)
    current = np.array([[0.0, 0.0], [7.0, 0.0], [0.0, 9.0]])
    weighted = solver.solved(X, weights.astype(float), 3, 2.0, 0, current).ess_ratio
    repeated = solver.solved(np.repeat(X, weights, axis=0), np.ones(weights.sum()), 3, 2.0, 0, current).ess_ratio
    squared = np.square(np.repeat(X, weights, axis=0)[:, None] - current).sum(axis=2).min(axis=1)
    assert weighted == pytest.approx(repeated, rel=0.02)  # each from where its own search began
    assert weighted == pytest.approx(squared.sum() ** 2 / (np.square(squared).sum() * weights.sum()), rel=0.02)
    plain = solver.solved(X, np.ones(300), 3, 2.0, 0, current).ess_ratio
    assert abs(plain / repeated - 1) > 0.05
