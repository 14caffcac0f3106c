r"""A model from an anchored coreset: the order of the expansions is chosen by the noise that each leaves.

The plain problem on the coreset alone (order 0) is solved first. At its solution the gradient of order o has the noise
:math:`V_o = \sum w_i (w_i - 1) |H^{-1/2} z_i r_i|^2` with remainders r of the slopes: all of them, less those when the
rows came, less their expansion. The order of least noise is solved next, and taken if the plain objective does not rise
by more than its own noise explains, which guards against expansions at models far away. Half of the noise that is left
estimates how much more than the best model of all rows the solution costs.

Where there is a model in force, the order that it was solved with is tried before all that, from there. Its solution is
taken if that order has the least noise there, and if the plain objective is above its minimum by no more than its noise
explains, by one Newton step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.linear_losses.collinear import projection
from batch2online.methods.linear_losses.expansion_state import Sample
from batch2online.methods.linear_losses.newton import Metric, Objective, Solution, minimise, predictors
from batch2online.schema import storable

_ACCURACY = 1e-10
"""Share of the cost of the best constant model, below which a further step is not worth taking."""

_ENOUGH = 1e-6
"""The same where the coreset does not hold all rows and the loss is smooth: the last step squares it."""

_ROUGH = 1e-4
"""The same for the plain problem as long as it only judges those of other orders."""

_MANY = 16.0
"""Rows for each that is kept, from which on faster expansions are worth some noise, which then stays."""

_UNNOTICED = 0.05
"""Share of what chance costs a model of all rows, up to which more noise is worth a faster expansion."""

_SUSPICIOUS = 3.0
"""So many times its noise may the plain objective rise before a solution of another order is refused."""


@storable
@dataclass(frozen=True)
class Penalty:
    """``alpha * (l1_ratio * |coef|_1 + (1 - l1_ratio) / 2 * |coef|^2)`` for each unit of weight.

    Without alpha it is ``|coef|^2 / 2`` in all, for all rows together, as ``LogisticRegression`` has it.
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
        """Whether the penalty has kinks."""
        return self.l1_ratio > 0 and self.alpha != 0

    def strength(self, weight: float) -> float:
        """Return what multiplies the penalty of a model of so much weight."""
        return 1.0 if self.alpha is None else self.alpha * weight


class Fit(NamedTuple):
    """A model in the coordinates of the sample, the order it was solved with, and by how much it costs too much."""

    theta: FloatArray
    width: float
    order: int
    excess: float
    """Half the noise that is left of the gradient, times the roughness of the loss."""
    is_flat: bool = False
    """Whether rows can be expanded here without second derivatives: nobody would notice."""


def fit(sample: Sample, penalty: Penalty, current: FloatArray | None, is_complete: bool, order: int = 0) -> Fit:
    """Return the model of an anchored coreset.

    ``current`` parameters (K, p) are one of the starts; ``order`` is what they were solved with, 0 where all orders are
    to be tried from the highest on. Along directions in which rows hardly vary the model is flat, see
    :mod:`~batch2online.methods.linear_losses.collinear`; not where the penalty has absolute values, which choose among
    columns.
    """
    if not penalty.has_absolute_values:
        kept = projection(sample, penalty.strength(sample.weight))
        sample = sample._replace(kept=kept)
        current = current if current is None or kept is None else current @ kept.T
    others = [] if current is None else [current]
    accuracy = _ACCURACY if is_complete or sample.loss.has_width else _ENOUGH
    if current is not None and not is_complete and not penalty.has_absolute_values:
        known = _continued(sample, penalty, min(order or 2, sample.sums.n_orders - 1), current, accuracy)
        if known is not None:
            return known
    rough = _ROUGH if accuracy == _ENOUGH else accuracy
    plain = _solved(sample, penalty, 0, [_constant(sample), *others], rough)
    assert plain is not None  # losses are not negative
    if is_complete:
        return _as_fit(sample, plain, 0, 0.0)
    metric, base = _metric(sample, penalty, plain), _objective(sample, penalty, 0, plain.width)
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


def _continued(sample: Sample, penalty: Penalty, order: int, current: FloatArray, accuracy: float) -> Fit | None:
    """Return the solution of one order, from the current model on; None unless it is right to take it."""
    found = _solved(sample, penalty, order, [current], accuracy)
    if found is None:
        return None
    metric = _metric(sample, penalty, found)
    noises = _noises(sample, metric, found)
    if min(noises) < noises[order] or not 0 <= metric.gap <= _SUSPICIOUS * noises[0]:
        return None
    return _as_fit(sample, found, order, noises[order] / 2)._replace(
        is_flat=order == 2 and _is_flat(sample, metric, found, current)
    )


def _is_flat(sample: Sample, metric: Metric, found: _Found, current: FloatArray) -> bool:
    """Whether second derivatives can be left out of the expansions of the rows to come.

    Without them a remainder is ``h * (eta - e)``. If the next step of the model is like the last one, and few rows are
    kept of all, the noise is that of such remainders at the last model, besides what is left already. It must be little
    next to what chance costs a model that is solved on all rows.
    """
    rows, loss = sample.anchored, sample.loss
    eta = predictors(rows.design, found.theta)
    if eta.shape[1] > 1 or loss.has_width or sample.multipliers.mean() < _MANY:
        return False
    _, slope, bend = loss.local(eta, rows.y)
    weights = rows.weights[:, None]
    left = metric.length(weights * _left_over(sample, found)[2])
    more = metric.length(weights * bend * (eta - predictors(rows.design, current)))
    chance = metric.length(weights / np.sqrt(sample.multipliers)[:, None] * slope)
    return left + more <= _UNNOTICED * chance


class _Found(NamedTuple):
    """Parameters, the width that they were solved with, and the objective there."""

    theta: FloatArray
    width: float
    value: float


def _as_fit(sample: Sample, found: _Found, order: int, excess: float) -> Fit:
    rows, theta = sample.anchored, found.theta
    width = sample.loss.width_of(rows.design @ theta.T, rows.y, rows.weights) if sample.loss.has_width else 1.0
    return Fit(theta, width, order, sample.loss.roughness * excess)


def _constant(sample: Sample) -> FloatArray:
    """Return the parameters of the best model without columns, zero where there is no intercept."""
    rows = sample.anchored
    own = sample.loss.constant(rows.y, rows.weights, len(sample.classes))
    theta = np.zeros((len(own), rows.design.shape[1]))
    if sample.frame.intercept:
        theta[:, 0] = own
    return theta


def _objective(sample: Sample, penalty: Penalty, order: int, width: float = 1.0) -> Objective:
    rows, strength = sample.anchored, penalty.strength(sample.weight)
    squares = np.broadcast_to(sample.frame.penalties(), (rows.eta.shape[1], rows.design.shape[1]))
    return Objective(
        sample.loss,
        rows.design,
        rows.y,
        rows.weights,
        width,
        sample.sums.quadratic(order) if order else None,
        squares * (strength * (1 - penalty.l1_ratio)),
        np.sqrt(squares) * (strength * penalty.l1_ratio),
        sample.kept,
    )


def _solved(sample: Sample, penalty: Penalty, order: int, starts: list[FloatArray], accuracy: float) -> _Found | None:
    """Return the solution of one order, followed through the widths of the loss; None where there is no minimum."""
    rows, loss, found = sample.anchored, sample.loss, _Found(starts[0], 1.0, np.inf)
    for turn in count():
        width = loss.next_width(turn, found.width, predictors(rows.design, starts[0]), rows.y, rows.weights)
        if width is None:
            return found
        scale = _scale(sample, width)
        best = _minimum(_objective(sample, penalty, order, width), starts, accuracy * scale, -scale)
        if best.value < -scale:
            return None
        starts, found = [best.theta], _Found(best.theta, width, best.value)
    raise AssertionError


def _scale(sample: Sample, width: float) -> float:
    """Return what the best constant model costs: a measure of what is little."""
    rows = sample.anchored
    cost = float(rows.weights @ sample.loss.value(rows.design @ _constant(sample).T, rows.y, width))
    return max(abs(cost), np.finfo(np.float64).tiny)


def _minimum(objective: Objective, starts: list[FloatArray], tolerance: float, least: float) -> Solution:
    """Return the minimum, from the best of the starts; from the others as well where that one did not converge."""
    found: list[Solution] = []
    for start in sorted(map(objective.at, starts), key=lambda point: point.value):
        found.append(minimise(objective, start, tolerance, least))
        if found[-1].converged:
            break
    return min(found, key=lambda solution: solution.value)


def _noises(sample: Sample, metric: Metric, found: _Found) -> list[float]:
    """Return the noise of the gradient by expansions of each order: rows count with the root of u^2 w (w - 1)."""
    factor = sample.anchored.weights * np.sqrt(np.maximum(1 - 1 / sample.multipliers, 0.0))
    return [metric.length(factor[:, None] * remainder) for remainder in _left_over(sample, found)]


def _left_over(sample: Sample, found: _Found) -> list[FloatArray]:
    """Return what expansions of each order leave of the slopes."""
    loss, rows = sample.loss, sample.anchored
    eta = predictors(rows.design, found.theta)
    slope = loss.slope(eta, rows.y, found.width)
    first, moved = slope - sample.slopes, eta - rows.eta
    remainders = [slope, first]
    if sample.sums.n_orders == 3:
        remainders.append(first - loss.expanded_bent(rows.eta, rows.y, rows.width, moved))
    return remainders


def _metric(sample: Sample, penalty: Penalty, found: _Found) -> Metric:
    """Return what measures the noise of a gradient: the metric of the Hessian at a solution."""
    loss, rows = sample.loss, sample.anchored
    width = 1.0
    if loss.has_width:
        eta = predictors(rows.design, found.theta)
        width = loss.anchor_width(loss.width_of(eta, rows.y, rows.weights), sample.effective_rows)
    return Metric(_objective(sample, penalty, 0, width), found.theta)
