r"""A model from an anchored coreset: the order of the expansions is chosen by the noise that each leaves.

The plain problem on the coreset alone (order 0) is solved first. At its solution the gradient of order o has the noise
:math:`V_o = \sum w_i (w_i - 1) |H^{-1/2} z_i r_i|^2` with remainders r of the slopes: all of them, less those when the
rows came, less their expansion. The order of least noise is solved next, and taken if the plain objective does not rise
by more than its own noise explains, which guards against expansions at models far away. Half of the noise that is left
estimates how much more than the best model of all rows the solution costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.registry import storable
from batch2online.coresets.anchors import Sample
from batch2online.solvers.newton import Objective, Solution, definite_solution, minimise

_ACCURACY = 1e-10
"""Share of the cost of the best constant model, below which a further step is not worth taking."""

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

    def strength(self, weight: float) -> float:
        """Return what multiplies the penalty of a model of so much weight."""
        return 1.0 if self.alpha is None else self.alpha * weight


class Fit(NamedTuple):
    """A model in the coordinates of the sample, the order it was solved with, and by how much it costs too much."""

    theta: FloatArray
    width: float
    order: int
    excess: float


def fit(sample: Sample, penalty: Penalty, current: FloatArray | None, is_complete: bool) -> Fit:
    """Return the model of an anchored coreset; ``current`` parameters (K, p) are one of the starts."""
    others = [] if current is None else [current]
    plain = _solved(sample, penalty, 0, [_constant(sample), *others])
    assert plain is not None  # losses are not negative
    if is_complete:
        return _as_fit(sample, plain, 0, 0.0)
    noises, base = _noises(sample, penalty, plain), _objective(sample, penalty, 0, plain.width)
    ceiling = base.value(plain.theta) + _SUSPICIOUS * noises[0]
    for order in sorted(range(len(noises)), key=noises.__getitem__):
        if order == 0:
            break
        found = _solved(sample, penalty, order, [plain.theta, *others])
        if found is not None and base.value(found.theta) <= ceiling:
            return _as_fit(sample, found, order, _noises(sample, penalty, found)[order] / 2)
    return _as_fit(sample, plain, 0, noises[0] / 2)


def costs(sample: Sample, theta: FloatArray, width: float) -> list[float]:
    """Return the loss of all rows under a model, by expansions of each order and the coreset."""
    own = float(sample.anchored.weights @ sample.loss.value(sample.anchored.design @ theta.T, sample.anchored.y, width))
    return [own, *(own + sample.sums.quadratic(order).value(theta) for order in range(1, sample.sums.n_orders))]


class _Found(NamedTuple):
    """Parameters, and the width that they were solved with."""

    theta: FloatArray
    width: float


def _as_fit(sample: Sample, found: _Found, order: int, excess: float) -> Fit:
    rows, theta = sample.anchored, found.theta
    width = sample.loss.width_of(rows.design @ theta.T, rows.y, rows.weights) if sample.loss.has_width else 1.0
    return Fit(theta, width, order, excess)


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
    )


def _solved(sample: Sample, penalty: Penalty, order: int, starts: list[FloatArray]) -> _Found | None:
    """Return the solution of one order, followed through the widths of the loss; None where there is no minimum."""
    rows, loss, width = sample.anchored, sample.loss, 1.0
    for turn in count():
        eta = rows.design @ starts[0].T
        new = loss.next_width(turn, width, eta, rows.y, rows.weights)
        if new is None:
            return _Found(starts[0], width)
        width = new
        scale = _scale(sample, width)
        found = _minimum(_objective(sample, penalty, order, width), starts, scale)
        if found.value < -scale:
            return None
        starts = [found.theta]
    raise AssertionError


def _scale(sample: Sample, width: float) -> float:
    """Return what the best constant model costs: a measure of what is little."""
    rows = sample.anchored
    cost = float(rows.weights @ sample.loss.value(rows.design @ _constant(sample).T, rows.y, width))
    return max(abs(cost), np.finfo(np.float64).tiny)


def _minimum(objective: Objective, starts: list[FloatArray], scale: float) -> Solution:
    """Return the minimum, from the best of the starts; from the others as well where that one did not converge."""
    found: list[Solution] = []
    for start in sorted(starts, key=objective.value):
        found.append(minimise(objective, start, _ACCURACY * scale, least=-scale))
        if found[-1].converged:
            break
    return min(found, key=lambda solution: solution.value)


def _noises(sample: Sample, penalty: Penalty, found: _Found) -> list[float]:
    """Return the noise of the gradient of each order at a solution, in the metric of the Hessian there."""
    loss, rows = sample.loss, sample.anchored
    eta = rows.design @ found.theta.T
    slope = loss.slope(eta, rows.y, found.width)
    first = slope - loss.slope(rows.eta, rows.y, loss.slope_width(rows.width))
    remainders = [slope, first, first - loss.bent(rows.eta, rows.y, rows.width, eta - rows.eta)]
    factor = rows.weights * np.sqrt(np.maximum(1 - 1 / sample.multipliers, 0.0))  # u^2 w (w - 1), in its root
    width = loss.anchor_width(loss.width_of(eta, rows.y, rows.weights), sample.weight)
    hessian = _objective(sample, penalty, 0, width).curvature(found.theta)
    return [
        _length(hessian, (remainder * factor[:, None])[:, :, None] * rows.design[:, None, :])
        for remainder in remainders[: sample.sums.n_orders]
    ]


def _length(hessian: FloatArray, gradients: FloatArray) -> float:
    """Return the sum over rows of the squared lengths of their gradients (n, K, p) in the metric of the Hessian."""
    flat = gradients.reshape(len(gradients), -1)
    gram = flat.T @ flat
    return max(0.0, float(np.trace(definite_solution(hessian, gram))))
