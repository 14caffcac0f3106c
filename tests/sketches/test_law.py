"""The law of the coreset: exact by enumeration, and in large samples, where a planted bias of 1 % must show.

Sums are judged by Bernstein's inequality and tables of counts by the chi-square test, each at a false-alarm rate of
at most 1e-6. What judges the true sampler must also convict samplers with a known defect.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

from batch2online import sampling
from batch2online.coresets import Leverage
from batch2online.methods import scores
from streams import stream

FALSE_ALARM = 1e-6
LEVELS_OF_V = np.arange(2**20, dtype=np.uint64)


def grid(q, epsilon):
    """The powers of 1 + epsilon with lo <= 1/q < hi."""
    exponent = np.floor(-np.log(q) / np.log1p(epsilon) + 1e-12)
    lo = (1 + epsilon) ** exponent
    return lo, lo * (1 + epsilon)


def share_of_hi(q, epsilon):
    lo, hi = grid(q, epsilon)
    return (1 / q - lo) / (hi - lo)


def sampled_weights(q, words, epsilon, bias=1.0):
    """The weight of each point, 0 for those not kept; a bias in keeping is a defect."""
    keep = sampling.kept(sampling.inclusion_uniforms(words), bias * q)
    exponents = sampling.exponents(q, sampling.rounding_uniforms(words), epsilon)
    return np.where(keep, sampling.weights_of(exponents, epsilon), 0.0)


# -- by enumeration ------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [1.0, 0.75, 1 / 3, 0.01, 1e-5])
def test_exactly_the_share_q_of_words_keeps_a_point(q):
    first_lost = math.floor(q * 2**44 + 0.5)
    around = np.array([k for k in (first_lost - 1, first_lost) if k < 2**44], dtype=np.uint64)
    keep = sampling.kept(sampling.inclusion_uniforms(around << np.uint64(20)), np.full(len(around), q))
    assert keep.tolist() == [True, False][: len(around)]


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.02])
@pytest.mark.parametrize("q", [1.0, 0.999, 0.75, 1 / 3, 0.01, 1e-5])
def test_weights_are_neighbours_on_the_grid_in_the_right_proportion(q, epsilon):
    weights = sampled_weights(np.full(2**20, q), LEVELS_OF_V, epsilon)
    lo, hi = grid(q, epsilon)
    is_hi = np.isclose(weights, hi, rtol=1e-9)
    assert (is_hi | np.isclose(weights, lo, rtol=1e-9)).all()
    assert is_hi.mean() == pytest.approx(share_of_hi(q, epsilon), abs=2**-20)
    assert q * weights.mean() == pytest.approx(1.0, abs=epsilon * 2**-20)


def test_the_expected_weighted_gram_matrix_is_that_of_all_rows():
    rows = np.random.default_rng(0).standard_t(3, size=(12, 3))
    q = sampling.probabilities(scores.leverage(rows), 3.0)
    assert 0 < (q < 1).sum() < 12
    expected_weights = [p * sampled_weights(np.full(2**20, p), LEVELS_OF_V, 0.3).mean() for p in q]
    gram = (rows * np.array(expected_weights)[:, None]).T @ rows
    np.testing.assert_allclose(gram, rows.T @ rows, atol=1e-6 * np.square(rows).sum())


@pytest.mark.parametrize("epsilon", [0.5, 0.02])
def test_as_probabilities_fall_no_point_returns_and_no_weight_falls(epsilon):
    words = sampling.words(1, sampling.SAMPLING, range(2000))
    weights = np.array([sampled_weights(np.full(2000, q), words, epsilon) for q in np.geomspace(1, 1e-3, 500)])
    earlier, later = weights[:-1], weights[1:]
    assert ((later == 0) | (later >= earlier)).all()
    assert (later[earlier == 0] == 0).all()
    assert (weights[0] == 1).all()


# -- in large samples ----------------------------------------------------------------------------------


def is_plausible(total, expected, variance, largest):
    """Bernstein's inequality for a sum of independent terms within ``largest`` of their means."""
    log = math.log(2 / FALSE_ALARM)
    return abs(total - expected) <= math.sqrt(2 * variance * log) + largest * log / 3


def has_the_right_law(sampler, epsilon=0.02, n=3_000_000):
    """Whether counts and weights of a sampler agree with kept probability q and expected weight 1."""
    q = np.random.default_rng(0).uniform(0.2, 0.9, size=n)
    weights = sampler(q, sampling.words(5, sampling.SAMPLING, range(n)), epsilon)
    lo, hi = grid(q, epsilon)
    up = share_of_hi(q, epsilon)
    second_moment = q * (lo**2 * (1 - up) + hi**2 * up)
    return is_plausible((weights > 0).sum(), q.sum(), (q * (1 - q)).sum(), 1.0) and is_plausible(
        weights.sum(), n, (second_moment - 1).sum(), hi.max()
    )


def keeps_one_percent_more(q, words, epsilon):
    return sampled_weights(q, words, epsilon, bias=1.01)


def keeps_one_percent_less(q, words, epsilon):
    return sampled_weights(q, words, epsilon, bias=0.99)


def weighs_one_percent_more(q, words, epsilon):
    return 1.01 * sampled_weights(q, words, epsilon)


def rounds_weights_down(q, words, epsilon):
    return np.where(sampled_weights(q, words, epsilon) > 0, grid(q, epsilon)[0], 0.0)


@pytest.mark.slow
def test_large_samples_have_the_right_law():
    assert has_the_right_law(sampled_weights)


@pytest.mark.parametrize(
    "defective", [keeps_one_percent_more, keeps_one_percent_less, weighs_one_percent_more, rounds_weights_down]
)
@pytest.mark.few(1)
def test_a_bias_of_one_percent_is_found(defective):
    assert not has_the_right_law(defective)


def have_the_right_sizes(q, sizes):
    return is_plausible(sum(sizes), len(sizes) * q.sum(), len(sizes) * (q * (1 - q)).sum(), 1.0)


def test_coresets_have_the_expected_size():
    X, _ = stream("heavy_tailed", 4000)
    constructions = [Leverage(coreset_size=2000, random_state=seed).add(X) for seed in range(400)]
    q = sampling.probabilities(scores.leverage(X), constructions[0].sketch.constant)
    sizes = [len(construction.coreset()) for construction in constructions]
    assert 0 < (q < 1).sum() < len(q)
    assert have_the_right_sizes(q, sizes)
    assert not have_the_right_sizes(1.01 * q, sizes)


# -- independence --------------------------------------------------------------------------------------


def looks_independent(u, v, bins=16):
    """Chi-square test of uniform pairs on a grid of cells."""
    cells = (u * bins).astype(np.int64) * bins + (v * bins).astype(np.int64)
    counts = np.bincount(cells, minlength=bins * bins)
    return stats.chisquare(counts).pvalue > FALSE_ALARM


def inclusion(seed, stream, ids):
    return sampling.inclusion_uniforms(sampling.words(seed, stream, ids))


IDS = range(1_000_000)


def both_uniforms_of_a_point():
    words = sampling.words(0, sampling.SAMPLING, IDS)
    return sampling.inclusion_uniforms(words), sampling.rounding_uniforms(words)


def neighbouring_ids(lag):
    pairs = inclusion(0, sampling.SAMPLING, range(2 * len(IDS))).reshape(-1, 2, lag)
    return pairs[:, 0].ravel(), pairs[:, 1].ravel()


def two_streams():
    return inclusion(0, sampling.SAMPLING, IDS), sampling.uniforms(0, sampling.TOLERANCE, IDS)


def two_seeds():
    return inclusion(0, sampling.SAMPLING, IDS), inclusion(1, sampling.SAMPLING, IDS)


@pytest.mark.parametrize(
    "pair",
    [
        both_uniforms_of_a_point,
        pytest.param(partial(neighbouring_ids, 1), id="ids 1 apart"),
        pytest.param(partial(neighbouring_ids, 2), id="ids 2 apart"),
        pytest.param(partial(neighbouring_ids, 4), id="ids 4 apart"),
        two_streams,
        two_seeds,
    ],
)
def test_uniforms_that_should_be_independent_look_so(pair):
    assert looks_independent(*pair())


def test_a_dependence_of_one_percent_is_found():
    u, v = both_uniforms_of_a_point()
    v[::100] = u[::100]
    assert not looks_independent(u, v)
