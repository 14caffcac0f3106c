r"""The model in force as the pilot of an anchored coreset: where losses are expanded, and which rows matter.

The score of a row is :math:`s = 0.2 + 0.3\,\ell / p + 0.5\, a / \bar a`: a share for all rows alike, one for leverage
:math:`\ell = z' M^{-1} z` under the second moments M of a row, and one for the size of the gradient under the pilot,
:math:`a = |g| \sqrt{\ell / \bar h}`, over its mean. The metric would best be that of the Hessian; the second moments
times the mean second derivatives were as good in measurements, and serve for leverage as well. Uniform scores alone
fail on rare classes, those of the pilot alone on classes that are nearly separable. Means are those of the coreset when
the model came into force, or of the rows since where these are larger: rows of another kind than before cannot take the
whole coreset.

Few rows are ever kept, and the score of a row costs more than its loss. So rows are ruled out first by an upper bound
of their score, :math:`|z W| \le \sum_j |z_j| |W_j|`, and means are those of one row in sixty-one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.methods.linear_losses.expansion import Expanded
from batch2online.methods.linear_losses.losses.base import PredictorLoss, weighted_gram
from batch2online.numerics.triangular import inverse_root, squared_lengths
from batch2online.sampling import kept
from batch2online.schema import Weight, above, at_least, finite, require, shape, storable

_UNIFORM, _LEVERAGE, _GRADIENT = 0.2, 0.3, 0.5

_AT_ONCE = 1_024
"""Rows at a time whose magnitudes, or single scores, are computed: memory is short."""

_EVERY = 61
"""Means are those of rows whose ids this prime divides: nothing in data comes around as often."""


@storable
@dataclass(frozen=True)
class Pilot:
    """Parameters ``theta`` (K, p) and a width, and what scores are computed with.

    ``whitening`` (p, p) turns z into rows whose squared length is their leverage, ``curvatures`` (K,) are the mean
    second derivatives. ``means`` are those of leverage and of the gradients' sizes when the model came into force; zero
    before there is a model, when all rows score the same. ``totals`` are their sums over the ``weight`` of all rows.
    ``factors`` are the weights of classes where those are balanced, as they were when the model came into force: a row
    scores as much more.
    """

    theta: Annotated[FloatArray, shape("k", "p"), finite]
    width: Weight
    whitening: Annotated[FloatArray, shape("w", "w"), finite]
    curvatures: Annotated[FloatArray, shape("c"), finite, above(0)]
    means: Annotated[FloatArray, shape(2), finite, at_least(0)]
    totals: Annotated[FloatArray, shape(2), finite, at_least(0)]
    weight: Weight
    factors: Annotated[FloatArray, shape("f"), finite, above(0)]

    def validate(self) -> None:
        found, (k, p) = (len(self.whitening), len(self.curvatures)), self.theta.shape
        is_nothing = found == (0, 0) and not self.has_model
        require(found == (p, k) or is_nothing, f"whitening and curvatures: found {found} rows, expected {(p, k)}")
        has_means = (self.means > 0).all() and self.weight > 0
        require(has_means or not self.has_model, f"means: found {self.means}, expected more than 0 with a model")

    @classmethod
    def nothing(cls, n_outputs: int, n_columns: int) -> Pilot:
        """Return what there is before the first model: losses are expanded at zero."""
        theta, none, empty = np.zeros((n_outputs, n_columns)), np.zeros((0, 0)), np.zeros(0)
        return cls(theta, 1.0, none, empty, np.zeros(2), np.zeros(2), 0.0, empty)

    @classmethod
    def of(cls, loss: PredictorLoss, theta: FloatArray, rows: Expanded, factors: FloatArray | None = None) -> Pilot:
        """Return the pilot with these parameters, given weighted rows that are expanded at them."""
        design, weights, total = rows.design, rows.weights, float(rows.weights.sum())
        _, slope, bend = loss.local(rows.eta, rows.y, rows.width)
        whitening = inverse_root(weighted_gram(design, weights) / total)
        curvatures = np.maximum(weights @ bend / total, np.finfo(np.float64).tiny)
        width, balance = float(np.mean(rows.width)), np.zeros(0) if factors is None else factors
        draft = cls(theta, width, whitening, curvatures, np.ones(2), np.zeros(2), total, balance)
        sizes = draft._sizes(design, slope)
        means = np.array([weights @ each / total for each in sizes])
        return replace(draft, means=means if _are_usable(means) else np.zeros(2), totals=means * total)

    @property
    def has_model(self) -> bool:
        """Whether rows are scored by a model."""
        return bool(self.means.any())

    def having_seen(self, rows: Expanded, slope: FloatArray) -> Pilot:
        """Return the pilot with what these of many rows (:func:`counted`), of these slopes, add to the means."""
        own = self._balanced(rows.weights, rows.y)
        totals = [_EVERY * (own @ each) for each in self._sizes(rows.design, slope)]
        return replace(self, totals=self.totals + totals, weight=self.weight + _EVERY * float(own.sum()))

    def chosen(
        self, rows: Expanded, slope: FloatArray, uniforms: FloatArray, rate: float
    ) -> tuple[IntArray, FloatArray]:
        """Return which rows have a uniform of at most ``rate`` times their weight and score, and these scores."""
        if rate == np.inf:
            return np.arange(len(rows.y)), self.scores(rows.design, slope, rows.y)
        most = rate * rows.weights
        few = np.flatnonzero(~(uniforms > most * self.bounds(rows.design, slope, rows.y)))
        parts = (few[start : start + _AT_ONCE] for start in range(0, max(1, len(few)), _AT_ONCE))
        scores = np.concatenate([self.scores(rows.design[part], slope[part], rows.y[part]) for part in parts])
        is_kept = kept(uniforms[few], most[few] * scores)
        return few[is_kept], scores[is_kept]

    def scores(self, design: FloatArray, slope: FloatArray, y: FloatArray) -> FloatArray:
        """Return the scores of rows with these slopes and targets, about 1 on average."""
        if not self.has_model:
            return np.ones(len(design))
        return self._balanced(self._mixed(*self._sizes(design, slope)), y)

    def bounds(self, design: FloatArray, slope: FloatArray, y: FloatArray) -> FloatArray:
        """Return upper bounds of the scores, in less time."""
        if not self.has_model:
            return np.ones(len(design))
        reach, n = np.sqrt(np.vecdot(self.whitening, self.whitening)), len(design)
        lengths = np.empty(n)
        for piece in (slice(start, start + _AT_ONCE) for start in range(0, n, _AT_ONCE)):
            lengths[piece] = reach @ np.abs(design[piece].T)
        return self._balanced(self._mixed(lengths * lengths, lengths * self._steepness(slope)), y)

    def _balanced(self, values: FloatArray, y: FloatArray) -> FloatArray:
        return values * self.factors[y.astype(np.int64)] if self.factors.size else values

    def _mixed(self, leverage: FloatArray, gradient: FloatArray) -> FloatArray:
        means = np.maximum(self.means, self.totals / self.weight)
        return np.asarray(_UNIFORM + (_LEVERAGE / means[0]) * leverage + (_GRADIENT / means[1]) * gradient)

    def scaled(self, factor: float) -> Pilot:
        """Return the same with the weights of all rows seen multiplied by a factor."""
        return replace(self, totals=factor * self.totals, weight=factor * self.weight)

    def _sizes(self, design: FloatArray, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the leverage of each row, and the size of its gradient."""
        leverage = squared_lengths(design, self.whitening)
        return leverage, np.sqrt(leverage) * self._steepness(slope)

    def _steepness(self, slope: FloatArray) -> FloatArray:
        """Return the sizes of slopes, over the root of the mean second derivatives."""
        if slope.shape[1] == 1:
            return np.abs(slope[:, 0]) * float(self.curvatures[0] ** -0.5)
        return np.asarray(np.sqrt(np.square(slope) @ (1 / self.curvatures)))


def counted(ids: IntArray) -> slice | IntArray:
    """Return the places of ascending ids that count for the means.

    >>> counted(np.arange(100, 200)), counted(np.array([60, 61, 122]))
    (slice(22, None, 61), array([1, 2]))
    """
    if not len(ids) or int(ids[-1]) - int(ids[0]) + 1 != len(ids):
        return np.flatnonzero(ids % _EVERY == 0)
    return slice(int(-ids[0] % _EVERY), None, _EVERY)


def _are_usable(means: FloatArray) -> bool:
    return bool((np.isfinite(means) & (means > 0)).all())
