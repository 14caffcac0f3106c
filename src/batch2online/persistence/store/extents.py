"""Where the rows of a store lie: consecutive runs of rows, each in one piece of one file."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from batch2online._types import IntArray


class Run(NamedTuple):
    """Rows ``start`` to ``stop`` of the store, from this byte of this segment on."""

    segment: int
    offset: int
    start: int
    stop: int


class Extents:
    """All runs, 24 bytes each."""

    def __init__(self, row_bytes: int) -> None:
        self.row_bytes = row_bytes
        self.n_rows = 0
        self._starts, self._segments, self._offsets = array("q"), array("q"), array("q")

    def add(self, segment: int, offset: int, rows: int) -> None:
        if rows:
            self._starts.append(self.n_rows)
            self._segments.append(segment)
            self._offsets.append(offset)
            self.n_rows += rows

    def cut(self, n_rows: int) -> None:
        """Forget all rows from this one on."""
        keep = bisect_right(self._starts, n_rows - 1)
        for column in (self._starts, self._segments, self._offsets):
            del column[keep:]
        self.n_rows = n_rows

    def between(self, start: int, stop: int) -> Iterator[Run]:
        """The runs that hold these rows, cut to them."""
        index = bisect_right(self._starts, start) - 1
        while start < stop:
            end = min(stop, self._stop(index))
            offset = self._offsets[index] + (start - self._starts[index]) * self.row_bytes
            yield Run(self._segments[index], offset, start, end)
            start, index = end, index + 1

    def holding(self, rows: IntArray) -> Iterator[tuple[Run, slice]]:
        """For sorted row numbers: each run that holds any of them, and which of them."""
        at = 0
        while at < len(rows):
            index = bisect_right(self._starts, int(rows[at])) - 1
            start, stop = self._starts[index], self._stop(index)
            end = at + int(np.searchsorted(rows[at:], stop))
            yield Run(self._segments[index], self._offsets[index], start, stop), slice(at, end)
            at = end

    def _stop(self, index: int) -> int:
        return self._starts[index + 1] if index + 1 < len(self._starts) else self.n_rows
