"""Reading the rows of a store, through memory maps of its segments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.persistence.store.errors import StoreError
from batch2online.persistence.store.extents import Extents, Run
from batch2online.persistence.store.records import map_file
from batch2online.persistence.store.recovery import Recovery, segment_path

_FEW_ROWS = 1024
_MAPS = 64


class Reader:
    """The rows of a store as they were found, and whether they can still be read."""

    recovered: Recovery | None
    """What opening the store dropped; None if nothing."""

    def __init__(self, folder: Path, columns: int, extents: Extents, recovered: Recovery | None) -> None:
        self.folder, self.columns, self.recovered = folder, columns, recovered
        self._extents = extents
        self._maps: dict[int, Any] = {}
        self._poison: str | None = None

    def __len__(self) -> int:
        return self._extents.n_rows

    def pieces(self, start: int = 0, stop: int | None = None, rows: int = 65_536) -> Iterator[FloatArray]:
        """The rows from ``start`` to ``stop`` in order, at most ``rows`` at a time, as read-only arrays.

        Rows appended together come as a view of the file, rows appended in small numbers as a copy.
        """
        stop = len(self) if stop is None else stop
        if not 0 <= start <= stop <= len(self) or rows < 1:
            raise ValueError(f"no rows {start} to {stop} by {rows} in a store of {len(self)}.")
        return self._pieces(start, stop, rows)

    def _pieces(self, start: int, stop: int, rows: int) -> Iterator[FloatArray]:
        while start < stop:
            piece = self._piece(start, min(stop, start + rows))
            yield piece
            start += len(piece)

    def _piece(self, start: int, stop: int) -> FloatArray:
        """Rows from ``start`` on, up to ``stop`` at most."""
        self._check()
        run = next(self._extents.between(start, stop))
        if run.stop - run.start >= min(_FEW_ROWS, stop - start):
            return self._view(run)
        joined = np.concatenate([self._view(run) for run in self._extents.between(start, stop)])
        joined.flags.writeable = False
        return joined

    def read(self, row_numbers: Any) -> FloatArray:
        """The rows with these numbers, which must not decrease, as an array of their own."""
        numbers = np.asarray(row_numbers, dtype=np.int64)
        if numbers.size and (numbers[0] < 0 or numbers[-1] >= len(self) or (np.diff(numbers) < 0).any()):
            raise ValueError(f"row numbers must increase from 0 or more to less than {len(self)}.")
        self._check()
        result = np.empty((len(numbers), self.columns))
        for run, which in self._extents.holding(numbers):
            result[which] = self._view(run)[numbers[which] - run.start]
        return result

    def _view(self, run: Run) -> FloatArray:
        count = (run.stop - run.start) * self.columns
        content = self._map(run.segment, run.offset + count * 8)
        values = np.frombuffer(content, dtype="<f8", count=count, offset=run.offset)
        return values.reshape(-1, self.columns)

    def _map(self, number: int, size: int) -> Any:
        """A map of a segment, of which at least ``size`` bytes are known to be there; the latest few are kept."""
        content = self._maps.pop(number, b"")
        if len(content) < size:
            content = map_file(segment_path(self.folder, number))
        self._maps[number] = content
        if len(self._maps) > _MAPS:
            del self._maps[next(iter(self._maps))]
        return content

    def _check(self) -> None:
        if self._poison is not None:
            raise StoreError(f"The store in {self.folder} cannot be used any more: {self._poison}.")
