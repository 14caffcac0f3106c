"""Expansions of rows, one by one and summed over all, in a coreset and in terms of further classes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from batch2online.coresets import Anchored
from batch2online.methods.linear_losses import classes
from batch2online.methods.linear_losses.expansion import Expanded, ExpandedRows, Expansion
from batch2online.methods.linear_losses.newton import Objective
from batch2online.methods.linear_losses.pilot import PilotModel, counted
from batch2online.methods.losses import Logistic, Poisson
from batch2online.rows import Rows, ones

RNG = np.random.default_rng(5)
ROWS = RNG.standard_t(3, size=(6_000, 4)) @ RNG.normal(size=(4, 4)) + 2
LABELS = (ROWS @ [0.3, -0.2, 0.1, 0.0] + RNG.logistic(size=6_000) > 0.5).astype(float)
THETA = np.array([[-0.3, 0.3, -0.2, 0.1, 0.0]])


def rows_at(ids):
    return Rows(ROWS[ids], LABELS[ids, None], ones(len(ids)), ids)


def expanded(loss, rows, is_linear=False):
    local, k = loss.expanded(rows.eta, rows.y, rows.scale), rows.eta.shape[1]
    sums = Expansion.empty(k, rows.design.shape[1], k, is_balanced=False)
    sums = replace(sums, matrix=np.zeros((1, 0, 0))) if is_linear else sums
    return Expanded(*sums.including(rows, loss, local).total(), loss, rows, local)


@pytest.mark.parametrize("is_linear", [True, False])
@pytest.mark.parametrize(("loss", "k"), [(Logistic(), 1), (Logistic(), 3), (Poisson(), 1)])
def test_expansions_of_rows_are_parts_of_the_sums(loss, k, is_linear):
    """With all rows in the coreset the objective with expansions is the plain one, whatever they are expanded at."""
    rng = np.random.default_rng(3)
    design, y = np.column_stack([np.ones(500), ROWS[:500] / 4]), rng.integers(0, max(k, 2), 500).astype(float)
    rows = ExpandedRows(design, y, rng.uniform(0.5, 2, 500), rng.normal(size=(500, k)), np.ones(500))
    none, theta = np.zeros((k, 5)), rng.normal(size=(k, 5)) / 4
    plain = Objective(loss, rows, 1.0, none, none)
    other = replace(plain, expanded=expanded(loss, rows, is_linear))
    one, two = plain.at(theta), other.at(theta)
    assert two.value == pytest.approx(one.value, rel=1e-10)
    np.testing.assert_allclose(two.gradient, one.gradient, atol=1e-8)
    np.testing.assert_allclose(other.hessian(theta), plain.hessian(theta), atol=1e-8)


def test_means_are_measured_by_one_row_in_sixty_one():
    design, weights = np.column_stack([np.ones(6_000), ROWS]), np.ones(6_000)
    rows = ExpandedRows(design, LABELS, weights, design @ THETA.T, 1.0)
    gradient = Logistic().local(rows.eta, rows.y)[1]
    pilot = PilotModel.of(Logistic(), THETA, rows, design.T @ design, np.zeros(0))
    assert pilot.scores(rows, gradient).mean() == pytest.approx(1, abs=0.01)
    few = counted(np.arange(10**6, 10**6 + 6_000))
    seen_rows = ExpandedRows(design[few], LABELS[few], weights[few], rows.eta[few], 1.0)
    fresh = pilot.having_seen(seen_rows, gradient[few])
    seen = (fresh.weight - pilot.weight) / 61
    assert abs(seen - 6_000 / 61) <= 1
    exact = np.array([each.mean() for each in pilot.sizes(design, gradient)])
    np.testing.assert_allclose((fresh.totals - pilot.totals) / (61 * seen), exact, rtol=0.5)


def test_a_class_without_rows_weighs_as_much_as_the_heaviest():
    """Its first row is then expected to come soon, and its score is no smaller than that of any other."""
    sums = replace(Expansion.empty(1, 2, 3, is_balanced=True), masses=np.array([6.0, 0.0, 2.0]))
    np.testing.assert_allclose(sums.factors, [8 / 18, 8 / 6, 8 / 6])
    np.testing.assert_allclose(replace(sums, masses=np.zeros(3)).factors, np.ones(3))
    np.testing.assert_allclose(sums.balanced(np.full(2, 3.0), np.array([1.0, 0.0])), [4.0, 8 / 6])


def test_rows_are_expanded_once_the_coreset_does_not_hold_all_of_them():
    def held(n):
        """A sketch of n rows whose pilot was set when 600 had come."""
        sketch = Anchored("logistic", coreset_size=1_000, random_state=0).new_sketch(4, 1)
        for ids in np.split(np.arange(n), range(600, n, 600)):
            sketch = sketch.update(rows_at(ids))
            if ids[0] == 0:
                shown = {"scale": 1.0, "classes": sketch.classes}
                model = SimpleNamespace(coefficients=THETA[:, 1:], intercepts=THETA[:, 0], **shown)
                sketch = sketch.with_model(model)
        return sketch

    few, more = held(900), held(2_400)
    assert not few.sums.matrix.any()
    assert not few.pilot_model.has_model
    design, y = more.frame.design(ROWS[:2_400]), classes.positions(more.classes, LABELS[:2_400])
    np.testing.assert_allclose(more.frame.outer(more.pilot_model.theta)[0], THETA[:, 1:])
    rows = ExpandedRows(design, y, np.ones(2_400), design @ more.pilot_model.theta.T, 1.0)
    (_, linear, matrix), expected = more.sums.total(), expanded(Logistic(), rows)
    np.testing.assert_allclose(matrix, expected.matrix, rtol=1e-10)
    np.testing.assert_allclose(linear, expected.linear, rtol=1e-8, atol=1e-8)


def test_merged_sketches_that_hold_all_rows_are_expanded_if_they_do_not_hold_those_of_both():
    def part(start, coreset_size):
        builder = Anchored("logistic", coreset_size=coreset_size, random_state=0)
        return builder.new_sketch(4, 1).update(rows_at(np.arange(start, start + 600)))

    assert not part(0, 2_000).merge(part(600, 2_000)).sums.matrix.any()
    both = part(0, 1_000).merge(part(600, 1_000))
    z = both.frame.design(ROWS[:1_200])
    np.testing.assert_allclose(both.sums.matrix[0], z.T @ z / 4, rtol=1e-10)


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
    matrix = classes.outputs(old, new)
    eta = np.random.default_rng(0).normal(size=(6, len(matrix)))
    found, is_known = classes.recoded(eta, matrix), matrix.any(axis=0)
    np.testing.assert_allclose(found[:, is_known], (eta @ np.linalg.pinv(matrix).T)[:, is_known], atol=1e-15)
    assert (found[:, ~is_known] < found[:, is_known].min() - 900).all()
    theta = np.random.default_rng(1).normal(size=(len(matrix), 2))
    expected = np.linalg.pinv(matrix) @ theta
    expected[~is_known, 0] -= np.log(11)
    np.testing.assert_allclose(classes.parameters(theta, matrix, 10), expected, atol=1e-15)
