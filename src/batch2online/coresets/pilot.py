r"""The model in force as the pilot of an anchored coreset: where losses are expanded, and which rows matter.

The score of a row is :math:`s = 0.2 + 0.3\,\ell / p + 0.5\, a / \bar a`: a share for all rows alike, one for leverage
:math:`\ell = z' M^{-1} z` under the second moments M of a row, and one for the size of the gradient under the pilot in
the metric of the Hessian, :math:`a = |g| \sqrt{z' H^{-1} z}`, over its mean. Uniform scores alone fail on rare classes,
those of the pilot alone on classes that are nearly separable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.registry import storable
from batch2online.linalg.triangular import inverse_root
from batch2online.losses.base import PredictorLoss
from batch2online.statistics.expansion import Expanded

_UNIFORM, _LEVERAGE, _GRADIENT = 0.2, 0.3, 0.5


@storable
@dataclass(frozen=True)
class Pilot:
    """Parameters ``theta`` (K, p) and a width, and what scores are computed with.

    ``whitening`` (p, p) turns z into rows whose squared length is their leverage, ``steepness`` (p, p) into rows whose
    length is that of a gradient of slope one; several classes share the whitening, each with a ``curvature``.
    ``mean`` is that of the gradients' sizes; 0 before there is a model, when all rows score the same.
    """

    theta: FloatArray
    width: float
    whitening: FloatArray
    steepness: FloatArray
    curvatures: FloatArray
    mean: float

    @classmethod
    def nothing(cls, n_outputs: int, n_columns: int) -> Pilot:
        """Return what there is before the first model: losses are expanded at zero."""
        none = np.zeros((0, 0))
        return cls(np.zeros((n_outputs, n_columns)), 1.0, none, none, np.zeros(0), 0.0)

    @classmethod
    def of(cls, loss: PredictorLoss, theta: FloatArray, rows: Expanded) -> Pilot:
        """Return the pilot with these parameters, given weighted rows that are expanded at them."""
        design, weights, total = rows.design, rows.weights, float(rows.weights.sum())
        bend = loss.bend(rows.eta, rows.y, rows.width)
        whitening = inverse_root((design * weights[:, None]).T @ design / total)
        steepness, curvatures = np.zeros((0, 0)), np.zeros(0)
        if len(theta) == 1:
            steepness = inverse_root((design * (weights * np.maximum(bend[:, 0], 0.0))[:, None]).T @ design / total)
        else:
            curvatures = np.maximum(weights @ bend / total, np.finfo(np.float64).tiny)
        draft = cls(theta, float(np.mean(rows.width)), whitening, steepness, curvatures, 0.0)
        sizes = draft._sizes(design, loss.slope(rows.eta, rows.y, rows.width))[1]
        mean = float(weights @ sizes / total)
        return cls(theta, draft.width, whitening, steepness, curvatures, mean if np.isfinite(mean) else 0.0)

    def scores(self, design: FloatArray, slope: FloatArray) -> FloatArray:
        """Return the scores of rows with these slopes; they are about 1 on average."""
        if not self.mean:
            return np.ones(len(design))
        leverage, sizes = self._sizes(design, slope)
        return np.asarray(_UNIFORM + (_LEVERAGE / design.shape[1]) * leverage + (_GRADIENT / self.mean) * sizes)

    def _sizes(self, design: FloatArray, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the leverage of each row, and the size of its gradient."""
        white = design @ self.whitening
        leverage = np.vecdot(white, white)
        if not self.steepness.size:
            return leverage, np.sqrt(leverage * (np.square(slope) @ (1 / self.curvatures)))
        steep = design @ self.steepness
        return leverage, np.abs(slope[:, 0]) * np.sqrt(np.vecdot(steep, steep))
