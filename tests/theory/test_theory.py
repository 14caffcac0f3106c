"""Sizes and bounds against their text, symbol by symbol."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batch2online import coresets, theory
from batch2online.engine.stream import Stream
from batch2online.methods.clustering.problem import ClusteringProblem
from batch2online.methods.least_squares.problem import LeastSquares
from batch2online.methods.low_rank.problem import LowRank
from batch2online.refresh import Geometric


def inverse(scale):
    return lambda n: min(1.0, scale / n)


# -- bounds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sensitivity", "expected"),
    [
        (lambda n: theory.leverage_sensitivity(n, 50, 10, 0.1), 50 * 10 * 13),
        (lambda n: theory.ridge_leverage_sensitivity(n, 50, 3, 0.1), 50 * 6 * (1 + 9 * 12)),
        (lambda n: theory.clustering_sensitivity(n, 50, 4, 0.1), 4 + 50 * 13),
        (lambda n: theory.general_sensitivity(n, 50, 10, 20, 0.1), 50 * 10 * (1 + 20 * 12)),
    ],
)
def test_sensitivities_fall_like_one_over_n_and_never_exceed_one(sensitivity, expected):
    assert sensitivity(10**9) * 10**9 == pytest.approx(expected)
    assert sensitivity(2 * 10**9) == pytest.approx(sensitivity(10**9) / 2)
    assert sensitivity(10) == 1.0


def test_exact_least_squares_is_stable():
    """Lemma 6 against its formula, and for every row of small data sets, clipped at L and not."""
    assert theory.exact_stability(10**6, 7) == pytest.approx(6 * 7 / 10**6)
    assert theory.exact_stability(10, 7) == 1.0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        A, b = rng.standard_t(2, size=(12, 3)), rng.standard_t(2, size=12)
        losses = np.square(A @ np.linalg.lstsq(A, b)[0] - b)
        left_out = []
        for i in range(12):
            rest = np.delete(np.arange(12), i)
            left_out.append((A[i] @ np.linalg.lstsq(A[rest], b[rest])[0] - b[i]) ** 2)
        for bound in (losses.max(), np.median(losses)):
            rise = np.minimum(left_out, bound) - np.minimum(losses, bound)
            assert rise.mean() <= bound * 6 * 3 / 12


def test_refresh_times_are_those_of_the_policy():
    policy = Geometric(1.3, start=7)
    at, times = 7, []
    while at < 1000:
        times.append(at)
        at = policy.next_check(at)
    assert list(theory.refresh_times(1000, 7, 1.3)) == times


def test_regret_by_hand():
    beta = inverse(3)
    by_hand = 5 + sum(beta({5: 5, 6: 5, 7: 5, 8: 5, 9: 5}.get(t, 10) + 1) for t in range(5, 15))
    assert theory.geometric_regret(beta, 15, start=5, growth=2.0, loss_bound=2.0) == pytest.approx(2 * by_hand)
    every_row = 5 + sum(beta(t + 1) for t in range(5, 15))
    assert theory.geometric_regret(beta, 15, start=5, growth=1.0) == pytest.approx(every_row)
    assert theory.every_step_regret(beta, 15) == pytest.approx(1 + 2 * sum(beta(t) for t in range(1, 15)))
    assert theory.geometric_regret(beta, 3, start=5, growth=2.0) == 3


def warm_start_regret_by_rows(beta, n, start, growth):
    """Theorem 4, one row at a time."""
    times = list(theory.refresh_times(n, start, growth))
    total = float(start)
    for t in range(start, n):
        at = max(s for s in times if s <= t)
        total += min(1.0, sum(2 * s * beta(s) for s in times if s <= at) / at)
    return total


def test_theorem_4_row_by_row_where_it_does_not_saturate():
    n, start, growth = 5_000, 400, 1.5
    expected = warm_start_regret_by_rows(inverse(7), n, start, growth)
    assert theory.warm_start_regret(inverse(7), n, start, growth, loss_bound=3.0) == pytest.approx(3 * expected)
    assert start < expected < n / 2


def test_theorem_4_saturates_at_one_a_row():
    assert theory.warm_start_regret(lambda n: 1.0, 50, start=5, growth=1.5) == 50
    assert theory.warm_start_regret(inverse(3), 4, start=5, growth=1.5) == 4


@pytest.mark.parametrize(("d", "epsilon", "n"), [(5, 0.1, 1000), (2, 0.5, 70_000)])
def test_the_papers_rates(d, epsilon, n):
    """Theorems 8.1, 7.2 and 6.1 with hidden constants one; with errata the 1/epsilon of Lemma 5.2."""
    rate = epsilon**-2 * d * math.log(n) * math.log(d * n / epsilon)
    for regret in (theory.regression_regret, theory.low_rank_regret):
        assert regret(d, epsilon, n, errata=False) == pytest.approx(rate)
        assert regret(d, epsilon, n) == pytest.approx(rate / epsilon)
    for z in (1.0, 2.0, 2.5):
        first = (168 * z) ** (10 * z) * epsilon ** (-5 * z - 15) * d**5 * math.log(d * n / epsilon)
        second = epsilon ** (-2 * z - 2) * d * math.log(d) * math.log(d * n / epsilon)
        rate = (first + second) * math.log(n)
        assert theory.clustering_regret(d, z, epsilon, n, errata=False) == pytest.approx(rate)
        assert theory.clustering_regret(d, z, epsilon, n) == pytest.approx(rate / epsilon)


@pytest.mark.parametrize(("k", "z", "epsilon", "n"), [(3, 2.0, 0.1, 1000), (7, 1.0, 0.5, 10**6), (2, 1.5, 0.3, 50)])
def test_the_sizes_of_the_papers_algorithms(k, z, epsilon, n):
    delta = epsilon / n
    assert theory.regression_size(k, epsilon, n) == math.ceil(epsilon**-2 * k * math.log(k / delta))
    assert theory.low_rank_size(k, epsilon, n) == math.ceil(epsilon**-2 * k * math.log(k / delta))
    first, second = theory.clustering_sizes(k, z, epsilon, n)
    n_1 = (168 * z) ** (10 * z) * epsilon ** (-5 * z - 15) * k**5 * math.log(k / delta)
    n_2 = epsilon ** (-2 * z - 2) * k * math.log(k) * math.log(k / (epsilon * delta))
    assert first == pytest.approx(n_1, rel=1e-12)
    assert second == math.ceil(n_2)
    if z != 2:
        assert theory.clustering_size_theory(k, z, epsilon, delta) == pytest.approx(n_1, rel=1e-12)
    assert theory.regression_size(k, epsilon, n, 0.2) == math.ceil(epsilon**-2 * k * math.log(k / 0.2))
    assert theory.clustering_size(k, epsilon) == math.ceil(10 * (1 + k) / epsilon)


@pytest.mark.parametrize(("d", "epsilon", "failure"), [(3, 0.1, 0.01), (20, 0.02, 0.001)])
def test_the_constants_of_leverage_scores(d, epsilon, failure):
    measured = 4 * math.log(2 * d / failure) + 2 / epsilon
    asked = math.log(d / failure) / epsilon**2
    assert theory.leverage_constant(d, epsilon, failure) == pytest.approx(measured)
    assert theory.leverage_constant_theory(d, epsilon, failure) == pytest.approx(asked)
    in_expectation = math.log(d * 10**9 / epsilon) / epsilon**2
    assert theory.sampling_constant("theory", 10, d, epsilon) == pytest.approx(in_expectation)
    assert theory.sampling_constant(None, 10, d, epsilon) == theory.leverage_constant(d, epsilon)
    assert theory.sampling_constant(300, 10, d, epsilon) == 30


@pytest.mark.parametrize(("k", "epsilon", "smaller"), [(5, 0.1, 5**0.5), (20, 0.1, 20**0.5), (20, 0.7, 0.7**-2)])
def test_the_size_of_sensitivity_sampling_for_k_means(k, epsilon, smaller):
    """Bansal et al.: k / epsilon^2 times the smaller of two factors; in expectation a miss has chance epsilon / n."""
    expected = (k * smaller + math.log(1 / 0.01)) / epsilon**2
    assert theory.clustering_size_theory(k, 2.0, epsilon) == pytest.approx(expected)
    builder = coresets.Clustering(k, epsilon=epsilon, coreset_size="theory", random_state=0)
    size = builder.add(np.random.default_rng(0).normal(size=(50, 2))).sketch.settings.size
    assert size == pytest.approx((k * smaller + math.log(10**9 / epsilon)) / epsilon**2)


def test_inconsistency_of_on_change_is_the_sum_of_sensitivities():
    beta = inverse(3)
    assert theory.on_change_inconsistency(beta, 9, start=4) == pytest.approx(sum(3 / t for t in (5, 6, 7, 8, 9)))


@pytest.mark.parametrize(("n", "start", "growth"), [(10**6, 100, 1.2), (999, 10, 2.0), (10, 10, 1.5), (9, 10, 1.5)])
def test_models_of_geometric_are_counted_and_bounded(n, start, growth):
    policy, at, count = Geometric(growth, start=start), start, 0
    while at <= n:
        at, count = policy.next_check(at), count + 1
    assert theory.geometric_models(n, start, growth) == count
    assert count <= (1 + math.log(n / start, growth) + 1e-9 if n >= start else 0)


# -- what constructions, policies and problems declare -----------------------------------------------------


@pytest.mark.parametrize(
    ("construction", "expected"),
    [
        (coresets.Leverage(coreset_size=60, random_state=0), lambda n: theory.leverage_sensitivity(n, 20, 3, 0.1)),
        (coresets.Uniform(coreset_size=60, random_state=0), lambda n: theory.leverage_sensitivity(n, 60, 1, 0.1)),
        (
            coresets.RidgeLeverage(2, coreset_size=60, random_state=0),
            lambda n: theory.ridge_leverage_sensitivity(n, 15, 2, 0.1),
        ),
        (coresets.Everything(random_state=0), lambda n: 1.0),
        (coresets.Clustering(2, stages=2, random_state=0), lambda n: 1.0),
        (coresets.Clustering(2, history="coreset", random_state=0), lambda n: 1.0),
    ],
)
def test_a_construction_knows_its_average_sensitivity(construction, expected):
    assert construction.sensitivity(10**9) == 1.0  # before any row nothing is known
    construction.add(np.random.default_rng(0).normal(size=(500, 3)))
    assert construction.sensitivity(10**9) == pytest.approx(expected(10**9))


def test_a_policy_promises_nothing_before_its_start_is_decided():
    with pytest.raises(ValueError, match="give the policy a start"):
        Geometric(1.5).guarantee(inverse(3), 100, 0.1)


def test_a_solver_that_remembers_the_order_is_promised_less():
    policy = Geometric(1.5, start=10)
    plain, warm = (policy.guarantee(inverse(3), 100_000, 0.1, warm_starts=warm_starts) for warm_starts in (False, True))
    assert (plain.factor, plain.models) == (warm.factor, warm.models)
    assert plain.additive < warm.additive == theory.warm_start_regret(inverse(3), 100_000, 10, 1.5)


@pytest.mark.parametrize(
    ("problem", "construction", "message"),
    [
        (LeastSquares(), coresets.Uniform(), "LeastSquares is fitted on a coreset of type Leverage, got Uniform"),
        (ClusteringProblem(2), coresets.Leverage(), "ClusteringProblem is fitted on .* Clustering, got Leverage"),
        (LowRank(2), coresets.Everything(), "LowRank is fitted on .* RidgeLeverage, got Everything"),
        (LeastSquares(), None, "got NoneType"),
        (object(), coresets.Uniform(), "A problem must have the methods of Problem; object lacks"),
    ],
)
def test_a_problem_is_refused_at_once_with_a_construction_it_cannot_be_solved_on(problem, construction, message):
    with pytest.raises(TypeError, match=message):
        Stream.new(problem, construction, Geometric(), 3, 1)
