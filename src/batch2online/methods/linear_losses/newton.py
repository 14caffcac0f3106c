"""Newton's method for weighted losses of a linear predictor, plus a quadratic form, plus an elastic net.

A Hessian serves for several steps, corrected as in L-BFGS. Several classes of many parameters take its blocks alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from batch2online._types import FloatArray
from batch2online.methods.linear_losses.expansion import Expanded, ExpandedRows
from batch2online.methods.linear_losses.grams import curvature_sum, pieces, weighted_gram
from batch2online.methods.losses import PredictorLoss
from batch2online.numerics.memory import check_available

_WIDE = 256
"""Number of parameters of several classes up to which Hessians are formed."""


class Point(NamedTuple):
    """Parameters (K, p), the objective there, and its gradient (K, p) but for the absolute values."""

    theta: FloatArray
    value: float
    gradient: FloatArray


@dataclass(frozen=True)
class Objective:
    """``sum(weights * loss) + sum(ridge * theta^2) / 2 + sum(lasso * |theta|)`` of parameters theta (K, p).

    Expansions of rows, if there are any, are subtracted from their losses, and their sum over all rows is added. With
    ``kept``, a projection (p, p), it is minimised over parameters ``theta = theta @ kept.T`` alone.
    """

    loss: PredictorLoss
    rows: ExpandedRows
    scale: float
    ridge: FloatArray
    lasso: FloatArray
    kept: FloatArray | None = None
    expanded: Expanded | None = None

    @property
    def is_wide(self) -> bool:
        """Whether the Hessian is too large to be formed."""
        return self.ridge.size > _WIDE and len(self.ridge) > 1 and not self.lasso.any()

    def at(self, theta: FloatArray) -> Point:
        """Return the objective at these parameters; infinite where it is not a number."""
        rows, total, gradient = self.rows, 0.0, np.zeros(theta.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            for piece in pieces(*rows.eta.shape):
                design, weights = rows.design[piece], rows.weights[piece]
                eta = predictors(design, theta)
                values, slopes, _ = self.loss.local(eta, rows.y[piece], self.scale)
                if self.expanded is not None:
                    known = self.expanded.of_rows(eta, piece)
                    values, slopes = values - known[0], slopes - known[1]
                total, gradient = total + float(weights @ values), gradient + (weights * slopes.T) @ design
            total += float((self.ridge * theta * theta).sum()) / 2 + float((self.lasso * np.abs(theta)).sum())
            gradient = gradient + self.ridge * theta
            if self.expanded is not None:
                value, slope = self.expanded.of_all(theta)
                total, gradient = total + value, gradient + slope
            gradient = gradient if self.kept is None else gradient @ self.kept
        return Point(theta, total if np.isfinite(total) else np.inf, gradient)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian (K p, K p) of all but the absolute values."""
        what = "The Hessian of {:,} classes and {:,} columns".format(*theta.shape)
        check_available(3 * 8 * float(theta.size) ** 2, what, "A penalty with l1_ratio=0 needs none.")
        rows, eta = self.rows, predictors(self.rows.design, theta)
        curves = self.loss.local(eta, rows.y, self.scale)[2]
        total = curvature_sum(self.loss, rows.design, rows.weights, eta, curves)
        if self.expanded is not None and self.expanded.matrix.size:
            total += self.expanded.beyond
        total[np.diag_indices(len(total))] += self.ridge.reshape(-1)
        if self.kept is None:
            return total
        kept = np.kron(np.eye(len(theta)), self.kept)
        others = np.eye(len(kept)) - kept  # directions that are not kept have the diagonal alone
        return np.asarray(kept.T @ total @ kept + (others.T * np.abs(total.diagonal())) @ others)

    def blocks(self, theta: FloatArray) -> FloatArray:
        """Return the blocks (K, p, p) of the classes in the Hessian of the losses and the ridge."""
        rows, blocks = self.rows, np.zeros((*theta.shape, theta.shape[1]))
        for piece in pieces(*rows.eta.shape):
            design = rows.design[piece]
            curves = self.loss.local(predictors(design, theta), rows.y[piece], self.scale)[2]
            _add_grams(blocks, design, rows.weights[piece] * curves.T)
        diagonal = np.einsum("kpp->kp", blocks)
        diagonal += self.ridge
        return blocks

    def within(self, theta: FloatArray) -> FloatArray:
        """Return parameters projected onto the kept directions."""
        return theta if self.kept is None else np.asarray(theta @ self.kept.T)


def predictors(design: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the predictors (n, K) of rows, contiguous by class."""
    return np.asarray((theta @ design.T).T)


def _add_grams(total: FloatArray, design: FloatArray, curves: FloatArray) -> None:
    """Add the Gram matrices of rows weighted by each of the curves (K, n), in min(K, p) products."""
    k, p, _ = total.shape
    if k <= p:
        for j in range(k):
            total[j] += weighted_gram(design, curves[j])
        return
    for column in range(p):
        total[:, column] += (curves * design[:, column]) @ design


_FLAT = 1e-14
"""Columns of less curvature than this share of the largest count as flat."""

_FLOOR = 1e-10
"""Least curvature, as a share of the largest one."""

_ENDLESS = 1e300
"""Curvature where there is none at all: the length of a step is undefined, so that it is zero."""


def positive(blocks: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return symmetric matrices (K, p, p) with positive eigenvalues, as products of two arrays, entry by entry.

    The first array has a diagonal near one; directions without curvature get a small one.
    """
    own = np.abs(np.einsum("kpp->kp", blocks))
    largest = own.max(axis=1, keepdims=True)
    scale = np.sqrt(np.where(own > _FLAT * largest, own, np.where(largest > 0, largest, _ENDLESS)))
    both = scale[:, :, None] * scale[:, None, :]
    unit = blocks / both
    try:
        np.linalg.cholesky(unit - _FLOOR * np.eye(unit.shape[1]))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(unit)
        top = np.abs(values).max(axis=1, keepdims=True)
        values = np.where(top > 0, np.maximum(np.abs(values), _FLOOR * top), 1.0)
        unit = (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2)
    return unit, both


def inverses(blocks: FloatArray) -> FloatArray:
    """Return the inverses of symmetric matrices (K, p, p) that are made positive."""
    unit, both = positive(blocks)
    if len(unit) > 1:
        return np.asarray(np.linalg.inv(unit) / both)
    upper, _ = lapack.dpotri(lapack.dpotrf(unit[0], clean=1)[0])  # of one large matrix, in half the time
    return np.asarray((np.triu(upper) + np.triu(upper, 1).T) / both)


_TURNS, _HALVINGS, _SWEEPS = 60, 40, 50
"""Hessians, halvings of a step, and sweeps over columns, at most."""

_ENOUGH = 1e-4
"""Least share of the predicted decrease that a step must achieve (Armijo)."""

_MEMORY = 30
"""Number of steps by one Hessian at most; all of them are remembered."""

_FAST = 0.2
"""Share of the predicted decrease that a step leaves, at most, where the next one uses the same Hessian."""

_STALE = 1e-3
"""Factor of the tolerance of a last step by an earlier Hessian: it does not square the decrease as a new one does."""


class Solution(NamedTuple):
    """Parameters, and the value of the objective there."""

    theta: FloatArray
    value: float
    left: float
    """The decrease that the last step has predicted, if the search did not converge; else 0."""
    inverses: FloatArray | None = None
    """Inverses of the blocks of a Hessian nearby, where it is too large to be formed."""


_Move = tuple[FloatArray, FloatArray, float]
"""A change of the parameters, that of the gradient, and the product of both."""


def minimise(objective: Objective, start: Point, tolerance: float, least: float = -np.inf) -> Solution:
    """Return the minimum reached from a start; it has converged when the predicted decrease is below the tolerance.

    A Hessian takes as long as many gradients, so it serves for further steps, corrected as in L-BFGS, while each leaves
    at most a share of ``_FAST`` of the predicted decrease. No step is taken unless the objective falls. The search ends
    if it falls below ``least``: then it is unbounded for practical purposes.
    """
    point, lasso, is_wide = start, objective.lasso, objective.is_wide
    for _ in range(_TURNS):
        step_from, moves, former = _steps(objective, point.theta), list[_Move](), np.inf
        for _ in range(1 if lasso.any() else _MEMORY):
            step = step_from(point, moves)
            absolute = float((lasso * (np.abs(point.theta + step) - np.abs(point.theta))).sum())
            fall = -float(np.vdot(point.gradient, step)) - absolute  # to first order
            if fall > _FAST * former and not is_wide:
                break
            is_last = not fall > tolerance * (_STALE if moves and not is_wide else 1.0)
            lower = _line_search(objective, point, step, fall, 1 if is_last else _HALVINGS)
            if lower is None and moves:
                break  # earlier moves mislead
            if lower is None or is_last or lower.value < least:
                found = point if lower is None else lower
                return Solution(found.theta, found.value, 0.0 if is_last else fall, step_from.inverses)
            change, moved = lower.gradient - point.gradient, lower.theta - point.theta
            product = float(np.vdot(moved, change))
            if product > 0:  # otherwise there was no curvature along the step
                moves.append((moved, change, product))
            point, former = lower, fall
    return Solution(point.theta, point.value, former, step_from.inverses)


def _line_search(objective: Objective, point: Point, step: FloatArray, fall: float, halvings: int) -> Point | None:
    """Return the point after a backtracking line search along the step; None if nothing decreases the objective."""
    for turn in range(halvings if fall > 0 else 0):
        length = 0.5**turn
        new = objective.at(point.theta + length * step)
        if new.value <= point.value - _ENOUGH * length * fall:
            return new
    return None


class _QuasiNewton:
    """Steps of L-BFGS next to the inverse of a Hessian, or of its blocks where it is not formed."""

    def __init__(self, objective: Objective, theta: FloatArray) -> None:
        self._within, is_wide = objective.within, objective.is_wide
        blocks = objective.blocks(theta) if is_wide else _unshared(objective.hessian(theta), *theta.shape)
        self._inverses = inverses(blocks)
        self.inverses = self._inverses if is_wide else None

    def __call__(self, at: Point, moves: list[_Move]) -> FloatArray:
        """Return the step from a point, by the two-loop recursion."""
        result, shares = at.gradient, []
        for step, change, product in reversed(moves):
            shares.append(float(np.vdot(step, result)) / product)
            result = result - shares[-1] * change
        result = (self._inverses @ result.reshape(len(self._inverses), -1, 1)).reshape(result.shape)
        for (step, change, product), share in zip(moves, reversed(shares), strict=True):
            result = result + (share - float(np.vdot(change, result)) / product) * step
        return -self._within(result)


def _unshared(hessian: FloatArray, k: int, p: int) -> FloatArray:
    """Return a Hessian (1, K p, K p) in which changes that all classes share have the curvature of the others.

    Gradients of several classes sum to zero over these, so no step depends on it.
    """
    if k > 1:
        by_class = np.einsum("kplp->klp", hessian.reshape(k, p, k, p))
        by_class += np.einsum("kkp->p", by_class) / k**2
    return hessian[None]


class _Proximal:
    """Steps that minimise the quadratic model of a Hessian, made positive, plus the absolute values."""

    inverses = None

    def __init__(self, objective: Objective, theta: FloatArray) -> None:
        unit, both = positive(objective.hessian(theta)[None])
        self._hessian, self._lasso = (unit * both)[0], objective.lasso.reshape(-1)

    def __call__(self, at: Point, moves: list[_Move]) -> FloatArray:
        """Return the step from a point."""
        given = (self._hessian, at.gradient.reshape(-1), at.theta.reshape(-1), self._lasso)
        return _polished(*given, _coordinate_descent(*given)).reshape(at.theta.shape)


def _steps(objective: Objective, theta: FloatArray) -> _QuasiNewton | _Proximal:
    """Return a function from points, and the moves since, to steps."""
    return _Proximal(objective, theta) if objective.lasso.any() else _QuasiNewton(objective, theta)


def _polished(
    matrix: FloatArray, gradient: FloatArray, theta: FloatArray, lasso: FloatArray, step: FloatArray
) -> FloatArray:
    """Return the best step that leads to the same signs as this one, if there is one."""
    signs = np.sign(theta + step)
    free = np.flatnonzero((signs != 0) | (lasso == 0))
    fixed = -np.where((signs != 0) | (lasso == 0), 0.0, theta)  # all others go to zero
    right = (gradient + lasso * signs + matrix @ fixed)[free]
    exact = fixed.copy()
    exact[free] = -np.linalg.solve(matrix[np.ix_(free, free)], right) if free.size else 0.0
    keeps_signs = (np.sign(theta + exact)[lasso > 0] == signs[lasso > 0]).all()
    return exact if keeps_signs else step


def _coordinate_descent(matrix: FloatArray, gradient: FloatArray, theta: FloatArray, lasso: FloatArray) -> FloatArray:
    """Return the step d that minimises ``gradient d + d' matrix d / 2 + lasso |theta + d|``."""
    step, residual = np.zeros_like(gradient), gradient.copy()  # residual = gradient + matrix @ step
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
