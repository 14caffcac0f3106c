"""The loop of a run: skip rows that an earlier run has learned, write ``--emit`` lines, learn, store the state."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson

from batch2online.app.cli.models import predictions
from batch2online.app.cli.run.result import Recorder, change_record
from batch2online.app.cli.run.source import Chunk, TableStream, checksum, in_options, placed
from batch2online.app.cli.run.state import FileModel, MemoryModel, Position
from batch2online.app.inputs import DataError
from batch2online.tables.columns import ColumnError

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE


class Emitter:
    """Writer of predictions or changes to standard output.

    A row is predicted by the model before that row, whatever the chunks: they are split where the model may change.
    Lines are written before the row is learned, so that a run that is killed and resumed may write the last ones
    twice, but never skips one.

    Parameters
    ----------
    what : {"predictions", "changes"} or None
    """

    def __init__(self, what: str | None) -> None:
        self._what = what
        self._n_changes: int | None = None

    def pieces(self, model: Any, chunk: Chunk) -> Iterator[Chunk]:
        """Split a chunk where the model may change; the next split is computed after each piece is learned."""
        rows, targets = chunk
        start = 0
        while start < len(rows):
            stop = len(rows) if self._what != "predictions" else min(len(rows), start + model.rows_to_check())
            yield rows[start:stop], None if targets is None else targets[start:stop]
            start = stop

    def before(self, model: Any, chunk: Chunk, n_before: int) -> None:
        """Write predictions of rows before they are learned."""
        is_fitted = bool(model.__sklearn_is_fitted__())
        if self._n_changes is None:
            self._n_changes = model.n_changes_ if is_fitted else 0
        if self._what != "predictions":
            return
        rows, targets = chunk
        has_model = is_fitted and model.has_model_
        found = predictions(model, rows) if has_model else {"prediction": np.full(len(rows), np.nan)}
        if targets is not None:
            found["target"] = targets
        columns = {name: values.tolist() for name, values in found.items()}
        lines = zip(*columns.values(), strict=True)
        self._write(
            {"row": n_before + index, **dict(zip(columns, line, strict=True))} for index, line in enumerate(lines, 1)
        )

    def after(self, model: Any) -> None:
        """Write the changes since the last call."""
        if self._what == "changes":
            count, self._n_changes = model.n_changes_ - (self._n_changes or 0), model.n_changes_
            events = model.changes_[-count:] if count else []
            self._write({"row": event.at, **change_record(event, model)} for event in events)

    def _write(self, lines: Iterator[dict[str, Any]]) -> None:
        sys.stdout.buffer.write(b"".join(orjson.dumps(line, option=_OPTIONS) for line in lines))

    def flush(self) -> None:
        """Flush standard output."""
        if self._what is not None:
            sys.stdout.buffer.flush()


@contextmanager
def interruptible(follow: bool) -> Iterator[Callable[[], bool]]:
    """Yield whether to stop waiting: an interrupt is the end of a file that is followed, a second one is as usual."""
    stop = threading.Event()

    def interrupt(*_: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    if not follow or threading.current_thread() is not threading.main_thread():
        yield stop.is_set
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop.is_set
    finally:
        signal.signal(signal.SIGINT, before)


class LearningLoop:
    """Learn a stream of chunks.

    Parameters
    ----------
    store : MemoryModel or FileModel
        The model, and the position of an earlier run.
    stream : TableStream
        The input, whose units are stored with the model.
    emitter : Emitter, optional
        Writer of predictions and changes.
    """

    def __init__(self, store: MemoryModel | FileModel, stream: TableStream, emitter: Emitter | None = None) -> None:
        self._store, self._start, self._stream = store, store.start, stream
        self._emitter = emitter or Emitter(None)
        self.recorder = Recorder(list(self._start.curve))
        if self._start.rows:
            self.recorder.record(self.model)  # rows are stored before the point at the last of them
        self.rows = 0
        self.checksum = 0

    @property
    def model(self) -> Any:
        """The current model."""
        return self._store.model

    @property
    def resumed_at(self) -> int:
        """Number of rows that an earlier run has learned."""
        return self._start.rows

    def progress(self) -> tuple[dict[str, Any] | None, bool]:
        """Return the last point of the curve, and whether the rows so far are those of an earlier run."""
        return self.recorder.last, self.rows < self.resumed_at

    def learn(self, chunks: Iterator[Chunk], progress: Callable[[], None]) -> None:
        """Learn all chunks; those of an earlier run are only compared with it."""
        for rows, targets in chunks:
            first = self.rows
            known = min(len(rows), max(0, self.resumed_at - self.rows))
            if known:
                self._count((rows[:known], None if targets is None else targets[:known]))
                if self.rows == self.resumed_at and self.checksum != self._start.checksum:
                    raise DataError(f"The first {self.rows:,} rows differ from those that --state has learned.")
            if known < len(rows):
                self._learn((rows[known:], None if targets is None else targets[known:]), first)
            self._emitter.flush()
            progress()
        if self.rows < self.resumed_at:
            raise DataError(f"The input has {self.rows:,} rows, but --state has already learned {self.resumed_at:,}.")

    def _learn(self, chunk: Chunk, first: int) -> None:
        """Learn a chunk, whose place is known from row ``first`` on."""
        for part in self.recorder.pieces(chunk, self.rows):
            for piece in self._emitter.pieces(self.model, part):
                self._emitter.before(self.model, piece, self.rows)
                self._count(piece)
                position = Position(self.rows, self.checksum, tuple(self.recorder.points), self._stream.facts)
                try:
                    self._store.learn(piece, position)
                except ColumnError as error:
                    before = self.rows - len(piece[0]) - first
                    raise placed(error, lambda row: self._stream.place(before + row)) from error  # noqa: B023
                except ValueError as error:
                    raise DataError(in_options(str(error))) from error
                self._emitter.after(self.model)
            self.recorder.record(self.model)

    def _count(self, chunk: Chunk) -> None:
        self.checksum = checksum(chunk, self.checksum)
        self.rows += len(chunk[0])
