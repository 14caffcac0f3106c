"""Decide between the current centers and others out of sample, at a price for every label that changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.methods.clustering.lloyd import Nearest, WeightedPoints
from batch2online.numerics.distances import power
from batch2online.numerics.matching import matched_weight, shared_weight

_NOISE = 0.3
"""Standard errors that a gain must exceed."""


class Judge(NamedTuple):
    r"""Score each point by centers that were fitted without it.

    A candidate replaces the centers refined from the current ones if its gain exceeds

    .. math:: \mathrm{noise} + \mathrm{churn\_price} \cdot \mathrm{churn}

    The gain is a share of the leave-one-out cost, the noise a part of its standard error, and the churn the further
    share of the weight whose label changes.

    Attributes
    ----------
    churn_price : float
        Gain that is worth a change of all labels.
    """

    churn_price: float

    def choice(self, points: WeightedPoints, before: IntArray, candidates: FloatArray, z: float) -> int:
        """Return the index of the best of r candidates (r, k, d); the first is refined from the current centers.

        ``before`` are the labels of the points under the current centers.
        """
        weights, k = points.weights, candidates.shape[1]
        scored = left_out(points, candidates, z)
        losses = weights * np.stack([own for _, own in scored])
        kept = np.array([matched_weight(shared_weight(before, labels, weights, k)) for labels, _ in scored])
        gained = losses[0] - losses
        noise = np.sqrt(np.square(gained).sum(axis=1))
        price = self.churn_price * (kept[0] - kept) / weights.sum() * losses[0].sum()
        return int((gained.sum(axis=1) - _NOISE * noise - price).argmax())


def left_out(points: WeightedPoints, sets: FloatArray, z: float) -> list[tuple[IntArray, FloatArray]]:
    r"""Return for each set of centers (r, k, d) labels, and the loss of each point under centers fitted without it.

    Without a point x of weight w, the mean c of its cluster of mass m is :math:`c - w (x - c) / (m - w)`, at a distance
    of :math:`|x - c| m / (m - w)`; the point of a cluster of its own goes to the second nearest center. The same
    factor is taken for z other than 2.

    >>> points = WeightedPoints(np.array([[0.0], [2.0], [9.0]]), np.ones(3))
    >>> left_out(points, np.array([[[1.0], [9.0]]]), 2.0)[0][1].tolist()
    [4.0, 4.0, 64.0]
    """
    return [_without_each(points.weights, near, sets.shape[1], z) for near in points.two_nearest_of_each(sets)]


def _without_each(weights: FloatArray, near: Nearest, k: int, z: float) -> tuple[IntArray, FloatArray]:
    mass = np.bincount(near.labels, weights, k)[near.labels]
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(mass > weights, near.first * (mass / (mass - weights)), np.inf)
    distances = np.minimum(moved, near.second)
    return near.labels, power(np.square(np.where(np.isfinite(distances), distances, near.first)), z)
