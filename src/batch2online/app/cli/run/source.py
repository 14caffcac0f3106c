"""The input of a run: rows of files, standard input, a query or a built-in data set, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batch2online._types import BoolArray, FloatArray
from batch2online.app.cli.run.chunks import Chunk, shuffled
from batch2online.app.cli.run.notes import in_options, placed
from batch2online.app.cli.settings import Settings
from batch2online.app.cli.tasks import Task
from batch2online.app.features import ColumnFacts
from batch2online.app.inputs import Batch, DataError, Remedy, Source, open_sources, paths_of, source_of
from batch2online.app.inputs.batch import DATES, mismatch
from batch2online.tables.codec import Codec
from batch2online.tables.columns import EMPTY, Column, ColumnError, ColumnType, TypedTable, read
from batch2online.tables.options import Columns
from batch2online.validation import LARGEST

_MAX_INTEGER = 2**53
"""Larger integers are not all distinct as float64."""


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


def _codec_of(model: Any) -> Codec | None:
    """Return how a model of tables encodes them; None before its first rows."""
    codec: Codec | None = model.stream.columns if model.__sklearn_is_fitted__() else None
    return codec


def known_kinds(model: Any, target: str | None) -> dict[str, ColumnType]:
    """Return the types of the columns of a model, and of its target, as far as they are known."""
    codec = _codec_of(model)
    if codec is None:
        return {}
    found = dict(zip(codec.table_names, codec.kinds, strict=True))
    kinds = {name: ColumnType(kind) for name, kind in found.items() if kind != EMPTY}
    labels = getattr(model.stream.problem, "labels", {})
    if target is not None:
        is_string = any(isinstance(label, str) for label in labels.values())
        kinds[target] = ColumnType.STRING if is_string else ColumnType.NUMBER
    return kinds


def check_columns(source: Source, needed: Sequence[str], kinds: Mapping[str, ColumnType]) -> None:
    """Raise an error if an input lacks a column, or if a column has another type than in the rows before."""
    for column in needed:
        if column not in source.kinds:
            raise DataError(f"{source.name} has no column {column!r}, which the model needs.")
        if column in kinds and source.kinds[column] is not kinds[column]:
            raise DataError(f"{source.name}: {mismatch(column, kinds[column], source.kinds[column])}")


def table_of(batch: Batch, columns: Sequence[str], drops: bool = False) -> TypedTable:
    """Return columns of a batch as a table; errors name the line. With ``drops`` infinity is a missing value."""
    try:
        return read(pa.table({name: _finite(batch.table.column(name), drops) for name in columns}))
    except ColumnError as error:
        raise placed(error, batch.place) from error


def _finite(column: Any, drops: bool) -> Any:
    if not drops or not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.less_equal(pc.abs(column), LARGEST), column, pa.scalar(None, column.type))


def scaled(table: TypedTable, facts: ColumnFacts) -> TypedTable:
    """Return a table with the scales of a built-in data set."""
    if not facts.moments:
        return table
    columns = []
    for name, column in table.by_name.items():
        mean, scale = facts.moments.get(name, (0.0, 1.0))
        columns.append(Column(column.kind, (column.values - mean) / scale, column.words))
    return replace(table, columns=tuple(columns))


def targets_of(batch: Batch, target: str, has_labels: bool) -> tuple[Any, BoolArray]:
    """Return the targets of a batch, numbers or labels, and a mask of missing ones."""
    given = batch.table.column(target)
    if not has_labels:
        table = table_of(batch, [target], drops=True)
        values = table.columns[0].values / 86_400e6 if pa.types.is_temporal(given.type) else table.columns[0].values
        return values, np.isnan(values)
    values = np.asarray(given.to_numpy())
    if values.dtype.kind == "O":
        missing = np.asarray(given.is_null().to_numpy(), dtype=np.bool_)
        return np.where(missing, "", values).astype(str), missing
    missing = ~(np.abs(values) <= LARGEST)
    values = np.where(missing, 0.0, values)
    wrong = (values % 1 != 0) | (np.abs(values) > _MAX_INTEGER)
    if wrong.any():
        row = int(wrong.argmax())
        place = f"{batch.place(row)}, column {target!r}"
        message = f"{place}: {values[row]:g} is not a class label: labels are strings or integers."
        raise DataError(message, Remedy.OTHER_TARGET)
    return values.astype(np.int64), missing


@dataclass
class TableStream:
    """Rows of an input as tables, in the order of ``--order``.

    Parameters
    ----------
    source : Source
    columns : list of str
        Names of the features.
    task : Task
    facts : ColumnFacts
        Target, units and scales.
    has_labels : bool
        Whether the targets are class labels.
    notes : list of str
        Notes on how the input is read.
    on_note : callable
        Called with each note when it arises.
    dropped : int
        Number of rows dropped so far: without a target, or with a missing value.
    place : callable
        Returns the place of a row of the current chunk.
    """

    source: Source
    columns: list[str]
    task: Task
    facts: ColumnFacts
    has_labels: bool = False
    notes: list[str] = field(default_factory=list)
    on_note: Callable[[str], None] = lambda _: None
    dropped: int = 0
    place: Callable[[int], str] = str
    _missing: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """Name of the input in errors."""
        return self.source.name

    def chunks(self) -> Iterator[Chunk]:
        """Iterate over features and targets, some thousand rows at a time."""
        rows = self._in_order()
        if self.task.settings.order != "random":
            return rows
        self.place = lambda _row: self.name
        return shuffled(rows, self.task.settings.seed)

    def _in_order(self) -> Iterator[Chunk]:
        pending = list(self.notes)  # printed once the first rows are valid: an error is one sentence
        target = [] if self.facts.target is None else [self.facts.target]
        try:
            for batch in self.source.batches([*self.columns, *target]):
                table, targets = self._read(batch)
                for note in pending:
                    self.on_note(note)
                pending = []
                self._note_source(lambda note: not note[:1].isdigit())  # counts are known at the end
                if table.n_rows:
                    yield table, targets
        finally:
            self.source.close()

    def _read(self, batch: Batch) -> Chunk:
        missing = self.task.settings.missing
        table = table_of(batch, self.columns, drops=missing in ("drop", "mean"))
        targets, dropped = None, np.zeros(len(batch), dtype=np.bool_)
        if self.facts.target is not None:
            targets, dropped = targets_of(batch, self.facts.target, self.has_labels)
            self._missing[self.facts.target] += int(dropped.sum())
        for name, column in table.by_name.items():
            self._missing[name] += int(column.missing.sum())
            if column.has_gaps and missing == "drop":
                dropped = dropped | column.missing
            elif column.has_gaps and missing == "refuse" and (column.missing & ~dropped).any():
                row = int((column.missing & ~dropped).argmax())
                message = f"{batch.place(row)}, column {name!r}: the value is missing."
                raise DataError(message, Remedy.DROP_ROWS, Remedy.IMPUTE, about=(name, ""))
        kept, self.dropped = ~dropped, self.dropped + int(dropped.sum())
        if dropped.any():
            table, targets = table[kept], None if targets is None else targets[kept]
        rows = np.flatnonzero(kept)
        self.place = lambda row: batch.place(int(rows[row]))
        bad, valid = self.task.invalid_targets(targets)
        if targets is not None and bad.any():
            first = int(bad.argmax())
            place = f"{self.place(first)}, column {self.facts.target!r}"
            raise DataError(f"{place}: {targets[first]:g} must be {valid}.", Remedy.OTHER_TARGET)
        return scaled(table, self.facts), targets

    def note(self, note: str) -> None:
        """Add a note, once; it names options of the command."""
        note = in_options(note)
        if note not in self.notes:
            self.notes.append(note)
            self.on_note(note)

    def _note_source(self, is_due: Callable[[str], bool] = lambda _: True) -> None:
        for note in filter(is_due, self.source.notes):
            self.note(note)

    def progress(self, learned: int) -> float | None:
        """Return the fraction of the input that has been learned or dropped; rows are read ahead of that."""
        read_so_far = self.source.progress()
        if read_so_far is None:
            return None
        return read_so_far * min(1.0, (learned + self.dropped) / max(1, self.source.n_read))

    def close(self) -> None:
        """Add the notes that are known only at the end."""
        self._note_source()
        target = self.facts.target
        if target is not None and self._missing[target]:
            skipped = f"rows without a value of {target!r} are skipped, {self._missing[target]:,} here"
            self.note(f"{skipped}; predict answers them")

    def no_rows_error(self) -> DataError:
        """Return the error of an input without rows, or all of whose rows were dropped."""
        if not self.source.n_read:
            return DataError(f"{self.name} has no rows, only {len(self.source.names)} columns.")
        column, missing = max(self._missing.items(), key=lambda pair: pair[1], default=("", 0))
        if not missing:
            return DataError(f"{self.name} has no complete row.")
        message = f"{self.name} has no complete row: column {column!r} has the most missing values, {missing:,}."
        fill = [] if self.task.settings.missing == "mean" or column == self.facts.target else [Remedy.IMPUTE]
        return DataError(message, Remedy.EXCLUDE, *fill, about=(column, ""))


def open_stream(source: Source, task: Task, model: Any = None, facts: ColumnFacts | None = None) -> TableStream:
    """Select the columns of an input; ``model`` is a model of earlier rows, whose columns are needed."""
    settings = task.settings
    codec = None if model is None else _codec_of(model)
    if codec is not None:
        kinds = known_kinds(model, settings.target)
        check_columns(source, [*codec.needed(learns=True), *([settings.target] if settings.target else [])], kinds)
        columns = [name for name in codec.table_names if name in source.kinds]
    else:
        columns = selected_columns(source.names, source.name, settings)
        _check_kinds(source, columns, task)
    stream = TableStream(source, columns, task, facts or ColumnFacts(settings.target), notes=list(source.notes))
    if settings.target is not None:
        stream.has_labels = source.kinds[settings.target] in task.labels
    if codec is not None:
        known = {*codec.table_names, *settings.exclude, settings.target}
        unknown = [name for name in source.names if name not in known] if not settings.columns else []
        if unknown:
            stream.notes.append(f"columns {unknown[:5]} are ignored: the first rows did not have them")
    return stream


def _check_kinds(source: Source, columns: Sequence[str], task: Task) -> None:
    """Raise an error if a column has a type that the options refuse, or that no model can use."""
    settings, kinds, name = task.settings, source.kinds, source.name
    refused = {ColumnType.OTHER: True, ColumnType.STRING: settings.categories == "refuse"}
    refused |= dict.fromkeys((*DATES, ColumnType.DURATION), settings.dates == "refuse")
    for column in (column for column in columns if refused.get(kinds[column], False)):
        kind = kinds[column]
        also = {ColumnType.STRING: [Remedy.ENCODE_STRINGS], ColumnType.OTHER: []}.get(kind, [Remedy.ENCODE_DATES])
        raise DataError(f"{name}: column {column!r} contains {kind.plural}.", Remedy.EXCLUDE, *also, about=(column, ""))
    if all(kinds[column] is ColumnType.NUMBER for column in columns):
        task.check_width(len(columns), name)
    if settings.target is None:
        return
    numbers = {ColumnType.NUMBER, *DATES, ColumnType.DURATION} if ColumnType.NUMBER not in task.labels else set()
    if kinds[settings.target] not in task.labels | numbers:
        what = "numbers" if not task.labels else "strings or numbers"
        found = kinds[settings.target].plural
        message = f"{name}: the target {settings.target!r} must contain {what}, it contains {found}."
        raise DataError(message, Remedy.OTHER_TARGET)


def open_input(
    paths: Sequence[str],
    dataset: str | None,
    task: Task,
    live: Mapping[str, Any] | None = None,
    model: Any = None,
) -> TableStream:
    """Return the rows of files or of a built-in data set.

    ``live`` are parameters of :class:`Layout` on live inputs; ``model`` is a model of earlier rows.
    """
    settings = task.settings
    has_query = settings.query is not None  # which may read files itself
    if (paths and dataset is not None) or not (paths or dataset is not None or has_query):
        raise DataError("Give one input: FILE (- for standard input) or --dataset NAME.")
    if dataset is not None:
        table = task.dataset(dataset)
        columns = table.complete(task.used_columns(table))
        moments = _moments(columns, settings) if settings.standardize else {}
        if not task.has_targets and table.scale != 1.0:
            moments = table.moments(columns)
        facts = ColumnFacts(settings.target, dict(table.units), moments)
        return open_stream(source_of(pa.table(columns), dataset), task, model, facts)
    kinds = {} if model is None else known_kinds(model, settings.target)
    opened = open_sources(paths_of(paths), settings.layout(**(live or {}), kinds=kinds))
    try:
        return open_stream(opened, task, model)
    except BaseException:
        opened.close()
        raise


def _moments(columns: Mapping[str, Any], settings: Settings) -> dict[str, tuple[float, float]]:
    """Return the mean and the standard deviation of all columns of numbers."""
    numbers = {name: own for name, own in columns.items() if own.dtype.kind == "f" and name != settings.target}
    return {name: (float(own.mean()), float(own.std()) or 1.0) for name, own in numbers.items()}


def encoded(stream: TableStream, options: Columns, drop_first: bool = False) -> Iterator[tuple[FloatArray, Any]]:
    """Yield the rows of an input as features, all of them by what the first rows say, and their targets."""
    codec, waiting = None, list[Chunk]()
    for table, targets in stream.chunks():
        codec = codec or Codec.new(table, options, drop_first)
        waiting.append((table, targets))
        if not codec.is_settled:
            codec = codec.learn(codec.checked(table), np.empty((len(table), 0)), np.ones(len(table)))
        if codec.is_settled:
            yield from _encoded(codec, waiting)
            waiting = []
    if codec is not None and waiting:
        none = waiting[0][0][:0]
        yield from _encoded(codec.learn(codec.checked(none), np.empty((0, 0)), np.empty(0), is_last=True), waiting)


def _encoded(codec: Codec, chunks: Sequence[Chunk]) -> Iterator[tuple[FloatArray, Any]]:
    for table, targets in chunks:
        yield codec.encode(codec.checked(table)), targets
