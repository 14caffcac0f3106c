"""Half the squared residual: for penalties that moments alone do not serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.linear_losses.losses.base import PredictorLoss, Width
from batch2online.schema import storable


@storable
@dataclass(frozen=True)
class HalfSquared(PredictorLoss):
    r""":math:`(y - \eta)^2 / 2`. Its expansions of order 2 are exact wherever they are made."""

    is_location: ClassVar[bool] = True

    def value(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> FloatArray:
        return np.asarray(np.square(y - eta[:, 0]) / 2)

    def slope(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> FloatArray:
        return np.asarray(eta - y[:, None])

    def bend(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> FloatArray:
        return np.ones_like(eta)

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        return np.array([np.average(y, weights=weights)])
