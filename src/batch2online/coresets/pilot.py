r"""The model in force as the pilot of an anchored coreset: where losses are expanded, and which rows matter.

The score of a row is :math:`s = 0.2 + 0.3\,\ell / p + 0.5\, a / \bar a`: a share for all rows alike, one for leverage
:math:`\ell = z' M^{-1} z` under the second moments M of a row, and one for the size of the gradient under the pilot in
the metric of the Hessian, :math:`a = |g| \sqrt{z' H^{-1} z}`, over its mean. Uniform scores alone fail on rare classes,
those of the pilot alone on classes that are nearly separable. Means are those of the coreset when the model came into
force, or of all rows since where these are larger: rows of another kind than before cannot take the whole coreset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    ``means`` are those of leverage and of the gradients' sizes when the model came into force; zero before there is a
    model, when all rows score the same. ``totals`` are their sums over the ``weight`` of all rows.
    """

    theta: FloatArray
    width: float
    whitening: FloatArray
    steepness: FloatArray
    curvatures: FloatArray
    means: FloatArray
    totals: FloatArray
    weight: float

    @classmethod
    def nothing(cls, n_outputs: int, n_columns: int) -> Pilot:
        """Return what there is before the first model: losses are expanded at zero."""
        none = np.zeros((0, 0))
        return cls(np.zeros((n_outputs, n_columns)), 1.0, none, none, np.zeros(0), np.zeros(2), np.zeros(2), 0.0)

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
        draft = cls(theta, float(np.mean(rows.width)), whitening, steepness, curvatures, np.ones(2), np.zeros(2), total)
        sizes = draft._sizes(design, loss.slope(rows.eta, rows.y, rows.width))
        means = np.array([weights @ each / total for each in sizes])
        return replace(draft, means=means if _are_usable(means) else np.zeros(2), totals=means * total)

    @property
    def has_model(self) -> bool:
        """Whether rows are scored by a model."""
        return bool(self.means.any())

    def scored(self, design: FloatArray, slope: FloatArray, weights: FloatArray) -> tuple[FloatArray, Pilot]:
        """Return the scores of rows with these slopes, about 1 on average, and the pilot that has seen them."""
        if not self.has_model:
            return np.ones(len(design)), self
        sizes = self._sizes(design, slope)
        totals = self.totals + [weights @ each for each in sizes]
        weight = self.weight + float(weights.sum())
        leverage, gradient = np.maximum(self.means, totals / weight)
        scores = _UNIFORM + (_LEVERAGE / leverage) * sizes[0] + (_GRADIENT / gradient) * sizes[1]
        return np.asarray(scores), replace(self, totals=totals, weight=weight)

    def scaled(self, factor: float) -> Pilot:
        """Return the same with the weights of all rows seen multiplied by a factor."""
        return replace(self, totals=factor * self.totals, weight=factor * self.weight)

    def _sizes(self, design: FloatArray, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the leverage of each row, and the size of its gradient."""
        white = design @ self.whitening
        leverage = np.vecdot(white, white)
        if not self.steepness.size:
            return leverage, np.sqrt(leverage * (np.square(slope) @ (1 / self.curvatures)))
        steep = design @ self.steepness
        return leverage, np.abs(slope[:, 0]) * np.sqrt(np.vecdot(steep, steep))


def _are_usable(means: FloatArray) -> bool:
    return bool((np.isfinite(means) & (means > 0)).all())
