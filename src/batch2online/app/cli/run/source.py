"""The input of a run: prepared rows of files, standard input, a query or a built-in data set."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from batch2online._types import BoolArray, FloatArray
from batch2online.app.cli.settings import Settings
from batch2online.app.cli.tasks import Task
from batch2online.app.inputs import Batch, DataError, Remedy, Source, open_sources, paths_of, source_of
from batch2online.app.inputs.batch import mismatch
from batch2online.app.inputs.infer import PreparationOptions, ignored_columns, prepare
from batch2online.app.inputs.preparation import Preparation
from batch2online.frames.columns import ColumnType
from batch2online.frames.preparation import LOOKAHEAD

Chunk = tuple[FloatArray, Any]
"""Rows, and their targets: numbers, labels or None."""
ROWS = 1 << 16


def shuffled(chunks: Iterator[Chunk], seed: int) -> Iterator[Chunk]:
    """Yield the same rows in random order, by way of a temporary file: memory stays bounded."""
    codes: dict[Any, int] = {}  # of labels, which the file holds as numbers
    with tempfile.TemporaryFile() as file:
        width, has_targets = 0, False
        for rows, targets in chunks:
            width, has_targets, values = rows.shape[1], targets is not None, targets
            if has_targets and targets.dtype.kind != "f":
                labels, inverse = np.unique(targets, return_inverse=True)
                known = [codes.setdefault(label, len(codes)) for label in labels.tolist()]
                values = np.array(known, dtype=np.float64)[inverse]
            file.write((np.column_stack([rows, values]) if has_targets else rows).tobytes())
        file.flush()
        if not width:
            return
        table = np.memmap(file, dtype=np.float64, mode="r").reshape(-1, width + has_targets)
        order = np.random.default_rng(seed).permutation(len(table))
        for start in range(0, len(table), ROWS):
            piece = np.asarray(table[order[start : start + ROWS]])
            targets = piece[:, width].copy() if has_targets else None
            if codes:
                targets = np.array(list(codes))[piece[:, width].astype(np.int64)]
            yield np.ascontiguousarray(piece[:, :width]), targets


def selected_columns(names: Sequence[str], name: str, settings: Settings) -> list[str]:
    """Return the features that the settings select, in the order of ``--columns``."""
    targets = [] if settings.target is None else [settings.target]
    selected = list(settings.columns) or [column for column in names if column not in targets]
    if len(set(selected)) < len(selected):
        raise DataError(f"--columns lists {next(c for c in selected if selected.count(c) > 1)!r} more than once.")
    known = set(names)
    for column in [*selected, *targets, *settings.exclude]:
        if column not in known:
            shown = ", ".join(names[:8]) + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")
            remedies = [Remedy.SEPARATOR] if len(names) == 1 else []
            raise DataError(f"{name} has no column {column!r}; its columns are {shown}.", *remedies)
    if settings.target in selected:
        raise DataError(f"{settings.target!r} cannot be both a feature and the target.")
    return [column for column in selected if column not in settings.exclude]


def unused_columns(
    first: Sequence[Batch], inputs: Sequence[str], kinds: dict[str, ColumnType], settings: Settings
) -> dict[str, str]:
    """Return the columns that ``--columns`` does not name and no model can use, each with a note."""
    free = [column for column in inputs if column not in set(settings.columns)]
    encodes = settings.unknown != "refuse" and settings.categories == "encode"
    found = ignored_columns(first, free, kinds, settings.max_levels if encodes else sys.maxsize)
    return {column: f"column {column!r} is ignored: {why}" for column, why in found.items()}


def check_columns(names: Sequence[str], kinds: dict[str, ColumnType], name: str, known: Any) -> None:
    """Raise an error if an input lacks a column, or if a column has another type than in the preparation."""
    for column, kind in known.column_kinds.items():
        if column not in kinds:
            raise DataError(f"{name} has no column {column!r}, which the model needs.")
        if kinds[column] is not kind:
            raise DataError(f"{name}: {mismatch(column, kind, kinds[column])}")


@dataclass
class PreparedStream:
    """Prepared rows of an input, in the order of ``--order``.

    Parameters
    ----------
    name : str
        Name of the input in errors.
    preparation : Preparation
    notes : list of str
        Notes on how the input is read.
    on_note : callable
        Called with each note when it arises.
    invalid_targets : callable, optional
        Returns a mask of the targets that cannot be learned, and a description of valid ones.
    dropped : int
        Number of rows dropped so far because of a missing value.
    """

    name: str
    preparation: Preparation
    source: Source
    batches: Iterator[Batch]
    shuffle_seed: int | None
    notes: list[str] = field(default_factory=list)
    on_note: Callable[[str], None] = lambda _: None
    invalid_targets: Callable[[Any], tuple[BoolArray, str]] | None = None
    dropped: int = 0
    _missing: Counter[str] = field(default_factory=Counter)
    _noted: set[str] = field(default_factory=set)

    def chunks(self) -> Iterator[Chunk]:
        """Iterate over features and targets, some thousand rows at a time."""
        rows = self._in_order()
        return rows if self.shuffle_seed is None else shuffled(rows, self.shuffle_seed)

    def _in_order(self) -> Iterator[Chunk]:
        pending = list(self.notes)  # printed once the first rows are valid: an error is one sentence
        try:
            for batch in self.batches:
                rows, targets, kept = self.preparation.apply(batch, self._note_once)
                self._check_targets(batch, targets, kept)
                for note in pending:
                    self.on_note(note)
                pending = []
                self._note_source(lambda note: not note[:1].isdigit())  # counts are known at the end
                dropped = int(len(kept) - kept.sum())
                if dropped:
                    self.dropped += dropped
                    columns = self.preparation.columns
                    self._missing.update({name: batch.table.column(name).null_count for name in columns})
                if len(rows):
                    yield rows, targets
        finally:
            self.source.close()

    def _check_targets(self, batch: Batch, targets: Any, kept: BoolArray) -> None:
        bad, valid = (np.zeros(0), "") if self.invalid_targets is None else self.invalid_targets(targets)
        if bad.any():
            first = int(bad.argmax())
            place = f"{batch.place(int(np.flatnonzero(kept)[first]))}, column {self.preparation.target!r}"
            raise DataError(f"{place}: {targets[first]:g} must be {valid}.", Remedy.OTHER_TARGET)

    def _note_once(self, column: str, note: str) -> None:
        if column not in self._noted:
            self._noted.add(column)
            self._note(note)

    def _note_source(self, is_due: Callable[[str], bool] = lambda _: True) -> None:
        for note in self.source.notes:
            if note not in self.notes and is_due(note):
                self._note(note)

    def _note(self, note: str) -> None:
        self.notes.append(note)
        self.on_note(note)

    def progress(self, learned: int) -> float | None:
        """Return the fraction of the input that has been learned or dropped; rows are read ahead of that."""
        read = self.source.progress()
        return None if read is None else read * min(1.0, (learned + self.dropped) / max(1, self.source.n_read))

    def close(self) -> None:
        """Add the notes that are known only at the end."""
        self._note_source()

    def no_rows_error(self) -> DataError:
        """Return the error of an input all of whose rows were dropped."""
        column, missing = max(self._missing.items(), key=lambda pair: pair[1], default=("", 0))
        if not missing:
            return DataError(f"{self.name} has no complete row.")
        message = f"{self.name} has no complete row: column {column!r} has the most missing values, {missing:,}."
        fill = [] if self.preparation.missing == "mean" or column == self.preparation.target else [Remedy.IMPUTE]
        return DataError(message, Remedy.EXCLUDE, *fill, about=(column, ""))


@dataclass(frozen=True)
class DatasetInfo:
    """Units and scaling of a built-in data set, and whether all its rows are known in advance."""

    units: dict[str, str] = field(default_factory=dict)
    moments: dict[str, tuple[float, float]] = field(default_factory=dict)
    is_complete: bool = False

    def scaled(self, preparation: Preparation) -> Preparation:
        """Return the preparation with the means and scales of the data set."""
        if not self.moments:
            return preparation
        means, scales = zip(*(self.moments[name] for name in preparation.numbers), strict=True)
        return replace(preparation, means=list(means), scales=list(scales), standardised=True)


def open_stream(
    source: Source,
    name: str,
    task: Task,
    known: Preparation | None = None,
    info: DatasetInfo | None = None,
) -> PreparedStream:
    """Select the columns, and infer from the first rows how they are prepared, unless that is known."""
    settings = task.settings
    seed = settings.seed if settings.order == "random" else None
    if known is not None:
        check_columns(source.names, source.kinds, name, known)
        notes, batches = list(source.notes), source.batches(known.columns)
        return PreparedStream(name, known, source, batches, seed, notes, invalid_targets=task.invalid_targets)
    inputs = selected_columns(source.names, name, settings)
    batches = source.batches([*inputs, *([] if settings.target is None else [settings.target])])
    info = info or DatasetInfo()
    most = sys.maxsize if info.is_complete else settings.lookahead or LOOKAHEAD
    first = _first_rows(batches, most if info.is_complete or _needs_lookahead(source, inputs, settings) else 1)
    if not first:
        raise DataError(f"{name} has no rows, only {len(source.names)} columns.")
    used, n_left = [], most
    for batch in first:
        used.append(batch[: max(0, n_left)])
        n_left -= len(batch)
    ignored = unused_columns(used, inputs, source.kinds, settings)
    inputs = [column for column in inputs if column not in ignored]
    if all(source.kinds[column] is ColumnType.NUMBER for column in inputs):
        task.check_width(len(inputs), name)
    wanted = PreparationOptions(
        missing=settings.missing,
        standardise=settings.standardize,
        encode=settings.categories == "encode",
        drop_first=task.has_intercept,
        handle_unknown=settings.unknown,
        max_categories=settings.max_levels,
        dates=settings.dates,
        may_grow=source.is_live or n_left <= 0,
        units=info.units,
        labels=task.labels,
    )
    preparation = info.scaled(prepare(used, inputs, settings.target, source.kinds, wanted, name))
    notes = [*source.notes, *ignored.values(), *_notes_on(preparation, source, settings)]
    rows = chain(first, batches)
    return PreparedStream(name, preparation, source, rows, seed, notes, invalid_targets=task.invalid_targets)


def _needs_lookahead(source: Source, inputs: list[str], settings: Settings) -> bool:
    """Whether the preparation depends on the first rows; a live input waits for them only with ``--lookahead``."""
    if source.is_live:
        return settings.lookahead is not None
    columns = (column for column in (*inputs, settings.target) if column is not None)
    has_strings = any(source.kinds[column] is ColumnType.STRING for column in columns)
    return has_strings or settings.standardize or settings.missing == "mean"


def _notes_on(preparation: Preparation, source: Source, settings: Settings) -> Iterator[str]:
    """Yield notes on what was inferred from few rows, and on columns with many categories."""
    rows = preparation.known_rows
    is_inferred = preparation.categories or preparation.standardised or preparation.missing == "mean"
    if source.is_live and settings.lookahead is None and is_inferred:
        yield f"categories, means and scales are those of the first {rows:,} rows; --lookahead N waits for N rows"
    for column in preparation.truncated:
        yield (
            f"column {column!r} has more than {len(preparation.categories[column]):,} distinct values in the first "
            f"{rows:,} rows: only the most frequent have a one-hot column each; --max-levels N sets how many"
        )


def _first_rows(batches: Iterator[Batch], n: int) -> list[Batch]:
    first: list[Batch] = []
    while sum(map(len, first)) < n:
        batch = next(batches, None)
        if batch is None:
            break
        first.append(batch)
    return [batch for batch in first if len(batch)]


def open_input(
    paths: Sequence[str],
    dataset: str | None,
    task: Task,
    live: Mapping[str, Any] | None = None,
    known: Preparation | None = None,
) -> PreparedStream:
    """Return the prepared rows of files or of a built-in data set.

    ``live`` are parameters of :class:`Layout` on live inputs; ``known`` is the preparation, else it is inferred.
    """
    has_query = task.settings.query is not None  # which may read files itself
    if (paths and dataset is not None) or not (paths or dataset is not None or has_query):
        raise DataError("Give one input: FILE (- for standard input) or --dataset NAME.")
    if dataset is not None:
        table = task.dataset(dataset)
        columns = table.complete(task.used_columns(table))
        moments = {} if task.has_targets or table.scale == 1.0 else table.moments(columns)
        info = DatasetInfo(dict(table.units), moments, is_complete=True)
        return open_stream(source_of(pa.table(columns), dataset), dataset, task, known, info)
    layout = task.settings.layout(**(live or {}), kinds={} if known is None else known.column_kinds)
    opened = open_sources(paths_of(paths), layout)
    try:
        return open_stream(opened, opened.name, task, known)
    except BaseException:
        opened.close()
        raise
