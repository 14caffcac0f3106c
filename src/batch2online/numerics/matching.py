"""Matching of clusters before and after a change, so that cluster ids are stable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.schema import storable


@storable
@dataclass(frozen=True)
class ClusterChange:
    """Change of one cluster when the model was replaced.

    Attributes
    ----------
    id : int
        Id of the cluster, the same before and after.
    moved : float
        Distance between its old and its new center.
    kept : float
        Share of its weight before that it still holds.
    split_from : int or None
        The cluster that most of its current weight comes from, if that is another one.
    merged_into : int or None
        The cluster that most of its former weight went to, if that is another one.
    """

    id: int
    moved: float
    kept: float
    split_from: int | None
    merged_into: int | None


def shared_weight(old_labels: IntArray, new_labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """Return the weight (k, k) of points with each pair of an old and a new label."""
    return np.asarray(np.bincount(old_labels * k + new_labels, weights, k * k).reshape(k, k), dtype=np.float64)


def matched(shared: FloatArray, distances: FloatArray) -> IntArray:
    """Return for each old cluster the new one that continues it, such that as much weight as possible keeps its label.

    ``distances`` between old and new centers break ties where no weight is shared.

    >>> matched(np.array([[1.0, 9.0], [8.0, 0.0]]), np.zeros((2, 2))).tolist()
    [1, 0]
    """
    gain = shared / (shared.sum() or 1.0) - 1e-9 * distances / (distances.max() or 1.0)
    return np.asarray(_assignment(gain)[1], dtype=np.int64)


def matched_weight(shared: FloatArray) -> float:
    """Return the largest weight that keeps its label under any numbering of the new clusters.

    >>> matched_weight(np.array([[1.0, 9.0], [8.0, 0.0]]))
    17.0
    """
    return float(shared[_assignment(shared)].sum())


def _assignment(gain: FloatArray) -> tuple[IntArray, IntArray]:
    """Return rows and columns of the largest total."""
    from scipy.optimize import linear_sum_assignment  # a tenth of a second that only clusters need

    rows, columns = linear_sum_assignment(gain, maximize=True)
    return rows, columns


def cluster_changes(shared: FloatArray, moved: FloatArray) -> tuple[ClusterChange, ...]:
    """Return the change of each id, from the weight shared by old (rows) and new (columns) clusters of matched ids."""
    before, after = shared.sum(axis=1), shared.sum(axis=0)
    origin, destination = shared.argmax(axis=0), shared.argmax(axis=1)
    return tuple(
        ClusterChange(
            id=j,
            moved=float(moved[j]),
            kept=float(shared[j, j] / before[j]) if before[j] else 0.0,
            split_from=int(origin[j]) if after[j] and shared[origin[j], j] > shared[j, j] else None,
            merged_into=int(destination[j]) if before[j] and shared[j, destination[j]] > shared[j, j] else None,
        )
        for j in range(len(shared))
    )
