"""Squared lengths of the gradients of single rows, in the metric of a Hessian: what noise is measured by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from batch2online._types import FloatArray
from batch2online.core import randomness
from batch2online.linalg.triangular import inverse_root, squared_lengths
from batch2online.losses.base import pieces
from batch2online.solvers.conjugate import Curvature
from batch2online.solvers.newton import definite_solution
from batch2online.solvers.objective import Objective

_PROBES = 4
"""Sums of gradients with random signs that stand for all of them where the Hessian is not formed."""

_INEXACT = 0.05

Length = Callable[[FloatArray], float]
"""The sum over rows of :math:`|H^{-1/2} (r_i \\otimes z_i)|^2`, given r (n, K)."""


class Metric:
    """The metric of an objective's Hessian at a point.

    ``length`` sums the squared lengths of gradients of single rows, ``gap`` is by how much the objective is above its
    minimum there, to second order.
    """

    length: Length
    gap: float

    def __init__(self, objective: Objective, theta: FloatArray) -> None:
        design, point = objective.design, objective.at(theta)
        self.value, slope = point.value, point.slope
        if objective.is_wide:
            curvature = Curvature(objective, point)
            self.length, step = _probed(design, curvature), curvature.solution(slope, _INEXACT)
        else:
            hessian = objective.curvature(point)
            self.length = _measured(design, hessian, len(theta))
            step = definite_solution(hessian, slope.reshape(-1)).reshape(slope.shape)
        self.gap = float((slope * step).sum()) / 2


def _measured(design: FloatArray, hessian: FloatArray, n_outputs: int) -> Length:
    if n_outputs == 1:
        leverage = squared_lengths(design, inverse_root(hessian))
        return lambda slopes: float(leverage @ np.square(slopes[:, 0]))
    return lambda slopes: max(0.0, float(np.trace(definite_solution(hessian, _squares(design, slopes)))))


def _squares(design: FloatArray, slopes: FloatArray) -> FloatArray:
    """Return the sum of the outer squares of the rows' gradients, (K p, K p)."""
    total = np.zeros((slopes.shape[1] * design.shape[1],) * 2)
    for piece in pieces(len(design), len(total)):
        own = (slopes[piece, :, None] * design[piece, None, :]).reshape(-1, len(total))
        total += own.T @ own
    return total


def _probed(design: FloatArray, curvature: Curvature) -> Length:
    """Return an unbiased estimate: a sum with random signs has the length of all rows, on average."""
    words = randomness.words(0, randomness.SOLVER, range(_PROBES * len(design))).reshape(_PROBES, -1)
    signs = np.where(words >> np.uint64(63), 1.0, -1.0)

    def length(slopes: FloatArray) -> float:
        sums = [(sign * slopes.T) @ design for sign in signs]
        return sum(float((each * curvature.solution(each, _INEXACT)).sum()) for each in sums) / _PROBES

    return length
