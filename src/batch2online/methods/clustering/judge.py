"""Decide between the current centers and others out of sample, at a price for every label that changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batch2online._types import BoolArray, FloatArray
from batch2online.methods.clustering.lloyd import WeightedPoints
from batch2online.numerics.distances import nearest, power
from batch2online.numerics.matching import matched_weight, shared_weight

_NOISE = 0.3
"""Standard errors that a gain must exceed."""


class Judge(NamedTuple):
    r"""Score candidates on points that they were not fitted to.

    A candidate replaces the centers refined from the current ones if its gain exceeds

    .. math:: \mathrm{noise} + \mathrm{churn\_price} \cdot \mathrm{churn}

    The gain is a share of the cost, the noise a part of its standard error, and the churn the further share of the
    weight whose label changes.

    Attributes
    ----------
    is_fitted : ndarray of bool
        Marks the points to which candidates are fitted; the others judge.
    churn_price : float
        Gain that is worth a change of all labels.
    """

    is_fitted: BoolArray
    churn_price: float

    def halves(self, points: WeightedPoints) -> tuple[WeightedPoints, WeightedPoints]:
        """Return the points to fit candidates to, and those that judge."""
        fitted, others = (
            WeightedPoints(points.points[some], points.weights[some]) for some in (self.is_fitted, ~self.is_fitted)
        )
        return fitted, others

    def choice(self, points: WeightedPoints, current: FloatArray, candidates: list[FloatArray], z: float) -> int:
        """Return the index of the best candidate (k, d); the first is refined from the current centers."""
        weights, k = points.weights, len(current)
        before = nearest(points.points, current)[0]
        assigned = [nearest(points.points, centers) for centers in candidates]
        losses = weights * np.stack([power(squared, z) for _, squared in assigned])
        kept = np.array([matched_weight(shared_weight(before, labels, weights, k)) for labels, _ in assigned])
        gained = losses[0] - losses
        noise = np.sqrt(np.square(gained).sum(axis=1))
        price = self.churn_price * (kept[0] - kept) / weights.sum() * losses[0].sum()
        return int((gained.sum(axis=1) - _NOISE * noise - price).argmax())
