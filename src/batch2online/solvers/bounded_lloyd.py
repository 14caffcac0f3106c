"""Lloyd's steps that look only at the points whose cluster may change.

Each point has an upper bound of the distance to its own center and a lower bound of that to all others. When centers
move, the bounds give way by as much, and while they do not cross, the point stays where it is (Hamerly, SDM 2010).
Sums of clusters change by the points that move, and the cost follows from the sums: ``sum w |x|^2 - sum |S|^2 / W``.

The points may be a coreset of others, whose sums in the same clusters are known. Then the steps begin with these, and
the coreset only says what changes as centers move on. Few points move, so little is left of the noise of a sample.
"""

from __future__ import annotations

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.linalg.distances import Sums
from batch2online.solvers.lloyd import SETTLED, WeightedPoints

_CANCELLATION = 1e-6


def means_after(
    points: WeightedPoints, labels: IntArray, k: int, steps: int, sums: Sums | None = None
) -> tuple[FloatArray, float, IntArray] | None:
    """Centers (k, d) some steps on from these clusters, their cost and clusters.

    ``sums`` are those of what the points stand for, in these clusters; where none are given, those of the points.
    None if a cluster gets empty, or if masses or the cost are too small a part of the sums that they come from.
    """
    clusters = _Clusters(points, labels, _sums(points, labels, k) if sums is None else sums)
    found = clusters.settled(steps)
    return None if found is None else (*found, clusters.labels)


class _Clusters:
    def __init__(self, points: WeightedPoints, labels: IntArray, sums: Sums) -> None:
        self.points, self.labels = points, labels
        self.sums, self.masses, self.total = sums.of_points.copy(), sums.masses.copy(), sums.squares
        self.largest = self.masses.copy()
        self.upper, self.lower = np.full(len(labels), np.inf), np.zeros(len(labels))

    def settled(self, steps: int) -> tuple[FloatArray, float] | None:
        if not self._is_sound():
            return None
        centers, cost = self._means(), self._cost()
        for _ in range(steps):
            moving = self._relabelled(centers)
            if not self._is_sound():
                return None
            new, least = self._means(), self._cost()
            if not moving or least > cost * (1 - SETTLED):
                return new, least
            moved = np.sqrt(np.square(new - centers).sum(axis=1))
            self.upper += moved[self.labels]
            self.lower -= moved.max()
            centers, cost = new, least
        return centers, cost

    def _is_sound(self) -> bool:
        """Whether no cluster is empty, and what is left in sums after many changes is more than rounding."""
        if np.bincount(self.labels, minlength=len(self.masses)).min() == 0:
            return False
        is_substantial = bool((self.masses > _CANCELLATION * self.largest).all())
        self.largest = np.maximum(self.largest, self.masses)
        return is_substantial and self._cost() >= _CANCELLATION * self.total

    def _means(self) -> FloatArray:
        return np.asarray(self.sums / self.masses[:, None])

    def _cost(self) -> float:
        return self.total - float((np.square(self.sums).sum(axis=1) / self.masses).sum())

    def _relabelled(self, centers: FloatArray) -> int:
        """Give points whose bounds have crossed to the nearest center; says how many have moved."""
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
        self.labels = self.labels.copy()
        self.labels[movers] = labels[has_moved]
        return len(movers)


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
