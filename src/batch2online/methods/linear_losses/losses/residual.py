"""Losses of the residual: half its square, the pinball loss of quantiles, and Huber's loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from batch2online._types import FloatArray
from batch2online.methods.linear_losses.losses.base import PredictorLoss, Scale, least_scale
from batch2online.schema import storable


@storable
@dataclass(frozen=True)
class HalfSquared(PredictorLoss):
    r"""Half the squared residual, :math:`(y - \eta)^2 / 2`. Its expansions of Taylor order 2 are exact."""

    is_location: ClassVar[bool] = True

    def value(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        return np.asarray(np.square(y - eta[:, 0]) / 2)

    def gradient(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        return np.asarray(eta - y[:, None])

    def hessian(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        return np.ones_like(eta)

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        return np.array([np.average(y, weights=weights)])


_SMOOTHING_STEPS = 7
"""Number of scales on the way to the pinball loss, each a quarter of the one before."""


@storable
@dataclass(frozen=True)
class Quantile(PredictorLoss):
    r"""Pinball loss, ``factor`` times :math:`\tau u + \delta \ln(1 + e^{-u/\delta})` of the residual u = y - eta.

    It is smoothed over the scale delta; with scale 0 it is the pinball loss itself.
    """

    has_scale: ClassVar[bool] = True
    is_location: ClassVar[bool] = True
    size_factor: ClassVar[float] = 2.5  # remainders at the kink are not small
    roughness: ClassVar[float] = 2.0  # a minimum fits the noise of kinks; measured
    quantile: float = 0.5
    factor: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile must be between 0 and 1, got {self.quantile!r}.")

    def value(self, eta: FloatArray, y: FloatArray, scale: Scale = 0.0) -> FloatArray:
        residual = y - eta[:, 0]
        smooth = np.asarray(scale)
        own = self.quantile * residual + np.maximum(-residual, 0.0)
        if smooth.any():
            own = own + smooth * np.log1p(np.exp(-np.abs(residual) / smooth))
        return np.asarray(self.factor * own)

    def gradient(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        return np.asarray(self.factor * (self._below(eta, y, scale) - self.quantile)[:, None])

    def hessian(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        below = self._below(eta, y, scale)
        return np.asarray((self.factor * below * (1 - below) / scale)[:, None])

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        return np.array([weighted_quantile(y, weights, self.quantile)])

    def scale_of(self, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Return the mean absolute residual."""
        return max(float(np.average(np.abs(y - eta[:, 0]), weights=weights)), least_scale(y))

    def next_scale(self, turn: int, scale: float, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float | None:
        """Return a quarter of the scale before, down to nearly the pinball loss itself."""
        scale = self.scale_of(eta, y, weights) if turn == 0 else scale
        return scale / 4 if turn < _SMOOTHING_STEPS else None

    def scoring_scale(self, scale: float) -> float:
        return 0.0

    def anchor_scale(self, scale: float, rows: float) -> float:
        """Return a scale that shrinks with the number of rows: a kernel bandwidth for the density of residuals at 0."""
        return float(scale * max(rows, 1.0) ** (-1 / 3))

    def gradient_scale(self, scale: Scale) -> Scale:
        """Return a scale so small that gradients are those of the loss without smoothing."""
        return 1e-6 * scale

    def _below(self, eta: FloatArray, y: FloatArray, scale: Scale) -> FloatArray:
        return np.asarray(expit((eta[:, 0] - y) / scale))


def weighted_quantile(values: FloatArray, weights: FloatArray, quantile: float) -> float:
    """Return the least value at or below which this share of the weight lies."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order])
    position = int(np.searchsorted(share, quantile * share[-1]))
    return float(values[order[min(position, len(order) - 1)]])


_SCALE_STEPS, _ALTERNATIONS = 200, 40


@storable
@dataclass(frozen=True)
class Huber(PredictorLoss):
    r"""Huber's loss :math:`\sigma + \sigma H((y - \eta) / \sigma)`, H(z) = z^2 up to ``delta`` and linear beyond.

    The scale sigma is fitted with the model, as in ``HuberRegressor``: the loss is convex in both.
    """

    has_scale: ClassVar[bool] = True
    is_location: ClassVar[bool] = True
    delta: float = 1.35

    def __post_init__(self) -> None:
        if not 1 < self.delta < np.inf:
            raise ValueError(f"delta must be above 1, got {self.delta!r}.")

    def value(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        size = np.abs(y - eta[:, 0])
        inner = np.minimum(size, self.delta * scale)
        return np.asarray(scale + inner * inner / scale + 2 * self.delta * (size - inner))

    def gradient(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        scaled = (eta[:, 0] - y) / scale
        return np.asarray(2 * np.clip(scaled, -self.delta, self.delta)[:, None])

    def hessian(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        inside = np.abs(y - eta[:, 0]) <= self.delta * scale
        return np.asarray(np.where(inside, 2 / scale, 0.0)[:, None])

    def without_scale(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss with each residual as its own scale."""
        return np.asarray(2 * np.abs(y - eta[:, 0]))

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        return np.array([weighted_quantile(y, weights, 0.5)])

    def next_scale(self, turn: int, scale: float, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float | None:
        """Return the best scale for the predictors of the last fit, until it converges."""
        new = self.scale_of(eta, y, weights)
        return new if turn == 0 or (turn < _ALTERNATIONS and abs(new - scale) > 1e-7 * scale) else None

    def scale_of(self, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Return the sigma at which ``min(z^2, delta^2)`` is 1 on average: the derivative by sigma is zero there."""
        size = np.abs(y - eta[:, 0])
        sigma = float(np.sqrt(np.average(size * size, weights=weights)))
        for _ in range(_SCALE_STEPS):  # falls from above, since the root mean square is never less than the solution
            inner = np.minimum(size, self.delta * sigma)
            new = float(np.sqrt(np.average(inner * inner, weights=weights)))
            if new >= sigma * (1 - 1e-12):
                break
            sigma = new
        return max(sigma, least_scale(y))
