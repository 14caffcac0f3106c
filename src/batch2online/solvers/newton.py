"""Damped Newton steps for weighted losses of a linear predictor, plus a quadratic form, plus an elastic net.

Each step goes down: by half as long as it must be, along a direction in which the function falls. Where the quadratic
form makes the curvature indefinite, its eigenvalues are made positive. An elastic net's step solves the quadratic model
with the absolute values, coordinate by coordinate. Steps of very many parameters come from conjugate gradients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from batch2online._types import FloatArray
from batch2online.solvers.conjugate import Curvature
from batch2online.solvers.objective import Objective, Point

_TURNS, _HALVINGS, _SWEEPS = 60, 40, 50
_ENOUGH = 1e-4
"""Share of the fall that the slope promises, of which a step must bring at least this."""

_INEXACT = 0.1
"""Share of the slope that a step of conjugate gradients may leave: later steps see to it."""

_FLAT = 1e-14
"""Columns of less curvature than this share of the largest have none."""

_FLOOR = 1e-10
"""Least curvature, as a share of the largest one."""


class Solution(NamedTuple):
    """Parameters, the value of the objective there, and whether no step would bring it down by much."""

    theta: FloatArray
    value: float
    converged: bool


def minimise(objective: Objective, start: Point, tolerance: float, least: float = -np.inf) -> Solution:
    """Return a minimum near the start; it has converged when a step promises less than the tolerance.

    Where the objective falls below ``least`` it has no minimum that means anything, and the search ends.
    """
    point = start
    for _ in range(_TURNS):
        step = _step(objective, point)
        fall = _promised(objective, point, step)
        if not fall > tolerance:
            last = point.theta + step  # too short for the values to tell whether it goes down; the slope knows better
            return Solution(last if fall > 0 else point.theta, point.value, True)
        lower = _lower(objective, point, step, fall)
        if lower is None:
            return Solution(point.theta, point.value, False)
        point = lower
        if point.value < least:
            break
    return Solution(point.theta, point.value, False)


def _lower(objective: Objective, point: Point, step: FloatArray, fall: float) -> Point | None:
    """Return the point after as much of the step as brings the objective down enough; None where none does."""
    length = 1.0
    for _ in range(_HALVINGS):
        new = objective.at(point.theta + length * step)
        if new.value <= point.value - _ENOUGH * length * fall:
            return new
        length /= 2
    return None


def _promised(objective: Objective, point: Point, step: FloatArray) -> float:
    """Return by how much the objective falls along a whole step, to first order."""
    absolute = float((objective.lasso * (np.abs(point.theta + step) - np.abs(point.theta))).sum())
    return -float((point.slope * step).sum()) - absolute


def _step(objective: Objective, point: Point) -> FloatArray:
    theta, slope = point.theta, point.slope
    if objective.is_wide:
        return -Curvature(objective, point).solution(slope, _INEXACT)
    curvature = objective.curvature(point)
    if not objective.lasso.any():
        return -objective.within(definite_solution(curvature, slope.reshape(-1)).reshape(theta.shape))
    given = (_made_definite(curvature), slope.reshape(-1), theta.reshape(-1), objective.lasso.reshape(-1))
    return _polished(*given, _coordinate_descent(*given)).reshape(theta.shape)


def definite_solution(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Return ``matrix^-1 right``, with eigenvalues made positive where the matrix is not safely definite.

    Zero where the diagonal is: there is no curvature that would tell how far to go.
    """
    own = np.abs(matrix.diagonal())
    if not own.any():
        return np.zeros_like(right)
    largest = float(own.max())
    scale = 1 / np.sqrt(np.where(own > _FLAT * largest, own, largest))
    scaled = matrix * scale * scale[:, None]
    factor, info = lapack.dpotrf(scaled, clean=1)
    if info == 0 and float(lapack.dpocon(factor, float(np.abs(scaled).sum(axis=0).max()))[0]) > _FLOOR:
        solution, _ = lapack.dpotrs(factor, (right.T * scale).T)
    else:
        values, vectors = np.linalg.eigh(scaled)
        values = np.maximum(np.abs(values), _FLOOR * max(float(np.abs(values).max()), np.finfo(np.float64).tiny))
        solution = vectors @ ((vectors.T @ (right.T * scale).T).T / values).T
    return np.asarray((solution.T * scale).T)


def _made_definite(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    floor = _FLOOR * max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
    return np.asarray((vectors * np.maximum(np.abs(values), floor)) @ vectors.T)


def _polished(
    matrix: FloatArray, slope: FloatArray, theta: FloatArray, lasso: FloatArray, step: FloatArray
) -> FloatArray:
    """Return the best step that leads to the same signs as this one, where there is one."""
    signs = np.sign(theta + step)
    free = np.flatnonzero((signs != 0) | (lasso == 0))
    fixed = -np.where((signs != 0) | (lasso == 0), 0.0, theta)  # all others go to zero
    right = (slope + lasso * signs + matrix @ fixed)[free]
    exact = fixed.copy()
    exact[free] = -definite_solution(matrix[np.ix_(free, free)], right) if free.size else 0.0
    keeps_signs = (np.sign(theta + exact)[lasso > 0] == signs[lasso > 0]).all()
    return exact if keeps_signs else step


def _coordinate_descent(matrix: FloatArray, slope: FloatArray, theta: FloatArray, lasso: FloatArray) -> FloatArray:
    """Return the step d that minimises ``slope d + d' matrix d / 2 + lasso |theta + d|``."""
    step, residual = np.zeros_like(slope), slope.copy()  # residual = slope + matrix @ step
    for _ in range(_SWEEPS):
        largest = 0.0
        for j, curvature in enumerate(matrix.diagonal().tolist()):
            target = theta[j] + step[j] - residual[j] / curvature
            shrunk = np.sign(target) * max(abs(target) - lasso[j] / curvature, 0.0)
            change = shrunk - theta[j] - step[j]
            if change:
                step[j] += change
                residual += change * matrix[:, j]
                largest = max(largest, abs(change) * np.sqrt(curvature))
        if largest <= 1e-7 * max(float(np.abs(step).max()), np.finfo(np.float64).tiny):
            break
    return step
