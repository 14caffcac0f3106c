"""From an input to prepared rows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from batch2online._types import FloatArray
from batch2online.cli.settings import Settings
from batch2online.cli.tasks.base import Task
from batch2online.readers import Batch, DataError, Kind, Source, open_source
from batch2online.readers.batch import row_place
from batch2online.readers.preparation import Preparation, prepare

Chunk = tuple[FloatArray, FloatArray | None]
ROWS = 1 << 16


@dataclass
class PreparedStream:
    """Prepared rows of an input, in the order asked for.

    Attributes
    ----------
    name : str
        What errors call the input.
    preparation : Preparation
    dropped : int
        Rows left out so far because a value was missing.
    """

    name: str
    preparation: Preparation
    batches: Iterator[Batch]
    shuffle_seed: int | None
    dropped: int = 0

    def chunks(self) -> Iterator[Chunk]:
        """Iterate over inputs and targets, some thousand rows at a time."""
        rows = self._in_order()
        return rows if self.shuffle_seed is None else _shuffled(rows, self.shuffle_seed)

    def _in_order(self) -> Iterator[Chunk]:
        for batch in self.batches:
            rows, targets, kept = self.preparation.apply(batch, self.name)
            self.dropped += len(kept) - len(rows)
            if len(rows):
                yield rows, targets


def open_stream(source: Source, name: str, task: Task) -> PreparedStream:
    """Choose the columns, look at the first rows, and decide how all are prepared."""
    settings = task.settings
    inputs = _inputs(source, name, settings)
    if all(source.kinds[column] is Kind.NUMBER for column in inputs):
        task.check_width(len(inputs), name)
    batches = source.batches([*inputs, *_target(settings)])
    first = _first_rows(batches, settings.lookahead)
    if not first:
        raise DataError(f"{name} has no rows, only {len(source.names)} columns.")
    preparation = prepare(
        _cut(first, settings.lookahead),
        inputs,
        settings.target,
        source.kinds,
        missing=settings.missing,
        standardise=settings.standardize,
        encode=settings.categories == "encode",
        drop_first=task.has_intercept,
        name=name,
    )
    seed = settings.seed if settings.order == "random" else None
    return PreparedStream(name, preparation, chain(first, batches), seed)


def source_of(path: str, settings: Settings) -> Source:
    """Return the reader of a file, or of standard input."""
    return open_source(path, settings.format, header=settings.header)


def _inputs(source: Source, name: str, settings: Settings) -> list[str]:
    """Return the columns that the model reads, in the order asked for."""
    wanted = list(settings.columns) or [column for column in source.names if column != settings.target]
    if len(set(wanted)) < len(wanted):
        raise DataError(f"--columns names {next(c for c in wanted if wanted.count(c) > 1)!r} more than once.")
    known = set(source.names)
    for column in [*wanted, *_target(settings)]:
        if column not in known:
            raise DataError(f"{name} has no column {column!r}; it has {_listed(source.names)}.")
    if settings.target in wanted:
        raise DataError(f"{settings.target!r} cannot be both an input and the target.")
    return wanted


def _target(settings: Settings) -> list[str]:
    return [] if settings.target is None else [settings.target]


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def _first_rows(batches: Iterator[Batch], n: int) -> list[Batch]:
    first: list[Batch] = []
    while sum(map(len, first)) < n:
        batch = next(batches, None)
        if batch is None:
            break
        first.append(batch)
    return [batch for batch in first if len(batch)]


def _cut(batches: list[Batch], n: int) -> list[Batch]:
    """Return the first n rows of the batches."""
    cut = []
    for batch in batches:
        cut.append(batch[: max(0, n)])
        n -= len(batch)
    return cut


def _shuffled(chunks: Iterator[Chunk], seed: int) -> Iterator[Chunk]:
    """Give the same rows in random order, by way of a temporary file: memory stays bounded."""
    with tempfile.TemporaryFile() as file:
        width, has_targets = 0, False
        for rows, targets in chunks:
            width, has_targets = rows.shape[1], targets is not None
            file.write(rows.tobytes() if targets is None else np.column_stack([rows, targets]).tobytes())
        file.flush()
        if not width:
            return
        table = np.memmap(file, dtype=np.float64, mode="r").reshape(-1, width + has_targets)
        order = np.random.default_rng(seed).permutation(len(table))
        for start in range(0, len(table), ROWS):
            piece = np.asarray(table[order[start : start + ROWS]])
            yield np.ascontiguousarray(piece[:, :width]), piece[:, width].copy() if has_targets else None


class ArraySource:
    """A data set in memory as a source."""

    def __init__(self, rows: Any, targets: Any = None) -> None:
        columns = {f"x{j + 1}": rows[:, j] for j in range(rows.shape[1])}
        if targets is not None:
            columns["target"] = targets
        self._table = pa.table(columns)
        self.names = list(columns)
        self.kinds = dict.fromkeys(self.names, Kind.NUMBER)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Iterate over the rows, with these columns alone."""
        table = self._table.select(list(columns))
        for start in range(0, table.num_rows, ROWS):
            yield Batch(table.slice(start, ROWS), partial(row_place, start))
