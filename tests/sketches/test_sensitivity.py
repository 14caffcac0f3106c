"""Coresets by a score of one's own: with the history and without it, a ready one for Lp regression."""

from __future__ import annotations

import numpy as np
import pytest

import state_bytes as storage
from batch2online.coresets import LewisScore, Sensitivity
from batch2online.methods import scores
from streams import STREAMS, stream


def length(points, weights, targets=None):
    return weights * np.square(points).sum(axis=1)


def share_of_length(points, weights, targets=None, *, summary):
    return length(points, weights) / summary


def total_length(points, weights, targets=None):
    return length(points, weights).sum()


def distance_from_mean(points, weights):
    """Not antitone: the mean moves."""
    return weights * np.square(points - np.average(points, axis=0, weights=weights)).sum(axis=1)


KINDS = {
    "whole": lambda **s: Sensitivity(length, coreset_size=300, random_state=5, **s),
    "bound": lambda **s: Sensitivity(
        share_of_length, summary=total_length, total_score=1, coreset_size=300, random_state=5, **s
    ),
}


def test_with_and_without_history_agree():
    X, _ = stream("heavy_tailed", 30_000)
    assert KINDS["whole"]().add(X).coreset() == KINDS["bound"]().add(X).coreset()


def test_without_history_few_rows_are_held():
    X, _ = stream("gaussian", 60_000)
    construction = KINDS["bound"]().add(X)
    assert construction.history is None
    assert sum(len(part.rows) for part in construction.sketch.parts) < 2_000


@pytest.mark.parametrize("kind", KINDS)
def test_forgetting_equals_never_having_seen(kind):
    X, _ = stream("heavy_tailed", 6_000)
    unwanted = np.arange(1_000, 3_000)
    construction = KINDS[kind](keep_history=True).add(X)
    before = construction.coreset()
    after = construction.forget(unwanted).coreset()
    remaining = np.setdiff1d(np.arange(6_000), unwanted)
    head, tail = KINDS[kind](keep_history=True), KINDS[kind](keep_history=True, first_id=3_000)
    fresh = head.add(X[:1_000]).merge(tail.add(X[3_000:])).coreset()
    assert after == fresh
    assert np.isin(after.ids, remaining).all()
    assert not np.isin(after.ids, before.ids).all(), "rows whose score has risen come back"


def test_a_row_may_come_back_when_its_score_rises():
    rng = np.random.default_rng(0)
    construction = Sensitivity(distance_from_mean, coreset_size=200, random_state=1).add(rng.normal(size=(5_000, 2)))
    first = construction.coreset()
    second = construction.add(rng.normal(size=(5_000, 2)) + 30).coreset()
    returned = np.setdiff1d(second.ids[second.ids < 5_000], first.ids)
    assert returned.size > 10


def test_the_coreset_estimates_what_the_score_bounds():
    """The mean over 30 seeds is within seven standard errors of the sum (false alarms 1e-7 by Student's t), and 3 %."""
    X, _ = stream("heavy_tailed", 5_000)
    coresets = [Sensitivity(length, coreset_size=500, random_state=seed).add(X).coreset() for seed in range(30)]
    estimates = [c.weights @ np.square(c.points).sum(axis=1) for c in coresets]
    error = np.mean(estimates) - np.square(X).sum()
    assert abs(error) < 7 * np.std(estimates, ddof=1) / np.sqrt(30)
    assert abs(error) < 0.03 * np.square(X).sum()


# -- ready scores ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "heavy_tailed", "constant_column", "one_hot", "duplicated_rows"])
def test_lewis_weights_for_p_2_are_leverage_scores(name):
    X, _ = stream(name, 500)
    np.testing.assert_allclose(scores.lewis(X, 2.0), scores.leverage(X), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("p", [1.0, 1.5, 3.0])
def test_lewis_weights_solve_their_equation_and_sum_to_the_rank(p):
    X, _ = stream("heavy_tailed", 400)
    w = scores.lewis(X, p)
    gram = (X * (w ** (1 - 2 / p))[:, None]).T @ X
    np.testing.assert_allclose(w ** (2 / p), np.einsum("ij,jk,ik->i", X, np.linalg.inv(gram), X), rtol=1e-3)
    assert w.sum() == pytest.approx(5, rel=1e-4)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_lewis_weights_bound_the_share_of_any_row_in_any_cost(p):
    X, _ = stream("heavy_tailed", 300)
    directions = np.random.default_rng(1).normal(size=(5, 2_000))
    directions = np.hstack([directions, np.linalg.pinv(X)])
    costs = np.abs(X @ directions) ** p
    sensitivity = (costs / costs.sum(axis=0)).max(axis=1)
    assert (sensitivity <= scores.lewis(X, p) * (1 + 1e-4)).all()


def test_zero_rows_have_no_lewis_weight():
    X = np.vstack([np.zeros((3, 2)), np.random.default_rng(0).normal(size=(50, 2))])
    assert (scores.lewis(X, 1.0)[:3] == 0).all()
    with pytest.raises(ValueError, match="p must be between 0 and 4"):
        scores.lewis(X, 4.0)


def test_an_lp_coreset_keeps_absolute_losses():
    X, y = stream("heavy_tailed", 20_000)
    coreset = Sensitivity(LewisScore(1.0), coreset_size=2_000, random_state=0).add(X, y).coreset()
    for seed in range(10):
        x = np.random.default_rng(seed).normal(size=5)
        whole, sampled = np.abs(X @ x - y).sum(), coreset.weights @ np.abs(coreset.points @ x - coreset.targets)
        assert sampled == pytest.approx(whole, rel=0.1)


@pytest.mark.parametrize("name", STREAMS)
def test_ready_scores_are_finite_on_hard_streams(name):
    X, y = stream(name, 300)
    assert len(Sensitivity(LewisScore(1.0), random_state=0).add(X, y).coreset()) > 0


# -- refusals and checkpoints ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"score": "leverage"}, TypeError, "must be functions"),
        ({"score": share_of_length, "summary": total_length}, ValueError, "summary needs total_score"),
        ({"score": length, "total_score": 0}, ValueError, "total_score must be a finite number above 0"),
    ],
)
def test_bad_settings_of_scores_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Sensitivity(**arguments)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda points, weights: 1.0, "one number for each of 3 rows"),
        (lambda points, weights: np.array([1.0, -1.0, 0.0]), "not negative, got -1.0 for row 1"),
        (lambda points, weights: np.array([1.0, 1.0, np.nan]), "finite and not negative, got nan for row 2"),
    ],
)
def test_bad_scores_are_named(score, message):
    with pytest.raises(ValueError, match=message):
        Sensitivity(score, random_state=0).add(np.eye(3)).coreset()


def test_scores_that_differ_are_not_merged():
    left = Sensitivity(LewisScore(1.0), random_state=0).add(np.eye(3))
    right = Sensitivity(LewisScore(2.0), random_state=0, first_id=3).add(np.eye(3))
    with pytest.raises(ValueError, match="same score"):
        left.merge(right)


def test_all_scores_zero_give_an_empty_coreset():
    assert len(Sensitivity(length, random_state=0).add(np.zeros((5, 2))).coreset()) == 0


def test_a_checkpoint_holds_ready_scores_and_no_functions():
    X, y = stream("gaussian", 500)
    ready = Sensitivity(LewisScore(1.0), coreset_size=50, random_state=0).add(X, y)
    assert storage.deserialise(storage.serialise(ready)).coreset() == ready.coreset()
    with pytest.raises(TypeError, match="function cannot be stored"):
        storage.serialise(Sensitivity(length, random_state=0).add(X))


@pytest.mark.parametrize("p", [0.1, 1.0, 1.9, 2.5, 3.9])
def test_lewis_weights_of_rows_of_any_size_are_numbers(p):
    rows = np.random.default_rng(0).normal(size=(30, 2)) * 10.0 ** np.linspace(-320, 140, 30)[:, None]
    weights = scores.lewis(rows, p)
    assert np.isfinite(weights).all()
    assert weights.max() <= 2.5
