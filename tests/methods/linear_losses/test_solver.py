"""Minima of objectives, with a Hessian as a matrix and by its blocks, and the noise that a coreset leaves."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from batch2online import OnlineClassifier
from batch2online.coresets import Anchored
from batch2online.methods.linear_losses import newton, solver
from batch2online.methods.linear_losses.expansion import ExpandedRows
from batch2online.methods.linear_losses.newton import Objective, inverses, minimise
from batch2online.methods.losses import Logistic
from batch2online.rows import Rows

RNG = np.random.default_rng(5)
ROWS = RNG.standard_t(3, size=(6_000, 4)) @ RNG.normal(size=(4, 4)) + 2


def labels(n_classes):
    latent = ROWS @ [0.3, -0.2, 0.1, 0.0] + np.random.default_rng(1).logistic(size=len(ROWS))
    return np.digitize(latent, np.quantile(latent, np.linspace(0, 1, n_classes + 1)[1:-1]))


def objective(n_classes, ridge=0.5, n=800):
    """The objective of n rows, and a point."""
    y, k = labels(n_classes).astype(float)[:n], 1 if n_classes == 2 else n_classes
    design, none = np.column_stack([np.ones(n), ROWS[:n] / 4]), np.zeros((k, 5))
    rows = ExpandedRows(design, y, RNG.uniform(0.5, 2, n), np.zeros((n, k)), 1.0)
    return Objective(Logistic(), rows, 1.0, none + ridge, none), RNG.normal(size=(k, 5)) / 4


@pytest.mark.parametrize("n_classes", [2, 4, 40])
def test_blocks_are_those_of_the_hessian(n_classes):
    own, theta = objective(n_classes)
    hessian = own.hessian(theta).reshape(len(theta), 5, len(theta), 5)
    blocks = np.einsum("kpkq->kpq", hessian)
    np.testing.assert_allclose(own.blocks(theta), blocks, rtol=1e-6, atol=1e-4)
    np.testing.assert_allclose(inverses(blocks), np.linalg.inv(blocks), rtol=1e-9, atol=1e-12)


def test_matrices_without_curvature_give_no_step_and_flat_directions_a_finite_one():
    flat = np.zeros((2, 3, 3))
    flat[1] = np.diag([4.0, 1.0, 1.0])
    flat[1, 1:, 1:] = 1.0
    found = inverses(flat)
    assert np.abs(found[0]).max() < 1e-200
    np.testing.assert_allclose(found[1] @ [4.0, 1.0, 1.0], [1.0, 0.5, 0.5], rtol=1e-6)


def calls_of(function, *arguments):
    count = 0

    def counting(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(counting)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return count


def test_blocks_of_four_times_the_classes_take_four_times_the_calls():
    few, more = (objective(n_classes) for n_classes in (250, 1_000))
    assert calls_of(more[0].blocks, more[1]) < 4.5 * calls_of(few[0].blocks, few[1])


def test_minima_are_the_same_without_the_matrix(monkeypatch):
    own, theta = objective(8)
    start = own.at(0 * theta)
    dense = minimise(own, start, 1e-9)
    monkeypatch.setattr(newton, "_WIDE", 10)
    assert own.is_wide
    found = minimise(own, start, 1e-9)
    assert not found.left
    assert found.value == pytest.approx(dense.value, rel=1e-9)
    np.testing.assert_allclose(found.theta, dense.theta, atol=1e-4)
    for tolerance in (1e-1, 1e-3, 1e-5):
        assert own.at(minimise(own, start, tolerance).theta).value - dense.value < tolerance


def test_minima_by_earlier_hessians_are_those_by_new_ones(monkeypatch):
    own, _ = objective(2)
    start, calls, hessian = own.at(np.zeros((1, 5))), [], Objective.hessian
    monkeypatch.setattr(Objective, "hessian", lambda *given: calls.append(1) or hessian(*given))
    found = minimise(own, start, 1e-9)
    n_reused = len(calls)
    monkeypatch.setattr(newton, "_FAST", 0.0)
    exact = minimise(own, start, 1e-9)
    assert n_reused < len(calls) - n_reused
    assert not found.left
    assert found.value == pytest.approx(exact.value, rel=1e-11)


def test_no_step_is_taken_that_raises_the_objective():
    """Many separable classes without a penalty: Hessians are flat far out, and steps by earlier ones are huge."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_500, 20))
    y = (3 * X @ rng.normal(size=(20, 32)) + rng.gumbel(size=(1_500, 32))).argmax(axis=1)
    for order in (slice(None), rng.permutation(1_500)):
        model = OnlineClassifier(alpha=0.0, random_state=0).fit(X[order], y[order])
        own = np.searchsorted(model.classes_, y)
        assert -np.log(model.predict_proba(X)[np.arange(1_500), own]).mean() < 1e-4


@pytest.mark.slow
def test_many_classes_are_solved_as_scikit_learn_solves_them():
    y = labels(60)[:1_500]
    ours = OnlineClassifier(random_state=0).fit(ROWS[:1_500], y)
    theirs = LogisticRegression(max_iter=5_000, tol=1e-8).fit(ROWS[:1_500], y)
    assert ours.coef_.size > 200
    place = np.searchsorted(theirs.classes_, y)
    costs = [
        -np.log(model.predict_proba(ROWS[:1_500])[np.arange(1_500), place]).sum() + (model.coef_**2).sum() / 2
        for model in (ours, theirs)
    ]
    assert costs[0] == pytest.approx(costs[1], rel=1e-6)


def test_noise_measured_on_some_of_the_rows_is_about_that_of_all(monkeypatch):
    y = labels(2)
    whole = OnlineClassifier(coreset_size=1_000, random_state=0).fit(ROWS, y).error_
    monkeypatch.setattr(solver, "_MEASURED", 5_000)
    assert OnlineClassifier(coreset_size=1_000, random_state=0).fit(ROWS, y).error_ == pytest.approx(whole, rel=0.7)


def test_the_tolerance_is_a_small_share_of_the_noise_of_parameters():
    """Half a unit of likelihood for each of 8 x 5 parameters, in units of the weight of a row."""
    for weight in (1.0, 4.0):
        sketch = Anchored("logistic", coreset_size=2_000, random_state=0).new_sketch(4, 1)
        rows = Rows(ROWS[:900], labels(8)[:900, None].astype(float), np.full(900, weight), np.arange(900))
        assert solver._unnoticed(sketch.update(rows).in_full()) == pytest.approx(weight * 20e-5)
