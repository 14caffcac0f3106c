"""Bounds with their constants, and certificates of runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from batch2online import BatchToOnline, OnlineClustering, OnlineLowRank, OnlineRegression, coresets, theory
from batch2online.engine.online import Online
from batch2online.problems.clustering import KZClustering
from batch2online.problems.low_rank import LowRank
from batch2online.problems.regression import LeastSquares
from batch2online.refresh import EveryStep, Geometric, Lazy, OnChange
from streams import stream


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


def test_refresh_times_are_those_of_the_policy():
    policy = Geometric(1.3, start=7)
    at, times = 7, []
    while at < 1000:
        times.append(at)
        at = policy.following(at)
    assert list(theory.refresh_times(1000, 7, 1.3)) == times


def test_regret_by_hand():
    beta = inverse(3)
    by_hand = 5 + sum(beta({5: 5, 6: 5, 7: 5, 8: 5, 9: 5}.get(t, 10) + 1) for t in range(5, 15))
    assert theory.geometric_regret(beta, 15, start=5, growth=2.0, loss_bound=2.0) == pytest.approx(2 * by_hand)
    every_row = 5 + sum(beta(t + 1) for t in range(5, 15))
    assert theory.geometric_regret(beta, 15, start=5, growth=1.0) == pytest.approx(every_row)
    assert theory.every_step_regret(beta, 15) == pytest.approx(1 + 2 * sum(beta(t) for t in range(1, 15)))
    assert theory.geometric_regret(beta, 3, start=5, growth=2.0) == 3


def test_regret_grows_like_the_logarithm():
    decades = [theory.geometric_regret(inverse(3), 10**k, start=10, growth=1.1) for k in (4, 5, 6)]
    assert decades[2] - decades[1] == pytest.approx(decades[1] - decades[0], rel=0.01)


def test_lazy_may_lose_more_than_geometric_and_without_decisions_less():
    settings = {"n": 100_000, "start": 100, "growth": 1.2}
    geometric = theory.geometric_regret(inverse(3), **settings)
    warm = theory.lazy_regret(inverse(3), **settings, tolerance=0.0)
    lazy = theory.lazy_regret(inverse(3), **settings, tolerance=0.05)
    assert geometric < warm < lazy
    pieces = [(1, 2), (2, 4), (4, 5)]
    remembered, total = 0.0, 1.0
    for at, stop in pieces:
        remembered += 2 * at * (0.1 / at) + 8 / math.log(1.5 / 1.25)
        total += (stop - at) * min(1.0, remembered / at)
    assert theory.lazy_regret(inverse(0.1), 5, start=1, growth=2.0, tolerance=0.5) == pytest.approx(total)


def test_the_papers_rates():
    assert theory.regression_regret(5, 0.1, 1000, errata=False) == pytest.approx(
        100 * 5 * math.log(1000) * math.log(50_000)
    )
    assert theory.regression_regret(5, 0.1, 1000) == pytest.approx(
        10 * theory.regression_regret(5, 0.1, 1000, errata=False)
    )
    assert theory.low_rank_regret(5, 0.1, 1000) == theory.regression_regret(5, 0.1, 1000)
    assert theory.clustering_regret(3, 2.0, 0.1, 1000) > 1e78
    assert theory.on_change_inconsistency(inverse(3), 10_000, start=100) == pytest.approx(3 * math.log(100), rel=0.01)


# -- certificates --------------------------------------------------------------------------------------


def unit_rows(n=60_000):
    rng = np.random.default_rng(0)
    return rng.uniform(size=(n, 1))


def mean(points, weights):
    return np.average(points, axis=0, weights=weights)


def squared(theta, points):
    return np.square(points - theta).sum(axis=1)


def mean_model(**settings):
    return BatchToOnline(
        mean, loss=squared, coreset_size=200, **{"epsilon": 0.5, "loss_bound": 1.0, "random_state": 0, **settings}
    )


def test_a_certificate_that_says_something():
    promise = theory.certificate(mean_model(refresh=Geometric(1.2)).partial_fit(unit_rows()))
    assert not promise.is_vacuous
    assert promise.holds
    assert promise.loss_bound_is_given
    assert promise.rows == 60_000
    beta = lambda n: theory.leverage_sensitivity(n, 200, 1, 0.5)  # noqa: E731
    assert promise.additive == pytest.approx(theory.geometric_regret(beta, 60_000, start=20, growth=1.2))
    assert promise.promised == pytest.approx(1.5 * promise.optimum + promise.additive)
    assert promise.models_measured <= promise.models_promised == theory.geometric_models(60_000, 20, 1.2)
    assert "holds" in str(promise)


def test_a_certificate_that_is_exceeded_says_so():
    model = mean_model(refresh=Geometric(1.2)).partial_fit(unit_rows())
    model._engine.loss += 40_000.0
    promise = theory.certificate(model)
    assert not promise.holds
    assert "exceeded" in str(promise)


@pytest.mark.parametrize(
    ("refresh", "factor"), [(EveryStep(), 1.5), (OnChange(), 1.5), (Lazy(1.2, 0.1), 1.5 * 1.1), (Geometric(2.0), 1.5)]
)
def test_each_policy_has_its_promise(refresh, factor):
    promise = theory.certificate(mean_model(refresh=refresh).partial_fit(unit_rows(300)))
    assert promise.factor == pytest.approx(factor)
    assert promise.models_measured <= promise.models_promised
    assert promise.is_vacuous == (promise.promised >= 300)


@pytest.mark.parametrize(
    "model",
    [
        OnlineRegression(random_state=0),
        OnlineRegression(solve="exact", random_state=0),
        OnlineLowRank(2, random_state=0),
        OnlineClustering(3, random_state=0),
        OnlineClustering(3, stages=2, random_state=0),
        OnlineClustering(3, start_from_current=False, refresh=Geometric(1.5), random_state=0),
        BatchToOnline(Ridge(), random_state=0),
        BatchToOnline(Ridge(), coreset=coresets.Everything, random_state=0),
    ],
    ids=repr,
)
def test_certificates_of_small_runs_are_vacuous_and_say_so(model):
    X, y = stream("gaussian", 500)
    promise = theory.certificate(model.partial_fit(X, y))
    assert promise.is_vacuous
    assert not promise.loss_bound_is_given
    assert promise.loss_bound > 0
    assert promise.measured == pytest.approx(model.regret_.loss)
    assert "vacuous" in str(promise)
    assert "not a proven bound" in str(promise)


def test_a_model_of_all_rows_has_no_bound():
    X, y = stream("gaussian", 500)
    exact = theory.certificate(
        OnlineRegression(solve="exact", refresh=Geometric(), random_state=0).partial_fit(X, y), 1.0
    )
    assert exact.additive == pytest.approx(500)


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


def test_the_sensitivity_of_clustering_is_proved_for_one_stage_and_all_rows():
    construction = coresets.Clustering(2, coreset_size=60, random_state=0).add(unit_rows(500))
    construction.flush()
    construction.settle()
    assert construction.sensitivity(10**6) == pytest.approx(theory.clustering_sensitivity(10**6, 60, 2, 0.1))


def test_a_policy_promises_nothing_before_its_start_is_decided():
    with pytest.raises(ValueError, match="give the policy a start"):
        Geometric(1.5).promise(inverse(3), 100, 0.1)


def test_a_solver_that_remembers_the_order_is_promised_less():
    policy = Geometric(1.5, start=10)
    plain, warm = (policy.promise(inverse(3), 100_000, 0.1, remembers=remembers) for remembers in (False, True))
    assert (plain.factor, plain.models) == (warm.factor, warm.models)
    assert plain.additive < warm.additive == theory.lazy_regret(inverse(3), 100_000, 10, 1.5, tolerance=0.0)


@pytest.mark.parametrize(
    ("problem", "construction", "message"),
    [
        (LeastSquares(), coresets.Uniform(), "LeastSquares is solved on a coreset of the kind Leverage, got Uniform"),
        (KZClustering(2), coresets.Leverage(), "KZClustering is solved on .* Clustering, got Leverage"),
        (LowRank(2), coresets.Everything(), "LowRank is solved on .* RidgeLeverage, got Everything"),
        (LeastSquares(), None, "got NoneType"),
        (object(), coresets.Uniform(), "A problem must have the methods of Problem; object lacks"),
    ],
)
def test_a_problem_is_refused_at_once_with_a_construction_it_cannot_be_solved_on(problem, construction, message):
    with pytest.raises(TypeError, match=message):
        Online(problem, construction, Geometric(), 3, 1)
