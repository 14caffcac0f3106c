"""The loop of a run: skip what was learned before, learn, record, keep the state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from batch2online.cli.run.checkpoint import Position, StateFolder, checksum
from batch2online.cli.run.recorder import Recorder
from batch2online.cli.run.stream import Chunk
from batch2online.readers import DataError


class LearningLoop:
    """A model on its way through a stream.

    Parameters
    ----------
    model : online estimator
    state : StateFolder or None
        Where to keep the state, and to continue from.
    every : float
        Seconds between two checkpoints.
    """

    def __init__(self, model: Any, state: StateFolder | None = None, every: float = 5.0) -> None:
        self._state, self._every = state, every
        self._start = None if state is None else state.load()
        self._saved_at = time.monotonic()
        self.model = model if self._start is None else self._start.model
        self.recorder = Recorder([] if self._start is None else list(self._start.curve))
        self.rows = 0
        self.checksum = 0

    @property
    def resumed_at(self) -> int:
        """Rows that an earlier run has learned."""
        return 0 if self._start is None else self._start.rows

    def learn(self, chunks: Iterator[Chunk], progress: Callable[[LearningLoop], None]) -> None:
        """Go through all chunks."""
        for chunk in chunks:
            for piece in self._cut_at_start(chunk):
                self._take(piece)
            progress(self)
            self._save_if_due()
        if self.rows < self.resumed_at:
            raise DataError(
                f"The input ends after {self.rows:,} rows, but {self.resumed_at:,} of them were learned before."
            )
        self._save()

    def _cut_at_start(self, chunk: Chunk) -> Iterator[Chunk]:
        """The chunk, in two parts where the earlier run ended inside it."""
        rows, targets = chunk
        cut = min(len(rows), max(0, self.resumed_at - self.rows))
        for part in (slice(0, cut), slice(cut, len(rows))):
            if part.start < part.stop:
                yield rows[part], None if targets is None else targets[part]

    def _take(self, chunk: Chunk) -> None:
        self.checksum = checksum(chunk, self.checksum)
        if self.rows >= self.resumed_at:
            self._learn(chunk)
        self.rows += len(chunk[0])
        if self._start is not None and self.rows == self._start.rows and self.checksum != self._start.checksum:
            raise DataError(f"The first {self.rows:,} rows are not those that the state was made of.")

    def _learn(self, chunk: Chunk) -> None:
        for rows, targets in self.recorder.pieces(chunk, self.rows):
            try:
                self.model.partial_fit(rows, targets)
            except ValueError as error:
                raise DataError(str(error)) from error
            self.recorder.look(self.model)

    def _save_if_due(self) -> None:
        if time.monotonic() - self._saved_at >= self._every:
            self._save()

    def _save(self) -> None:
        if self._state is not None and self.rows > self.resumed_at:
            self._state.save(Position(self.rows, self.checksum, self.model, self.recorder.points))
            self._saved_at = time.monotonic()
