"""Huber's loss with its scale, as scikit-learn's ``HuberRegressor`` poses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.linear_losses.losses.base import PredictorLoss, Width, least_scale
from batch2online.methods.linear_losses.losses.quantile import weighted_quantile
from batch2online.schema import storable

_TURNS, _ALTERNATIONS = 200, 40


@storable
@dataclass(frozen=True)
class Huber(PredictorLoss):
    r""":math:`\sigma + \sigma H((y - \eta) / \sigma)`, H(z) = z^2 up to ``delta`` and linear beyond.

    The scale sigma is the width. It is chosen with the model: the loss is convex in both.
    """

    has_width: ClassVar[bool] = True
    is_location: ClassVar[bool] = True
    delta: float = 1.35

    def __post_init__(self) -> None:
        if not 1 < self.delta < np.inf:
            raise ValueError(f"delta must be above 1, got {self.delta!r}.")

    def value(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> FloatArray:
        size = np.abs(y - eta[:, 0])
        inner = np.minimum(size, self.delta * width)
        return np.asarray(width + inner * inner / width + 2 * self.delta * (size - inner))

    def slope(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> FloatArray:
        scaled = (eta[:, 0] - y) / width
        return np.asarray(2 * np.clip(scaled, -self.delta, self.delta)[:, None])

    def bend(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> FloatArray:
        inside = np.abs(y - eta[:, 0]) <= self.delta * width
        return np.asarray(np.where(inside, 2 / width, 0.0)[:, None])

    def without_scale(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss with each residual as its own scale."""
        return np.asarray(2 * np.abs(y - eta[:, 0]))

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        return np.array([weighted_quantile(y, weights, 0.5)])

    def next_width(self, turn: int, width: float, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float | None:
        """Return the best scale for the predictors of the last turn, until it settles."""
        new = self.width_of(eta, y, weights)
        return new if turn == 0 or (turn < _ALTERNATIONS and abs(new - width) > 1e-7 * width) else None

    def width_of(self, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Return the sigma at which ``min(z^2, delta^2)`` is 1 on average: the derivative by sigma is zero there."""
        size = np.abs(y - eta[:, 0])
        sigma = float(np.sqrt(np.average(size * size, weights=weights)))
        for _ in range(_TURNS):  # falls from above, since the root mean square is never less than the solution
            inner = np.minimum(size, self.delta * sigma)
            new = float(np.sqrt(np.average(inner * inner, weights=weights)))
            if new >= sigma * (1 - 1e-12):
                break
            sigma = new
        return max(sigma, least_scale(y))
