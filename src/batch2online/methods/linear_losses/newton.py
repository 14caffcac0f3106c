"""Newton's method for weighted losses of a linear predictor, plus a quadratic form, plus an elastic net.

The Hessian serves for several steps, corrected as in L-BFGS. Several classes of many parameters take the block of each
class of the Hessian alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from batch2online._types import FloatArray
from batch2online.methods.linear_losses.expansion import Expanded
from batch2online.methods.linear_losses.grams import curvature_sum, pieces, weighted_gram
from batch2online.methods.losses import PredictorLoss
from batch2online.numerics.memory import check_available

_WIDE = 256
"""Number of parameters of several classes up to which Hessians are formed."""

_RIDGE = 1e-9
"""Share of each diagonal entry that is added to the blocks of a preconditioner."""


_DAMPING = 1e-8
"""Least curvature along a column, as a share of its sum of squares: rare levels of certain classes have none."""


class Point(NamedTuple):
    """Parameters (K, p), and the objective and its derivatives there, from one pass over the rows."""

    theta: FloatArray
    eta: FloatArray
    value: float
    gradient: FloatArray
    """The gradient (K, p) of all but the absolute values."""
    hessian: FloatArray
    """Second derivatives (n, 1) of the losses; empty for several predictors."""


@dataclass(frozen=True)
class Objective:
    """``sum(weights * loss) + sum(ridge * theta^2) / 2 + sum(lasso * |theta|)`` of parameters theta (K, p).

    Expansions of rows, if there are any, are subtracted from their losses, and their sum over all rows is added. With
    ``kept``, a projection (p, p), it is minimised over parameters ``theta = theta @ kept.T`` alone.
    """

    loss: PredictorLoss
    design: FloatArray
    y: FloatArray
    weights: FloatArray
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
        eta = predictors(self.design, theta)
        with np.errstate(over="ignore", invalid="ignore"):
            if len(theta) == 1:
                values, gradients, hessian = self.loss.local(eta, self.y, self.scale)
                total, gradient = self._summed(slice(None), eta, values, gradients)
            else:
                total, gradient, hessian = 0.0, np.zeros(theta.shape), np.zeros((0, 0))
                for piece in pieces(*eta.shape):
                    own = self.loss.local(eta[piece], self.y[piece], self.scale)[:2]
                    value, slope = self._summed(piece, eta[piece], *own)
                    total, gradient = total + value, gradient + slope
            total += float((self.ridge * theta * theta).sum()) / 2 + float((self.lasso * np.abs(theta)).sum())
            gradient = gradient + self.ridge * theta
            if self.expanded is not None:
                value, slope = self.expanded.all_rows.value_and_gradient(theta)
                total, gradient = total + value, gradient + slope
            gradient = gradient if self.kept is None else gradient @ self.kept
        return Point(theta, eta, total if np.isfinite(total) else np.inf, gradient, hessian)

    def _summed(
        self, piece: slice, eta: FloatArray, values: FloatArray, gradients: FloatArray
    ) -> tuple[float, FloatArray]:
        """Return the sum over a piece of rows, and its gradient, given the losses and their first derivatives."""
        if self.expanded is not None:
            known = self.expanded.coreset.value_and_gradient(eta, piece)
            values, gradients = values - known[0], gradients - known[1]
        weights = self.weights[piece]
        return float(weights @ values), (weights * gradients.T) @ self.design[piece]

    def curvature(self, point: Point) -> FloatArray:
        """Return the Hessian (K p, K p) of all but the absolute values."""
        if len(point.theta) > 1:
            what = "The Hessian of {:,} classes and {:,} columns".format(*point.theta.shape)
            check_available(3 * 8 * float(point.theta.size) ** 2, what, "A penalty with l1_ratio=0 needs none.")
        total = curvature_sum(self.loss, self.design, self.weights, point.eta, point.hessian)
        if self.expanded is not None and self.expanded.all_rows.matrix.size:
            total += self.expanded.all_rows.matrix - self.expanded.coreset.curvature
        total[np.diag_indices(len(total))] += self.ridge.reshape(-1)
        if self.kept is None:
            return total
        kept = np.kron(np.eye(len(self.ridge)), self.kept)
        others = np.eye(len(kept)) - kept  # directions that are not kept have the diagonal alone
        return np.asarray(kept.T @ total @ kept + (others.T * np.abs(total.diagonal())) @ others)

    def inverse_blocks(self, point: Point) -> FloatArray:
        """Return the inverses (K, p, p) of the blocks of the classes in the Hessian of the losses and the ridge."""
        blocks = np.zeros((*self.ridge.shape, self.ridge.shape[1]))
        for piece in pieces(*point.eta.shape):
            hessian = self.loss.local(point.eta[piece], self.y[piece], self.scale)[2]
            _add_grams(blocks, self.design[piece], self.weights[piece] * hessian.T)
        diagonal = np.einsum("kpp->kp", blocks)
        diagonal += self.ridge + _DAMPING * (np.square(self.design.T) @ self.weights)
        scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        diagonal += np.where(diagonal > 0, _RIDGE * diagonal, 1.0)
        both = scale[:, :, None] * scale[:, None, :]
        return np.asarray(np.linalg.inv(blocks * both) * both)

    def inverse(self, hessian: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the product with the inverse of a Hessian, see :func:`definite_solver`.

        Gradients of several classes sum to zero over these, so changes that all share get the curvature of the others.
        """
        (k, p), shared = self.ridge.shape, hessian.copy()
        if k > 1:
            by_class = np.einsum("kplp->klp", shared.reshape(k, p, k, p))
            by_class += np.einsum("kkp->p", by_class) / k**2
        return definite_solver(shared)

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


_TURNS, _HALVINGS, _SWEEPS = 60, 40, 50
_ENOUGH = 1e-4
"""Least share of the predicted decrease that a step must achieve (Armijo)."""

_MEMORY = 30
"""Number of steps by one Hessian at most; all of them are remembered."""

_FAST = 0.2
"""Share of the predicted decrease that a step leaves, at most, where the next one uses the same Hessian."""

_STALE = 1e-3
"""Factor of the tolerance of a last step by an earlier Hessian: it does not square the decrease as a new one does."""

_FLAT = 1e-14
"""Columns of less curvature than this share of the largest count as flat."""

_FLOOR = 1e-10
"""Least curvature, as a share of the largest one."""


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
    point, lasso = start, objective.lasso
    for _ in range(_TURNS):
        step_from, moves, former = _steps(objective, point), list[_Move](), np.inf
        for _ in range(1 if lasso.any() else _MEMORY):
            step = step_from(point, moves)
            absolute = float((lasso * (np.abs(point.theta + step) - np.abs(point.theta))).sum())
            fall = -float(np.vdot(point.gradient, step)) - absolute  # to first order
            if fall > _FAST * former and not objective.is_wide:
                break
            is_last = not fall > tolerance * (_STALE if moves and not objective.is_wide else 1.0)
            lower = _line_search(objective, point, step, fall, 1 if is_last else _HALVINGS)
            if lower is None and moves:
                break  # earlier moves mislead
            if lower is None:
                return Solution(point.theta, point.value, 0.0 if is_last else fall, step_from.inverses)
            if is_last or lower.value < least:
                return Solution(lower.theta, lower.value, 0.0 if is_last else fall, step_from.inverses)
            moves = _with_move(moves, lower.theta - point.theta, lower.gradient - point.gradient)
            point, former = lower, fall
    return Solution(point.theta, point.value, former)


def _line_search(objective: Objective, point: Point, step: FloatArray, fall: float, halvings: int) -> Point | None:
    """Return the point after a backtracking line search along the step; None if nothing decreases the objective."""
    for turn in range(halvings if fall > 0 else 0):
        length = 0.5**turn
        new = objective.at(point.theta + length * step)
        if new.value <= point.value - _ENOUGH * length * fall:
            return new
    return None


class _QuasiNewton:
    """Steps by a product with an inverse Hessian, or with the inverses of its blocks where it is not formed."""

    def __init__(self, objective: Objective, point: Point) -> None:
        self._within = objective.within
        self.inverses = objective.inverse_blocks(point) if objective.is_wide else None
        self._solution = None if objective.is_wide else objective.inverse(objective.curvature(point))

    def _product(self, gradient: FloatArray) -> FloatArray:
        if self.inverses is not None:
            return np.asarray((self.inverses @ gradient[:, :, None])[:, :, 0])
        assert self._solution is not None
        return self._solution(gradient.reshape(-1)).reshape(gradient.shape)

    def __call__(self, at: Point, moves: list[_Move]) -> FloatArray:
        """Return the step of L-BFGS from a point, by the two-loop recursion."""
        result, shares = at.gradient, []
        for step, change, product in reversed(moves):
            shares.append(float(np.vdot(step, result)) / product)
            result = result - shares[-1] * change
        result = self._product(result)
        for (step, change, product), share in zip(moves, reversed(shares), strict=True):
            result = result + (share - float(np.vdot(change, result)) / product) * step
        return -self._within(result)


class _Proximal:
    """Steps that minimise the quadratic model of a Hessian, made positive, plus the absolute values."""

    inverses = None

    def __init__(self, objective: Objective, point: Point) -> None:
        values, vectors = np.linalg.eigh(objective.curvature(point))
        floor = _FLOOR * max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
        self._hessian = np.asarray((vectors * np.maximum(np.abs(values), floor)) @ vectors.T)
        self._lasso = objective.lasso.reshape(-1)

    def __call__(self, at: Point, moves: list[_Move]) -> FloatArray:
        given = (self._hessian, at.gradient.reshape(-1), at.theta.reshape(-1), self._lasso)
        return _polished(*given, _coordinate_descent(*given)).reshape(at.theta.shape)


def _steps(objective: Objective, point: Point) -> _QuasiNewton | _Proximal:
    """Return a function from points, and the moves since, to steps."""
    return _Proximal(objective, point) if objective.lasso.any() else _QuasiNewton(objective, point)


def _with_move(moves: list[_Move], step: FloatArray, change: FloatArray) -> list[_Move]:
    """Return the moves with another one, unless there was no curvature along it."""
    product = float(np.vdot(step, change))
    return [*moves, (step, change, product)] if product > 0 else moves


def definite_solution(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Return ``matrix^-1 right``, see :func:`definite_solver`."""
    return definite_solver(matrix)(right)


def definite_solver(matrix: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return the product with the inverse of a matrix, whose eigenvalues are made positive unless it is definite.

    Products are zero if the diagonal is zero: without curvature the length of a step is undefined.
    """
    own = np.abs(matrix.diagonal())
    if not own.any():
        return np.zeros_like
    largest = float(own.max())
    scale = 1 / np.sqrt(np.where(own > _FLAT * largest, own, largest))
    scaled = matrix * scale * scale[:, None]
    factor, info = lapack.dpotrf(scaled, clean=1)
    if info == 0 and float(lapack.dpocon(factor, float(np.abs(scaled).sum(axis=0).max()))[0]) > _FLOOR:
        return lambda right: (lapack.dpotrs(factor, (right.T * scale).T)[0].T * scale).T
    values, vectors = np.linalg.eigh(scaled)
    values = np.maximum(np.abs(values), _FLOOR * max(float(np.abs(values).max()), np.finfo(np.float64).tiny))
    return lambda right: ((vectors @ ((vectors.T @ (right.T * scale).T).T / values).T).T * scale).T


def _polished(
    matrix: FloatArray, gradient: FloatArray, theta: FloatArray, lasso: FloatArray, step: FloatArray
) -> FloatArray:
    """Return the best step that leads to the same signs as this one, if there is one."""
    signs = np.sign(theta + step)
    free = np.flatnonzero((signs != 0) | (lasso == 0))
    fixed = -np.where((signs != 0) | (lasso == 0), 0.0, theta)  # all others go to zero
    right = (gradient + lasso * signs + matrix @ fixed)[free]
    exact = fixed.copy()
    exact[free] = -definite_solution(matrix[np.ix_(free, free)], right) if free.size else 0.0
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
