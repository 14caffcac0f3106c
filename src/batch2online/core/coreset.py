"""A coreset: a weighted subset of the rows seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batch2online._types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Coreset:
    """A weighted subset of the rows seen: immutable, sorted by id.

    Attributes
    ----------
    points : (m, d) array
    targets : (m,) or (m, n_targets) array, or None for problems without targets
    weights : (m,) array, sampling weight times ``sample_weight``
    ids : (m,) array of the points' ids
    """

    points: FloatArray
    targets: FloatArray | None
    weights: FloatArray
    ids: IntArray

    def __post_init__(self) -> None:
        for array in (self.points, self.targets, self.weights, self.ids):
            if array is not None:
                array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """Two coresets are the same when they hold the same points with the same weights."""
        if not isinstance(other, Coreset):
            return NotImplemented
        return np.array_equal(self.ids, other.ids) and np.array_equal(self.weights, other.weights)

    __hash__ = None  # type: ignore[assignment]  # arrays have no cheap hash

    def __repr__(self) -> str:
        return f"Coreset({len(self)} points of {self.points.shape[1]} columns, total weight {self.weights.sum():g})"
