"""Newton's method for weighted losses of a linear predictor, plus a quadratic form, plus an elastic net."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from batch2online import sampling
from batch2online._types import FloatArray
from batch2online.methods.linear_losses.expansion import Quadratic, RowExpansions
from batch2online.methods.linear_losses.losses.base import PredictorLoss, pieces, weighted_gram
from batch2online.numerics.memory import check_available
from batch2online.numerics.triangular import inverse_root, squared_lengths

_WIDE = 256
"""Number of parameters of several classes up to which Hessians are formed."""


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
    """``sum(weights * loss) + quadratic + sum(ridge * theta^2) / 2 + sum(lasso * |theta|)`` of theta (K, p).

    With ``expansions``, those of Taylor order ``order`` are subtracted from the losses of the rows: ``quadratic`` is
    the sum of the expansions of all rows. With ``kept``, a projection (p, p), it is minimised over parameters
    ``theta = theta @ kept.T`` alone.
    """

    loss: PredictorLoss
    design: FloatArray
    y: FloatArray
    weights: FloatArray
    scale: float
    quadratic: Quadratic | None
    ridge: FloatArray
    lasso: FloatArray
    kept: FloatArray | None = None
    expansions: RowExpansions | None = None
    order: int = 0

    @property
    def is_wide(self) -> bool:
        """Whether the Hessian is too large to be formed."""
        has_matrix = self.quadratic is not None and self.quadratic.matrix is not None
        return self.ridge.size > _WIDE and len(self.ridge) > 1 and not has_matrix and not self.lasso.any()

    def at(self, theta: FloatArray) -> Point:
        """Return the objective at these parameters; infinite where it is not a number."""
        eta = predictors(self.design, theta)
        with np.errstate(over="ignore", invalid="ignore"):
            if len(theta) == 1:
                values, gradients, hessian = self.loss.local(eta, self.y, self.scale)
                values, gradients = self._left(slice(None), eta, values, gradients)
                own, gradient = float(self.weights @ values), (self.weights * gradients.T) @ self.design
            else:
                own, gradient, hessian = *self._several(eta), np.zeros((0, 0))
            penalty = float((self.ridge * theta * theta).sum()) / 2 + float((self.lasso * np.abs(theta)).sum())
            total, gradient = own + penalty, gradient + self.ridge * theta
            if self.quadratic is not None:
                total, gradient = total + self.quadratic.value(theta), gradient + self.quadratic.gradient(theta)
            gradient = gradient if self.kept is None else gradient @ self.kept
        return Point(theta, eta, total if np.isfinite(total) else np.inf, gradient, hessian)

    def _left(
        self, piece: slice, eta: FloatArray, values: FloatArray, gradients: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return values and first derivatives of the rows of a piece, less those of their expansions."""
        if self.expansions is None:
            return values, gradients
        own = self.expansions if piece == slice(None) else self.expansions[piece]
        return values - own.value(eta, self.order), gradients - own.gradient(eta, self.order)

    def _several(self, eta: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss of several predictors and its gradient, a piece of rows at a time."""
        total, gradient = 0.0, np.zeros(self.ridge.shape)
        for piece in pieces(*eta.shape):
            local = self.loss.value_and_gradient(eta[piece], self.y[piece], self.scale)
            values, gradients = self._left(piece, eta[piece], *local)
            total += float(self.weights[piece] @ values)
            gradient += (self.weights[piece] * gradients.T) @ self.design[piece]
        return total, gradient

    def curvature(self, point: Point) -> FloatArray:
        """Return the Hessian (K p, K p) of all but the absolute values."""
        if len(point.theta) == 1:
            total = weighted_gram(self.design, self.weights * point.hessian[:, 0])
        else:
            what = "The Hessian of {:,} classes and {:,} columns".format(*point.theta.shape)
            check_available(3 * 8 * float(point.theta.size) ** 2, what, "A penalty with l1_ratio=0 needs none.")
            total = self.loss.hessian_sum(self.design, self.weights, point.eta, self.y, self.scale)
        if self.expansions is not None and self.quadratic is not None and self.quadratic.matrix is not None:
            total += self.quadratic.matrix - self.expansions.curvature
        return self._penalised(total)

    def nearby_curvature(self) -> FloatArray | None:
        """Return the Hessian at the expansions of all rows, if they have Taylor order 2."""
        if self.expansions is None or self.quadratic is None or self.quadratic.matrix is None:
            return None
        return self._penalised(self.quadratic.matrix.copy()) if np.all(self.expansions.rows.scale) else None

    def _penalised(self, total: FloatArray) -> FloatArray:
        """Return second derivatives with those of the penalty, which are added in place."""
        total[np.diag_indices(len(total))] += self.ridge.reshape(-1)
        if self.kept is None:
            return total
        kept = np.kron(np.eye(len(self.ridge), dtype=np.float64), self.kept)
        others = np.eye(len(kept)) - kept  # directions that are not kept have the diagonal alone
        return np.asarray(kept.T @ total @ kept + (others.T * np.abs(total.diagonal())) @ others)

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


_MOST = 200
"""Maximum number of products of conjugate gradients: an inexact step is a step all the same."""

_INEXACT = 0.1
"""Residual of conjugate gradients that quadratic forms are computed with, as a share of the right-hand side."""

_RIDGE = 1e-9
"""Share of each diagonal entry that is added to the blocks of a preconditioner."""


class Curvature:
    """The Hessian of an objective at a point as a linear operator, for quadratic forms without a matrix.

    Conjugate gradients are preconditioned by the inverses (K, p, p) of its diagonal blocks, or of those nearby.
    """

    def __init__(self, objective: Objective, point: Point, inverses: FloatArray | None = None) -> None:
        self.objective, self.shape, self._eta = objective, point.theta.shape, point.eta
        self.inverses = self._inverted(point.eta) if inverses is None else inverses

    @cached_property
    def _bent(self) -> list[tuple[slice, Callable[[FloatArray], FloatArray]]]:
        """Products of the second derivatives with directions of the predictors, a piece of rows at a time."""
        loss, y, scale, eta = self.objective.loss, self.objective.y, self.objective.scale, self._eta
        return [(piece, loss.hessian_operator(eta[piece], y[piece], scale)) for piece in pieces(*eta.shape)]

    def _inverted(self, eta: FloatArray) -> FloatArray:
        blocks = self._blocks(eta)
        diagonal = np.einsum("kpp->kp", blocks)
        diagonal += self.objective.ridge
        scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        diagonal += np.where(diagonal > 0, _RIDGE * diagonal, 1.0)
        both = scale[:, :, None] * scale[:, None, :]
        return np.asarray(np.linalg.inv(blocks * both) * both)

    def _blocks(self, eta: FloatArray) -> FloatArray:
        """Return the diagonal blocks (K, p, p) of the classes, without the penalty."""
        own, (k, p) = self.objective, self.shape
        total = np.zeros((k, p, p))
        for piece in pieces(*eta.shape):
            curves = own.weights[piece] * own.loss.hessian(eta[piece], own.y[piece], own.scale).T
            _add_grams(total, own.design[piece], curves)
        return total

    def solution(self, right: FloatArray, accuracy: float = _INEXACT) -> FloatArray:
        """Return ``Hessian^-1 right`` (K, p) by conjugate gradients.

        They end with a residual of this share of the right-hand side, or where there is no curvature left.
        """
        found, residual = np.zeros_like(right), right
        direction, former = np.zeros_like(right), 1.0
        enough = accuracy * float(np.linalg.norm(right))
        for _ in range(_MOST):
            if float(np.linalg.norm(residual)) <= enough:
                break
            steepest = (self.inverses @ residual[:, :, None])[:, :, 0]
            size = float(np.vdot(residual, steepest))
            direction = steepest + size / former * direction
            bent = self._product(direction)
            curvature = float(np.vdot(direction, bent))
            if not curvature > 0:
                break
            found, residual = found + size / curvature * direction, residual - size / curvature * bent
            former = size
        return self.objective.within(found)

    def _product(self, direction: FloatArray) -> FloatArray:
        own = self.objective
        direction = own.within(direction)
        total = own.ridge * direction
        for piece, bent in self._bent:
            design = own.design[piece]
            total += (own.weights[piece] * bent(predictors(design, direction)).T) @ design
        return np.asarray(total if own.kept is None else total @ own.kept)


def _add_grams(total: FloatArray, design: FloatArray, curves: FloatArray) -> None:
    """Add the Gram matrices of rows weighted by each of the curves (K, n), in min(K, p) products."""
    k, p, _ = total.shape
    if k <= p:
        for j in range(k):
            total[j] += weighted_gram(design, curves[j])
        return
    for column in range(p):
        total[:, column] += (curves * design[:, column]) @ design


_PROBES = 2
"""Number of sums with random signs that estimate a length where the Hessian is not formed; twice as many with it."""

_NARROW = 64
"""Number of columns up to which the leverage of each row is computed instead."""

Length = Callable[[FloatArray], float]
"""The sum over rows of :math:`|H^{-1/2} (r_i \\otimes z_i)|^2`, given r (n, K)."""


class Metric:
    """The metric of the Hessian of an objective at a point.

    ``length`` sums the squared lengths of gradients of single rows, ``gap`` estimates how far the objective is above
    its minimum, to second order.
    """

    length: Length
    gap: float

    def __init__(self, objective: Objective, theta: FloatArray, inverses: FloatArray | None = None) -> None:
        design, point = objective.design, objective.at(theta)
        self.value, gradient = point.value, point.gradient
        if objective.is_wide:
            curvature = Curvature(objective, point, inverses)
            self.length = _probed(design, curvature.solution, _PROBES)
            step = curvature.solution(gradient)
        else:
            hessian = objective.curvature(point)
            inverse = objective.inverse(hessian)
            self.length, step = (
                _measured(design, hessian, inverse, len(theta)),
                inverse(gradient.reshape(-1)).reshape(gradient.shape),
            )
        self.gap = float((gradient * step).sum()) / 2


def _measured(
    design: FloatArray, hessian: FloatArray, inverse: Callable[[FloatArray], FloatArray], n_outputs: int
) -> Length:
    if n_outputs == 1 and len(hessian) > _NARROW:
        return _probed(design, lambda right: inverse(right.reshape(-1)).reshape(right.shape), 2 * _PROBES)
    if n_outputs == 1:
        leverage = squared_lengths(design, inverse_root(hessian))
        return lambda gradients: float(leverage @ np.square(gradients[:, 0]))
    return lambda gradients: max(0.0, float(np.trace(inverse(_squares(design, gradients)))))


def _squares(design: FloatArray, gradients: FloatArray) -> FloatArray:
    """Return the sum of the outer squares of the gradients of rows, (K p, K p)."""
    total = np.zeros((gradients.shape[1] * design.shape[1],) * 2)
    for piece in pieces(len(design), len(total)):
        own = (gradients[piece, :, None] * design[piece, None, :]).reshape(-1, len(total))
        total += own.T @ own
    return total


def _probed(design: FloatArray, solution: Callable[[FloatArray], FloatArray], n_probes: int) -> Length:
    """Return an unbiased estimate of the length: that of a sum with random signs, on average."""
    words = sampling.words(0, sampling.SOLVER, range(n_probes * len(design))).reshape(n_probes, -1)
    signs = np.where(words >> np.uint64(63), 1.0, -1.0)

    def length(gradients: FloatArray) -> float:
        sums = [(sign * gradients.T) @ design for sign in signs]
        return sum(float((each * solution(each)).sum()) for each in sums) / n_probes

    return length


_TURNS, _HALVINGS, _SWEEPS = 60, 40, 50
_ENOUGH = 1e-4
"""Least share of the predicted decrease that a step must achieve (Armijo)."""

_FAST = 0.2
"""Share of the predicted decrease that a step leaves, at most, where the next one uses the same Hessian."""

_FLAT = 1e-14
"""Columns of less curvature than this share of the largest count as flat."""

_FLOOR = 1e-10
"""Least curvature, as a share of the largest one."""


class Solution(NamedTuple):
    """Parameters, the value of the objective there, and whether the search has converged."""

    theta: FloatArray
    value: float
    converged: bool
    inverses: FloatArray | None = None
    """Inverses of the blocks of a Hessian nearby, where it is too large to be formed."""


def minimise(
    objective: Objective, start: Point, tolerance: float, least: float = -np.inf, exact: float | None = None
) -> Solution:
    """Return the minimum reached from a start; it has converged when the predicted decrease is below the tolerance.

    A Hessian takes as long as many gradients, so it serves for further steps while each leaves at most a share of
    ``_FAST`` of the predicted decrease. These do not square it as Newton's do: what the last one leaves must be less
    than ``exact``, by default the tolerance. The search ends if the objective falls below ``least``: then it is
    unbounded for practical purposes.
    """
    exact = tolerance if exact is None else exact
    if objective.is_wide:
        return _by_gradients(objective, start, tolerance, least)
    point, former, nearby = start, 0.0, None if objective.lasso.any() else objective.nearby_curvature()
    step_from = None if nearby is None else _steps(objective, nearby)
    for _ in range(_TURNS):
        is_fresh = step_from is None
        step_from = step_from or _steps(objective, objective.curvature(point))
        step, fall = _predicted(objective, point, step_from(point))
        if not is_fresh and 0 < _FAST * former < fall:
            is_fresh, step_from = True, _steps(objective, objective.curvature(point))
            step, fall = _predicted(objective, point, step_from(point))
        left = fall * min(1.0, fall / former) if former else fall
        if not (fall > tolerance if is_fresh else left > exact):
            return _ended(point, step, fall)
        lower = _lower(objective, point, step, fall)
        if lower is None and is_fresh:
            return Solution(point.theta, point.value, False)
        if lower is None:
            step_from = None
            continue
        point, former = lower, fall
        if objective.lasso.any():  # such a step takes longer than a Hessian
            step_from = None
        if point.value < least:
            break
    return Solution(point.theta, point.value, False)


def _ended(point: Point, step: FloatArray, fall: float) -> Solution:
    """Return the solution after a last step, whose decrease, half of that predicted, is too small to be measured."""
    if not fall > 0:
        return Solution(point.theta, point.value, True)
    return Solution(point.theta + step, point.value - fall / 2, True)


def _predicted(objective: Objective, point: Point, step: FloatArray) -> tuple[FloatArray, float]:
    """Return a step, and the decrease of the objective along it to first order."""
    absolute = float((objective.lasso * (np.abs(point.theta + step) - np.abs(point.theta))).sum())
    return step, -float((point.gradient * step).sum()) - absolute


def _lower(objective: Objective, point: Point, step: FloatArray, fall: float) -> Point | None:
    """Return the point after a backtracking line search along the step; None if nothing decreases the objective."""
    length = 1.0
    for _ in range(_HALVINGS):
        new = objective.at(point.theta + length * step)
        if new.value <= point.value - _ENOUGH * length * fall:
            return new
        length /= 2
    return None


def _steps(objective: Objective, hessian: FloatArray) -> Callable[[Point], FloatArray]:
    """Return a function from points to steps by a Hessian as a matrix."""
    if not objective.lasso.any():
        solution = objective.inverse(hessian)
        return lambda at: -objective.within(solution(at.gradient.reshape(-1)).reshape(at.theta.shape))
    values, vectors = np.linalg.eigh(hessian)
    floor = _FLOOR * max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
    definite, lasso = np.asarray((vectors * np.maximum(np.abs(values), floor)) @ vectors.T), objective.lasso.reshape(-1)

    def step(at: Point) -> FloatArray:
        given = (definite, at.gradient.reshape(-1), at.theta.reshape(-1), lasso)
        return _polished(*given, _coordinate_descent(*given)).reshape(at.theta.shape)

    return step


def _by_gradients(objective: Objective, start: Point, tolerance: float, least: float) -> Solution:
    """Return the minimum by L-BFGS, where the Hessian is too large to be formed.

    Its blocks on the diagonal precondition the steps; they are computed anew every ``_MEMORY`` steps.
    """
    point = start
    for _ in range(_TURNS):
        inverses, moves = Curvature(objective, point).inverses, list[_Move]()
        for _ in range(_MEMORY):
            step = -objective.within(_quasi_newton(inverses, moves, point.gradient))
            fall = -float(np.vdot(point.gradient, step))
            if not fall > tolerance:
                return _ended(point, step, fall)._replace(inverses=inverses)
            lower = _lower(objective, point, step, fall)
            if lower is None or lower.value < least:
                return Solution(point.theta, point.value, False)
            moves = _with_move(moves, lower.theta - point.theta, lower.gradient - point.gradient)
            point = lower
    return Solution(point.theta, point.value, False)


_MEMORY = 30
"""Number of steps of L-BFGS between two preconditioners; all of them are remembered."""

_Move = tuple[FloatArray, FloatArray, float]
"""A change of the parameters, that of the gradient, and the product of both."""


def _with_move(moves: list[_Move], step: FloatArray, change: FloatArray) -> list[_Move]:
    """Return the moves with another one, unless there was no curvature along it."""
    product = float(np.vdot(step, change))
    return [*moves, (step, change, product)] if product > 0 else moves


def _quasi_newton(inverses: FloatArray, moves: list[_Move], gradient: FloatArray) -> FloatArray:
    """Return the inverse Hessian of L-BFGS times a gradient (K, p), by the two-loop recursion."""
    result, shares = gradient, []
    for step, change, product in reversed(moves):
        shares.append(float(np.vdot(step, result)) / product)
        result = result - shares[-1] * change
    result = (inverses @ result[:, :, None])[:, :, 0]
    for (step, change, product), share in zip(moves, reversed(shares), strict=True):
        result = result + (share - float(np.vdot(change, result)) / product) * step
    return np.asarray(result)


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
