"""Several files as one table: one after the other, with the columns of the first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from glob import glob, has_magic

from batch2online.app.inputs.batch import Batch, DataError, Remedy, mismatch
from batch2online.app.inputs.layout import Layout
from batch2online.app.inputs.source import Source, name_of, open_source


def paths_of(given: Sequence[str]) -> list[str]:
    """Return the paths that are meant, patterns such as ``part-*.csv`` replaced by the files they fit, sorted."""
    found: list[str] = []
    for path in given:
        if not has_magic(path) or "://" in path or os.path.exists(path):
            found.append(path)
            continue
        fitting = sorted(file for file in glob(path, recursive=True) if os.path.isfile(file))
        if not fitting:
            raise DataError(f"There is no file {path}.")
        found += fitting
    return found


def open_sources(paths: Sequence[str], layout: Layout) -> Source | Several:
    """Return a reader for one file, or for several as one."""
    if len(paths) == 1:
        return open_source(paths[0], layout)
    if layout.follow:
        raise DataError("Only one file can be followed.")
    if "-" in paths:
        raise DataError("Standard input cannot be one of several files.")
    return Several(paths, layout)


class Several:
    """Files with the same columns, read one after the other; attributes are those of :class:`Source`."""

    is_live = False

    def __init__(self, paths: Sequence[str], layout: Layout) -> None:
        self._paths, self._reading = list(paths), layout
        self.name = f"{name_of(paths[0])} and {len(paths) - 1:,} more"
        self._now = open_source(paths[0], layout)
        self.names, self.kinds = self._now.names, self._now.kinds
        self._notes: list[str] = []
        self.n_read = 0
        sizes = [os.path.getsize(path) if os.path.isfile(path) else 0 for path in paths]
        self._starts = [sum(sizes[:index]) for index in range(len(sizes))]
        self._sizes, self._total, self._index = sizes, sum(sizes), 0

    @property
    def notes(self) -> list[str]:
        own = self._now.notes
        return [*self._notes, *(note for note in own if note not in self._notes)]

    def close(self) -> None:
        """Let the present file go."""
        self._now.close()

    def share(self) -> float | None:
        """Return which share of all files has been read."""
        share = self._now.share()
        if share is None or not self._total:
            return None
        return (self._starts[self._index] + share * self._sizes[self._index]) / self._total

    def batches(self, columns: Sequence[str], untouched: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows, with these columns, and with others that are left untouched."""
        known = replace(self._reading, kinds={column: self.kinds[column] for column in columns})
        for index, path in enumerate(self._paths):
            if index:
                self._notes, self._index = self.notes, index
                self._now = open_source(path, known)
                self._check_columns([*columns, *untouched])
            for batch in self._now.batches(columns, untouched):
                self.n_read += len(batch)
                yield batch

    def _check_columns(self, wanted: Sequence[str]) -> None:
        there = set(self._now.names)
        for column in wanted:
            if column not in there:
                message = f"{self._now.name} has no column {column!r}, which {name_of(self._paths[0])} has."
                raise DataError(message, Remedy.LEAVE_OUT, about=(column, ""))
            if self._now.kinds[column] is not self.kinds[column]:
                message = f"{self._now.name}: {mismatch(column, self.kinds[column], self._now.kinds[column])}"
                raise DataError(message, Remedy.LEAVE_OUT, about=(column, ""))
