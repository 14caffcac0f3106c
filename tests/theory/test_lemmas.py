"""The lemmas behind the bounds of docs/proofs.md, for every deletion of small data sets."""

from __future__ import annotations

import numpy as np
import pytest

from batch2online import sampling
from batch2online.methods import scores

ROUNDING = 1e-9


def rows_of(seed, n=40, d=4):
    rng = np.random.default_rng(seed)
    return rng.standard_t(2, size=(n, d)) * rng.exponential(size=d)


def raised(score, rows, i):
    """By how much the scores of all other rows rise when row i is deleted."""
    return score(np.delete(rows, i, axis=0)) - np.delete(score(rows), i)


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.5, 0.9])
def test_lemma_1_weights_change_rarely(epsilon):
    """The share of V for which the rounded weight changes as q' falls to q: at most (1 + 1/epsilon)(1 - q/q')."""
    V = (np.arange(20_000) + 0.5) / 20_000
    for larger in np.geomspace(1.0, 0.01, 23):
        for ratio in (1 - 1e-3, 0.99, 0.95, 1 / (1 + epsilon), 0.8):
            smaller = larger * ratio
            before = sampling.exponents(np.full(len(V), larger), V, epsilon)
            after = sampling.exponents(np.full(len(V), smaller), V, epsilon)
            assert (before != after).mean() <= min(1.0, (1 + 1 / epsilon) * (1 - ratio)) + 2 / len(V)


@pytest.mark.parametrize("seed", range(5))
def test_lemma_2_deleting_a_row_raises_the_other_leverage_scores_by_its_own(seed):
    rows = rows_of(seed)
    tau = scores.leverage(rows)
    for i in range(len(rows)):
        rise = raised(scores.leverage, rows, i)
        assert rise.min() >= -ROUNDING
        assert rise.sum() == pytest.approx(tau[i], abs=1e-6)


def test_lemma_2_a_row_of_leverage_one_raises_nothing():
    rows = np.vstack([np.eye(3)[:1] * 5, np.column_stack([np.zeros(20), rows_of(0, 20, 2)])])
    assert scores.leverage(rows)[0] == pytest.approx(1.0)
    assert raised(scores.leverage, rows, 0).sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("intercept", [False, True])
def test_lemma_3_ridge_leverage_scores_rise_by_2k_plus_3_times_its_own(seed, rank, intercept):
    rows = rows_of(seed, d=6) + 20 * intercept
    design = lambda r: np.column_stack([np.ones((len(r), int(intercept))), r])  # noqa: E731
    score = lambda r: scores.ridge_leverage(design(r), rank, intercept=intercept)  # noqa: E731
    around = lambda r: r - r.mean(axis=0) * intercept  # noqa: E731
    own = score(rows)
    assert own.sum() <= 2 * rank + intercept + ROUNDING
    ridge = lambda r: np.square(np.linalg.svd(around(r), compute_uv=False)[rank:]).sum() / rank  # noqa: E731
    for i in range(len(rows)):
        rise = raised(score, rows, i)
        fall = ridge(rows) - ridge(np.delete(rows, i, axis=0))
        assert rise.min() >= -ROUNDING
        assert rise.sum() <= (2 * rank + 3) * own[i] + ROUNDING
        assert 0 <= rank * fall <= (rank + 1) * own[i] * ridge(rows) * (1 + ROUNDING)


@pytest.mark.parametrize("seed", range(5))
def test_lemma_4_clustering_scores_rise_by_its_own_while_the_seeds_stay(seed):
    rows = rows_of(seed)
    score = lambda r: scores.clustering(r, rows[:3], 3, 2.0)  # noqa: E731
    own = score(rows)
    assert own.sum() == pytest.approx(1.0)
    for i in range(3, len(rows)):
        rise = raised(score, rows, i)
        assert rise.min() >= -ROUNDING
        assert rise.sum() == pytest.approx(own[i], abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_lemma_5_sensitivities_rise_by_the_total_times_its_own(seed):
    losses = np.random.default_rng(seed).exponential(size=(5, 8)) ** 3
    score = lambda points: (points / points.sum(axis=0)).max(axis=1)  # noqa: E731  # points are columns of losses
    own = score(losses.T)
    for i in range(8):
        rise = raised(score, losses.T, i)
        assert rise.min() >= 0
        assert rise.sum() <= own[i] * score(np.delete(losses.T, i, axis=0)).sum() + ROUNDING
