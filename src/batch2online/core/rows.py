"""Rows and all that belongs to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.core.registry import storable
from batch2online.linalg.distances import squared_lengths

_ONES = np.broadcast_to(np.float64(1.0), (2**40,))  # one number, seen many times

PIECE_ENTRIES = 250_000
"""Numbers in a piece of rows that a cache holds: two megabytes."""


def ones(n: int) -> FloatArray:
    """Weights of rows that all count once, without the memory."""
    return _ONES[:n]


def all_ones(weights: FloatArray) -> bool:
    """Whether all rows count once; known at sight for :func:`ones`."""
    return weights.strides == (0,) or bool((weights == 1.0).all())


@storable
@dataclass(frozen=True)
class Rows:
    """Rows and all that belongs to them: ``targets`` always has two dimensions, maybe no columns."""

    points: FloatArray
    targets: FloatArray
    weights: FloatArray
    ids: IntArray

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: slice | BoolArray | IntArray) -> Rows:
        return Rows(self.points[index], self.targets[index], self.weights[index], self.ids[index])

    @cached_property
    def lengths(self) -> FloatArray:
        """Squared lengths of the points, computed once."""
        return squared_lengths(self.points)

    def pieces(self) -> Iterator[Rows]:
        """Split the rows into pieces of about two megabytes, which fit into a processor's cache.

        No rows give one empty piece, so that results for the pieces can always be concatenated.
        """
        step = max(1, PIECE_ENTRIES // max(1, self.points.shape[1]))
        return (self[start : start + step] for start in range(0, max(1, len(self)), step))

    @classmethod
    def empty(cls, width: int, n_targets: int) -> Rows:
        return cls(np.empty((0, width)), np.empty((0, n_targets)), np.empty(0), np.empty(0, dtype=np.int64))

    @classmethod
    def concatenate(cls, parts: list[Rows]) -> Rows:
        """All rows of the parts, in their order; a single part is passed through."""
        if len(parts) == 1:
            return parts[0]
        columns = ([getattr(part, field.name) for part in parts] for field in fields(cls))
        return cls(*(np.concatenate(arrays) for arrays in columns))
