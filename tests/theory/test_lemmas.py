"""The lemmas behind the bounds of docs/proofs.md, for every deletion of small data sets."""

from __future__ import annotations

import numpy as np
import pytest

from batch2online import sampling, theory
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


def constant(rows):
    """A constant that grows like the root of the rows, as that of ``epsilon="auto"``."""
    return 0.5 + 0.3 * np.sqrt(rows)


CHECKS = (12, 15, 20, 27, 40)


def least_probabilities(score, rows, hole=None):
    """Running minima over the checks of ``min(1, c(t) s(t))`` of each row; a row left out leaves a hole."""
    q, kept = np.ones(len(rows)), np.arange(len(rows)) != hole
    for check in CHECKS:
        some = np.flatnonzero(kept[:check])
        q[some] = np.minimum(q[some], constant(check) * score(rows[some]))
    return q


def first_checks(n):
    return np.array([min(check for check in CHECKS if check > i) for i in range(n)])


SCORES = {"leverage": scores.leverage, "ridge": lambda rows: scores.ridge_leverage(rows, 1)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", SCORES)
def test_lemma_11_running_minima_are_within_the_sandwich_and_lag_by_two(kind, seed):
    rows = rows_of(seed)
    q, own, first = least_probabilities(SCORES[kind], rows), SCORES[kind](rows), first_checks(len(rows))
    assert (np.minimum(1, constant(first) * own) <= q + ROUNDING).all()
    assert (q <= np.minimum(1, constant(40) * own) + ROUNDING).all()
    assert np.mean(constant(40) / constant(first)) <= theory.bounds.LAG


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", SCORES)
def test_lemma_12_running_minima_rise_by_little_over_all_holes(kind, seed):
    """The rises of all rows over all holes, those of high scores counted with one: the sum that the proof bounds."""
    rows, score = rows_of(seed), SCORES[kind]
    q = least_probabilities(score, rows)
    total, highest, rise = (4, 1 / 2, 2.0) if kind == "leverage" else (2, 1 / 8, 4 / 3 * (4 + 8 / 5))
    at_first = np.array([score(rows[:check])[i] for i, check in enumerate(first_checks(len(rows)))])
    low = np.flatnonzero(at_first <= highest)
    others = [np.delete(least_probabilities(score, rows, i) - q, i) for i in low]
    assert min(each.min() for each in others) >= -ROUNDING
    assert sum(each.sum() for each in others) <= rise * q[q < 1].sum()
    assert (at_first > highest).sum() <= total / highest * len(CHECKS)
    bound = (
        theory.running_minimum_sensitivity(10**9, 7.0, total, 0.1, 5)
        if kind == "leverage"
        else theory.ridge_running_minimum_sensitivity(10**9, 7.0, 1, 0.1, 5)
    )
    reacting = total * 7.0 * (1 + rise * 12.0) + total / highest * 5
    assert bound * 10**9 == pytest.approx(reacting)


def variance_of_weight(q, epsilon):
    """Of a row's weight in the coreset, 0 if it is not in it: E w^2 - 1, w rounded to a power at random."""
    low = (1 + epsilon) ** np.floor(-np.log(q) / np.log1p(epsilon) + 1e-12)
    return q * (1 / q**2 + (1 / q - low) * (low * (1 + epsilon) - 1 / q)) - 1


@pytest.mark.parametrize("epsilon", [0.1, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_theorem_8_the_variance_of_a_fit_is_the_optimum_over_the_constant(epsilon, seed):
    """E |z|^2 <= (1 + r) OPT / c, whatever the columns and tails; E |J - I|^2 <= (1 + r) d / c."""
    rng, c = np.random.default_rng(seed), 8.0
    A, b = rows_of(seed, n=300), rng.standard_t(2, size=300)
    residuals = b - A @ np.linalg.lstsq(A, b)[0]
    tau, optimum = scores.leverage(A), np.square(residuals).sum()
    both = scores.leverage(np.column_stack([A, b]))
    np.testing.assert_allclose(both, tau + np.square(residuals) / optimum, atol=1e-9)
    variance = np.where(c * both < 1, variance_of_weight(np.minimum(1, c * both), epsilon), 0.0)
    rounding = 1 + epsilon**2 / (4 * (1 + epsilon))
    assert (variance <= rounding / np.minimum(1, c * both) + ROUNDING).all()
    assert (variance * tau) @ np.square(residuals) <= rounding * optimum / c * 4 / 5
    assert variance @ np.square(tau) <= rounding * A.shape[1] / c
    assert theory.coreset_excess(c, 4, epsilon) == pytest.approx(rounding * 2 * (8 + 8 * 8**0.5) / c)
