"""The sizes that are said to be enough in measurements: how often a solution on the coreset misses 1 + epsilon.

At most one run in fifty may; counts are judged at a false-alarm rate of 1e-6, and an eighth of the size is convicted.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from batch2online import coresets, theory
from batch2online.methods.clustering import solver
from batch2online.methods.least_squares.solver import coreset_moments, least_squares

FALSE_ALARM, SHARE, RUNS, N = 1e-6, 0.02, 60, 5_000


def is_enough(ratios, epsilon):
    missed = int((np.array(ratios) > 1 + epsilon).sum())
    return stats.binom.sf(missed - 1, len(ratios), SHARE) > FALSE_ALARM


def gaussian(rng):
    X = rng.normal(size=(N, 5))
    return X, X.sum(axis=1) + rng.normal(size=N)


def heavy_tailed(rng):
    X = rng.standard_t(2.5, size=(N, 5))
    return X, X.sum(axis=1) + rng.standard_t(2.5, size=N)


def regression_ratios(make, epsilon, size=None):
    ratios = []
    for seed in range(RUNS):
        X, y = make(np.random.default_rng(seed))
        construction = coresets.Leverage(epsilon=epsilon, coreset_size=size, intercept=True, random_state=seed)
        model = least_squares(coreset_moments(construction.add(X, y).coreset(), intercept=True))
        A = np.column_stack([np.ones(N), X])
        best = np.square(A @ np.linalg.lstsq(A, y)[0] - y).sum()
        ratios.append(np.square(X @ model.coefficients[0] + model.intercepts[0] - y).sum() / best)
    return ratios


@pytest.mark.parametrize(
    ("make", "epsilon"), [(gaussian, 0.01), (gaussian, 0.1), (heavy_tailed, 0.01), (heavy_tailed, 0.1), (gaussian, 0.3)]
)
def test_the_constant_of_leverage_scores_is_enough(make, epsilon):
    assert is_enough(regression_ratios(make, epsilon), epsilon)


def test_an_eighth_of_it_is_not():
    size = 7 * theory.leverage_constant(7, 0.01) / 8
    assert not is_enough(regression_ratios(gaussian, 0.01, size), 0.01)


def low_rank_ratios(epsilon, rank=3, size=None):
    ratios = []
    for seed in range(RUNS):
        X = np.random.default_rng(seed).standard_t(4, size=(N, 12)) * np.linspace(3, 1, 12)
        construction = coresets.RidgeLeverage(rank, epsilon=epsilon, coreset_size=size, random_state=seed)
        coreset = construction.add(X).coreset()
        Z = np.linalg.svd(np.sqrt(coreset.weights)[:, None] * coreset.points, full_matrices=False)[2][:rank]
        best = np.square(np.linalg.svd(X, compute_uv=False)[rank:]).sum()
        ratios.append(np.square(X - X @ Z.T @ Z).sum() / best)
    return ratios


@pytest.mark.parametrize("epsilon", [0.02, 0.1])
def test_the_constant_of_ridge_leverage_scores_is_enough(epsilon):
    assert is_enough(low_rank_ratios(epsilon), epsilon)


def clusters(seed, k=4):
    rng = np.random.default_rng(seed)
    return 6 * rng.normal(size=(k, 3))[rng.integers(k, size=N)] + rng.normal(size=(N, 3))


def clustering_ratios(epsilon, k=4, size=None, runs=8):
    """Costs on all rows of a solution on the coreset, over that of the same solver on all rows."""
    ratios = []
    for seed in range(runs):
        X = clusters(seed, k)
        coreset = coresets.Clustering(k, epsilon=epsilon, coreset_size=size, random_state=seed).add(X).coreset()
        costs = []
        for points, weights in ((coreset.points, coreset.weights), (X, np.ones(N))):
            centers = solver.solved(points, weights, k, 2.0, seed, None)[0]
            costs.append(solver.cost(X, np.ones(N), centers, 2.0))
        ratios.append(costs[0] / costs[1])
    return ratios


@pytest.mark.parametrize("epsilon", [0.02, 0.1])
def test_the_size_of_clustering_coresets_is_enough(epsilon):
    assert is_enough(clustering_ratios(epsilon), epsilon)


def test_twelve_rows_are_not():
    assert not is_enough(clustering_ratios(0.1, size=12), 0.1)
