"""Certificates: the promise of each policy for each problem, and none where nothing is proved.

Coresets are tiny and epsilon is large, so that average sensitivities are far below one at a few thousand rows.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from batch2online import (
    BatchToOnline,
    OnlineClassifier,
    OnlineClustering,
    OnlineLowRank,
    OnlineRegression,
    coresets,
    theory,
)
from batch2online.paper import certificates
from batch2online.refresh import Adaptive, Every, EveryStep, Geometric, OnChange

N, SIZE, EPSILON = 3_000, 6, 0.6
K = 2 + 1 / EPSILON
L = 1e4  # far above every loss, so that what the optimum adds decides nothing
RNG = np.random.default_rng


@cache
def rows(n=N):
    X = RNG(0).normal(size=(n, 2)) + 8 * RNG(1).integers(2, size=(n, 1))
    return X, X @ [1.0, -2.0] + RNG(2).normal(size=n)


def mean(points, weights):
    return np.average(points, axis=0, weights=weights)


def squared(theta, points):
    return np.square(points - theta).sum(axis=1)


SETTINGS = {"epsilon": EPSILON, "coreset_size": SIZE, "refresh": Geometric(1.5, start=40), "random_state": 3}

#: For each problem: the model, n times its average sensitivity by the table of docs/proofs.md, whether the solver
#: starts from the current model, and whether costs and optimum are those of all rows.
PROBLEMS = {
    "regression": (lambda s: OnlineRegression(solve="coreset", **s), SIZE * (1 + K), False, True, True),
    "low rank": (lambda s: OnlineLowRank(1, solve="coreset", **s), SIZE * (1 + 5 * K), False, True, True),
    "exact regression": (lambda s: OnlineRegression(**s), 6 * 3, False, True, True),
    "cold clustering": (
        lambda s: OnlineClustering(2, solve="coreset", warm_start=False, **s),
        2 + SIZE * (1 + K),
        False,
        False,
        True,
    ),
    "warm clustering": (
        lambda s: OnlineClustering(2, solve="coreset", **s),
        2 + SIZE * (1 + K),
        True,
        False,
        True,
    ),
    "function": (
        lambda s: BatchToOnline(mean, coreset=coresets.Uniform, loss=squared, **s),
        SIZE * (1 + K),
        False,
        False,
        False,
    ),
    "function, rows kept": (
        lambda s: BatchToOnline(mean, coreset=coresets.Uniform, loss=squared, keep_history=True, **s),
        SIZE * (1 + K),
        False,
        False,
        True,
    ),
}


def learn(model, n=N, **options):
    X, y = rows(n)
    takes_targets = isinstance(model, OnlineRegression) or hasattr(getattr(model, "estimator", None), "predict")
    return model.partial_fit(X, y, **options) if takes_targets else model.partial_fit(X, **options)


@cache
def learned(name):
    return learn(PROBLEMS[name][0](SETTINGS))


def refreshes(growth, start, stop=N):
    return list(theory.refresh_times(stop, start, growth))


def geometric(beta, growth, start):
    return theory.geometric_regret(beta, N, start, growth)


START = 40
POLICIES = {
    "EveryStep": (EveryStep(start=START), 1.0),
    "OnChange": (OnChange(start=START), 1.0),
    "Geometric": (Geometric(1.5, start=START), 1.5),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_promise_of_each_policy_for_each_problem_is_that_of_its_theorem(name, policy):
    """The run is that of one policy, its certificate taken under another: it is a function of rows and settings."""
    model, (refresh, growth) = learned(name), POLICIES[policy]
    _, scale, warm, _, exact_optimum = PROBLEMS[name]
    beta = lambda n: min(1.0, scale / n)  # noqa: E731
    before = model._stream
    model._stream = before.with_engine(policy=refresh)
    promise = theory.certificate(model, L)
    model._stream = before
    additive = theory.warm_start_regret(beta, N, START, growth) if warm else geometric(beta, growth, START)
    if name == "exact regression" and policy == "OnChange":
        assert promise.gaps
        assert promise.is_vacuous
        return
    factor = 1.0 if name == "exact regression" else 1 + EPSILON
    if not exact_optimum:
        factor /= 1 - EPSILON
    models = len(refreshes(growth, START, N + 1))
    if policy == "OnChange":
        models = 1 + sum(beta(t) for t in range(START + 1, N + 1))
    assert promise.additive == pytest.approx(L * additive, rel=1e-9)
    assert promise.factor == pytest.approx(factor)
    assert promise.models_promised == pytest.approx(models)
    assert promise.gaps == ()
    saturates = warm and growth == 1.0  # the sensitivities of all rows so far add up
    assert promise.is_vacuous == (saturates and additive > 0.99 * N)


@pytest.mark.parametrize(("fit_intercept", "degrees"), [(True, 3), (False, 2)])
def test_the_promise_of_adaptive_is_that_of_theorem_5(fit_intercept, degrees):
    """With eta = epsilon and rho Gamma = 2, a row at a time."""
    policy = Adaptive(kappa=1.5, growth=1.5, floor=0.1, start=START)
    model = learn(OnlineRegression(fit_intercept=fit_intercept, **(SETTINGS | {"refresh": policy})))
    beta = lambda n: min(1.0, 6 * degrees / n)  # noqa: E731
    times, kept = refreshes(1.5, START), (1 + 1 / EPSILON) * 2
    allowed = sum(min(1.0, 1.5 * degrees / times[bisect_right(times, t) - 1]) for t in range(START, N))
    promise = theory.certificate(model, L)
    assert promise.factor == pytest.approx((1 + EPSILON) * (1 + EPSILON + kept * 0.1))
    assert promise.additive == pytest.approx(L * (1 + EPSILON) * (geometric(beta, 1.5, START) + kept * allowed))
    assert promise.gaps == ()
    assert not promise.is_vacuous


def test_where_losses_are_clipped_kept_models_count_in_mean_losses_of_the_optimum():
    """Theorem 5: OPT_n / n is at most L only where no loss is above L."""
    policy = Adaptive(kappa=1.5, growth=1.5, start=START)
    model = learn(PROBLEMS["exact regression"][0](SETTINGS | {"refresh": policy}))
    mean = model.regret_.optimum / N
    small, large = (theory.certificate(model, bound) for bound in (mean / 8, 1e6 * mean))
    assert (small.is_clipped, large.is_clipped) == (True, False)
    times = refreshes(1.5, START)
    allowed = sum(min(1.0, 1.5 * 3 / times[bisect_right(times, t) - 1]) for t in range(START, N))
    kept = (1 + EPSILON) * (1 + 1 / EPSILON) * 2 * allowed
    beta = lambda n: min(1.0, PROBLEMS["exact regression"][1] / n)  # noqa: E731
    expected = mean / 8 * (1 + EPSILON) * geometric(beta, 1.5, START) + mean * kept
    assert small.additive == pytest.approx(expected, rel=1e-9)
    assert small.additive > 2 * large.additive * small.loss_bound / large.loss_bound


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_measured_stands_beside_it(name):
    model = learned(name)
    promise = theory.certificate(model, L)
    assert not promise.is_vacuous
    assert promise.holds
    assert promise.rows == N
    assert promise.measured == model.regret_.loss
    assert promise.optimum == model.regret_.optimum
    assert promise.promised == promise.factor * promise.optimum + promise.additive
    assert promise.models_measured == model.n_changes_ + 1
    assert promise.models_measured <= promise.models_promised
    assert (promise.loss_bound, promise.loss_bound_is_given) == (L, True)
    assert "holds" in str(promise)
    assert "given" in str(promise)


def test_before_the_first_model_none_is_counted():
    promise = theory.certificate(learn(OnlineRegression(solve="coreset", **SETTINGS), 20), L)
    assert (promise.models_measured, promise.models_promised) == (0, 0)
    assert promise.additive == 20 * L


def test_a_certificate_that_is_exceeded_says_so():
    model = learn(OnlineRegression(solve="coreset", **SETTINGS))
    stream = model._stream
    model._stream = replace(stream, state=replace(stream.state, loss=stream.state.loss + 1e8))
    promise = theory.certificate(model, L)
    assert not promise.holds
    assert "exceeded" in str(promise)


@pytest.mark.parametrize("name", PROBLEMS)
def test_without_a_bound_of_losses_the_largest_on_the_coreset_is_taken(name):
    model = learn(PROBLEMS[name][0](SETTINGS | {"coreset_size": 40}), 1_000)
    promise, coreset = theory.certificate(model), model.coreset_
    if "regression" in name:
        losses = np.square(model.predict(coreset.points) - coreset.targets)
    elif name == "low rank":
        losses = np.square(coreset.points - model.inverse_transform(model.transform(coreset.points))).sum(axis=1)
    elif "clustering" in name:
        losses = np.square(model.transform(coreset.points).min(axis=1))
    else:
        losses = squared(model.model_, coreset.points)
    assert promise.loss_bound == pytest.approx(losses.max(), rel=1e-6)
    assert losses.max() > 1.1 * losses.mean()
    assert not promise.loss_bound_is_given
    assert "not a proven bound" in str(promise)


# -- what no theorem covers --------------------------------------------------------------------------------


def merged(model, other):
    return learn(model, 1_500).merge(learn(other, 1_500))


ADAPTIVE = {"refresh": Adaptive(1.0, 1.5, start=40)}


def classifier():
    X, y = rows()
    return OnlineClassifier(**SETTINGS).partial_fit(X, y > np.median(y))


HISTORY = {**SETTINGS, "keep_history": True}
STATISTICS, CORESET = "statistics of all rows", "no average sensitivity"
REFUSED = {
    "exact regression, OnChange": (
        lambda: learn(OnlineRegression(**(SETTINGS | {"refresh": OnChange()})), 60),
        STATISTICS,
    ),
    "exact low rank": (lambda: learn(OnlineLowRank(1, solve="exact", **SETTINGS)), STATISTICS),
    "exact clustering": (lambda: learn(OnlineClustering(2, warm_start=False, **SETTINGS)), STATISTICS),
    "two stages": (
        lambda: learn(OnlineClustering(2, stages=2, solve="coreset", warm_start=False, **SETTINGS)),
        CORESET,
    ),
    "bounded history": (
        lambda: learn(OnlineClustering(2, history="coreset", warm_start=False, **SETTINGS)),
        CORESET,
    ),
    "every row": (lambda: learn(BatchToOnline(Ridge(), coreset=coresets.Everything, **SETTINGS)), CORESET),
    "anchored classifier": (lambda: classifier(), CORESET),
    "anchored regression": (lambda: learn(OnlineRegression(loss="absolute", **SETTINGS)), CORESET),
    "a score of one's own": (
        lambda: learn(BatchToOnline(LinearRegression(), coreset=coresets.Sensitivity(_ones), **SETTINGS)),
        CORESET,
    ),
    "Adaptive clustering": (
        lambda: learn(OnlineClustering(2, warm_start=False, **(SETTINGS | ADAPTIVE))),
        "exact costs",
    ),
    "Adaptive regression of a coreset": (
        lambda: learn(OnlineRegression(solve="coreset", **(SETTINGS | ADAPTIVE))),
        "fits to all rows",
    ),
    "Adaptive low rank of a coreset": (
        lambda: learn(OnlineLowRank(1, solve="coreset", **(SETTINGS | ADAPTIVE))),
        "fits to all rows",
    ),
    "Adaptive function": (
        lambda: learn(BatchToOnline(mean, coreset=coresets.Uniform, loss=squared, **(SETTINGS | ADAPTIVE))),
        "exact costs",
    ),
    **{
        f"{name}={value}": (
            lambda name=name, value=value: learn(OnlineRegression(solve="coreset", **{name: value}, **SETTINGS)),
            "older rows count less",
        )
        for name, value in (("half_life", 1_000), ("half_life", "auto"), ("window", 1_000))
    },
    "weights": (
        lambda: learn(OnlineRegression(solve="coreset", **SETTINGS), sample_weight=RNG(0).uniform(1, 2, N)),
        "weights",
    ),
    "weights of mean one": (
        lambda: learn(OnlineRegression(solve="coreset", **SETTINGS), sample_weight=np.tile([0.5, 1.5], N // 2)),
        "weights",
    ),
    "merged": (
        lambda: merged(
            OnlineRegression(solve="coreset", **SETTINGS), OnlineRegression(first_id=1_500, solve="coreset", **SETTINGS)
        ),
        "merged",
    ),
    "forgotten": (lambda: learn(OnlineRegression(solve="coreset", **HISTORY)).forget([3, 5]), "forgotten"),
}


def _ones(points, weights, targets=None):
    return np.asarray(weights, dtype=float)


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_is_promised_where_nothing_is_proved(name):
    make, reason = REFUSED[name]
    model = make()
    promise = theory.certificate(model, L)
    assert [gap for gap in promise.gaps if reason in gap]
    assert promise.additive >= L * promise.rows * (1 - 1e-9)
    assert promise.is_vacuous
    assert "vacuous" in str(promise)
    assert reason in str(promise)


def test_weights_that_are_all_one_are_no_weights():
    model = learn(OnlineRegression(solve="coreset", **HISTORY), sample_weight=np.ones(N))
    assert theory.certificate(model, L).gaps == ()


def test_certificates_of_defaults_are_vacuous_at_ordinary_sizes_and_say_so():
    of_clusters = OnlineClustering(3, solve="coreset", refresh=Geometric(1.7))
    for model in (OnlineRegression(solve="coreset"), OnlineLowRank(1, solve="coreset"), of_clusters):
        promise = theory.certificate(learn(model, 500))
        assert promise.is_vacuous
        assert promise.gaps == ()
        assert "vacuous" in str(promise)


# -- epsilon="auto" --------------------------------------------------------------------------------------


AUTO = {"epsilon": "auto", "refresh": Geometric(1.5, start=START), "random_state": 0}


def test_the_promise_of_an_accuracy_that_improves_is_that_of_theorem_8():
    """Regression, a row at a time: OPT (1 + mean excess) + L (s_0 + sum 6p/(s+1) (1 + excess))."""
    model = learn(OnlineRegression(solve="coreset", **AUTO))
    promise, times, p = theory.certificate(model, L), refreshes(1.5, START), 3
    rounding = 1 + 0.1**2 / 4.4
    excess = {s: rounding * 2 * (8 + 8 * math.sqrt(2 * p)) / theory.adaptive_constant(p + 1, s) for s in times}
    current = [times[bisect_right(times, t) - 1] for t in range(START, N)]
    additive = START + sum(min(1.0, min(1.0, 6 * p / (s + 1)) * (1 + excess[s])) for s in current)
    assert promise.factor == pytest.approx(1 + sum(excess[s] for s in current) / N)
    assert promise.additive == pytest.approx(L * additive)
    assert promise.gaps == ()
    assert promise.holds


def test_the_promise_of_low_rank_is_that_of_theorem_7():
    """2 beta of Lemma 12 at the rows of the refresh, with the constant there and a bound of the checks."""
    model = learn(OnlineLowRank(1, solve="coreset", **AUTO))
    promise, times, block = theory.certificate(model, L), refreshes(1.5, START), model._stream.sketch.settings.block
    current = [times[bisect_right(times, t) - 1] for t in range(START, N)]

    def beta(s):
        checks = 2 + min(s / block, math.log(s) / math.log(1.1))
        return min(1.0, (2 * (1 + 4 / 3 * 5.6 * 12) * theory.adaptive_constant(1, s) + 16 * checks) / s)

    assert promise.additive == pytest.approx(L * (START + sum(min(1.0, 2 * beta(s)) for s in current)))
    assert certificates._exchanged(lambda n: 3 / n)(101) == pytest.approx(0.06), "here beta is one for most rows"
    assert promise.factor == pytest.approx(1 + sum(theory.adaptive_epsilon(s) for s in current) / N)
    assert promise.gaps == ()


def test_the_promise_of_clusters_is_that_of_theorem_2_with_the_size_of_the_rows():
    model = learn(OnlineClustering(2, solve="coreset", warm_start=False, **AUTO))
    promise, times = theory.certificate(model, L), refreshes(1.5, START)
    current = [times[bisect_right(times, t) - 1] for t in range(START, N)]
    beta = {s: min(1.0, (2 + 13 * theory.adaptive_clustering_size(2, s + 1)) / (s + 1)) for s in times}
    assert promise.additive == pytest.approx(L * (START + sum(beta[s] for s in current)))
    assert promise.factor == pytest.approx(1 + sum(theory.adaptive_epsilon(s, 10.0) for s in current) / N)
    assert promise.gaps == ()


def test_a_coreset_that_holds_all_rows_by_chance_is_a_sample():
    """Four rows, each kept with probability 3/4: by some seed all are, with weights above one."""
    for seed in range(200):
        settings = SETTINGS | {"coreset_size": 3, "random_state": seed}
        model = BatchToOnline(mean, coreset=coresets.Uniform, loss=squared, **settings).partial_fit(rows(4)[0])
        if len(model.coreset_) == 4:
            break
    assert model.coreset_.weights.max() > 1
    assert certificates._distortion(model.stream.view()) == pytest.approx(1 / (1 - EPSILON))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"refresh": OnChange(start=START)}, "not bounded where the coreset grows"),
        ({"half_life": 1_000}, "older rows count less"),
        ({"window": 1_000}, "older rows count less"),
    ],
)
def test_what_no_theorem_covers_is_named_with_an_accuracy_that_improves(settings, words):
    n = 100 if isinstance(settings.get("refresh"), OnChange) else 1_500
    model = learn(OnlineRegression(solve="coreset", **AUTO | settings), n)
    promise = theory.certificate(model, L)
    assert any(words in gap for gap in promise.gaps), promise.gaps
    assert promise.is_vacuous


def test_the_accuracy_of_rows_at_fixed_distances_is_that_of_their_refits():
    accuracy, policy = (lambda s: 1 / s), Every(1_000, start=100)
    expected = (900 / 100 + 1_000 / 1_000 + 1_000 / 2_000) / 3_000
    assert certificates._mean_accuracy(accuracy, policy, 3_000) == pytest.approx(expected)


def test_nothing_is_promised_where_targets_vary_along_dropped_directions():
    """Two columns are nearly equal, and the target follows their difference."""
    rng = RNG(0)
    X = rng.normal(size=(1_500, 1)) + [0.0, 0.0] + 1e-9 * rng.normal(size=(1_500, 2))
    model = OnlineRegression(solve="coreset", **AUTO).partial_fit(X, 1e9 * (X[:, 0] - X[:, 1]))
    assert any("directions were dropped" in gap for gap in theory.certificate(model, L).gaps)
