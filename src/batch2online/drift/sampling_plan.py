"""Which rows the monitor watches: blocks of 64, all of the first, then fewer and fewer, one in sixteen in the end.

Places are fixed beforehand: a choice that does not look at the rows leaves their order random. Fewer blocks cost less,
and the delay of an alarm grows as they get fewer, but not without end.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.drift.betting import BLOCK

THINNINGS = (2**15, 2**16, 2**18, 2**20)
"""Row numbers from which on half as many blocks are watched as before."""


class Watched:
    """Those of n rows from number ``first`` on that are watched: one block in ``every``, at multiples of it.

    The rows lie between two thinnings. Written into lines as long as it is from one watched block to the next, those
    that are watched are the first columns.
    """

    def __init__(self, first: int, n: int, every: int | None = None) -> None:
        self.first, self.n = first, n
        self.every = 1 << sum(at <= first for at in THINNINGS) if every is None else every
        self._length = BLOCK * self.every
        line, self._start = divmod(first, self._length)
        self._first_line, self._lines = line, -(-(self._start + n) // self._length)
        last = min(BLOCK, self._start + n - (self._lines - 1) * self._length)
        self._span = slice(min(BLOCK, self._start), (self._lines - 1) * BLOCK + last)

    def __len__(self) -> int:
        return int(self._span.stop - self._span.start)

    def of_values(self, values: Any) -> Any:
        """Return those of n values, one a row, that belong to rows that are watched."""
        if self.every == 1:
            return values
        room = np.empty(self._lines * self._length, dtype=values.dtype)
        room[self._start : self._start + self.n] = values
        return room.reshape(self._lines, self._length)[:, :BLOCK].reshape(-1)[self._span]

    def of_rows(self, points: FloatArray, columns: IntArray | None) -> FloatArray:
        """Return these columns, or all, of those of n rows that are watched."""
        if self.every == 1:
            return points if columns is None else points[:, columns]
        places = self.of_values(np.arange(self.n))
        return np.asarray(points[places] if columns is None else points[places[:, None], columns])

    def blocks(self) -> IntArray:
        """Return the row numbers at which watched blocks begin that these rows lie in."""
        first = self._first_line + (self._span.start == BLOCK and self.every > 1)  # none of the first line is watched
        return np.asarray(np.arange(first, self._first_line + self._lines) * self._length)


def n_watched(rows: int) -> int:
    """Return how many of so many rows are watched.

    >>> n_watched(1000), n_watched(10**6)
    (1000, 190592)
    """
    cuts = [0, *(at for at in THINNINGS if at < rows), rows]
    return sum(len(Watched(start, stop - start)) for start, stop in itertools.pairwise(cuts) if stop > start)
