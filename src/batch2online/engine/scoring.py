"""What rows cost under the model in force, or by the rows before them while there is none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.problem import Problem, Totals, check_losses, totals_of
from batch2online.rows import Rows, all_ones
from batch2online.warm_up import WarmUp


def scored(
    problem: Problem, model: Any, warm_up: WarmUp | None, rows: Rows
) -> tuple[FloatArray, FloatArray, WarmUp | None]:
    """Return the loss of each row and its second number, and the warm-up that has seen them.

    A warm-up of None says that there is a model.
    """
    with np.errstate(over="ignore"):
        if warm_up is None:
            losses, second = problem.losses(model, rows.points, rows.targets)
        else:
            (losses, second), warm_up = warm_up.scored(rows.points, rows.targets, rows.weights)
            losses, second = problem.bounded(losses, second)
        check_losses(losses, rows.ids)
        return losses, second, warm_up


def summed(problem: Problem, model: Any, rows: Rows) -> Totals:
    """Return the loss of rows that all count once, and their second number, in total, and the loss of each."""
    with np.errstate(over="ignore"):
        totals = problem.total_losses(model, rows)
        if math.isnan(totals.loss):
            check_losses(totals.losses(), rows.ids)
        return totals


def weighted_totals(losses: FloatArray, second: FloatArray, weights: FloatArray) -> Totals:
    """Return the totals of rows with these losses and second numbers, each with its weight."""
    if all_ones(weights):
        return totals_of(losses, second)
    with np.errstate(over="ignore"):
        return totals_of(losses * weights, second * weights)


def total(values: FloatArray, weights: FloatArray) -> float:
    """Return the weighted sum of values."""
    with np.errstate(over="ignore"):
        return float((values if all_ones(weights) else values * weights).sum())
