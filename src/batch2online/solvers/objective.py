"""What anchored fits minimise: weighted losses of a linear predictor, a quadratic form and an elastic net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.losses.base import PredictorLoss, weighted_gram
from batch2online.statistics.expansion import Quadratic

_WIDE = 256
"""Parameters of several classes up to which Hessians are formed."""


class Point(NamedTuple):
    """Parameters (K, p), and what the objective is there, found in one pass over the rows."""

    theta: FloatArray
    eta: FloatArray
    value: float
    slope: FloatArray
    """The gradient (K, p) of all but the absolute values."""
    bend: FloatArray
    """Second derivatives (n, K) of the losses."""


@dataclass(frozen=True)
class Objective:
    """``sum(weights * loss) + quadratic + sum(ridge * theta^2) / 2 + sum(lasso * |theta|)`` of theta (K, p)."""

    loss: PredictorLoss
    design: FloatArray
    y: FloatArray
    weights: FloatArray
    width: float
    quadratic: Quadratic | None
    ridge: FloatArray
    lasso: FloatArray

    @property
    def is_wide(self) -> bool:
        """Whether the Hessian is better not formed."""
        has_matrix = self.quadratic is not None and self.quadratic.matrix is not None
        return self.ridge.size > _WIDE and len(self.ridge) > 1 and not has_matrix and not self.lasso.any()

    def at(self, theta: FloatArray) -> Point:
        """Return the objective at these parameters; it is infinite where it is no number."""
        eta = predictors(self.design, theta)
        with np.errstate(over="ignore", invalid="ignore"):
            values, slope, bend = self.loss.local(eta, self.y, self.width)
            total = float(self.weights @ values) + self._penalty(theta)
            gradient = (self.weights * slope.T) @ self.design + self.ridge * theta
            if self.quadratic is not None:
                total, gradient = total + self.quadratic.value(theta), gradient + self.quadratic.gradient(theta)
        return Point(theta, eta, total if np.isfinite(total) else np.inf, gradient, bend)

    def _penalty(self, theta: FloatArray) -> float:
        return float((self.ridge * theta * theta).sum()) / 2 + float((self.lasso * np.abs(theta)).sum())

    def curvature(self, point: Point) -> FloatArray:
        """Return the Hessian (K p, K p) of all but the absolute values."""
        if len(point.theta) == 1:
            total = weighted_gram(self.design, self.weights * point.bend[:, 0])
        else:
            total = self.loss.hessian(self.design, self.weights, point.eta, self.y, self.width)
        total[np.diag_indices(len(total))] += self.ridge.reshape(-1)
        if self.quadratic is not None and self.quadratic.matrix is not None:
            total += self.quadratic.matrix
        return total


def predictors(design: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the predictors (n, K) of rows, those of one class next to each other in memory."""
    return np.asarray((theta @ design.T).T)
