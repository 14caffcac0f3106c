"""What anchored fits minimise: weighted losses of a linear predictor, a quadratic form and an elastic net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.linear_losses.expansion import Quadratic
from batch2online.methods.linear_losses.losses.base import PredictorLoss, pieces, weighted_gram
from batch2online.numerics.memory import check_available

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
    """Second derivatives (n, 1) of the losses; none where there are several predictors."""


@dataclass(frozen=True)
class Objective:
    """``sum(weights * loss) + quadratic + sum(ridge * theta^2) / 2 + sum(lasso * |theta|)`` of theta (K, p).

    With ``kept``, a projection (p, p), it is minimised over parameters ``theta = theta @ kept.T`` alone.
    """

    loss: PredictorLoss
    design: FloatArray
    y: FloatArray
    weights: FloatArray
    width: float
    quadratic: Quadratic | None
    ridge: FloatArray
    lasso: FloatArray
    kept: FloatArray | None = None

    @property
    def is_wide(self) -> bool:
        """Whether the Hessian is better not formed."""
        has_matrix = self.quadratic is not None and self.quadratic.matrix is not None
        return self.ridge.size > _WIDE and len(self.ridge) > 1 and not has_matrix and not self.lasso.any()

    def at(self, theta: FloatArray) -> Point:
        """Return the objective at these parameters; it is infinite where it is no number."""
        eta = predictors(self.design, theta)
        with np.errstate(over="ignore", invalid="ignore"):
            own, gradient, bend = self._single(eta) if len(theta) == 1 else self._several(eta)
            total, gradient = own + self._penalty(theta), gradient + self.ridge * theta
            if self.quadratic is not None:
                total, gradient = total + self.quadratic.value(theta), gradient + self.quadratic.gradient(theta)
            gradient = gradient if self.kept is None else gradient @ self.kept
        return Point(theta, eta, total if np.isfinite(total) else np.inf, gradient, bend)

    def _single(self, eta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss, its gradient and the second derivatives at one predictor of each row."""
        values, slope, bend = self.loss.local(eta, self.y, self.width)
        return float(self.weights @ values), (self.weights * slope.T) @ self.design, bend

    def _several(self, eta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss and its gradient, a piece of rows at a time; second derivatives are found when needed."""
        total, gradient = 0.0, np.zeros(self.ridge.shape)
        for piece in pieces(*eta.shape):
            values, slope, _ = self.loss.local(eta[piece], self.y[piece], self.width)
            total += float(self.weights[piece] @ values)
            gradient += (self.weights[piece] * slope.T) @ self.design[piece]
        return total, gradient, np.zeros((0, 0))

    def _penalty(self, theta: FloatArray) -> float:
        return float((self.ridge * theta * theta).sum()) / 2 + float((self.lasso * np.abs(theta)).sum())

    def curvature(self, point: Point) -> FloatArray:
        """Return the Hessian (K p, K p) of all but the absolute values."""
        if len(point.theta) == 1:
            total = weighted_gram(self.design, self.weights * point.bend[:, 0])
        else:
            what = "The Hessian of {:,} classes and {:,} columns".format(*point.theta.shape)
            check_available(3 * 8 * float(point.theta.size) ** 2, what, "A penalty with l1_ratio=0 needs none.")
            total = self.loss.hessian(self.design, self.weights, point.eta, self.y, self.width)
        total[np.diag_indices(len(total))] += self.ridge.reshape(-1)
        if self.quadratic is not None and self.quadratic.matrix is not None:
            total += self.quadratic.matrix
        return total if self.kept is None else self._confined(total)

    def _confined(self, matrix: FloatArray) -> FloatArray:
        """Return a Hessian along the directions that are kept, with its own diagonal along the others."""
        assert self.kept is not None
        kept = np.kron(np.eye(len(self.ridge), dtype=np.float64), self.kept)
        others = np.eye(len(kept)) - kept
        return np.asarray(kept.T @ matrix @ kept + (others.T * np.abs(matrix.diagonal())) @ others)

    def within(self, theta: FloatArray) -> FloatArray:
        """Return parameters without what is along the directions that are not kept."""
        return theta if self.kept is None else np.asarray(theta @ self.kept.T)


def predictors(design: FloatArray, theta: FloatArray) -> FloatArray:
    """Return the predictors (n, K) of rows, those of one class next to each other in memory."""
    return np.asarray((theta @ design.T).T)
