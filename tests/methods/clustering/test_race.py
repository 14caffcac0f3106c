"""The exponential race has the law of D^z sampling, changes its winners as rarely as theory says, and certifies them.

Tables of counts are judged by the chi-square test and samples by Kolmogorov's, at a false-alarm rate of 1e-6. What
judges the race must also convict races with a known defect.
"""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from batch2online import sampling
from batch2online.history import History
from batch2online.methods import scores
from batch2online.methods.clustering import race
from batch2online.methods.clustering.race import Race, exponentials
from batch2online.methods.clustering.sketch import drawn_seeds
from batch2online.rows import Rows

FALSE_ALARM = 1e-6
IDS = np.arange(200_000)


def variables(stage, seed=0):
    return exponentials(seed, IDS, np.full(len(IDS), stage))


# -- the exponential variables -------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [0, 7, 8, 21])
def test_variables_are_exponential(stage):
    assert stats.kstest(variables(stage), "expon").pvalue > FALSE_ALARM
    assert stats.kstest(1.02 * variables(stage), "expon").pvalue < FALSE_ALARM


def looks_independent(u, v, bins=16):
    """Chi-square test of uniform pairs on a grid of cells."""
    cells = (u * bins).astype(np.int64) * bins + (v * bins).astype(np.int64)
    return stats.chisquare(np.bincount(cells, minlength=bins * bins)).pvalue > FALSE_ALARM


def uniforms(stage, seed=0):
    return -np.expm1(-variables(stage, seed))


PAIRS = {
    "coarse and detail": lambda: divmod(256 * uniforms(3), 1.0),
    "neighbouring stages": lambda: (uniforms(0), uniforms(1)),
    "stages on two pages": lambda: (uniforms(0), uniforms(8)),
    "details of two stages": lambda: (256 * uniforms(0) % 1, 256 * uniforms(1) % 1),
    "two seeds": lambda: (uniforms(0), uniforms(0, seed=1)),
    "neighbouring ids": lambda: (uniforms(0)[::2], uniforms(0)[1::2]),
    "race and inclusion": lambda: (
        uniforms(0),
        sampling.inclusion_uniforms(sampling.words_of(0, sampling.SAMPLING, IDS)),
    ),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_variables_that_should_be_independent_look_so(pair):
    u, v = pair()
    u = u / 256 if u.max() > 1 else u
    assert looks_independent(u, v)
    mixed = np.where(np.arange(len(v)) % 20 == 0, u, v)
    assert not looks_independent(u, mixed)


# -- how often seeds change ----------------------------------------------------------------------------


def seed_changes(k, n, seed):
    """At how many rows the seeds of a random stream change, the first rows included."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    history, runs, old, changes = History(10_000, 2, 0), Race(k, 2.0, seed), None, 0
    for t in range(n):
        history = history.append(rows_of(X[t : t + 1], np.ones(1), t))
        runs = runs.updated(history)
        seeds = runs.run(history)
        changes += old is None or not np.array_equal(seeds, old)
        old = seeds
    return changes


@pytest.mark.slow
def test_seeds_change_as_rarely_as_theory_says():
    """Row t is among the seeds of the first t with probability k / t, so k + k (H_n - H_k) changes are expected.

    The band is five standard deviations of as many independent events (false alarms below 1e-6).
    """
    k, n, seeds = 3, 120, 12
    p = np.minimum(1.0, k / np.arange(1, n + 1))
    changes = np.mean([seed_changes(k, n, seed) for seed in range(seeds)])
    assert p.sum() == pytest.approx(k + k * (1 / np.arange(k + 1, n + 1)).sum())
    assert abs(changes - p.sum()) < 5 * np.sqrt((p * (1 - p)).sum() / seeds)


# -- winners among the leaders are winners of all ------------------------------------------------------


def rows_of(points, weights, first_id=0):
    return Rows(points, np.empty((len(points), 0)), weights, first_id + np.arange(len(points)))


def raced(X, weights, k, z, cuts):
    """Seeds of an incremental race that looked at every cut."""
    history, runs, seeds = History(1_000, X.shape[1], 0), Race(k, z, 5), np.empty(0)
    for start, stop in zip([0, *cuts], [*cuts, len(X)], strict=True):
        history = history.append(rows_of(X[start:stop], weights[start:stop], start))
        runs = runs.updated(history)
        seeds = runs.run(history)
    return seeds


@st.composite
def streams(draw):
    n, d = draw(st.integers(1, 900)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.standard_t(draw(st.sampled_from([2, 30])), size=(n, d))
    if draw(st.booleans()):
        X = draw(st.sampled_from([1e-9, 1e-2])) * X + rng.integers(4, size=(n, 1))
    if draw(st.booleans()):
        X = np.round(X)
    X = (X + draw(st.sampled_from([0.0, 1e8]))) * draw(st.sampled_from([1.0, 1e-60, 1e60]))
    weights = 10.0 ** rng.uniform(-3, 3, size=n) if draw(st.booleans()) else np.ones(n)
    cuts = sorted(set(draw(st.lists(st.integers(1, n), max_size=5))) - {n})
    return X, weights, cuts


@given(
    streams(), st.sampled_from([1, 3, 10, 25]), st.sampled_from([1.0, 1.001, 1.5, 2.0, 3.0]), st.sampled_from([4, 256])
)
@settings(max_examples=100, deadline=None)
@pytest.mark.slow
def test_the_race_of_few_is_the_race_of_all(stream, k, z, kept):
    X, weights, cuts = stream
    with patch.object(race, "_KEPT", kept):
        assert np.array_equal(raced(X, weights, k, z, cuts), scores.clustering_seeds(X, k, z, 5, weights))


def test_a_race_that_certifies_too_early_is_found():
    X = 1e-3 * np.random.default_rng(0).normal(size=(900, 2)) + np.repeat([[0], [9]], 450, axis=0)
    expected = scores.clustering_seeds(X, 6, 2.0, 5)
    with patch.object(race, "_KEPT", 4):
        assert np.array_equal(raced(X, np.ones(900), 6, 2.0, [600]), expected)
        with patch.object(Race, "_factor", lambda self, seeds: 0.0):
            assert not np.array_equal(raced(X, np.ones(900), 6, 2.0, [600]), expected)


@pytest.mark.parametrize("z", [1.0, 1.001, 1.1, 2.0, 3.0, 20.0])
def test_rows_far_from_the_first_ones_may_win(z):
    X = np.random.default_rng(0).normal(size=(900, 3))
    X[600:] += 1e3
    assert np.array_equal(raced(X, np.ones(900), 4, z, [600]), scores.clustering_seeds(X, 4, z, 5))


@pytest.mark.parametrize("searched", [0.1, race._SEARCHED])
@pytest.mark.parametrize("z", [1.0, 2.0, 5.0])
def test_stages_that_share_a_search_have_the_winners_of_all_rows(z, searched):
    """Keys rise by much from stage to stage while seeds find new clusters: a list then decides few stages."""
    rng = np.random.default_rng(3)
    X = 1e-3 * rng.normal(size=(2_000, 2)) + rng.normal(size=(12, 2))[rng.integers(12, size=2_000)]
    weights = rng.uniform(0.5, 2, size=2_000)
    with patch.object(race, "_SEARCHED", searched):
        assert np.array_equal(raced(X, weights, 40, z, [700]), scores.clustering_seeds(X, 40, z, 5, weights))


@pytest.mark.parametrize("z", [1.0, 2.0, 3.0])
@pytest.mark.slow
def test_seeds_of_kept_rows_are_those_of_the_plain_function(z):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 300))
        points = rng.integers(0, 12, size=(n, 2)).astype(float) if seed % 3 else rng.normal(size=(n, 2))
        ids = np.sort(rng.choice(10 * n, size=n, replace=False)) if seed % 2 else np.arange(n)
        rows = Rows(points, np.empty((n, 0)), rng.uniform(0.1, 50, size=n), ids)
        expected = scores.clustering_seeds(points, 20, z, seed, weights=rows.weights, ids=ids)
        assert np.array_equal(drawn_seeds(rows, 20, z, seed), expected)
