"""The theorems of docs/proofs.md, measured: average sensitivity, regret, inconsistency.

Counts are judged by exact binomial or Poisson limits at a false-alarm rate of 1e-6, and every test has a planted defect
that it must convict.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from batch2online import BatchToOnline, OnlineRegression, coresets, sampling, theory
from batch2online.methods import scores
from batch2online.refresh import Adaptive, Geometric, OnChange

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6
EPSILON = 0.9
SIZE = 20


# -- average sensitivity: delete each row in turn, all other rows keep their uniforms -------------------------


def state(q, words):
    """For each point its weight in the coreset, 0 if it is not in it."""
    exponents = sampling.exponents(np.maximum(q, 1e-300), sampling.rounding_uniforms(words), EPSILON)
    keep = sampling.kept(sampling.inclusion_uniforms(words), q)
    return np.where(keep, sampling.weights_of(exponents, EPSILON), 0.0)


def leverage_without(rows, i):
    """Leverage of all rows after row i is deleted, by the rank-one formula; that of i itself is 0."""
    inverse = np.linalg.inv(rows.T @ rows)
    cross = rows @ inverse @ rows[i]
    after = np.einsum("ij,jk,ik->i", rows, inverse, rows) + np.square(cross) / (1 - cross[i])
    after[i] = 0.0
    return after


def from_scratch_without(score):
    def scored(rows, i):
        after = score(np.delete(rows, i, axis=0))
        return np.insert(after, i, 0.0)

    return scored


def clustering_scores(rows):
    seeds = rows[np.argsort(rows[:, 0])[[0, -1]]]
    return scores.clustering(rows, seeds, 2, 2.0)


RANK, COLUMNS = 2, 4
SCORES = {
    "leverage": (scores.leverage, leverage_without, COLUMNS),
    "uniform": (lambda rows: np.full(len(rows), 1 / len(rows)), None, 1),
    "ridge": (lambda rows: scores.ridge_leverage(rows, RANK), None, 2 * RANK),
    "clustering": (clustering_scores, None, 1),
}
BOUNDS = {
    "leverage": lambda n, c: theory.leverage_sensitivity(n, c, COLUMNS, EPSILON),
    "uniform": lambda n, c: theory.leverage_sensitivity(n, c, 1, EPSILON),
    "ridge": lambda n, c: theory.ridge_leverage_sensitivity(n, c, RANK, EPSILON),
    "clustering": lambda n, c: theory.clustering_sensitivity(n, c, 2, EPSILON),
}


def is_changed(name, n, seed, same_uniforms=True):
    """Whether deleting a random one of n random rows changes the coreset."""
    score, without, total = SCORES[name]
    without = without or from_scratch_without(score)
    rng = np.random.default_rng(seed)
    rows, i = rng.normal(size=(n, COLUMNS)) * [4.0, 2.0, 1.0, 1.0], int(rng.integers(n))
    words = [sampling.words(seed + shift, sampling.SAMPLING, range(n)) for shift in (0, 0 if same_uniforms else 10**6)]
    before = state(sampling.probabilities(score(rows), SIZE / total), words[0])
    after = state(sampling.probabilities(without(rows, i), SIZE / total), words[1])
    return bool(before[i]) or bool((np.delete(before, i) != np.delete(after, i)).any())


def is_below(count, trials, bound):
    """Whether a count of independent trials is plausible for a probability of at most ``bound``."""
    return stats.binom.sf(count - 1, trials, min(1.0, bound)) > FALSE_ALARM


TRIALS = 700


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.few(1)
@pytest.mark.slow
def test_average_sensitivity_is_below_its_bound_and_falls_like_one_over_n(name):
    counts = {n: sum(is_changed(name, n, seed) for seed in range(TRIALS)) for n in (300, 1200)}
    for n, count in counts.items():
        assert is_below(count, TRIALS, BOUNDS[name](n, SIZE / SCORES[name][2]))
    # four times the rows, a quarter of the changes: one of five falls to the larger set
    assert counts[1200] > 10
    assert stats.binomtest(counts[1200], sum(counts.values()), 0.2).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", ["leverage", "uniform"])
def test_without_the_coupling_the_bound_is_convicted(name):
    count = sum(is_changed(name, 1200, seed, same_uniforms=False) for seed in range(100))
    assert not is_below(count, 100, BOUNDS[name](1200, SIZE / SCORES[name][2]))


# -- regret and inconsistency --------------------------------------------------------------------------------


def mean(points, weights):
    return np.average(points, axis=0, weights=weights)


def last_point(points, weights):
    """A batch algorithm of the greatest sensitivity."""
    return points[-1]


def squared(theta, points):
    return np.square(points - theta).sum(axis=1)


N, RUNS, COIN = 20_000, 12, 0.5


def regret_of(algorithm, **settings):
    """Prequential loss minus hindsight optimum, for each of several orders and seeds; losses are in [0, 1]."""
    values = []
    for seed in range(RUNS):
        X = (np.random.default_rng(seed).permutation(N) < COIN * N).astype(float)[:, None]
        model = BatchToOnline(
            algorithm, loss=squared, coreset_size=SIZE, epsilon=EPSILON, random_state=seed, **settings
        )
        values.append(model.partial_fit(X)._stream.view().current.loss - N * COIN * (1 - COIN))
    return np.array(values)


def allowed():
    """What the theorem allows; the mean of about 20 points of similar weights costs at most 1.1 times the optimum."""
    beta = lambda n: theory.leverage_sensitivity(n, SIZE, 1, EPSILON)  # noqa: E731
    return 0.1 * N * COIN * (1 - COIN) + theory.geometric_regret(beta, N, start=20, growth=1.2)


def test_measured_regret_is_below_the_geometric_bound():
    regret = regret_of(mean, coreset=coresets.Uniform, refresh=Geometric(1.2))
    assert regret.mean() + 6 * regret.std(ddof=1) / np.sqrt(RUNS) < allowed()


def test_an_algorithm_of_high_sensitivity_exceeds_it():
    regret = regret_of(last_point, coreset=coresets.Uniform, refresh=Geometric(1.2))
    assert regret.mean() > allowed()


def clipped(seed, policy):
    """Clipped losses of exact least squares on targets of which one in a thousand is huge, and what is promised."""
    n, L = 20_000, 1.0
    y = np.where(np.random.default_rng(seed).permutation(n) % 1_000 == 0, 1e4, 0.0)
    model, loss, X = OnlineRegression(refresh=policy, random_state=seed), 0.0, np.zeros((n, 1))
    for start in range(0, n, 50):
        rows = slice(start, start + 50)
        if start:
            loss += np.minimum(np.square(model.predict(X[rows]) - y[rows]), L).sum()
        model.partial_fit(X[rows], y[rows])
    promise = theory.certificate(model, L)
    return loss, promise, n * L / 1_000  # predicting zero costs L for each target that is not


@pytest.mark.parametrize("policy", [Geometric(1.2), Adaptive(2.0, 1.2)], ids=["theorem 2", "theorem 5"])
@pytest.mark.few(1)
def test_clipped_losses_are_bounded_by_the_optimum_of_losses_that_are_not(policy):
    runs = [clipped(seed, policy) for seed in range(5)]
    for loss, promise, optimum_of_clipped in runs:
        assert loss <= promise.promised
        assert promise.is_clipped
        assert loss > promise.factor * optimum_of_clipped + promise.loss_bound * 6 * 2 * np.log(20_000)
        assert "clipped" in str(promise)


def changes_by_doubling(policy, algorithm=mean, coreset=coresets.Uniform, size=5, seeds=5):
    """Changes between rows 250 and 500, 500 and 1000, 1000 and 2000, over several seeds."""
    counts = np.zeros(3, dtype=int)
    for seed in range(seeds):
        X = np.random.default_rng(seed).normal(size=(2000, 1))
        model = BatchToOnline(
            algorithm,
            coreset=coreset,
            loss=squared,
            coreset_size=size,
            epsilon=EPSILON,
            refresh=policy,
            random_state=seed,
        )
        at = np.array([event.at for event in model.partial_fit(X).changes_])
        counts += np.histogram(at, bins=[250, 500, 1000, 2001])[0]
    return counts


def are_logarithmic(counts):
    """Whether doublings have as many changes each, and no more than the sum of average sensitivities."""
    beta = lambda n: theory.leverage_sensitivity(n, 5, 1, EPSILON)  # noqa: E731
    most = [5 * theory.on_change_inconsistency(beta, 2 * n, start=n) for n in (250, 500, 1000)]
    few = (stats.poisson.sf(counts - 1, most) > FALSE_ALARM).all()
    return bool(few) and stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.full
def test_changes_of_on_change_grow_like_the_logarithm():
    counts = changes_by_doubling(OnChange())
    assert counts.min() > 10
    assert are_logarithmic(counts)


@pytest.mark.full
def test_an_algorithm_that_changes_at_a_constant_rate_is_convicted():
    """Every tenth row changes the model: no more changes than allowed at first, but twice as many in each doubling."""
    every_tenth = lambda points, weights: points[(len(points) // 10) * 10 - 1]  # noqa: E731
    counts = changes_by_doubling(OnChange(), every_tenth, coresets.Everything, seeds=1)
    assert counts.tolist() == [25, 50, 101]
    assert not are_logarithmic(counts)
