"""The loop of a run: skip what was learned before, learn, record, keep the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from batch2online.app.cli.run.emitting import Emitter
from batch2online.app.cli.run.recorder import Recorder
from batch2online.app.cli.run.state import Kept, Position, Unkept, checksum
from batch2online.app.cli.run.stream import Chunk
from batch2online.app.inputs import DataError
from batch2online.app.inputs.preparation import Preparation


class LearningLoop:
    """A model on its way through a stream.

    Parameters
    ----------
    keeper : Unkept or Kept
        Whatever holds the model, and knows how far an earlier run has come.
    preparation : Preparation, optional
        How the rows were prepared, to be kept with the model.
    emitter : Emitter, optional
        Whoever is told of predictions or changes while rows come.
    """

    def __init__(
        self, keeper: Unkept | Kept, preparation: Preparation | None = None, emitter: Emitter | None = None
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
                try:
                    self._keeper.learn(piece, self._position())
                except ValueError as error:
                    raise DataError(str(error)) from error
                self._emitter.after(self.model)
            self.recorder.look(self.model)

    def _position(self) -> Position:
        return Position(self.rows, self.checksum, tuple(self.recorder.points), self._preparation)

    def _count(self, chunk: Chunk) -> None:
        self.checksum = checksum(chunk, self.checksum)
        self.rows += len(chunk[0])
