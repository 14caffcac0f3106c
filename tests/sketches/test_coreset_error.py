"""The error of a coreset for regression and low rank, against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.optimize import minimize

from batch2online import coresets
from batch2online.extend import Coreset
from batch2online.methods.coreset_error import embedding_error, projection_error

RNG = np.random.default_rng


def rows_of(n=3_000, seed=0):
    rng = RNG(seed)
    X = rng.normal(size=(n, 4)) * [1.0, 5.0, 0.1, 2.0]
    return X, X.sum(axis=1) + rng.normal(size=n)


@pytest.mark.parametrize("intercept", [False, True])
def test_the_error_of_regression_is_a_generalised_eigenvalue(intercept):
    X, y = rows_of()
    weights = RNG(1).integers(1, 4, size=len(X)).astype(float)
    coreset = coresets.Leverage(coreset_size=100, random_state=0, intercept=intercept).add(X, y, weights).coreset()
    first = [np.ones(len(X))] * intercept
    rows = np.column_stack([*first, X, y])
    kept = np.column_stack([*[np.ones(len(coreset))] * intercept, coreset.points, coreset.targets])
    values = eigh((kept * coreset.weights[:, None]).T @ kept, (rows * weights[:, None]).T @ rows, eigvals_only=True)
    found = coresets.error(coreset, X, y, problem="regression", intercept=intercept, weights=weights)
    assert found == pytest.approx(np.abs(values - 1).max(), rel=1e-9)
    assert 0.05 < found < 1.5


def test_no_model_costs_more_than_the_error_says():
    X, y = rows_of()
    coreset = coresets.Leverage(coreset_size=200, random_state=0).add(X, y).coreset()
    error = coresets.error(coreset, X, y, problem="regression")
    rng = RNG(0)
    for _ in range(50):
        theta = rng.normal(size=4) + 1
        full = np.square(X @ theta - y).sum()
        kept = coreset.weights @ np.square(coreset.points @ theta - coreset.targets)
        assert abs(kept / full - 1) <= error * (1 + 1e-9)


def test_columns_that_depend_on_others_or_are_zero_do_not_matter():
    X, _ = rows_of(500)
    coreset = coresets.Leverage(coreset_size=60, random_state=0).add(X).coreset()
    wide = np.column_stack([X, X[:, 0] - X[:, 1], np.zeros(len(X))])
    kept = Coreset(wide[coreset.ids], None, coreset.weights, coreset.ids)
    expected = coresets.error(coreset, X, problem="regression")
    assert coresets.error(kept, wide, problem="regression") == pytest.approx(expected, rel=1e-6)
    assert embedding_error(X, X[:2]) == pytest.approx(1.0), "directions that no kept row has a part in"


def worst_ratio(kept, gram, rank, sign, seed):
    """The extreme of tr(N kept) / tr(N gram) by a general optimiser over bases of N."""
    d, rng = len(gram), RNG(seed)

    def ratio(values):
        basis = np.linalg.qr(values.reshape(d, d - rank))[0]
        return sign * np.trace(basis.T @ kept @ basis) / np.trace(basis.T @ gram @ basis)

    starts = (rng.normal(size=d * (d - rank)) for _ in range(6))
    return max(-minimize(lambda v: -ratio(v), start, method="BFGS").fun for start in starts) * sign


@pytest.mark.parametrize("rank", [1, 2])
def test_the_error_of_low_rank_is_the_worst_over_subspaces(rank):
    X, _ = rows_of(800)
    coreset = coresets.RidgeLeverage(rank, coreset_size=40, random_state=3).add(X).coreset()
    gram, kept = X.T @ X, (coreset.points * coreset.weights[:, None]).T @ coreset.points
    high, low = (worst_ratio(kept, gram, rank, sign, rank) for sign in (1, -1))
    found = coresets.error(coreset, X, problem="low_rank", k=rank)
    assert found == pytest.approx(max(high - 1, 1 - low), rel=1e-4)
    assert low < 1 < high


def test_the_error_of_centered_subspaces_is_that_of_centered_rows():
    X, _ = rows_of(800)
    coreset = coresets.RidgeLeverage(2, intercept=True, coreset_size=60, random_state=3).add(X + 7).coreset()
    found = coresets.error(coreset, X + 7, problem="low_rank", k=2, intercept=True)
    mean = np.average(coreset.points, axis=0, weights=coreset.weights)
    kept = np.cov(coreset.points - mean, rowvar=False, aweights=coreset.weights, ddof=0) * coreset.weights.sum()
    expected = projection_error(np.cov(X, rowvar=False, ddof=0) * len(X), kept, rank=2)
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("problem", "make"), [("regression", coresets.Leverage), ("low_rank", lambda **s: coresets.RidgeLeverage(2, **s))]
)
def test_all_rows_have_no_error_and_more_rows_have_less(problem, make):
    X, _ = rows_of()
    every, large, small = (
        coresets.error(make(coreset_size=size, random_state=0).add(X).coreset(), X, problem=problem, k=2)
        for size in (10**6, 1_000, 60)
    )
    assert every < 1e-9 < large < 0.4 * small


def test_what_cannot_be_measured_is_refused():
    X, y = rows_of(100)
    coreset = coresets.Leverage(random_state=0).add(X, y).coreset()
    with pytest.raises(ValueError, match="problem must be one of"):
        coresets.error(coreset, X, y, problem="trees")
    with pytest.raises(ValueError, match="targets must be those of the coreset"):
        coresets.error(coreset, X, problem="regression")
    with pytest.raises(TypeError, match="z: for clustering alone"):
        coresets.error(coreset, X, y, problem="regression", z=1.0)
    assert coresets.error(coreset, X, y, problem="low_rank", k=4) == 0, "nothing is off the whole space"
