"""What rows cost under the model in force, or by the rows before them while there is none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.rows import Rows, all_ones
from batch2online.problems.problem import Problem, check_losses
from batch2online.problems.warm_up import WarmUp


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


def summed(problem: Problem, model: Any, rows: Rows) -> tuple[float, float]:
    """Return the loss of rows that all count once, and their second number, in total."""
    with np.errstate(over="ignore"):
        loss, second = problem.total_losses(model, rows)
        if math.isnan(loss):
            check_losses(problem.losses(model, rows.points, rows.targets)[0], rows.ids)
        return loss, second


def total(values: FloatArray, weights: FloatArray) -> float:
    """Return the weighted sum of values."""
    with np.errstate(over="ignore"):
        return float((values if all_ones(weights) else values * weights).sum())
