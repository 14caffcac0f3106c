"""The pinball loss, whose best constant is a quantile, and with it the absolute loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from batch2online._types import FloatArray
from batch2online.methods.linear_losses.losses.base import PredictorLoss, Width, least_scale
from batch2online.schema import storable

_TURNS = 7
"""Widths on the way to the pinball loss, each a quarter of the one before."""


@storable
@dataclass(frozen=True)
class Quantile(PredictorLoss):
    r"""``factor`` times :math:`\tau u + \delta \ln(1 + e^{-u/\delta})`, the pinball loss of the residual u = y - eta.

    It is smoothed over the width delta; with width 0 it is the pinball loss itself.
    """

    has_width: ClassVar[bool] = True
    is_location: ClassVar[bool] = True
    size_factor: ClassVar[float] = 2.5  # what is left of a kink is not small
    roughness: ClassVar[float] = 2.0  # noise that kinks make is followed to its lowest place; measured
    quantile: float = 0.5
    factor: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile must be between 0 and 1, got {self.quantile!r}.")

    def value(self, eta: FloatArray, y: FloatArray, width: Width = 0.0) -> FloatArray:
        residual = y - eta[:, 0]
        smooth = np.asarray(width)
        own = self.quantile * residual + np.maximum(-residual, 0.0)
        if smooth.any():
            own = own + smooth * np.log1p(np.exp(-np.abs(residual) / smooth))
        return np.asarray(self.factor * own)

    def slope(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> FloatArray:
        return np.asarray(self.factor * (self._below(eta, y, width) - self.quantile)[:, None])

    def bend(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> FloatArray:
        below = self._below(eta, y, width)
        return np.asarray((self.factor * below * (1 - below) / width)[:, None])

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        return np.array([weighted_quantile(y, weights, self.quantile)])

    def width_of(self, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Return the mean size of residuals: what widths are measured by."""
        return max(float(np.average(np.abs(y - eta[:, 0]), weights=weights)), least_scale(y))

    def next_width(self, turn: int, width: float, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float | None:
        """Return a quarter of the width before: the solution is followed to the pinball loss itself, nearly."""
        scale = self.width_of(eta, y, weights) if turn == 0 else width
        return scale / 4 if turn < _TURNS else None

    def scoring_width(self, width: float) -> float:
        return 0.0

    def anchor_width(self, width: float, rows: float) -> float:
        """Return a width that shrinks as rows come: a kernel's, for the density of residuals at zero."""
        return float(width * max(rows, 1.0) ** (-1 / 3))

    def slope_width(self, width: Width) -> Width:
        """Return hardly any: slopes that are not smoothed leave nothing over at the model they belong to."""
        return 1e-6 * width

    def _below(self, eta: FloatArray, y: FloatArray, width: Width) -> FloatArray:
        return np.asarray(expit((eta[:, 0] - y) / width))


def weighted_quantile(values: FloatArray, weights: FloatArray, quantile: float) -> float:
    """Return the least value at or below which this share of the weight lies."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order])
    position = int(np.searchsorted(share, quantile * share[-1]))
    return float(values[order[min(position, len(order) - 1)]])
