"""``consistent=True``: the steps have the same laws as without it, and the model changes as rarely as these allow."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from batch2online import reference
from batch2online.evaluate import changed

FALSE_ALARM = 1e-6
EPSILON, M = 0.5, 20


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.uniform(-1, 1, size=(n, 2))
    return A, A @ [1.0, 2.0] + rng.uniform(-1, 1, size=n)


def run(problem, n, consistent, seed=0, **options):
    A, b = stream(n)
    rng = np.random.default_rng(seed)
    if problem == "regression":
        return reference.online_regression(rng, A, b, EPSILON, m=M, consistent=consistent, **options)
    if problem == "low rank":
        return reference.online_low_rank(rng, A, 1, EPSILON, m=M, consistent=consistent, **options)
    return reference.online_clustering(rng, A, 2, EPSILON, sizes=(20, 10), constant=1, consistent=consistent, **options)


def changes(models):
    return np.array([changed(old, new) for old, new in pairwise(models)])


@pytest.mark.parametrize("problem", ["regression", "low rank", "clustering"])
def test_changes_are_few_after_the_rows_that_are_all_kept(problem):
    assert changes(run(problem, 60, False).models)[M:].all()
    kept = changes(run(problem, 400, True).models)
    assert kept[:9].all()
    assert 3 < kept[300:].sum() < 60


@pytest.mark.slow
def test_changes_of_regression_are_below_the_bound():
    """A draw moves with the total variation of p, a weight with that of an interval: m (1 + (1 + eps) / eps) 2 / t."""
    moved = np.mean([changes(run("regression", 1_000, True, seed).models) for seed in range(5)], axis=0)
    t = np.arange(len(moved)) + 1
    tail = slice(100, None)
    bound = (M * (1 + (1 + EPSILON) / EPSILON) * 2 / t)[tail].sum()
    assert 0.1 * bound < moved[tail].sum() < bound


def test_a_sketch_after_many_steps_has_the_law_of_a_new_one():
    """Which row the first draw of Algorithm 5 chooses, over 800 runs of nine steps."""
    A, b = stream(12, seed=3)
    drawn = []

    def remember(rng, rows):
        drawn.append(rng.choice(len(rows), size=1, p=scores(rows))[0])
        return drawn[-1]

    def scores(rows):
        tau = reference.leverage_scores(rows)
        return tau / tau.sum()

    rows = np.column_stack([A, b])
    for seed in range(800):
        rng = np.random.default_rng(seed)
        reference.batch_to_online(rng, remember, lambda *_: 0.0, rows, steps=range(4, 13), consistent=True)
    last = np.array(drawn[8::9])
    expected = scores(rows[:11]) * len(last)
    assert stats.chisquare(np.bincount(last, minlength=11), expected).pvalue > FALSE_ALARM


def test_losses_are_those_of_the_models_and_steps_may_be_left_out():
    models, losses = run("regression", 60, True, steps=[1, 30, 31, 60])
    A, b = stream(60)
    for t, model, loss in zip([1, 30, 31, 60], models, losses, strict=True):
        assert loss == pytest.approx((A[t - 1] @ model - b[t - 1]) ** 2)
