"""Rows with targets, weights and ids, and the buffer in which they are collected until a block is complete."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Annotated, Any, Self

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.numerics.distances import squared_lengths
from batch2online.schema import require, shape, storable, stores

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
_FEW = 64


def block_rows(columns: int) -> int:
    """Rows of a block: about two megabytes, and a number that usual chunk sizes divide."""
    return next((rows for rows in _BLOCK_ROWS if rows * columns <= PIECE_ENTRIES), _BLOCK_ROWS[-1])


class _Room:
    """Arrays with room for rows; the first ``filled`` of them are taken, by one buffer or another."""

    def __init__(self, rows: int, width: int, n_targets: int) -> None:
        self.filled = 0
        self.points: FloatArray = np.empty((rows, width))
        self.targets: FloatArray = np.empty((rows, n_targets))
        self.weights: FloatArray | None = None  # all ones
        self.size = rows
        self.packed_points, self.packed_targets = _packed(self.points), _packed(self.targets)
        self.pack_points, self.pack_targets = _packer(width), _packer(n_targets)
        self.point_bytes, self.target_bytes = 8 * width, 8 * n_targets
        self.numbers = self.packed_targets.cast("d") if n_targets == 1 else None

    def own_weights(self) -> FloatArray:
        """Return the weights as an array that can be written to."""
        if self.weights is None:
            self.weights = np.ones(len(self.points))
        return self.weights


def _packed(array: Any) -> memoryview:
    """Return the memory of an array, to pack single rows into; a view of nothing cannot be cast."""
    return memoryview(array).cast("B") if array.size else memoryview(b"")


@storable
@stores(width=int, columns=int, block=int, values=FloatArray, weights=FloatArray | None)
class RowBuffer:
    """Buffered rows, in the order in which they came."""

    def __init__(self, width: int, n_targets: int, block: int = 0) -> None:
        self.width, self.columns, self.block = width, width + n_targets, block
        self.count = 0
        self._room = _Room(0, width, n_targets)

    def __len__(self) -> int:
        return self.count

    def cleared(self) -> RowBuffer:
        """Return an empty buffer of the same shape."""
        return RowBuffer(self.width, self.columns - self.width, self.block)

    def copy(self) -> Self:
        """Return a buffer of the same rows; what is added to one is not in the other."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def append(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> Self:
        """Return a buffer with these rows at its end."""
        start, stop = self.count, self.count + len(points)
        room = self._room_up_to(stop)
        room.points[start:stop] = points
        room.targets[start:stop] = targets
        if room.weights is not None or not all_ones(weights):
            room.own_weights()[start:stop] = weights
        room.filled = stop
        twin = self.copy()
        twin.count, twin._room = stop, room
        return twin

    def fill(self, batch: Batch, limit: int, first_id: int) -> tuple[Rows | None, RowBuffer, Batch]:
        """Return a segment once ``limit`` rows are there, the buffer after it, and what is left of the batch.

        A segment that comes as a whole is a view of the batch.
        """
        n = limit - self.count
        points, targets, weights = batch
        taken, rest = (points[:n], targets[:n], weights[:n]), (points[n:], targets[n:], weights[n:])
        if len(taken[0]) < n:
            return None, self.append(*taken), rest
        if not self.count:
            return Rows(*taken, np.arange(first_id, first_id + n)), self, rest
        return self.append(*taken).rows(first_id), self.cleared(), rest

    def append_one(self, values: Sequence[float], target: tuple[float, ...], most: float = math.inf) -> bool:
        """Add one row of Python floats in place if it then holds fewer than ``most``; return whether that was done.

        The last step makes the row visible.
        """
        at, room = self.count, self._room
        if at + 1 >= most:
            return False
        if room.filled != at or at == room.size:
            self._room = room = self._room_up_to(at + 1)
        room.pack_points(room.packed_points, at * room.point_bytes, *values)
        if room.numbers is not None:
            room.numbers[at] = target[0]
        elif target:
            room.pack_targets(room.packed_targets, at * room.target_bytes, *target)
        if room.weights is not None:
            room.weights[at] = 1.0
        room.filled = self.count = at + 1
        return True

    def rows(self, first_id: int) -> Rows:
        """Return the buffered rows, numbered from ``first_id`` on, in arrays that nothing writes to again."""
        count, room = self.count, self._room
        weights = ones(count) if room.weights is None else room.weights[:count]
        return Rows(room.points[:count], room.targets[:count], weights, np.arange(first_id, first_id + count))

    def _room_up_to(self, stop: int) -> _Room:
        """Return the room, or a copy that is larger or that no other buffer has written to."""
        old = self._room
        if old.filled == self.count and stop <= len(old.points):
            return old
        size = self._size_for(stop)
        room = _Room(size, self.width, self.columns - self.width)
        room.points[: self.count] = old.points[: self.count]
        room.targets[: self.count] = old.targets[: self.count]
        if old.weights is not None:
            room.own_weights()[: self.count] = old.weights[: self.count]
        room.filled = self.count
        return room

    def _size_for(self, stop: int) -> int:
        """Return the rows of new room for so many: a quarter of a block first, since older rooms are still there."""
        if stop <= _FEW:
            return _FEW
        return self.block // 4 if stop <= self.block // 4 else max(stop, self.block)

    # -- storing and copying --------------------------------------------------------------------------

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds: the rows and nothing else."""
        rows = self.rows(0)
        return {
            "width": self.width,
            "columns": self.columns,
            "block": self.block,
            "values": np.concatenate([rows.points, rows.targets], axis=1),
            "weights": None if all_ones(rows.weights) else rows.weights.copy(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> RowBuffer:
        """Return the buffer that :meth:`stored_fields` describes."""
        values, weights, width = fields["values"], fields["weights"], fields["width"]
        buffer = cls(width, fields["columns"] - width, fields["block"])
        weights = ones(len(values)) if weights is None else weights
        return buffer.append(values[:, :width], values[:, width:], weights) if len(values) else buffer

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the rows, never the shared arrays."""
        return type(self).from_fields, (self.stored_fields(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> RowBuffer:
        return self.from_fields(self.stored_fields())


def check_width(parts: Iterable[Rows], width: int, n_targets: int | None, largest: float = math.inf) -> None:
    """Require parts of so many columns and targets, of magnitudes up to the largest."""
    for rows in parts:
        require(rows.points.shape[1] == width, f"found {rows.points.shape[1]} columns, expected {width}")
        require(n_targets in (None, rows.targets.shape[1]), f"found {rows.targets.shape[1]} targets, not {n_targets}")
        require((np.abs(rows.points) <= largest).all(), f"found a magnitude above {largest:g}")


@cache
def _packer(columns: int) -> Callable[..., None]:
    """Return what writes a row of Python floats into memory in less time than NumPy needs to convert it."""
    return struct.Struct(f"{columns}d").pack_into
