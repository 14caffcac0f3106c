"""A run that survives being killed: its model lives in one file, together with how far the input was read.

On resuming, the rows that were learned are read again and their checksum compared, so another input is never continued
by mistake.
"""

from __future__ import annotations

import math
import time
import zlib
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from batch2online.app.cli.files import valid
from batch2online.app.cli.run.source import Chunk
from batch2online.app.inputs import DataError
from batch2online.app.inputs.preparation import Preparation
from batch2online.durable import Durable

INPUT = "input"
"""What the file calls the source of the rows."""


@dataclass(frozen=True)
class Position:
    """How far a run has come: rows, their checksum, the curve up to there, and how columns are prepared."""

    rows: int = 0
    checksum: int = 0
    curve: tuple[dict[str, Any], ...] = ()
    preparation: Preparation | None = None


class MemoryModel(AbstractContextManager["MemoryModel"]):
    """A model that is gone when the run ends."""

    start = Position()

    def __init__(self, model: Any) -> None:
        self.model = model

    def learn(self, chunk: Chunk, position: Position) -> None:
        """Learn the rows."""
        self.model.partial_fit(*chunk)

    def __exit__(self, kind: Any, error: Any, trace: TracebackType | None) -> None:
        return None


class FileModel(AbstractContextManager["FileModel"]):
    """A model in a file, which goes on where the last run with this file was.

    Parameters
    ----------
    path : Path
        The file, or a folder for it.
    model : online estimator
        A new one, for the first run.
    settings : dict
        What must be the same for a run to be continued.
    every : float
        Seconds after which the state is written anew: more make a run faster and its resuming slower.
    """

    def __init__(self, path: Path, model: Any, settings: dict[str, Any], every: float) -> None:
        self._settings, self._every, self._written_at = settings, every, time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._durable = Durable(path, model)
        try:
            self.start = self._found()
        except BaseException:
            self._durable.close()
            raise

    def _found(self) -> Position:
        found = self._durable.positions.get(INPUT)
        if found is None and self._durable.reopened is not None:
            raise DataError(f"{self._durable.path} holds a model that no run has written: use another --state.")
        if found is None:
            return Position()
        before = found["settings"]
        for key in sorted(before.keys() | self._settings.keys()):
            if before.get(key) != self._settings.get(key):
                raise DataError(
                    f"{self._durable.path} belongs to a run with {key} {before.get(key)!r}, not "
                    f"{self._settings.get(key)!r}: use another --state or remove it."
                )
        preparation = found.get("preparation")
        known = None if preparation is None else Preparation.from_dict(preparation)
        return Position(found["rows"], found["checksum"], tuple(map(_point, found["curve"])), known)

    @property
    def model(self) -> Any:
        """The model, to look at."""
        return self._durable.model

    def learn(self, chunk: Chunk, position: Position) -> None:
        """Learn the rows and keep them, with the position after them."""
        rows, targets = chunk
        kept = asdict(position) | {"settings": self._settings, "curve": valid(list(position.curve))}
        self._durable.partial_fit(rows, targets, source=(INPUT, kept))
        if time.monotonic() - self._written_at >= self._every:
            self._durable.checkpoint()
            self._written_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: TracebackType | None) -> None:
        self._durable.close()


def _point(kept: dict[str, Any]) -> dict[str, Any]:
    """Return a point of the curve; JSON knows no number that is not finite."""
    return {name: math.nan if value is None else value for name, value in kept.items()}


def checksum(chunk: Chunk, before: int = 0) -> int:
    """Return the checksum of all rows up to the end of this chunk; ``before`` is that of the chunks before it.

    The lower 32 bits are the CRC-32 of the rows, the upper 32 bits that of the targets. A CRC can be continued, so
    the same rows give the same checksum however they are cut into chunks.
    """
    rows, targets = chunk
    of_targets = 0 if targets is None else zlib.crc32(_bytes(targets), before >> 32)
    return (of_targets << 32) + zlib.crc32(np.ascontiguousarray(rows).data, before & 0xFFFFFFFF)


def _bytes(targets: Any) -> Any:
    """Return targets as bytes that do not depend on how they are cut."""
    if targets.dtype.kind == "U":
        return "".join(f"{label}\0" for label in targets.tolist()).encode()
    return np.ascontiguousarray(targets).data
