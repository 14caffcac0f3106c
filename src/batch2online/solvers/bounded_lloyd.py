"""Lloyd's steps that look only at the points whose cluster may change.

Each point has an upper bound of the distance to its own center and a lower bound of that to all others. When centers
move, the bounds give way by as much, and while they do not cross, the point stays where it is (Hamerly, SDM 2010).
Sums of clusters change by the points that move. The cost is at first that of the sums, ``sum w |x|^2 - sum |S|^2 / W``,
and falls by what points gain that move, and by what centers gain that do.

The points may be a coreset of others, whose sums in the same clusters are known. Then the steps begin with these, and
the coreset only says what changes as centers move on. Few points move, so little is left of the noise of a sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.linalg.distances import Sums
from batch2online.solvers.lloyd import SETTLED, WeightedPoints

CANCELLATION = 1e-6
_MOST_MOVED = 0.25
"""Where the sums are not those of the points, no more than this share of the mass may change clusters: what is left of
a cluster that nearly all points have left would be noise."""


class Means(NamedTuple):
    """Centers, their cost and clusters, and the clusters and distances that steps began with."""

    centers: FloatArray
    cost: float
    labels: IntArray
    first_labels: IntArray
    first_distances: FloatArray


def means_after(
    points: WeightedPoints, centers: FloatArray, steps: int, sums: Sums | None = None, gain: float = SETTLED
) -> Means | None:
    """Centers (k, d) some steps on from these, until a step gains less than a share ``gain``.

    ``sums`` are those of what the points stand for, in the clusters of ``centers``; where none are given, those of the
    points. None if a cluster gets empty, if masses or the cost are too small a part of the sums that they come from, or
    if points that change clusters say too much about sums that are not theirs.
    """
    clusters = _Clusters(points, centers, sums)
    first = clusters.labels, clusters.upper.copy()
    found = clusters.settled(centers, steps, gain)
    return None if found is None else Means(*found, clusters.labels, *first)


class _Clusters:
    def __init__(self, points: WeightedPoints, centers: FloatArray, sums: Sums | None) -> None:
        self.points = points
        self.labels, self.upper, self.lower = _two_nearest(points.points, points.lengths, centers)
        sums, are_others = (_sums(points, self.labels, len(centers)), False) if sums is None else (sums, True)
        self.sums, self.masses, self.total = sums.of_points.copy(), sums.masses.copy(), sums.squares
        self.cost, self.largest = sums.least_cost(), self.masses.copy()
        self.may_move = _MOST_MOVED * float(self.masses.sum()) if are_others else np.inf

    def settled(self, start: FloatArray, steps: int, gain: float) -> tuple[FloatArray, float] | None:
        centers, cost, gained = start, self.cost, np.inf
        for _ in range(steps):
            if not self._is_sound(cost) or gained <= cost * gain:
                break
            new = self._means()
            self._give_way(centers, new)
            gained = self._relabelled(new) + float(self.masses @ np.square(self._means() - new).sum(axis=1))
            centers, cost = new, cost - gained
        return (self._means(), cost) if self._is_sound(cost) else None

    def _give_way(self, old: FloatArray, new: FloatArray) -> None:
        """Widen the bounds by as much as centers move."""
        moved = np.sqrt(np.square(new - old).sum(axis=1))
        self.upper += moved[self.labels]
        self.lower -= moved.max()

    def _is_sound(self, cost: float) -> bool:
        """Whether no cluster is empty, and what is left in sums after many changes is more than rounding."""
        if np.bincount(self.labels, minlength=len(self.masses)).min() == 0:
            return False
        is_substantial = bool((self.masses > CANCELLATION * self.largest).all())
        self.largest = np.maximum(self.largest, self.masses)
        return is_substantial and cost >= CANCELLATION * self.total and self.may_move >= 0

    def _means(self) -> FloatArray:
        return np.asarray(self.sums / self.masses[:, None])

    def _relabelled(self, centers: FloatArray) -> float:
        """Give points whose bounds have crossed to the nearest center; says how much that gains."""
        doubtful = np.flatnonzero(self.upper > self.lower)
        every = len(doubtful) == len(self.labels)
        rows = self.points.points if every else self.points.points[doubtful]
        labels, self.upper[doubtful], self.lower[doubtful] = _two_nearest(rows, self.points.lengths[doubtful], centers)
        has_moved = np.flatnonzero(labels != self.labels[doubtful])
        movers, columns = doubtful[has_moved], np.arange(len(has_moved))
        changes = np.zeros((len(centers), len(movers)))
        changes[labels[has_moved], columns] = self.points.weights[movers]
        changes[self.labels[movers], columns] = -self.points.weights[movers]
        self.sums += changes @ rows[has_moved]
        self.masses += changes.sum(axis=1)
        self.may_move -= float(self.points.weights[movers].sum())
        away = np.square(rows[has_moved] - centers[self.labels[movers]]).sum(axis=1) - np.square(self.upper[movers])
        self.labels = self.labels.copy()
        self.labels[movers] = labels[has_moved]
        return float(self.points.weights[movers] @ np.maximum(away, 0.0))


def _sums(points: WeightedPoints, labels: IntArray, k: int) -> Sums:
    shares = np.zeros((k, len(labels)))
    shares[labels, np.arange(len(labels))] = points.weights
    return Sums(shares @ points.points, shares.sum(axis=1), float(points.weights @ points.lengths))


def _two_nearest(rows: FloatArray, lengths: FloatArray, centers: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the nearest center of each row, the distance to it, and that to the second nearest."""
    squared = np.square(centers).sum(axis=1)[:, None] - 2 * (centers @ rows.T)
    squared += lengths
    labels = squared.argmin(axis=0)
    every = np.arange(len(rows))
    first = np.sqrt(np.maximum(squared[labels, every], 0.0))
    squared[labels, every] = np.inf
    return labels, first, np.sqrt(np.maximum(squared.min(axis=0), 0.0))
