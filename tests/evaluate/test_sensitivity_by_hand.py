"""Average sensitivity against brute force on tiny inputs, and what deleting a row means for each kind of algorithm."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LinearRegression

from batch2online import OnlineClustering, OnlineLowRank, OnlineRegression, coresets
from batch2online.evaluate import average_sensitivity
from batch2online.methods import scores
from batch2online.paper import sensitivity
from batch2online.paper.sensitivity import binomial_interval, differ, sensitivity_decay, with_and_without

EPSILON, SIZE, N = 0.5, 2, 5
RNG = np.random.default_rng
X = RNG(3).normal(size=(N, 2)) * [1.0, 5.0]


# -- by enumeration ----------------------------------------------------------------------------------------


def states(q):
    """What becomes of a row: dropped, or kept with one of two weights whose mean is 1/q."""
    if q == 0:
        return {0.0: 1.0}
    low = 1.0
    while low * (1 + EPSILON) <= 1 / q:
        low *= 1 + EPSILON
    high = low * (1 + EPSILON)
    up = (1 / q - low) / (high - low)
    return {0.0: 1 - q, round(low, 9): q * (1 - up), round(high, 9): q * up}


def law(q):
    """The probability of every coreset, given inclusion probabilities."""
    probabilities = {}
    for choice in itertools.product(*(states(each).items() for each in q)):
        coreset = tuple(weight for weight, _ in choice)
        probabilities[coreset] = probabilities.get(coreset, 0.0) + math.prod(p for _, p in choice)
    return probabilities


def by_brute_force(score, constant):
    """(1/n) sum_i TV(F(X), F(X without i)), where a row that is not there is dropped."""
    whole, distances = law(np.minimum(1, constant * score(X))), []
    for i in range(N):
        q = np.insert(np.minimum(1, constant * score(np.delete(X, i, axis=0))), i, 0.0)
        other = law(q)
        distances.append(sum(abs(whole.get(c, 0) - other.get(c, 0)) for c in {*whole, *other}) / 2)
    return float(np.mean(distances))


def lengths(points, weights):
    return weights * np.abs(points).sum(axis=1)


def share(points, weights, summary):
    return lengths(points, weights) / summary


def shares(rows):
    return np.abs(rows).sum(axis=1) / np.abs(rows).sum()


SETTINGS = {"epsilon": EPSILON, "coreset_size": SIZE}
CASES = {
    "leverage": (coresets.Leverage(**SETTINGS), scores.leverage, SIZE / 2),
    "ridge": (coresets.RidgeLeverage(1, **SETTINGS), lambda rows: scores.ridge_leverage(rows, 1), SIZE / 2),
    "uniform": (coresets.Uniform(**SETTINGS), lambda rows: np.full(len(rows), 1 / len(rows)), SIZE),
    "own score": (coresets.Sensitivity(lengths, **SETTINGS), shares, SIZE),
    "own score with a total": (
        coresets.Sensitivity(share, summary=lambda p, w: lengths(p, w).sum(), total_score=1, **SETTINGS),
        shares,
        SIZE,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_enumeration_is_brute_force(name):
    construction, score, constant = CASES[name]
    exact = average_sensitivity(construction, X, method="exact")
    assert exact.mean == pytest.approx(by_brute_force(score, constant), rel=1e-6)
    assert (exact.low, exact.high, exact.kind) == (exact.mean, exact.mean, "exact")
    assert 0.05 < exact.mean < 0.95


@pytest.mark.parametrize("name", CASES)
@pytest.mark.few(2)
def test_the_coupled_estimate_is_an_upper_bound_of_it(name):
    """False alarms: 1e-6."""
    construction = CASES[name][0]
    exact = average_sensitivity(construction, X, method="exact").mean
    assert average_sensitivity(construction, X, trials=300, confidence=1 - 2e-6).high >= exact


# -- what a deletion is --------------------------------------------------------------------------------------


def cloud(n=80):
    """No clusters: many solutions are nearly as good, and where a solver starts decides."""
    return RNG(4).normal(size=(n, 2))


def outputs_of_clustering(warm_start):
    model = OnlineClustering(6, epsilon=EPSILON, coreset_size=40, warm_start=warm_start)
    return [with_and_without(model, cloud(), None, row, 7) for row in range(20)]


def same(some, others):
    return all(np.array_equal(one, other) for one, other in zip(some, others, strict=True))


@pytest.mark.slow
def test_a_clustering_without_a_row_does_not_start_from_the_one_with_it():
    """So that where the solver starts on a stream makes no difference here."""
    warm, cold = outputs_of_clustering(True), outputs_of_clustering(False)
    assert all(same(one, other) for one, other in zip(warm, cold, strict=True))


def described(model):
    if isinstance(model, OnlineRegression):
        return np.append(model.coef_, model.intercept_)
    if isinstance(model, OnlineLowRank):
        return np.ravel(model.components_.T @ model.components_)
    return np.ravel(model.cluster_centers_[np.lexsort(model.cluster_centers_.T[::-1])])


@pytest.mark.parametrize(
    "kind",
    [
        OnlineRegression,
        lambda **s: OnlineLowRank(1, **s),
        lambda **s: OnlineLowRank(1, solve="coreset", **s),
        lambda **s: OnlineClustering(3, **s),
    ],
    ids=["regression", "low rank", "low rank, coreset", "clustering"],
)
def test_with_a_row_and_without_it_the_model_is_that_of_those_rows(kind):
    """Without it: two shards with a gap between their ids."""
    X, row, settings = cloud(), 11, {"coreset_size": 15, "random_state": 5}
    y = X.sum(axis=1) ** 2
    targets = y if kind is OnlineRegression else None
    given = lambda rows: (X[rows],) if targets is None else (X[rows], y[rows])  # noqa: E731
    with_it, without = with_and_without(kind(**settings), X, targets, row, 5)
    np.testing.assert_allclose(with_it, described(kind(**settings).fit(*given(slice(None)))), rtol=1e-9)
    shards = [kind(first_id=a, **settings).partial_fit(*given(slice(a, b))) for a, b in ((0, row), (row + 1, None))]
    np.testing.assert_allclose(without, described(shards[0].merge(shards[1])), rtol=1e-9)


def test_outputs_are_the_same_up_to_a_share_of_their_largest_entry():
    old = np.array([1.0, -200.0, 3.0])
    for scale in (1.0, 1e-30, 1e30):
        assert not differ(scale * old, scale * (old + np.array([0, 0, 1.9])), tolerance=0.01)
        assert differ(scale * old, scale * (old + np.array([0, 0, 2.1])), tolerance=0.01)
        assert differ(scale * old, scale * (old - np.array([0, 0, 2.1])), tolerance=0.01)
    assert differ(old, old[:2], tolerance=1.0)
    assert not differ(np.zeros(3), np.zeros(3), tolerance=0.0)


def test_by_default_rounding_is_no_change_and_a_millionth_is():
    nudged = lambda by: lambda X, y, seed: np.array([1.0, 2.0 + by * len(X)])  # noqa: E731
    assert average_sensitivity(nudged(1e-12), X, trials=5).mean == 0.0
    assert average_sensitivity(nudged(1e-6), X, trials=5).mean == 1.0
    assert average_sensitivity(nudged(1e-6), X, trials=5, tolerance=1e-5).mean == 0.0


@pytest.mark.parametrize("row", [0, 3, 7])
def test_exactly_the_row_asked_for_is_left_out(row):
    X, y = np.arange(8.0)[:, None], np.arange(8.0) * 10
    kept, targets = sensitivity.without(X, y, row)
    assert kept[:, 0].tolist() == [i for i in range(8) if i != row]
    assert targets.tolist() == [10.0 * i for i in range(8) if i != row]
    before, after = sensitivity.with_and_without(lambda X, y, seed: np.append(X[:, 0], seed), X, y, row, 5)
    assert before.tolist() == [*range(8), 5]
    assert after.tolist() == [*(i for i in range(8) if i != row), 5]


def test_numbering_basis_and_order_are_no_changes_but_weights_are():
    X = RNG(11).normal(size=(60, 3)) * [4, 2, 1]
    clusters = KMeans(3, n_init=1, random_state=0).fit(X)
    first = sensitivity.described(clusters, X)
    clusters.cluster_centers_ = clusters.cluster_centers_[[2, 0, 1]]
    assert np.array_equal(sensitivity.described(clusters, X), first)
    subspace = TruncatedSVD(2).fit(X)
    first = sensitivity.described(subspace, X)
    subspace.components_ = np.array([[0.6, 0.8], [-0.8, 0.6]]) @ subspace.components_
    np.testing.assert_allclose(sensitivity.described(subspace, X), first, atol=1e-12)
    one, other = (coresets.Uniform(coreset_size=10**4, random_state=0) for _ in range(2))
    one.add(X), other.add(X, weights=np.full(60, 2.0))
    assert not np.array_equal(sensitivity.described(one, X), sensitivity.described(other, X))


# -- the numbers that are reported -----------------------------------------------------------------------------


@pytest.mark.parametrize(("correct", "asked"), [(300, 400), (200, 400), (150, 400), (400, 400)])
def test_the_lower_bound_is_twice_the_accuracy_less_one(monkeypatch, correct, asked):
    """A classifier is right with probability at most (1 + TV) / 2."""
    monkeypatch.setattr(sensitivity, "accuracy_with_and_without", lambda *_: (correct, asked))
    found = average_sensitivity(LinearRegression(), X, X[:, 0], method="classifier", confidence=0.99)
    low = binomial_interval(correct, asked, 0.99)[0]
    assert found.mean == max(0.0, 2 * correct / asked - 1)
    assert found.low == max(0.0, 2 * low - 1) <= found.mean
    assert (found.high, found.kind, found.trials) == (1.0, "lower", asked)


def test_the_interval_is_where_tails_of_the_binomial_are_half_of_the_error():
    from scipy.stats import binom

    low, high = binomial_interval(30, 100, 0.9)
    assert binom.sf(29, 100, low) == pytest.approx(0.05, rel=1e-6)
    assert binom.cdf(30, 100, high) == pytest.approx(0.05, rel=1e-6)
    assert binomial_interval(0, 50, 0.9)[0] == 0.0
    assert binomial_interval(50, 50, 0.9)[1] == 1.0


def test_the_slope_of_a_line_and_its_error():
    """Against the normal equations, with precisions that differ."""
    x, y, w = np.array([0.0, 1.0, 3.0]), np.array([2.0, -1.0, 4.0]), np.array([1.0, 5.0, 0.5])
    design = np.column_stack([np.ones(3), x])
    inverse = np.linalg.inv(design.T @ (w[:, None] * design))
    slope, error = sensitivity.weighted_slope(x, y, w)
    assert slope == pytest.approx((inverse @ design.T @ (w * y))[1])
    assert error == pytest.approx(np.sqrt(inverse[1, 1]))


def test_subsets_keep_their_targets():
    X, apart = RNG(0).normal(size=(40, 1)), []
    sensitivity_decay(
        lambda X, y, seed: apart.extend(y - 3 * X[:, 0]) or X[:1], X, 3 * X[:, 0], sizes=[10, 20], trials=5
    )
    assert apart
    assert not np.any(apart)
