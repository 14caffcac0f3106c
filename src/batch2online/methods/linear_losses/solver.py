r"""Fit a model to an anchored coreset; the Taylor order of the expansions is chosen by the noise that each leaves.

The plain problem on the coreset alone (order 0) is solved first. At its solution the gradient of order o has the noise
:math:`V_o = \sum w_i (w_i - 1) |H^{-1/2} z_i r_i|^2` with remainders r of the gradients of rows: the gradients, less
those at the expansion, less the linear term. The order of least noise is solved next, and accepted if the plain
objective does not rise by more than its own noise explains, which guards against expansions at models far away. Half of
the remaining noise estimates how much more the solution costs than the best model of all rows.

If there is a current model, its Taylor order is tried before all that, starting from it. The solution is accepted if
that order has the least noise there, and if the plain objective is above its minimum by no more than its noise
explains, by one Newton step.

Nearly collinear columns: rows z are centred (next to a constant) and their columns scaled to norm one. A direction v of
unit length has the squared singular value :math:`s^2 = v' (Z' W Z + \Lambda / h) v`, where Λ is the ridge penalty and h
the mean second derivative of the losses: a penalty counts like additional rows. Models have no component along
directions with s at most ``TOLERANCE`` times the largest singular value of the rows, as in least squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.least_squares.solver import TOLERANCE
from batch2online.methods.linear_losses.expansion_state import AnchoredSample
from batch2online.methods.linear_losses.newton import Metric, Objective, Solution, minimise, predictors
from batch2online.numerics.triangular import column_norms, definite_factor, qr_factor
from batch2online.schema import storable

_ACCURACY = 1e-10
"""Accuracy of a solution, as a share of the cost of the best constant model."""

_ENOUGH = 1e-6
"""Accuracy if the loss is smooth: the last step squares it."""

_EXACT, _NEARLY = 1e-12, 1e-8
"""Accuracy after a last step by an earlier Hessian: of all rows, and of a coreset, far below the noise of a model."""

_INVISIBLE = 1e-5
"""Accuracy of models of many parameters, as a share of their expected excess cost on other rows.

Where classes are nearly separable, minima are up to ten times as far as the last step says.
"""

_ROUGH = 1e-4
"""Accuracy of the plain problem while it only serves to judge other orders."""

_MANY = 16.0
"""Rows per row of the coreset from which on faster expansions are worth some noise."""

_UNNOTICED = 0.05
"""Additional noise that a faster expansion is worth, as a share of the sampling noise of a model of all rows."""

_SUSPICIOUS = 3.0
"""Multiple of its noise by which the plain objective may rise for a solution of another order."""


@storable
@dataclass(frozen=True)
class Penalty:
    """Elastic-net penalty ``alpha * (l1_ratio * |coef|_1 + (1 - l1_ratio) / 2 * |coef|^2)`` per unit of weight.

    With ``alpha=None`` it is ``|coef|^2 / 2`` for all rows together, as in ``LogisticRegression``.
    """

    alpha: float | None = 0.0
    l1_ratio: float = 0.0

    def __post_init__(self) -> None:
        if self.alpha is not None and not 0 <= self.alpha < np.inf:
            raise ValueError(f"alpha must be a finite number, 0 or more, got {self.alpha!r}.")
        if not 0 <= self.l1_ratio <= 1:
            raise ValueError(f"l1_ratio must be between 0 and 1, got {self.l1_ratio!r}.")

    @property
    def has_absolute_values(self) -> bool:
        """Whether the penalty is not differentiable."""
        return self.l1_ratio > 0 and self.alpha != 0

    def strength(self, weight: float) -> float:
        """Return the factor of the penalty for rows of this total weight."""
        return 1.0 if self.alpha is None else self.alpha * weight


class Fit(NamedTuple):
    """A fitted model in the coordinates of the sample, its Taylor order, and its estimated excess cost."""

    theta: FloatArray
    scale: float
    order: int
    excess: float
    """Half the remaining noise of the gradient, times the roughness of the loss."""
    first_order: bool = False
    """Whether further rows can be expanded here without second derivatives."""


def fit(sample: AnchoredSample, penalty: Penalty, current: FloatArray | None, is_complete: bool, order: int = 0) -> Fit:
    """Return the model fitted to an anchored coreset.

    ``current`` parameters (K, p) are one of the starts; ``order`` is their Taylor order, 0 to try all orders from the
    highest on. The model has no component along directions in which rows hardly vary, unless the penalty has absolute
    values, which choose among columns.
    """
    if not penalty.has_absolute_values:
        kept = projection(sample, penalty.strength(sample.weight))
        sample = sample._replace(kept=kept)
        current = current if current is None or kept is None else current @ kept.T
    others = [] if current is None else [current]
    accuracy = _ACCURACY if sample.loss.has_scale else _ENOUGH
    if current is not None and not is_complete and not penalty.has_absolute_values:
        known = _continued(sample, penalty, min(order or 2, sample.sums.n_orders - 1), current, accuracy)
        if known is not None:
            return known
    rough = _ROUGH if accuracy == _ENOUGH and not is_complete else accuracy
    plain = _solved(sample, penalty, 0, [_constant(sample), *others], rough)
    assert plain is not None  # losses are not negative
    if is_complete:
        return _as_fit(sample, plain, 0, 0.0)
    metric, base = _metric(sample, penalty, plain), _objective(sample, penalty, 0, plain.scale)
    noises = _noises(sample, metric, plain)
    ceiling = plain.value + _SUSPICIOUS * noises[0]
    for order in sorted(range(len(noises)), key=noises.__getitem__):
        if order == 0:
            break
        found = _solved(sample, penalty, order, [plain.theta, *others], accuracy)
        if found is not None and base.at(found.theta).value <= ceiling:
            return _as_fit(sample, found, order, _noises(sample, metric, found)[order] / 2)
    if rough > accuracy:
        plain = _solved(sample, penalty, 0, [plain.theta], accuracy) or plain
    return _as_fit(sample, plain, 0, noises[0] / 2)


def _continued(
    sample: AnchoredSample, penalty: Penalty, order: int, current: FloatArray, accuracy: float
) -> Fit | None:
    """Return the solution of one order, starting from the current model; None if it is not accepted."""
    found = _solved(sample, penalty, order, [current], accuracy)
    if found is None:
        return None
    metric = _metric(sample, penalty, found)
    noises = _noises(sample, metric, found)
    if min(noises) < noises[order] or not 0 <= metric.gap <= _SUSPICIOUS * noises[0]:
        return None
    return _as_fit(sample, found, order, noises[order] / 2)._replace(
        first_order=order == 2 and _can_be_first_order(sample, metric, found, current)
    )


def _can_be_first_order(sample: AnchoredSample, metric: Metric, found: _Found, current: FloatArray) -> bool:
    """Return whether second derivatives can be left out of the expansions of further rows.

    Without them a remainder is ``h * (eta - e)``. If the next step of the model is like the last one, and the coreset
    is a small part of all rows, the additional noise is that of such remainders at the last model. It must be little
    next to the sampling noise of a model fitted to all rows.
    """
    rows, loss = sample.anchored, sample.loss
    eta = predictors(rows.design, found.theta)
    if eta.shape[1] > 1 or loss.has_scale or sample.multipliers.mean() < _MANY:
        return False
    _, gradient, hessian = loss.local(eta, rows.y)
    weights = rows.weights[:, None]
    left = metric.length(weights * _left_over(sample, found)[2])
    more = metric.length(weights * hessian * (eta - predictors(rows.design, current)))
    chance = metric.length(weights / np.sqrt(sample.multipliers)[:, None] * gradient)
    return left + more <= _UNNOTICED * chance


class _Found(NamedTuple):
    """Parameters, the scale of the loss, and the objective there."""

    theta: FloatArray
    scale: float
    value: float
    inverses: FloatArray | None = None
    """Those of :class:`~batch2online.methods.linear_losses.newton.Solution`."""


def _as_fit(sample: AnchoredSample, found: _Found, order: int, excess: float) -> Fit:
    rows, theta = sample.anchored, found.theta
    scale = sample.loss.scale_of(rows.design @ theta.T, rows.y, rows.weights) if sample.loss.has_scale else 1.0
    return Fit(theta, scale, order, sample.loss.roughness * excess)


def _constant(sample: AnchoredSample) -> FloatArray:
    """Return the parameters of the best constant model, zero without an intercept."""
    rows = sample.anchored
    own = sample.loss.constant(rows.y, rows.weights, len(sample.classes))
    theta = np.zeros((len(own), rows.design.shape[1]))
    if sample.frame.intercept:
        theta[:, 0] = own
    return theta


def _objective(sample: AnchoredSample, penalty: Penalty, order: int, scale: float = 1.0) -> Objective:
    rows, strength = sample.anchored, penalty.strength(sample.weight)
    squares = np.broadcast_to(sample.frame.penalties(), (rows.eta.shape[1], rows.design.shape[1]))
    return Objective(
        sample.loss,
        rows.design,
        rows.y,
        rows.weights,
        scale,
        sample.sums.quadratic(order) if order else None,
        squares * (strength * (1 - penalty.l1_ratio)),
        np.sqrt(squares) * (strength * penalty.l1_ratio),
        sample.kept,
        sample.expansions if order else None,
        order,
    )


def _solved(
    sample: AnchoredSample, penalty: Penalty, order: int, starts: list[FloatArray], accuracy: float
) -> _Found | None:
    """Return the solution of one order, along the scales of the loss; None if there is no minimum."""
    rows, loss, found = sample.anchored, sample.loss, _Found(starts[0], 1.0, np.inf)
    for turn in count():
        scale = loss.next_scale(turn, found.scale, predictors(rows.design, starts[0]), rows.y, rows.weights)
        if scale is None:
            return found
        unit = _constant_cost(sample, scale)
        objective = _objective(sample, penalty, order, scale)
        tolerance = _unnoticed(sample) if objective.is_wide else accuracy * unit
        exact = unit * (_EXACT if loss.has_scale or sample.expansions is None else _NEARLY)
        best = _minimum(objective, starts, tolerance, -unit, exact)
        if best.value < -unit:
            return None
        starts, found = [best.theta], _Found(best.theta, scale, best.value, best.inverses)
    raise AssertionError


def _constant_cost(sample: AnchoredSample, scale: float) -> float:
    """Return the cost of the best constant model, relative to which tolerances are set."""
    rows = sample.anchored
    cost = float(rows.weights @ sample.loss.value(rows.design @ _constant(sample).T, rows.y, scale))
    return max(abs(cost), np.finfo(np.float64).tiny)


def _unnoticed(sample: AnchoredSample) -> float:
    """Return a tolerance far below the noise of a likelihood: each parameter costs half a unit of it on other rows."""
    parameters, mean_weight = int(sample.sums.linear[0].size), sample.weight / sample.effective_rows
    return _INVISIBLE * parameters / 2 * mean_weight


def _minimum(objective: Objective, starts: list[FloatArray], tolerance: float, least: float, exact: float) -> Solution:
    """Return the minimum from the best start; from the others as well if that one did not converge."""
    found: list[Solution] = []
    for start in sorted(map(objective.at, starts), key=lambda point: point.value):
        found.append(minimise(objective, start, tolerance, least, exact))
        if found[-1].converged:
            break
    return min(found, key=lambda solution: solution.value)


def _noises(sample: AnchoredSample, metric: Metric, found: _Found) -> list[float]:
    """Return the noise of the gradient for each Taylor order: rows count with the root of u^2 w (w - 1)."""
    factor = sample.anchored.weights * np.sqrt(np.maximum(1 - 1 / sample.multipliers, 0.0))
    return [metric.length(factor[:, None] * remainder) for remainder in _left_over(sample, found)]


def _left_over(sample: AnchoredSample, found: _Found) -> list[FloatArray]:
    """Return the remainders of the gradients of rows for each Taylor order."""
    rows, expansions = sample.anchored, sample.expansions
    assert expansions is not None
    eta = predictors(rows.design, found.theta)
    gradient = sample.loss.gradient(eta, rows.y, found.scale)
    return [gradient, *(gradient - expansions.gradient(eta, order) for order in range(1, sample.sums.n_orders))]


def _metric(sample: AnchoredSample, penalty: Penalty, found: _Found) -> Metric:
    """Return the metric of the Hessian at a solution, in which the noise of a gradient is measured."""
    loss, rows = sample.loss, sample.anchored
    scale = 1.0
    if loss.has_scale:
        eta = predictors(rows.design, found.theta)
        scale = loss.anchor_scale(loss.scale_of(eta, rows.y, rows.weights), sample.effective_rows)
    return Metric(_objective(sample, penalty, 0, scale), found.theta, found.inverses)


_WELL_CONDITIONED = 1e-8
"""Reciprocal condition number of the correlations above which no direction is dropped."""


def projection(sample: AnchoredSample, strength: float) -> FloatArray | None:
    """Return the matrix A (p, p) that removes nearly collinear directions from parameters: ``theta @ A.T``.

    Their mean contribution to predictions goes to the constant. ``strength`` multiplies the ridge penalty. None if
    there is nothing to remove.
    """
    rows, i = sample.anchored, int(sample.frame.intercept)
    gram, penalties = sample.moments, sample.frame.penalties()[i:]
    if _are_independent(gram, np.zeros(len(penalties)), i):
        return None
    roots = np.sqrt(strength / _mean_curvature(sample) * penalties)
    if _are_independent(gram, roots, i):
        return None
    factor = qr_factor(rows.design * np.sqrt(rows.weights)[:, None])
    dropped = _dropped(factor[i:, i:], roots)
    if dropped is None:
        return None
    matrix = np.eye(i + len(dropped))
    matrix[i:, i:] -= dropped
    matrix[:i, i:] = factor[:i, i:] / factor[0, 0] @ dropped
    return matrix


def _dropped(centred: FloatArray, roots: FloatArray) -> FloatArray | None:
    """Return the projection (d, d) onto the directions to remove, given a factor of the rows and roots of penalties."""
    norms = column_norms(centred)
    live = np.flatnonzero(norms)
    unit = centred[:, live] / norms[live]
    stacked = np.concatenate([unit, np.diag(roots[live] / norms[live])])
    values, turned = np.linalg.svd(stacked, full_matrices=False)[1:]
    is_small = values <= TOLERANCE * float(np.linalg.norm(unit, 2)) if live.size else np.zeros(0, dtype=np.bool_)
    if not is_small.any():
        return None
    result, directions = np.zeros_like(centred), turned[is_small]
    result[np.ix_(live, live)] = (directions / norms[live]).T @ (directions * norms[live])
    return result


def _are_independent(gram: FloatArray, roots: FloatArray, i: int) -> bool:
    """Return whether columns with this Gram matrix and these roots of penalties are far from collinear."""
    centred = gram[i:, i:]
    if i:
        centred = centred - np.outer(gram[0, 1:], gram[0, 1:]) / gram[0, 0]
    if not (centred.diagonal() >= 0).all():  # a column is rounding alone
        return False
    return definite_factor(centred + np.diag(roots * roots))[1] > _WELL_CONDITIONED


def _mean_curvature(sample: AnchoredSample) -> float:
    """Return the mean second derivative of the losses under the best constant model."""
    rows, loss = sample.anchored, sample.loss
    constant = loss.constant(rows.y, rows.weights, len(sample.classes)) * sample.frame.intercept
    eta = np.tile(constant, (len(rows.y), 1))
    scale = loss.scale_of(eta, rows.y, rows.weights) if loss.has_scale else 1.0
    curvature = float(np.average(loss.hessian(eta, rows.y, scale).mean(axis=1), weights=rows.weights))
    return curvature if 0 < curvature < np.inf else 1.0
