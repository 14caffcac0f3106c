"""The steps of an anchored coreset by themselves: bounds of scores, rows ruled out early, solvers without a matrix."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from batch2online import OnlineClassifier, OnlineRegression, sampling
from batch2online.coresets import Anchored
from batch2online.methods.linear_losses import expansion, solver
from batch2online.methods.linear_losses import newton as objectives
from batch2online.methods.linear_losses.expansion import ClassExpansions, ExpandedRows
from batch2online.methods.linear_losses.expansion_state import counted
from batch2online.methods.linear_losses.losses import Logistic
from batch2online.methods.linear_losses.newton import Curvature, Metric, Objective, definite_solution, minimise
from batch2online.rows import Rows, ones

RNG = np.random.default_rng(5)
ROWS = RNG.standard_t(3, size=(6_000, 4)) @ RNG.normal(size=(4, 4)) + 2


def labels(n_classes):
    latent = ROWS @ [0.3, -0.2, 0.1, 0.0] + np.random.default_rng(1).logistic(size=len(ROWS))
    return np.digitize(latent, np.quantile(latent, np.linspace(0, 1, n_classes + 1)[1:-1]))


def slopes_of(known, design, n_classes):
    y = np.array([known.classes.index(code) for code in labels(n_classes).tolist()], dtype=float)
    return known.loss.gradient(design @ known.pilot.theta.T, y), y


def anchors(n_classes):
    model = OnlineClassifier(coreset_size=300, random_state=0).partial_fit(ROWS[:4_000], labels(n_classes)[:4_000])
    return model._stream.view().sketch.anchors


@pytest.mark.parametrize("n_classes", [2, 4])
def test_bounds_of_scores_are_not_below_them(n_classes):
    known = anchors(n_classes)
    design = known.frame.design(ROWS)
    gradient, y = slopes_of(known, design, n_classes)
    scores, bounds = known.pilot.scores(design, gradient, y), known.pilot.bounds(design, gradient, y)
    assert (bounds >= scores * (1 - 1e-12)).all()
    assert scores.mean() == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_rows_that_are_ruled_out_early_are_those_that_their_scores_rule_out(n_classes):
    known, y = anchors(n_classes), labels(n_classes).astype(float)
    rows = Rows(ROWS, y[:, None], ones(len(ROWS)), np.arange(len(ROWS)))
    words = sampling.words(3, sampling.SAMPLING, range(len(ROWS)))
    (some, few), (every, all_rows) = (known.expanded(rows, known.coded(rows), words, rate) for rate in (0.1, np.inf))
    assert len(all_rows) == len(ROWS)
    wanted = sampling.inclusion_uniforms(words) <= 0.1 * all_rows.rows.targets[:, 1]
    assert 100 < wanted.sum() < 1_500
    assert np.array_equal(few.rows.ids, np.flatnonzero(wanted))
    np.testing.assert_allclose(few.rows.targets, all_rows.rows.targets[wanted], rtol=1e-9)
    assert np.array_equal(some.sums.total().matrix, every.sums.total().matrix)


def test_means_are_measured_by_one_row_in_sixty_one():
    known = anchors(2)
    design = known.frame.design(ROWS)
    gradient, y = slopes_of(known, design, 2)
    few = counted(np.arange(10**6, 10**6 + len(ROWS)))
    rows = ExpandedRows(design[few], y[few], np.ones(len(y[few])), gradient[few], 1.0)
    fresh = known.pilot.having_seen(rows, gradient[few])
    seen = (fresh.weight - known.pilot.weight) / 61
    assert abs(seen - len(ROWS) / 61) <= 1
    exact = np.array([each.mean() for each in known.pilot._sizes(design, gradient)])
    found = (fresh.totals - known.pilot.totals) / (61 * seen)
    np.testing.assert_allclose(found, exact, rtol=0.5)


def wide(ridge=0.5):
    y = labels(8).astype(float)[:800]
    design = np.column_stack([np.ones(800), ROWS[:800] / 4])
    penalty = np.full((8, 5), ridge)
    return Objective(Logistic(), design, y, RNG.uniform(0.5, 2, 800), 1.0, None, penalty, np.zeros((8, 5)))


def test_conjugate_gradients_solve_the_equations_of_the_matrix():
    own = wide()
    point = own.at(RNG.normal(size=(8, 5)) / 4)
    right = RNG.normal(size=(8, 5))
    exact = definite_solution(own.curvature(point), right.reshape(-1)).reshape(8, 5)
    np.testing.assert_allclose(Curvature(own, point).solution(right, 1e-10), exact, rtol=1e-6, atol=1e-9)


def many(n_classes, n=1_000):
    rng = np.random.default_rng(3)
    design, y = np.column_stack([np.ones(n), rng.normal(size=(n, 2))]), (np.arange(n) % n_classes).astype(float)
    shape = (n_classes, 3)
    own = Objective(Logistic(), design, y, rng.uniform(0.5, 2, n), 1.0, None, np.full(shape, 0.5), np.zeros(shape))
    return own, own.at(rng.normal(size=shape) / 4)


def test_blocks_of_more_classes_than_columns_are_gram_matrices():
    own, point = many(40, 300)
    hessian = own.weights[:, None] * own.loss.hessian(point.eta, own.y)
    expected = np.einsum("nk,np,nq->kpq", hessian, own.design, own.design)
    np.testing.assert_allclose(Curvature(own, point)._blocks(point.eta), expected, rtol=1e-12, atol=1e-12)


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


def test_steps_of_four_times_the_classes_take_four_times_the_calls():
    few, more = (calls_of(Curvature, *many(n_classes)) for n_classes in (250, 1_000))
    assert more < 4.5 * few


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((7.0,), (7.0, 3.0)),
        ((7.0, 3.0), (3.0, 7.0)),
        ((7.0, 3.0), (3.0, 5.0, 7.0)),
        ((7.0, 3.0, 1.0), (2.0, 1.0, 3.0, 7.0)),
    ],
)
def test_predictors_in_terms_of_more_classes_are_those_of_the_pseudo_inverse(old, new):
    matrix = expansion.outputs(old, new)
    eta = np.random.default_rng(0).normal(size=(6, len(matrix)))
    found, is_known = expansion.recoded(eta, matrix), matrix.any(axis=0)
    np.testing.assert_allclose(found[:, is_known], (eta @ np.linalg.pinv(matrix).T)[:, is_known], atol=1e-15)
    assert (found[:, ~is_known] < found[:, is_known].min() - 900).all()
    theta = np.random.default_rng(1).normal(size=(len(matrix), 2))
    expected = np.linalg.pinv(matrix) @ theta
    expected[~is_known, 0] -= np.log(11)
    np.testing.assert_allclose(expansion.parameters(theta, matrix, 10), expected, atol=1e-15)


def test_minima_and_noise_are_the_same_without_the_matrix(monkeypatch):
    own, gradients = wide(), np.random.default_rng(4).normal(size=(40, 800, 8))
    gradients -= gradients.mean(axis=2, keepdims=True)  # those of classes sum to zero
    start = own.at(np.zeros((8, 5)))
    dense, length = minimise(own, start, 1e-9), Metric(own, start.theta).length
    noise = np.array([length(each) for each in gradients])
    monkeypatch.setattr(objectives, "_WIDE", 10)
    assert own.is_wide
    found = minimise(own, start, 1e-9)
    assert found.converged
    assert found.value == pytest.approx(dense.value, rel=1e-9)
    np.testing.assert_allclose(found.theta, dense.theta, atol=1e-4)
    length = Metric(own, start.theta).length  # by two probes of 40 dimensions, so one of them may be far off
    estimates = np.array([length(each) for each in gradients])
    assert (estimates / noise).mean() == pytest.approx(1, abs=6 * (estimates / noise).std() / np.sqrt(40))
    assert (estimates / noise).std() < 0.5


@pytest.mark.slow
def test_many_classes_are_solved_as_scikit_learn_solves_them():
    from sklearn.linear_model import LogisticRegression

    y = labels(60)[:1_500]
    ours = OnlineClassifier(random_state=0).fit(ROWS[:1_500], y)
    theirs = LogisticRegression(max_iter=5_000, tol=1e-8).fit(ROWS[:1_500], y)
    assert ours.coef_.size > objectives._WIDE - 60
    place = np.searchsorted(theirs.classes_, y)
    costs = [
        -np.log(model.predict_proba(ROWS[:1_500])[np.arange(1_500), place]).sum() + (model.coef_**2).sum() / 2
        for model in (ours, theirs)
    ]
    assert costs[0] == pytest.approx(costs[1], rel=1e-6)


def test_a_regression_of_many_rows_is_nearly_that_of_all_of_them():
    """The solver stops earlier where the coreset does not hold all rows: that must not show."""
    y = np.random.default_rng(2).poisson(np.exp(0.1 * ROWS.clip(-5, 5)[:, 0]))
    few = OnlineRegression(loss="poisson", coreset_size=600, random_state=0).fit(ROWS.clip(-5, 5), y)
    best = OnlineRegression(loss="poisson", coreset_size=10**6, random_state=0).fit(ROWS.clip(-5, 5), y)
    costs = [(m.predict(ROWS.clip(-5, 5)) - y * np.log(m.predict(ROWS.clip(-5, 5)))).sum() for m in (few, best)]
    assert costs[0] - costs[1] < 1e-3 * abs(costs[1])


def test_second_derivatives_are_left_out_where_nobody_notices():
    """Of many easy rows, not of few and not where classes are nearly separable; models stay those of all rows."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(16_000, 3))
    easy, hard = (np.digitize(s * X[:, 0] + rng.logistic(size=len(X)), [0.0]) for s in (1.0, 30.0))

    def scales(y, n):
        model = OnlineClassifier(coreset_size=500, random_state=0).partial_fit(X[:n], y[:n])
        return model, model._stream.view().sketch.in_full().anchored.scale

    model, found = scales(easy, 16_000)
    assert 0 < (found == 0).mean() < 1
    best = OnlineClassifier(coreset_size=10**6).fit(X, easy)
    costs = [-np.log(each.predict_proba(X)[np.arange(len(X)), easy]).sum() for each in (model, best)]
    assert costs[0] - costs[1] < 4
    assert (scales(easy, 6_000)[1] == 1).all()
    assert (scales(hard, 16_000)[1] == 1).all()


def sample_anchored_at(theta):
    """A coreset of few rows of many, all expanded at one model."""
    sketch = Anchored("logistic", coreset_size=100, random_state=0).new_sketch(ROWS.shape[1], 1)
    for ids in np.split(np.arange(len(ROWS)), [100]):
        sketch = sketch.update(Rows(ROWS[ids], labels(2)[ids, None].astype(float), ones(len(ids)), ids))
        if ids[0] == 0:
            shown = {"scale": 1.0, "classes": sketch.anchors.classes, "first_order": False}
            sketch = sketch.with_model(SimpleNamespace(coefficients=theta[:, 1:], intercepts=theta[:, 0], **shown))
    return sketch.in_full()


@pytest.mark.parametrize(("anchor", "step", "flat"), [(0.0, 0.0, True), (0.0, 1.0, False), (1.0, 0.0, False)])
def test_second_derivatives_are_left_out_only_where_neither_anchors_nor_steps_are_far(anchor, step, flat):
    """The last case has a step of nothing: what is left of the expansions, far from the model, counts by itself."""
    theta = np.array([[-0.3, 0.3, -0.2, 0.1, 0.0]])
    sample = sample_anchored_at(theta + anchor * np.array([[0.0, 0.5, 0.5, 0.0, 0.0]]))
    inner = sample.frame.inner(theta[:, 1:], theta[:, 0])
    found = solver._Found(inner, 1.0, 0.0)
    metric = solver._metric(sample, solver.Penalty(0.1), found)
    assert solver._can_be_first_order(sample, metric, found, inner + step * 0.5) is flat


def test_a_class_without_rows_weighs_as_much_as_the_heaviest():
    """Its first row is then expected to come soon, and its score is no smaller than that of any other."""
    sums = replace(ClassExpansions.empty(1, 2, 3, True), masses=np.array([6.0, 0.0, 2.0]))
    np.testing.assert_allclose(sums.factors, [8 / 18, 8 / 6, 8 / 6])
    np.testing.assert_allclose(replace(sums, masses=np.zeros(3)).factors, np.ones(3))
    np.testing.assert_allclose(sums.balanced(np.full(2, 3.0), np.array([1.0, 0.0])), [4.0, 8 / 6])


def held(n, coreset_size=1_000):
    """A sketch of n rows whose pilot was set when 600 had come."""
    sketch = Anchored("logistic", coreset_size=coreset_size, random_state=0).new_sketch(ROWS.shape[1], 1)
    for ids in np.split(np.arange(n), range(600, n, 600)):
        sketch = sketch.update(Rows(ROWS[ids], labels(2)[ids, None].astype(float), ones(len(ids)), ids))
        if ids[0] == 0:
            shown = {"scale": 1.0, "classes": sketch.anchors.classes, "first_order": False}
            sketch = sketch.with_model(SimpleNamespace(coefficients=THETA[:, 1:], intercepts=THETA[:, 0], **shown))
    return sketch


THETA = np.array([[-0.3, 0.3, -0.2, 0.1, 0.0]])


def test_rows_are_expanded_once_the_coreset_does_not_hold_all_of_them():
    few, more = held(900).anchors, held(2_400).anchors
    assert not few.sums.parts[0].matrix.any()
    assert not few.pilot.has_model
    design, y = more.frame.design(ROWS[:2_400]), labels(2)[:2_400].astype(float)
    y = np.abs(y - more.classes.index(1.0) + 1)  # positions of classes, in the order in which they came
    eta = design @ more.pilot.theta.T
    np.testing.assert_allclose(more.frame.outer(more.pilot.theta)[0], THETA[:, 1:])
    expected = expansion.Expansion.of(Logistic(), ExpandedRows(design, y, np.ones(2_400), eta, 1.0))
    found = more.sums.total()
    np.testing.assert_allclose(found.matrix, expected.matrix, rtol=1e-10)
    np.testing.assert_allclose(found.linear, expected.linear, rtol=1e-8, atol=1e-8)


def test_merged_sketches_that_hold_all_rows_are_expanded_if_they_do_not_hold_those_of_both():
    def part(start, coreset_size):
        rows = Rows(ROWS[start:][:600], labels(2)[start:][:600, None] * 1.0, ones(600), np.arange(start, start + 600))
        return Anchored("logistic", coreset_size=coreset_size, random_state=0).new_sketch(4, 1).update(rows)

    assert not part(0, 2_000).merge(part(600, 2_000)).anchors.sums.parts[0].matrix.any()
    both = part(0, 1_000).merge(part(600, 1_000)).anchors
    z = both.frame.design(ROWS[:1_200])
    np.testing.assert_allclose(both.sums.parts[0].matrix, z.T @ z / 4, rtol=1e-10)


def test_expansions_of_rows_are_parts_of_the_sums():
    """With all rows in the coreset the objective of any order is the plain one, whatever they are expanded at."""
    rng = np.random.default_rng(3)
    for loss, k in ((Logistic(), 1), (Logistic(), 3)):
        design, y = np.column_stack([np.ones(500), ROWS[:500] / 4]), rng.integers(0, max(k, 2), 500).astype(float)
        rows = ExpandedRows(design, y, rng.uniform(0.5, 2, 500), rng.normal(size=(500, k)), np.ones(500))
        sums, own = expansion.Expansion.of(loss, rows), expansion.RowExpansions.of(loss, rows)
        given = (loss, design, y, rows.weights, 1.0)
        none, theta = np.zeros((k, 5)), rng.normal(size=(k, 5)) / 4
        plain = Objective(*given, None, none, none)
        for order in (1, 2):
            other = Objective(*given, sums.quadratic(order), none, none, None, own, order)
            one, two = plain.at(theta), other.at(theta)
            assert two.value == pytest.approx(one.value, rel=1e-10)
            np.testing.assert_allclose(two.gradient, one.gradient, atol=1e-9)
            np.testing.assert_allclose(other.curvature(two), plain.curvature(one), atol=1e-9)


def test_minima_by_earlier_hessians_are_those_by_new_ones(monkeypatch):
    own = replace(wide(), y=labels(2)[:800].astype(float), ridge=np.full((1, 5), 0.5), lasso=np.zeros((1, 5)))
    calls = []
    counted_curvature = Objective.curvature
    monkeypatch.setattr(Objective, "curvature", lambda *given: calls.append(1) or counted_curvature(*given))
    found = minimise(own, own.at(np.zeros((1, 5))), 1e-9)
    n_reused = len(calls)
    monkeypatch.setattr(objectives, "_FAST", 1e-300)
    exact = minimise(own, own.at(np.zeros((1, 5))), 1e-9)
    assert n_reused < len(calls) - n_reused
    assert found.converged
    assert found.value == pytest.approx(exact.value, rel=1e-11)
    assert own.at(found.theta).value <= own.at(exact.theta).value + 1e-9


def test_gradient_steps_end_within_the_tolerance_of_the_minimum(monkeypatch):
    own, _ = many(20)
    monkeypatch.setattr(objectives, "_WIDE", 10)
    start, least = own.at(np.zeros((20, 3))), minimise(own, own.at(np.zeros((20, 3))), 1e-12).value
    for tolerance in (1e-1, 1e-3, 1e-5):
        assert own.at(minimise(own, start, tolerance).theta).value - least < tolerance


def test_the_direction_that_classes_share_changes_no_solution():
    own = wide(ridge=0.0)
    point = own.at(RNG.normal(size=(8, 5)) / 4)
    right = RNG.normal(size=(8, 5))
    right -= right.mean(axis=0)
    hessian = own.curvature(point)
    found = own.inverse(hessian)(right.reshape(-1))
    np.testing.assert_allclose(hessian @ found, right.reshape(-1), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.reshape(8, 5).sum(axis=0), 0, atol=1e-9)


def test_lengths_by_signs_are_those_by_leverages(monkeypatch):
    rng = np.random.default_rng(6)
    design, y = rng.normal(size=(900, 80)), rng.integers(0, 2, 900).astype(float)
    one = np.ones((1, 80))
    own = Objective(Logistic(), design, y, np.ones(900), 1.0, None, one, 0 * one)
    gradients = rng.normal(size=(30, 900, 1)) * rng.uniform(0, 2, size=(900, 1))
    by_signs = np.array([Metric(own, 0 * one).length(each) for each in gradients])
    monkeypatch.setattr(objectives, "_NARROW", 80)
    exact = np.array([Metric(own, 0 * one).length(each) for each in gradients])
    assert (by_signs / exact).mean() == pytest.approx(1, abs=0.03)  # six standard errors of 30 estimates
    assert 0.005 < (by_signs / exact).std() < 0.15


def test_tolerance_of_many_parameters_is_a_small_share_of_their_noise():
    """Half a unit of likelihood for each of 8 x 5 parameters, in units of the weight of a row."""
    for weight in (1.0, 4.0):
        sketch = Anchored("logistic", coreset_size=2_000, random_state=0).new_sketch(4, 1)
        rows = Rows(ROWS[:900], labels(8)[:900, None].astype(float), np.full(900, weight), np.arange(900))
        assert solver._unnoticed(sketch.update(rows).in_full()) == pytest.approx(weight * 20e-5)
