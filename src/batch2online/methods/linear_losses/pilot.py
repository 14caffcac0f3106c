r"""The pilot model, at which losses are expanded and rows are scored.

The score of a row is :math:`s = 0.2 + 0.3\,\ell / p + 0.5\, a / \bar a`: a uniform share, one for leverage
:math:`\ell = z' M^{-1} z` under the second moments M of a row, and one for the gradient norm under the pilot model,
:math:`a = |g| \sqrt{\ell / \bar h}`, over its mean. The metric would best be that of the Hessian; the second moments
times the mean second derivatives were as good in measurements, and serve for leverage as well. Uniform scores alone
fail on rare classes, gradient norms alone on classes that are nearly separable. Means are those of the coreset at the
fit of the pilot model, or of the rows since if these are larger: rows of a new kind cannot take the whole coreset.

Means of the rows since are those of one row in 61.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.methods.linear_losses.expansion import ExpandedRows
from batch2online.methods.losses import PredictorLoss
from batch2online.numerics.triangular import inverse_root, squared_lengths
from batch2online.schema import shape, storable
from batch2online.sketches.pilot_scores import GRADIENT, LEVERAGE, UNIFORM

_MEASURED = 50_000
"""Number of entries of the rows of a coreset whose gradient norms are averaged."""

_EVERY = 61
"""Means are those of rows whose ids are multiples of this prime, which no period of the data shares."""


@storable
@dataclass(frozen=True)
class PilotModel:
    """The model at which losses are expanded, and what scores of rows are computed with.

    Attributes
    ----------
    theta, scale : (K, p) array, float
        Parameters, and the scale of the loss.
    whitening : (p, p) array
        Turns z into rows whose squared length is their leverage.
    curvatures : (K,) array
        Mean second derivatives.
    means : (2,) array
        Means of leverage and of gradient norms at the fit of the model; zero before there is one, when all rows score
        the same.
    totals, weight : (2,) array, float
        Sums of leverage and gradient norms, and the weight of all rows since.
    factors : (n_classes,) array
        Weights of balanced classes at the fit of the model, which multiply scores; empty if classes are not balanced.
    """

    theta: Annotated[FloatArray, shape("k", "p")]
    scale: float
    whitening: Annotated[FloatArray, shape("w", "w")]
    curvatures: Annotated[FloatArray, shape("c")]
    means: Annotated[FloatArray, shape(2)]
    totals: Annotated[FloatArray, shape(2)]
    weight: float
    factors: Annotated[FloatArray, shape("f")]

    @classmethod
    def unmeasured(cls, theta: FloatArray, scale: float = 1.0, weight: float = 0.0) -> PilotModel:
        """Return the pilot with these parameters, fitted to rows of this weight, that no row was scored by yet.

        Its weight is 0 before the first model.
        """
        empty = np.zeros(0)
        return cls(theta, scale, np.zeros((0, 0)), empty, np.zeros(2), np.zeros(2), weight, empty)

    @classmethod
    def of(
        cls, loss: PredictorLoss, theta: FloatArray, rows: ExpandedRows, moments: FloatArray, factors: FloatArray
    ) -> PilotModel:
        """Return the pilot with these parameters, given weighted rows expanded at them, and their second moments."""
        design, weights, total = rows.design, rows.weights, float(rows.weights.sum())
        _, gradient, hessian = loss.local(rows.eta, rows.y, rows.scale)
        whitening = inverse_root(moments / total)
        curvatures = np.maximum(weights @ hessian / total, np.finfo(np.float64).tiny)
        new = replace(
            cls.unmeasured(theta, float(np.mean(rows.scale))),
            whitening=whitening,
            curvatures=curvatures,
            factors=factors,
        )
        few = slice(None, None, max(1, design.size // _MEASURED))
        norms = new.sizes(design[few], gradient[few])[1]
        leverage = np.vdot(whitening, moments @ whitening) / total  # the mean of |z W|^2
        means = np.array([leverage, weights[few] @ norms / max(weights[few].sum(), np.finfo(np.float64).tiny)])
        means = means if (np.isfinite(means) & (means > 0)).all() else np.zeros(2)
        return replace(new, means=means, totals=means * total, weight=total)

    @property
    def is_set(self) -> bool:
        """Whether there is a model at which losses are expanded."""
        return self.weight > 0

    @property
    def has_model(self) -> bool:
        """Whether rows are scored by a model."""
        return bool(self.means.any())

    def having_seen(self, rows: ExpandedRows, gradient: FloatArray) -> PilotModel:
        """Return the pilot whose means include these rows, a subset by :func:`counted`, with these gradients."""
        own = self._balanced(rows.weights, rows.y)
        totals = [_EVERY * (own @ each) for each in self.sizes(rows.design, gradient)]
        return replace(self, totals=self.totals + totals, weight=self.weight + _EVERY * float(own.sum()))

    def scores(self, rows: ExpandedRows, gradient: FloatArray) -> FloatArray:
        """Return the scores of rows with these gradients, about 1 on average."""
        if not self.has_model:
            return np.ones(len(rows.y))
        leverage, norms = self.sizes(rows.design, gradient)
        means = np.maximum(self.means, self.totals / self.weight)
        mixed = UNIFORM + (LEVERAGE / means[0]) * leverage + (GRADIENT / means[1]) * norms
        return self._balanced(np.asarray(mixed), rows.y)

    def sizes(self, design: FloatArray, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the leverage and the gradient norm of each row."""
        leverage = squared_lengths(design, self.whitening)
        squares = np.square(gradient) @ (1 / self.curvatures)  # in units of second derivatives
        return leverage, np.sqrt(leverage) * np.sqrt(squares)

    def scaled(self, factor: float) -> PilotModel:
        """Return the pilot for weights multiplied by a factor."""
        return replace(self, totals=factor * self.totals, weight=factor * self.weight)

    def _balanced(self, values: FloatArray, y: FloatArray) -> FloatArray:
        return values * self.factors[y.astype(np.int64)] if self.factors.size else values


def counted(ids: IntArray) -> slice | IntArray:
    """Return the positions of the ids, in ascending order, that count for the means.

    >>> counted(np.arange(100, 200)), counted(np.array([60, 61, 122]))
    (slice(22, None, 61), array([1, 2]))
    """
    if not len(ids) or int(ids[-1]) - int(ids[0]) + 1 != len(ids):
        return np.flatnonzero(ids % _EVERY == 0)
    return slice(int(-ids[0] % _EVERY), None, _EVERY)
