"""The mathematics of a problem: its losses, costs, fits, optimum and comparisons of models agree with each other.

All rows are kept, so the coreset is the data and every number can be compared with a sum over rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.checks.case import Case, by_name, learn, part
from batch2online.sketches.base import Snapshot
from batch2online.theory.bounds import DependsOn

HEAVY = 20
"""Weight of every fifth row, whose columns are exchanged: the best model of these rows is another one."""

CLOSE = 1e-3
"""Tolerance of costs, relative: far below the effect of ignored weights, far above that of rounding."""


class Posed:
    """The problem of a case, on rows without and with weights, and models fitted to them."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rows, self.targets, _ = case.data
        heavy = np.arange(len(self.rows)) % 5 == 0
        self.rows = np.where(heavy[:, None], np.roll(self.rows, 1, axis=1), self.rows)
        self.counts = np.where(heavy, HEAVY, 1)
        self.problem, self.data = self.of(self.counts.astype(np.float64))

    def of(self, weights: Any, index: Any = slice(None)) -> tuple[Any, Snapshot]:
        """Return the problem and the data of some rows with these weights."""
        everything = self.case.new(coreset_size=10**6)
        stream = learn(everything, self.rows[index], part(self.targets, index), weights).stream
        return stream.problem, stream.snapshot()

    def fit(self, data: Snapshot, current: Any = None) -> Any:
        return self.problem.fit(data, current).model

    @cached_property
    def model(self) -> Any:
        """The model of all rows with their weights."""
        return self.fit(self.data)

    @cached_property
    def other(self) -> Any:
        """The model of the rows without weights."""
        return self.fit(self.of(None)[1])

    def losses(self, model: Any, index: Any = slice(None)) -> FloatArray:
        """Return the losses of some rows of the coreset."""
        coreset = self.data.coreset
        targets = np.empty((len(coreset), 0)) if coreset.targets is None else coreset.targets.reshape(len(coreset), -1)
        found: FloatArray = self.problem.losses(model, coreset.points[index], targets[index])[0]
        return found


def close(one: FloatArray, other: FloatArray) -> bool:
    """Return whether losses of rows are equal up to rounding and the end of an iteration."""
    return np.allclose(one, other, rtol=1e-4, atol=1e-6 * float(np.abs(other).max()))


def a_loss_is_that_of_its_row_and_not_negative(case: Case) -> None:
    posed = Posed(case)
    together = posed.losses(posed.model)
    assert together.shape == (len(posed.data.coreset),), f"losses must have one number per row, got {together.shape}"
    assert np.isfinite(together).all(), "losses must be finite"
    least = float(together.min())
    assert least >= 0, f"losses must not be negative, got {least:.4g}: the guarantees are shares of the optimum"
    alone = np.concatenate([posed.losses(posed.model, [i]) for i in range(len(together))])
    worst = int(np.abs(alone - together).argmax())
    assert close(alone, together), (
        f"losses must not depend on the other rows of the call: row {worst} has {alone[worst]:.6g} alone, "
        f"{together[worst]:.6g} among {len(together)} rows; return one loss per row, not a mean"
    )


def cost_is_the_weighted_sum_of_losses(case: Case) -> None:
    posed = Posed(case)
    for model in (posed.model, posed.other):
        cost, expected = posed.problem.cost(model, posed.data), float(posed.data.coreset.weights @ posed.losses(model))
        assert abs(cost - expected) <= CLOSE * expected, (
            f"cost must be the sum of the losses times the weights of the rows, {expected:.6g}; got {cost:.6g}"
        )


def a_weight_counts_as_repeated_rows(case: Case) -> None:
    if case.half_life is not None:  # repeated rows are older
        return
    posed = Posed(case)
    repeated = posed.fit(posed.of(None, np.repeat(np.arange(len(posed.rows)), posed.counts))[1])
    costs = [posed.problem.cost(model, posed.data) for model in (posed.model, repeated)]
    assert abs(costs[0] - costs[1]) <= CLOSE * costs[1], (
        f"a row of weight {HEAVY} must count in fit as {HEAVY} rows: the model of the weighted rows costs "
        f"{costs[0]:.6g}, that of the repeated ones {costs[1]:.6g}; use data.coreset.weights in fit"
    )


def fit_depends_on_the_current_model_only_if_declared(case: Case) -> None:
    posed = Posed(case)
    if posed.problem.depends_on is DependsOn.CURRENT_MODEL:
        return
    warm = posed.fit(posed.data, posed.other)
    assert close(posed.losses(warm), posed.losses(posed.model)), (
        "fit(data, current) must return the model of fit(data, None), unless depends_on is "
        "DependsOn.CURRENT_MODEL, which weakens the certificates: declare it, or do not use current"
    )


def the_optimum_is_at_most_the_cost_of_a_fit(case: Case) -> None:
    posed = Posed(case)
    for model in (posed.model, posed.other):
        optimum, bound = posed.problem.optimum(posed.data, model), posed.problem.lower_bound(posed.data)
        cost = min(posed.problem.cost(each, posed.data) for each in (posed.model, model))
        for name, least in (("optimum", optimum), ("lower_bound", bound)):
            is_held_out = name == "optimum" and posed.problem.optimum_is_held_out
            assert least is None or is_held_out or least <= (1 + CLOSE) * cost, (
                f"{name} must be at most the cost of every model, got {least:.6g}, but a fitted model costs {cost:.6g}"
            )


def models_are_told_apart(case: Case) -> None:
    posed = Posed(case)
    problem, model, other = posed.problem, posed.model, posed.other
    assert problem.same(model, model), "same must be true for a model and itself"
    if close(posed.losses(other), posed.losses(model)):
        return
    assert not problem.same(model, other), "same must be false for two models whose losses differ"
    magnitude = problem.difference(model, other, posed.data)["magnitude"]
    assert np.isfinite(magnitude), f"magnitude must be finite, got {magnitude}"
    assert magnitude > 0, f"magnitude must be above 0 for two models whose losses differ, got {magnitude}"


problem_checks = by_name(
    a_loss_is_that_of_its_row_and_not_negative,
    cost_is_the_weighted_sum_of_losses,
    a_weight_counts_as_repeated_rows,
    fit_depends_on_the_current_model_only_if_declared,
    the_optimum_is_at_most_the_cost_of_a_fit,
    models_are_told_apart,
)
