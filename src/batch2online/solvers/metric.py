"""Squared lengths of the gradients of single rows, in the metric of a Hessian: what noise is measured by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from batch2online._types import FloatArray
from batch2online.core import randomness
from batch2online.linalg.triangular import inverse_root
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
        white = design @ inverse_root(hessian)
        leverage = np.vecdot(white, white)
        return lambda slopes: float(leverage @ np.square(slopes[:, 0]))
    return lambda slopes: _trace(hessian, (slopes[:, :, None] * design[:, None, :]).reshape(len(design), -1))


def _trace(hessian: FloatArray, gradients: FloatArray) -> float:
    return max(0.0, float(np.trace(definite_solution(hessian, gradients.T @ gradients))))


def _probed(design: FloatArray, curvature: Curvature) -> Length:
    """Return an unbiased estimate: a sum with random signs has the length of all rows, on average."""
    words = randomness.words(0, randomness.SOLVER, range(_PROBES * len(design))).reshape(_PROBES, -1)
    signs = np.where(words >> np.uint64(63), 1.0, -1.0)

    def length(slopes: FloatArray) -> float:
        sums = [(sign * slopes.T) @ design for sign in signs]
        return sum(float((each * curvature.solution(each, _INEXACT)).sum()) for each in sums) / _PROBES

    return length
