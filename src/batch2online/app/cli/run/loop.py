"""The loop of a run: skip rows that an earlier run learned, write JSON lines of ``--emit``, learn, store the state."""

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
from batch2online.app.cli.run.source import Chunk
from batch2online.app.cli.run.state import FileModel, MemoryModel, Position, checksum
from batch2online.app.inputs import DataError
from batch2online.app.inputs.preparation import Preparation

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE


class Emitter:
    """Writer of predictions and changes to standard output.

    A row is predicted by the model that was current before it came, whatever the chunks: they are cut where the model
    may change. Lines are written before the row is learned, so a run that is killed and resumed may write the last
    ones twice, and never leaves one out.

    Parameters
    ----------
    what : {"predictions", "changes"} or None
    """

    def __init__(self, what: str | None) -> None:
        self._what = what
        self._changes_told: int | None = None

    def pieces(self, model: Any, chunk: Chunk) -> Iterator[Chunk]:
        """Cut a chunk where the model may change, which is to be asked again after each piece."""
        rows, targets = chunk
        start = 0
        while start < len(rows):
            stop = len(rows) if self._what != "predictions" else min(len(rows), start + model._rows_to_check())
            yield rows[start:stop], None if targets is None else targets[start:stop]
            start = stop

    def before(self, model: Any, chunk: Chunk, n_before: int) -> None:
        """Write what the model says of rows before it learns them."""
        if self._changes_told is None:
            self._changes_told = model.n_changes_ if _is_fitted(model) else 0
        if self._what == "predictions":
            self._write(_lines(model, chunk, n_before))

    def after(self, model: Any) -> None:
        """Write the changes that have come since."""
        if self._what == "changes":
            count, self._changes_told = model.n_changes_ - (self._changes_told or 0), model.n_changes_
            events = model.changes_[-count:] if count else []
            self._write({"row": event.at, **change_record(event)} for event in events)

    def _write(self, lines: Iterator[dict[str, Any]]) -> None:
        sys.stdout.buffer.write(b"".join(orjson.dumps(line, option=_OPTIONS) for line in lines))

    def flush(self) -> None:
        """Let the lines go."""
        if self._what is not None:
            sys.stdout.buffer.flush()


def _is_fitted(model: Any) -> bool:
    return bool(model.__sklearn_is_fitted__())


def _lines(model: Any, chunk: Chunk, n_before: int) -> Iterator[dict[str, Any]]:
    rows, targets = chunk
    is_solved = _is_fitted(model) and model.has_model_
    said = predictions(model, rows) if is_solved else {"prediction": np.full(len(rows), np.nan)}
    if targets is not None:
        said["target"] = targets
    columns = {name: values.tolist() for name, values in said.items()}
    for index, values in enumerate(zip(*columns.values(), strict=True)):
        yield {"row": n_before + index + 1, **dict(zip(columns, values, strict=True))}


class Stop:
    """Whether to wait no longer; a second interrupt ends the process as usual."""

    def __init__(self) -> None:
        self._is_over = False

    def __call__(self) -> bool:
        return self._is_over

    def set(self, *_: Any) -> None:
        """Wait no longer."""
        if self._is_over:
            raise KeyboardInterrupt
        self._is_over = True


@contextmanager
def stoppable(follow: bool) -> Iterator[Stop]:
    """Take an interrupt as the end of a file that is followed."""
    stop = Stop()
    if not follow or threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGINT, stop.set)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


class LearningLoop:
    """A model on its way through a stream.

    Parameters
    ----------
    keeper : MemoryModel or FileModel
        Whatever holds the model, and knows how far an earlier run has come.
    preparation : Preparation, optional
        How the rows were prepared, to be kept with the model.
    emitter : Emitter, optional
        Writer that receives predictions and changes while rows come.
    """

    def __init__(
        self, keeper: MemoryModel | FileModel, preparation: Preparation | None = None, emitter: Emitter | None = None
    ) -> None:
        self._keeper, self._start, self._preparation = keeper, keeper.start, preparation
        self._emitter = emitter or Emitter(None)
        self.recorder = Recorder(list(self._start.curve))
        if self._start.rows:
            self.recorder.look(self.model)  # the point at the last row may be due: rows are kept before it is taken
        self.rows = 0
        self.checksum = 0

    @property
    def model(self) -> Any:
        """The model as it is now."""
        return self._keeper.model

    @property
    def resumed_at(self) -> int:
        """Rows that an earlier run has learned."""
        return self._start.rows

    def learn(self, chunks: Iterator[Chunk], progress: Callable[[LearningLoop], None]) -> None:
        """Go through all chunks."""
        for chunk in chunks:
            for piece in self._cut_at_start(chunk):
                self._take(piece)
            self._emitter.flush()
            progress(self)
        if self.rows < self.resumed_at:
            raise DataError(
                f"The input ends after {self.rows:,} rows, but {self.resumed_at:,} of them were learned before."
            )

    def _cut_at_start(self, chunk: Chunk) -> Iterator[Chunk]:
        """Cut the chunk in two where the earlier run ended inside it."""
        rows, targets = chunk
        cut = min(len(rows), max(0, self.resumed_at - self.rows))
        for part in (slice(0, cut), slice(cut, len(rows))):
            if part.start < part.stop:
                yield rows[part], None if targets is None else targets[part]

    def _take(self, chunk: Chunk) -> None:
        if self.rows >= self.resumed_at:
            self._learn(chunk)
            return
        self._count(chunk)
        if self.rows == self.resumed_at and self.checksum != self._start.checksum:
            raise DataError(f"The first {self.rows:,} rows are not those that the state was made of.")

    def _learn(self, chunk: Chunk) -> None:
        for part in self.recorder.pieces(chunk, self.rows):
            for piece in self._emitter.pieces(self.model, part):
                self._emitter.before(self.model, piece, self.rows)
                self._count(piece)
                position = Position(self.rows, self.checksum, tuple(self.recorder.points), self._preparation)
                try:
                    self._keeper.learn(piece, position)
                except ValueError as error:
                    raise DataError(str(error)) from error
                self._emitter.after(self.model)
            self.recorder.look(self.model)

    def _count(self, chunk: Chunk) -> None:
        self.checksum = checksum(chunk, self.checksum)
        self.rows += len(chunk[0])
