"""All rows seen, in memory, in segments of ascending ids."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np

from batch2online._types import IntArray
from batch2online.rows import Rows, all_ones, ones
from batch2online.schema import storable, stores

_MANY = 64
"""So many small segments of one block are joined into one."""


@storable
@dataclass(frozen=True)
class HistoryPlace:
    """Where a file holds the history of a model: in this branch of a table, so many segments and rows."""

    is_in_memory: bool
    block: int
    width: int
    n_targets: int
    branch: int
    segments: int
    rows: int


@storable
@stores(block=int, width=int, n_targets=int, segments=list[Rows])
class History:
    """Rows in ascending ids. A segment lies in one block of ids.

    A copy costs nothing: copies share the list of segments, of which each sees its own first ones. The first copy that
    appends to the list keeps it; all others continue with a list of their own, in any thread.
    """

    is_in_memory: ClassVar[bool] = True
    _decay: Any = None  # weights of reading, see `under`
    _known_ends: IntArray | None = None  # rows up to the end of each segment, once asked for

    def __init__(self, block: int, width: int, n_targets: int) -> None:
        self.block, self.width, self.n_targets = block, width, n_targets
        self._segments: list[tuple[int, Rows | None]] = []  # rows up to the end of each, and its own in memory
        self._count = 0

    def __len__(self) -> int:
        return self._segments[self._count - 1][0] if self._count else 0

    @property
    def n_segments(self) -> int:
        """The number of segments."""
        return self._count

    def write(self) -> None:
        """Put on disk what is not there yet, if the history is one on disk."""

    def tidy(self) -> None:
        """Remove from disk what only histories before this one hold."""

    def append(self, rows: Rows) -> Self:
        """Return the history with a copy of rows of one block, with larger ids than all before."""
        new = self.copy()
        new.add_segment(len(rows), _copied(rows))
        new.join_small_ones()
        return new

    def add_segment(self, n: int, rows: Rows | None) -> None:
        """Add a segment of n rows to this copy alone; None for rows that are on disk."""
        segment = len(self) + n, rows
        if len(self._segments) == self._count:
            self._segments.append(segment)
        if len(self._segments) <= self._count or self._segments[self._count] is not segment:
            self._segments = [*self._segments[: self._count], segment]
        self._count += 1

    def join_small_ones(self) -> None:
        """Keep segments from becoming many: a policy may cut rows one by one."""
        first = self._count - _MANY
        if first < 0 or len(self) - (self._segments[first - 1][0] if first else 0) > self.block:
            return
        last = [self._segment(index) for index in range(first, self._count)]
        if last[0].ids[0] // self.block != last[-1].ids[-1] // self.block:
            return
        self._segments = [*self._segments[:first], (len(self), _joined(last))]
        self._count = first + 1

    def under(self, decay: Any) -> Self:
        """Return the history for reading, of rows with the weights that they have under a decay, if it is not None."""
        if decay is None:
            return self
        new = self.copy()
        new._decay = decay
        return new

    def last(self, n: int) -> Self:
        """Return the history of the last rows alone."""
        return self if n >= len(self) else self.of(self.from_row(len(self) - n))

    def __iter__(self) -> Iterator[Rows]:
        return self.from_row(0)

    def from_row(self, start: int) -> Iterator[Rows]:
        """Iterate over the segments from the ``start``-th row on."""
        first = bisect_right(self._segments, start, hi=self._count, key=itemgetter(0))
        for index in range(first, self._count):
            rows = self._segment(index)
            skipped = start - (self._segments[index][0] - len(rows))
            rows = rows[skipped:] if skipped > 0 else rows
            yield rows if self._decay is None else self._decay.weighted(rows)

    def blocks(self) -> Iterator[Rows]:
        """Iterate over all rows a block of ids at a time, wherever they were cut as they came."""
        for _, group in groupby(self, key=lambda rows: int(rows.ids[0]) // self.block):
            segments = list(group)
            yield segments[0] if len(segments) == 1 else _joined(segments)

    def _segment(self, index: int) -> Rows:
        rows = self._segments[index][1]
        assert rows is not None
        return rows

    def at(self, positions: IntArray) -> Rows:
        """Return the rows at these positions, counted from 0 in the order of ids."""
        rows = self._at(positions)
        return rows if self._decay is None else self._decay.weighted(rows)

    def _at(self, positions: IntArray) -> Rows:
        which = np.searchsorted(self._ends(), positions, side="right")
        order = np.argsort(which, kind="stable")
        segments, starts = np.unique(which[order], return_index=True)
        parts = [Rows.empty(self.width, self.n_targets)]
        for index, places in zip(segments.tolist(), np.split(positions[order], starts[1:]), strict=False):
            segment = self._segment(index)
            parts.append(segment[places - (self._segments[index][0] - len(segment))])
        rows = _joined(parts)
        return rows if (np.diff(order) == 1).all() else rows[np.argsort(order, kind="stable")]

    def _ends(self) -> IntArray:
        """Return the number of rows up to the end of each segment."""
        known = self._known_ends
        if known is None or len(known) != self._count or (len(known) and known[-1] != len(self)):
            self._known_ends = known = np.array([end for end, _ in self._segments[: self._count]], dtype=np.int64)
        return known

    def everything(self) -> Rows:
        """Return all rows in one piece."""
        return Rows.concatenate([Rows.empty(self.width, self.n_targets), *self])

    def ids(self) -> IntArray:
        """Return the ids of all rows."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(rows.ids for rows in self)])

    def of(self, blocks: Iterable[Rows]) -> Self:
        """Return a history of these rows, which are not copied, in the place of its own."""
        new = self.emptied()
        for rows in blocks:
            new.add_segment(len(rows), rows)
        return new

    def merged(self, other: History) -> History:
        """Return both together; ids are disjoint."""
        new = self.emptied()
        for rows in _interleaved(self, other):
            new = new.append(rows)
        return new

    def emptied(self) -> Self:
        """Return a history of the same shape and in the same place without any rows."""
        return type(self)(self.block, self.width, self.n_targets)

    def copy(self) -> Self:
        """Return an independent copy; what is appended later to one is not in the other."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def for_reading(self) -> Self:
        """Return a copy for reading with further rows, which are never written to disk."""
        return self.copy()

    # -- storing --------------------------------------------------------------------------------------

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds."""
        return {"block": self.block, "width": self.width, "n_targets": self.n_targets, "segments": list(self)}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> History:
        """Return the history that :meth:`stored_fields` describes."""
        history = cls(fields["block"], fields["width"], fields["n_targets"])
        for rows in fields["segments"]:
            history.add_segment(len(rows), _copied(rows))
        return history

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the segments that this history sees, never the shared list."""
        return type(self).from_fields, (self.stored_fields(),)


def _interleaved(one: History, other: History) -> Iterator[Rows]:
    """Iterate over the rows of both in ascending ids, a block at a time."""
    keyed = ((rows.ids[0] // one.block, rows) for rows in merge(one, other, key=lambda rows: int(rows.ids[0])))
    for _, group in groupby(keyed, key=itemgetter(0)):
        together = Rows.concatenate([rows for _, rows in group])
        yield together[np.argsort(together.ids, kind="stable")]


def _joined(segments: list[Rows]) -> Rows:
    rows = Rows.concatenate(segments)
    return replace(rows, weights=ones(len(rows))) if all_ones(rows.weights) else rows


def _copied(rows: Rows) -> Rows:
    """Return rows in arrays that nothing else refers to; ids never are."""
    weights = ones(len(rows)) if all_ones(rows.weights) else rows.weights.copy()
    return replace(rows, points=rows.points.copy(), targets=rows.targets.copy(), weights=weights)
