"""Rows with targets, weights and ids, and the buffer in which they are collected until a block is complete."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import groupby
from typing import Annotated, Any, Self

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.numerics.distances import squared_lengths
from batch2online.schema import require, shape, storable

Intervals = list[tuple[int, int]]
"""Half-open intervals of ids that were seen."""

Batch = tuple[FloatArray, FloatArray, FloatArray]
"""Points, targets and weights of validated rows."""

LARGEST_ID = 2**63 - 2


def check_ids(ids: Any, known: IntArray, otherwise: str = "were never seen or are forgotten already") -> IntArray:
    """Return the ids as an array of integers, all of them known; the error says ``otherwise`` of unknown ones."""
    array = np.atleast_1d(np.asarray(ids))
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"ids must be integers, got an array of {array.dtype} with {array.ndim} dimensions.")
    unknown = array[~np.isin(array, known)]
    if unknown.size:
        raise ValueError(f"Cannot forget ids that {otherwise}: {unknown[:5].tolist()}.")
    return array.astype(np.int64)


def check_ids_left(next_id: int, n: int) -> None:
    """Refuse rows that would need ids beyond the largest one."""
    if next_id + n - 1 > LARGEST_ID:
        raise ValueError(f"ids beyond {LARGEST_ID} are not possible: first_id is too large for these rows.")


def extended(intervals: Intervals, start: int, stop: int) -> Intervals:
    """Return the intervals with one more."""
    if intervals and intervals[-1][1] == start:
        return [*intervals[:-1], (intervals[-1][0], stop)]
    return united(intervals, [(start, stop)])


def united(one: Intervals, other: Intervals) -> Intervals:
    """Return the intervals of both, sorted, neighbours joined.

    >>> united([(0, 5), (9, 12)], [(5, 7)])
    [(0, 7), (9, 12)]
    """
    joined: Intervals = []
    for start, stop in sorted(one + other):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def check_disjoint(one: Intervals, other: Intervals) -> None:
    """Refuse ids that both have seen."""
    for start, stop in one:
        for other_start, other_stop in other:
            if start < other_stop and other_start < stop:
                overlap = f"{max(start, other_start)} to {min(stop, other_stop) - 1}"
                raise ValueError(f"Shards need disjoint ids (first_id): both have seen ids {overlap}.")


_ONES = np.broadcast_to(np.float64(1.0), (2**40,))  # one number, seen many times

PIECE_ENTRIES = 250_000
"""Numbers in a piece of rows that a cache holds: two megabytes."""


def ones(n: int) -> FloatArray:
    """Return n weights of one, without the memory."""
    return _ONES[:n]


def all_ones(weights: FloatArray) -> bool:
    """Whether all weights are one; free for :func:`ones`."""
    return weights.strides == (0,) or bool((weights == 1.0).all())


@storable
@dataclass(frozen=True)
class Rows:
    """Rows and all that belongs to them: ``targets`` always has two dimensions, maybe no columns."""

    points: Annotated[FloatArray, shape("n", "d")]
    targets: Annotated[FloatArray, shape("n", "t")]
    weights: Annotated[FloatArray, shape("n")]
    ids: Annotated[IntArray, shape("n")]

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: slice | BoolArray | IntArray) -> Rows:
        if isinstance(index, slice):
            return Rows(self.points[index], self.targets[index], self.weights[index], self.ids[index])
        places = np.flatnonzero(index) if index.dtype == np.bool_ else index
        points, targets = self.points.take(places, axis=0), self.targets.take(places, axis=0)  # in half the time
        return Rows(points, targets, self.weights.take(places), self.ids.take(places))

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


_BLOCK_ROWS = (10_000, 5_000, 2_000, 1_000)


def block_rows(columns: int) -> int:
    """Rows of a block: about two megabytes, and a number that usual chunk sizes divide."""
    return next((rows for rows in _BLOCK_ROWS if rows * columns <= PIECE_ENTRIES), _BLOCK_ROWS[-1])


class RowBuffer:
    """Buffered rows, in the order in which they came: batches of arrays, and single rows of Python numbers.

    Copies share a list of parts, of which each sees its own first ones. The first copy that appends to the list keeps
    it; all others continue with a list of their own.
    """

    def __init__(self, width: int, n_targets: int) -> None:
        self.width, self.n_targets = width, n_targets
        self._parts: list[tuple[Any, ...]] = []
        self._size = 0, 0  # parts that are its own, and rows in them

    def __len__(self) -> int:
        return self._size[1]

    def cleared(self) -> RowBuffer:
        """Return an empty buffer of the same shape."""
        return RowBuffer(self.width, self.n_targets)

    def copy(self) -> Self:
        """Return a buffer of the same rows; what is added to one is not in the other."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def append(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> Self:
        """Return a buffer with a copy of these rows at its end."""
        twin = self.copy()
        own = ones(len(weights)) if all_ones(weights) else weights.copy()
        twin.add_part((points.copy(), targets.copy(), own), len(points))
        return twin

    def append_one(self, values: Sequence[float], target: tuple[float, ...], most: float = math.inf) -> bool:
        """Add one row of Python floats in place if it then holds fewer than ``most``; return whether that was done."""
        if self._size[1] + 1 >= most:
            return False
        self.add_part((values, target), 1)
        return True

    def add_part(self, part: tuple[Any, ...], n_rows: int) -> None:
        """Add a part of so many rows to this copy alone; the last step makes it visible."""
        at, known = self._size
        if len(self._parts) == at:
            self._parts.append(part)
        if self._parts[at] is not part:
            self._parts = [*self._parts[:at], part]
        self._size = at + 1, known + n_rows

    def fill(self, batch: Batch, limit: int, first_id: int) -> tuple[Rows | None, RowBuffer, Batch]:
        """Return a segment once ``limit`` rows are there, the buffer after it, and what is left of the batch.

        A segment that comes as a whole is a view of the batch.
        """
        n = limit - len(self)
        points, targets, weights = batch
        taken, rest = (points[:n], targets[:n], weights[:n]), (points[n:], targets[n:], weights[n:])
        if len(taken[0]) < n:
            return None, self.append(*taken), rest
        if not len(self):
            return Rows(*taken, np.arange(first_id, first_id + n)), self, rest
        return self.append(*taken).rows(first_id), self.cleared(), rest

    def rows(self, first_id: int) -> Rows:
        """Return the buffered rows, numbered from ``first_id`` on, in arrays that nothing writes to again."""
        points, targets, weights = [np.empty((0, self.width))], [np.empty((0, self.n_targets))], [ones(0)]
        for is_single, group in groupby(self._parts[: self._size[0]], key=lambda part: len(part) == 2):
            if is_single:
                values, own = zip(*group, strict=True)
                points.append(np.array(values, dtype=np.float64))
                targets.append(np.array(own, dtype=np.float64).reshape(len(own), self.n_targets))
                weights.append(ones(len(own)))
                continue
            for batch in group:
                points.append(batch[0])
                targets.append(batch[1])
                weights.append(batch[2])
        n = sum(map(len, weights))
        own_weights = ones(n) if all(each.strides == (0,) for each in weights) else np.concatenate(weights)
        return Rows(np.concatenate(points), np.concatenate(targets), own_weights, np.arange(first_id, first_id + n))

    @classmethod
    def of(cls, rows: Rows) -> RowBuffer:
        """Return a buffer of these rows."""
        buffer = cls(rows.points.shape[1], rows.targets.shape[1])
        return buffer.append(rows.points, rows.targets, rows.weights) if len(rows) else buffer

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the rows, never the shared list."""
        return self.of, (self.rows(0),)


def check_width(parts: Iterable[Rows], width: int, n_targets: int | None, largest: float = math.inf) -> None:
    """Require parts of so many columns and targets, of magnitudes up to the largest."""
    for rows in parts:
        require(rows.points.shape[1] == width, f"found {rows.points.shape[1]} columns, expected {width}")
        require(n_targets in (None, rows.targets.shape[1]), f"found {rows.targets.shape[1]} targets, not {n_targets}")
        require((np.abs(rows.points) <= largest).all(), f"found a magnitude above {largest:g}")
