r"""Scores of rows under a model of any type: gradient norm and leverage.

The score of a row is :math:`s = u + l\,\ell / \bar\ell + g\, a / \bar a`: a share for every row, one for the leverage
:math:`\ell` of ``[1 | x | y]``, classes as indicators, and one for the norm a of the gradient of its loss with respect
to the prediction of the current model. Means are those of the coreset when the model became current, or of all rows
since where these are larger: rows of another kind than before cannot take the whole coreset.

No row is kept more than once, whatever its score. Where few rows have most of the scores, the coreset would hold fewer
rows than it has room for. So all scores are multiplied by a factor f, such that :math:`\min(f s, c)` is 1 on average, c
the score of a row that is still certain to be kept when there are four times as many rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from batch2online._types import FloatArray
from batch2online.numerics.standardizer import Standardizer
from batch2online.numerics.triangular import inverse_root
from batch2online.rows import Rows
from batch2online.schema import shape, storable

UNIFORM, LEVERAGE, GRADIENT = 0.2, 0.3, 0.5
"""Shares of the three parts of a score."""

_ROUNDS = 50
"""Steps of a factor that rises until it fits: each makes further rows certain."""

WIDEST = 300
"""Columns up to which leverage counts: it takes the square of their number for each row."""


@storable
@dataclass(frozen=True)
class ScoreScaling:
    """Statistics that scores are computed with while one model is current.

    ``whitening`` (p, p) turns rows in the coordinates of ``frame`` into such whose squared length is their leverage;
    it is empty where leverage does not count. ``classes`` are the codes that have an indicator. ``means`` are those of
    leverage and of gradients when the model became current, ``totals`` their sums over the ``weight`` of all rows.
    ``factor`` multiplies all scores.
    """

    frame: Standardizer
    classes: Annotated[FloatArray, shape("c")]
    whitening: Annotated[FloatArray, shape("p", "p")]
    means: Annotated[FloatArray, shape(2)]
    totals: Annotated[FloatArray, shape(2)]
    weight: float
    factor: float = 1.0

    @classmethod
    def of(
        cls,
        rows: Rows,
        weights: FloatArray,
        sizes: FloatArray,
        *,
        labels: bool,
        leverage: bool,
        certain: float = np.inf,
    ) -> ScoreScaling:
        """Return the score scaling of a model under which these weighted rows have these gradient norms.

        Rows of a score of ``certain`` will be kept for certain.
        """
        classes = np.unique(rows.targets[:, 0])[1:] if labels else np.empty(0)
        columns = _columns(rows, classes, labels)
        width, total = columns.shape[1], float(weights.sum())
        frame, whitening = Standardizer(np.zeros(width), np.ones(width), True), np.zeros((0, 0))
        if leverage and frame.n_columns <= WIDEST:
            frame = Standardizer.of(columns, intercept=True)
            design = frame.design(columns)
            whitening = inverse_root((design * weights[:, None]).T @ design / total)
        nothing = np.zeros(2)
        draft = cls(frame, classes, whitening, nothing, nothing, total)
        parts = draft.score_parts(rows, sizes, labels)
        means = np.array([weights @ part / total for part in parts])
        means = np.where(np.isfinite(means), means, 0.0)
        known = replace(draft, means=means, totals=means * total)
        scores, _ = known.scored(rows, sizes, labels=labels)
        return replace(known, factor=filled(scores, weights / total, certain))

    def scored(self, rows: Rows, sizes: FloatArray, *, labels: bool) -> tuple[FloatArray, ScoreScaling]:
        """Return the scores of new rows, about 1 on average, and the updated score scaling."""
        parts, weights = self.score_parts(rows, sizes, labels), np.ascontiguousarray(rows.weights)
        totals = self.totals + [weights @ part for part in parts]
        weight = self.weight + float(weights.sum())
        means, scores = np.maximum(self.means, totals / weight), np.full(len(rows), UNIFORM)
        for share, part, mean in zip((LEVERAGE, GRADIENT), parts, means, strict=True):
            scores += share / mean * part if mean > 0 else share
        scores *= self.factor
        return scores, replace(self, totals=totals, weight=weight)

    def scaled(self, factor: float) -> ScoreScaling:
        """Return the same with the weights of all rows seen multiplied by a factor."""
        return replace(self, totals=factor * self.totals, weight=factor * self.weight)

    def score_parts(self, rows: Rows, sizes: FloatArray, labels: bool) -> tuple[FloatArray, FloatArray]:
        """Return the leverage of each row, zero if it is not used, and its gradient norm."""
        if not self.whitening.size:
            return np.zeros(len(rows)), sizes
        white = self.frame.design(_columns(rows, self.classes, labels)) @ self.whitening
        return np.vecdot(white, white), sizes


def filled(scores: FloatArray, shares: FloatArray, certain: float) -> float:
    """Return the factor f, 1 or more, with which ``min(f * scores, certain)`` is 1 on average; at most 5.

    >>> filled(np.array([0.5, 0.5, 0.5, 2.5]), np.full(4, 0.25), 1.0)
    2.0
    >>> filled(np.array([0.5, 0.5, 0.5, 2.5]), np.full(4, 0.25), 3.0)
    1.0
    """
    factor = 1.0
    for _ in range(_ROUNDS):
        is_certain = factor * scores >= certain
        left = float(shares @ np.where(is_certain, 0.0, scores))
        full = 1 - certain * float(shares[is_certain].sum())
        if not is_certain.any() or full <= factor * left:
            break
        factor = min(full / left if left else np.inf, 1 / UNIFORM)
    return factor


def _columns(rows: Rows, classes: FloatArray, labels: bool) -> FloatArray:
    """Return ``[x | y]`` with indicators for classes; one class has none, since they add up to the constant."""
    own = (rows.targets == classes).astype(np.float64) if labels else rows.targets
    return np.concatenate([rows.points, own], axis=1)
