"""From an input to prepared rows."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from batch2online._types import BoolArray
from batch2online.app.cli.run.columns import check_columns, chosen, left_out
from batch2online.app.cli.run.shuffling import ROWS, Chunk, shuffled
from batch2online.app.cli.settings import LOOKAHEAD, Settings
from batch2online.app.cli.tasks.base import Task
from batch2online.app.inputs import Batch, DataError, Kind, Remedy, Source
from batch2online.app.inputs.deciding import Wanted, prepare
from batch2online.app.inputs.preparation import Preparation
from batch2online.app.inputs.several import Several

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
    source: Source | Several
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
    source: Source | Several, name: str, task: Task, known: Preparation | None = None, about: About | None = None
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
    if all(source.kinds[column] is Kind.NUMBER for column in inputs):
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


def _waits(source: Source | Several, inputs: list[str], settings: Settings) -> bool:
    """Whether to wait for the look-ahead: if a file's first rows decide anything, or if a live input is asked to."""
    if source.is_live:
        return settings.lookahead is not None
    has_text = any(source.kinds[column] is Kind.TEXT for column in (*inputs, settings.target) if column is not None)
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


def _decided_early(source: Source | Several, lookahead: int | None, preparation: Preparation) -> list[str]:
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
