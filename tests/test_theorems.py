"""The theorems of docs/theory.md, measured: average sensitivity, regret, inconsistency.

Counts are judged by exact binomial or Poisson limits at a false-alarm rate of 1e-6, and every test has a planted defect
that it must convict.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from batch2online import BatchToOnline, coresets, theory
from batch2online.core import randomness, sampling
from batch2online.coresets import scores
from batch2online.refresh import Geometric, OnChange

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6
EPSILON = 0.9
SIZE = 20


# -- average sensitivity: delete each row in turn, all other rows keep their uniforms -------------------------


def state(q, words):
    """For each point its weight in the coreset, 0 if it is not in it."""
    exponents = sampling.exponents(np.maximum(q, 1e-300), randomness.rounding_uniforms(words), EPSILON)
    keep = sampling.kept(randomness.inclusion_uniforms(words), q)
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
    words = [
        randomness.words(seed + shift, randomness.SAMPLING, range(n)) for shift in (0, 0 if same_uniforms else 10**6)
    ]
    before = state(sampling.probabilities(score(rows), SIZE / total), words[0])
    after = state(sampling.probabilities(without(rows, i), SIZE / total), words[1])
    return bool(before[i]) or bool((np.delete(before, i) != np.delete(after, i)).any())


def is_below(count, trials, bound):
    """Whether a count of independent trials is plausible for a probability of at most ``bound``."""
    return stats.binom.sf(count - 1, trials, min(1.0, bound)) > FALSE_ALARM


TRIALS = 1_500


@pytest.mark.parametrize("name", SCORES)
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


def test_the_construction_changes_as_the_formula_says():
    """The same, by forgetting a row of a real construction."""
    count = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        rows, i = rng.normal(size=(300, COLUMNS)) * [4.0, 2.0, 1.0, 1.0], int(rng.integers(300))
        settings = {"coreset_size": SIZE, "epsilon": EPSILON, "random_state": seed, "keep_history": True}
        construction = coresets.Leverage(**settings).add(rows)
        before = construction.coreset()
        differs = construction.forget([i]).coreset() != before
        assert differs == is_changed("leverage", 300, seed)
        count += differs
    assert is_below(count, 300, BOUNDS["leverage"](300, SIZE / COLUMNS))


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
        values.append(model.partial_fit(X)._engine.caught_up().loss - N * COIN * (1 - COIN))
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


def changes_by_doubling(policy, size=5):
    """Changes between rows 250 and 500, 500 and 1000, 1000 and 2000, over several seeds."""
    counts = np.zeros(3, dtype=int)
    for seed in range(5):
        X = np.random.default_rng(seed).normal(size=(2000, 1))
        model = BatchToOnline(
            mean,
            coreset=coresets.Uniform,
            loss=squared,
            coreset_size=size,
            epsilon=EPSILON,
            refresh=policy,
            random_state=seed,
        )
        at = np.array([event.at for event in model.partial_fit(X).changes_])
        counts += np.histogram(at, bins=[250, 500, 1000, 2001])[0]
    return counts


def test_changes_of_on_change_grow_like_the_logarithm():
    """As many in each doubling, and no more than the sum of average sensitivities."""
    counts = changes_by_doubling(OnChange())
    allowed = 5 * theory.on_change_inconsistency(
        lambda n: theory.leverage_sensitivity(n, 5, 1, EPSILON), 500, start=250
    )
    assert counts.min() > 10
    assert (stats.poisson.sf(counts - 1, allowed) > FALSE_ALARM).all()
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_changes_at_a_constant_rate_are_convicted():
    counts = np.array([250, 500, 1000])
    assert stats.chisquare(counts).pvalue < FALSE_ALARM


def test_lemma_4_2_leaving_one_out_costs_no_more_than_the_sensitivity():
    """Average loss of rows left out, minus that of rows kept: no more than the share of deletions that matter."""
    shares = []
    for seed in range(40):
        X = np.random.default_rng(seed).uniform(size=(300, 1))
        settings = {"coreset_size": SIZE, "epsilon": EPSILON, "random_state": seed, "keep_history": True}
        construction = coresets.Uniform(**settings).add(X)
        whole, deleted = construction.coreset(), np.random.default_rng(seed).choice(300, 20, replace=False)
        without = [construction.copy().forget([int(i)]).coreset() for i in deleted]
        left_out = [squared(mean(c.points, c.weights), X[[i]])[0] for i, c in zip(deleted, without, strict=True)]
        kept = squared(mean(whole.points, whole.weights), X[deleted])
        shares.append(np.mean([other != whole for other in without]))
        assert abs(np.mean(left_out) - kept.mean()) <= shares[-1]
    assert 0 < np.mean(shares) < 0.5
