"""The input of a run, from files, standard input, a query or a built-in data set to prepared rows."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from batch2online._types import BoolArray, FloatArray
from batch2online.app.cli.settings import LOOKAHEAD, Settings
from batch2online.app.cli.tasks.base import Task
from batch2online.app.inputs import Batch, DataError, Remedy, Source, open_sources, paths_of
from batch2online.app.inputs.batch import kind_of, mismatch, row_place
from batch2online.app.inputs.infer import Wanted, counting_columns, identifiers, prepare
from batch2online.app.inputs.preparation import Preparation
from batch2online.app.inputs.source import Concatenated
from batch2online.frames.columns import ColumnType

Chunk = tuple[FloatArray, Any]
"""Rows, and their targets: numbers, labels or None."""
ROWS = 1 << 16


class _Labels:
    """Labels as numbers in a file, in the order in which they come; targets that are numbers stay what they are."""

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}

    def to_numbers(self, targets: Any) -> FloatArray:
        if targets.dtype.kind == "f":
            return np.asarray(targets)
        values, inverse = np.unique(targets, return_inverse=True)
        places = [self._places.setdefault(value, len(self._places)) for value in values.tolist()]
        return np.array(places, dtype=np.float64)[inverse]

    def from_numbers(self, numbers: FloatArray) -> Any:
        return np.array(list(self._places))[numbers.astype(np.int64)] if self._places else numbers.copy()


def shuffled(chunks: Iterator[Chunk], seed: int) -> Iterator[Chunk]:
    """Give the same rows in random order: memory stays bounded."""
    labels = _Labels()
    with tempfile.TemporaryFile() as file:
        width, has_targets = 0, False
        for rows, targets in chunks:
            width, has_targets = rows.shape[1], targets is not None
            file.write((np.column_stack([rows, labels.to_numbers(targets)]) if has_targets else rows).tobytes())
        file.flush()
        if not width:
            return
        table = np.memmap(file, dtype=np.float64, mode="r").reshape(-1, width + has_targets)
        order = np.random.default_rng(seed).permutation(len(table))
        for start in range(0, len(table), ROWS):
            piece = np.asarray(table[order[start : start + ROWS]])
            yield np.ascontiguousarray(piece[:, :width]), labels.from_numbers(piece[:, width]) if has_targets else None


def chosen(names: Sequence[str], name: str, settings: Settings) -> list[str]:
    """Return the columns that were asked for, in the order asked for."""
    targets = [] if settings.target is None else [settings.target]
    wanted = list(settings.columns) or [column for column in names if column not in targets]
    if len(set(wanted)) < len(wanted):
        raise DataError(f"--columns names {next(c for c in wanted if wanted.count(c) > 1)!r} more than once.")
    known = set(names)
    for column in [*wanted, *targets, *settings.exclude]:
        if column not in known:
            raise DataError(
                f"{name} has no column {column!r}; it has {_listed(names)}.",
                *([Remedy.SEPARATOR] if len(names) == 1 else []),
            )
    if settings.target in wanted:
        raise DataError(f"{settings.target!r} cannot be both an input and the target.")
    return [column for column in wanted if column not in settings.exclude]


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def left_out(
    first: Sequence[Batch], inputs: Sequence[str], kinds: dict[str, ColumnType], settings: Settings
) -> dict[str, str]:
    """Return the columns that nobody has asked for and no model can use, and what to say of each."""
    asked = set(settings.columns)
    free = [column for column in inputs if column not in asked]
    counts = counting_columns(first, free)
    text = [column for column in free if kinds[column] is ColumnType.STRING and column not in counts]
    found = {column: f"column {column!r} is left out: it numbers or names the rows" for column in counts}
    if settings.unknown != "refuse" and settings.categories == "encode":
        differing = identifiers(first, text, settings.max_levels)
        found |= {column: f"column {column!r} is left out: nearly every text in it is another" for column in differing}
    return found


def check_columns(names: Sequence[str], kinds: dict[str, ColumnType], name: str, known: Preparation) -> None:
    """Refuse an input that lacks a column, or holds something else in it than was prepared for."""
    for column, kind in known.column_kinds.items():
        if column not in kinds:
            raise DataError(f"{name} has no column {column!r}, which the model needs.")
        if kinds[column] is not kind:
            raise DataError(f"{name}: {mismatch(column, kind, kinds[column])}")


__all__ = ["ROWS", "About", "Chunk", "PreparedStream", "open_stream"]


def _nobody(_: str) -> None:
    """Hear nothing."""


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
    notes : list of str
        What a person should know of how the input is read.
    hear : callable
        Who is told of each note when it comes up.
    refused : callable, optional
        Which targets cannot be learned, and what they must be.
    """

    name: str
    preparation: Preparation
    source: Source | Concatenated
    batches: Iterator[Batch]
    shuffle_seed: int | None
    notes: list[str] = field(default_factory=list)
    hear: Callable[[str], None] = _nobody
    refused: Callable[[Any], tuple[BoolArray, str]] | None = None
    dropped: int = 0
    _gaps: Counter[str] = field(default_factory=Counter)
    _met: set[str] = field(default_factory=set)

    def chunks(self) -> Iterator[Chunk]:
        """Iterate over inputs and targets, some thousand rows at a time."""
        rows = self._in_order()
        return rows if self.shuffle_seed is None else shuffled(rows, self.shuffle_seed)

    def _in_order(self) -> Iterator[Chunk]:
        waiting = list(self.notes)  # said when the first rows can be used: a refusal is one sentence
        try:
            for batch in self.batches:
                rows, targets, kept = self.preparation.apply(batch, self._say_once)
                self._check_range(batch, targets, kept)
                for note in waiting:
                    self.hear(note)
                waiting = []
                self._note_source()
                self._count_gaps(batch, int(len(kept) - kept.sum()))
                if len(rows):
                    yield rows, targets
        finally:
            self.source.close()

    def _check_range(self, batch: Batch, targets: Any, kept: BoolArray) -> None:
        bad, wanted = (np.zeros(0), "") if self.refused is None else self.refused(targets)
        if bad.any():
            first = int(bad.argmax())
            place = f"{batch.place(int(np.flatnonzero(kept)[first]))}, column {self.preparation.target!r}"
            raise DataError(f"{place}: {targets[first]:g} must be {wanted}.", Remedy.OTHER_TARGET)

    def _count_gaps(self, batch: Batch, dropped: int) -> None:
        if dropped:
            self.dropped += dropped
            self._gaps.update({name: batch.table.column(name).null_count for name in self.preparation.columns})

    def _say_once(self, column: str, note: str) -> None:
        if column not in self._met:
            self._met.add(column)
            self._say(note)

    def _note_source(self) -> None:
        for note in self.source.notes:
            if not note[:1].isdigit() and note not in self.notes:  # counts are said at the end
                self._say(note)

    def _say(self, note: str) -> None:
        self.notes.append(note)
        self.hear(note)

    def share(self, learned: int) -> float | None:
        """Return which share of the input has been learned or left out; rows are read ahead of that."""
        share = self.source.share()
        return None if share is None else share * min(1.0, (learned + self.dropped) / max(1, self.source.n_read))

    def close(self) -> None:
        """Say what is known only at the end."""
        for note in self.source.notes:
            if note not in self.notes:
                self._say(note)

    def nothing_left(self) -> DataError:
        """Return the error of an input of which every row was left out."""
        column, gaps = max(self._gaps.items(), key=lambda pair: pair[1], default=("", 0))
        if not gaps:
            return DataError(f"{self.name} has no complete row.")
        message = f"{self.name} has no complete row: column {column!r} has the most gaps, {gaps:,}."
        fill = [] if self.preparation.missing == "mean" or column == self.preparation.target else [Remedy.FILL_GAPS]
        return DataError(message, Remedy.LEAVE_OUT, *fill, about=(column, ""))


@dataclass(frozen=True)
class About:
    """What is known of a built-in data set: units, how its numbers are scaled, and that it does not grow."""

    units: dict[str, str] = field(default_factory=dict)
    moments: dict[str, tuple[float, float]] = field(default_factory=dict)
    is_whole: bool = False

    def scaled(self, preparation: Preparation) -> Preparation:
        """Return the preparation with the means and scales that belong to the data set."""
        if not self.moments:
            return preparation
        means, scales = zip(*(self.moments[name] for name in preparation.numbers), strict=True)
        return replace(preparation, means=list(means), scales=list(scales), standardised=True)


def open_stream(
    source: Source | Concatenated, name: str, task: Task, known: Preparation | None = None, about: About | None = None
) -> PreparedStream:
    """Choose the columns, look at the first rows, and decide how all are prepared, unless that is known already."""
    settings = task.settings
    seed = settings.seed if settings.order == "random" else None
    if known is not None:
        check_columns(source.names, source.kinds, name, known)
        return PreparedStream(
            name, known, source, source.batches(known.columns), seed, list(source.notes), refused=task.refused
        )
    inputs = chosen(source.names, name, settings)
    batches = source.batches([*inputs, *([] if settings.target is None else [settings.target])])
    about = about or About()
    most = sys.maxsize if about.is_whole else settings.lookahead or LOOKAHEAD
    first = _first_rows(batches, most if about.is_whole or _waits(source, inputs, settings) else 1)
    if not first:
        raise DataError(f"{name} has no rows, only {len(source.names)} columns.")
    notes = left_out(_cut(first, most), inputs, source.kinds, settings)
    inputs = [column for column in inputs if column not in notes]
    if all(source.kinds[column] is ColumnType.NUMBER for column in inputs):
        task.check_width(len(inputs), name)
    may_grow = source.is_live or sum(map(len, first)) >= most
    wanted = _wanted(task, may_grow, about.units)
    preparation = about.scaled(prepare(_cut(first, most), inputs, settings.target, source.kinds, wanted, name))
    said = [
        *source.notes,
        *notes.values(),
        *_decided_early(source, settings.lookahead, preparation),
        *_crowded(preparation),
    ]
    return PreparedStream(name, preparation, source, chain(first, batches), seed, said, refused=task.refused)


def _waits(source: Source | Concatenated, inputs: list[str], settings: Settings) -> bool:
    """Whether to wait for the look-ahead: if a file's first rows decide anything, or if a live input is asked to."""
    if source.is_live:
        return settings.lookahead is not None
    has_text = any(
        source.kinds[column] is ColumnType.STRING for column in (*inputs, settings.target) if column is not None
    )
    return has_text or settings.standardize or settings.missing == "mean"


def _wanted(task: Task, may_grow: bool, units: dict[str, str]) -> Wanted:
    settings = task.settings
    return Wanted(
        missing=settings.missing,
        standardise=settings.standardize,
        encode=settings.categories == "encode",
        drop_first=task.has_intercept,
        unknown=settings.unknown,
        max_levels=settings.max_levels,
        dates=settings.dates,
        may_grow=may_grow,
        units=units,
        labels=task.labels,
    )


def _decided_early(source: Source | Concatenated, lookahead: int | None, preparation: Preparation) -> list[str]:
    """Say of a live input how few rows have decided, if it matters."""
    matters = preparation.levels or preparation.standardised or preparation.missing == "mean"
    if not source.is_live or lookahead is not None or not matters:
        return []
    return [
        f"levels, means and spreads are those of the first {preparation.known_rows:,} rows, which came at once; "
        "--lookahead N waits for N of them"
    ]


def _crowded(preparation: Preparation) -> list[str]:
    """Say of which columns only the commonest texts have an input."""
    rows = preparation.known_rows
    return [
        f"column {column!r} has more than {len(preparation.levels[column]):,} different texts in the first {rows:,} "
        "rows: the commonest have an input each, all others one together; --max-levels gives more of them their own"
        for column in preparation.crowded
    ]


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


class _InMemory:
    """Columns in memory as a reader."""

    def __init__(self, columns: dict[str, Any], name: str) -> None:
        self._name, self._table, self.notes = name, pa.table(columns), list[str]()
        self.names, self.n_rows = list(columns), self._table.num_rows
        self.kinds = {field.name: kind_of(field.type) for field in self._table.schema}

    def batches(self, columns: Sequence[str], untouched: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows, with these columns alone."""
        table = self._table.select([*columns, *untouched])
        for start in range(0, table.num_rows, ROWS):
            yield Batch(table.slice(start, ROWS), partial(row_place, self._name, start))


def open_dataset(name: str, task: Task) -> tuple[Source, About]:
    """Return a data set as an input, and what is known of it."""
    table = task.dataset(name)
    columns = table.complete(task.used_columns(table))
    moments = {} if task.has_targets or table.scale == 1.0 else table.moments(columns)
    return Source(_InMemory(columns, name), name), About(dict(table.units), moments, is_whole=True)


@dataclass(frozen=True)
class Input:
    """Prepared rows, what errors call them, and what is known of them."""

    name: str
    stream: PreparedStream
    about: About


def open_input(
    paths: Sequence[str],
    dataset: str | None,
    task: Task,
    waiting: Mapping[str, Any] | None = None,
    known: Preparation | None = None,
) -> Input:
    """Return the prepared rows of files or of a named data set; ``known`` says how, if that is decided already."""
    if bool(paths) == (dataset is not None):
        raise DataError("Name one input: a FILE (- for standard input) or --dataset NAME.")
    if dataset is not None:
        source, about = open_dataset(dataset, task)
        return Input(dataset, open_stream(source, dataset, task, known, about), about)
    layout = task.settings.layout(**(waiting or {}), kinds={} if known is None else known.column_kinds)
    opened = open_sources(paths_of(paths), layout)
    return Input(opened.name, open_stream(opened, opened.name, task, known), About())
