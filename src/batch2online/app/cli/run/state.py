"""State of a run that can be resumed: one file with the model and the position in the input.

A resumed run reads the learned rows again and compares their checksum, so that it never continues with another input.
Other files are appended by ``batch2online learn``, which knows files that were learned by a hash of their content.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from batch2online.app.cli.files import valid
from batch2online.app.cli.run.chunks import Chunk
from batch2online.app.features import ColumnFacts
from batch2online.app.inputs import DataError
from batch2online.durable import Durable
from batch2online.schema import conforms

INPUT, APPENDED = "input", "appended"
"""Names of sources in the file: the input of the run that has created it, and files learned since."""


def content_key(path: str, query: str | None = None) -> str | None:
    """Return a key of the content of a file, and of the query on it; None if it is a pipe, a URL or anything live."""
    if path == "-" or "://" in path or not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    return f"file {digest}" if query is None else f"file {digest} query {query}"


@dataclass(frozen=True)
class Position:
    """Position of a run: number of rows, their checksum, the learning curve, and units of columns."""

    rows: int = 0
    checksum: int = 0
    curve: tuple[dict[str, Any], ...] = ()
    facts: ColumnFacts | None = None


def facts_in(position: Any) -> ColumnFacts:
    """Return what a file says of the columns of its run."""
    known = position.get("facts") if isinstance(position, dict) else None
    if known is None:
        return ColumnFacts()
    kinds = {"target": str | None, "units": dict[str, str], "moments": dict[str, list[float]]}
    is_dict = isinstance(known, dict) and known.keys() == kinds.keys()
    is_valid = is_dict and all(conforms(known[name], kind) for name, kind in kinds.items())
    if not is_valid or any(len(pair) != 2 for pair in known["moments"].values()):
        raise DataError("What the file says of the columns of its run is malformed.")
    return ColumnFacts(
        known["target"], known["units"], {name: (own[0], own[1]) for name, own in known["moments"].items()}
    )


class MemoryModel:
    """A model in memory."""

    start = Position()

    def __init__(self, model: Any) -> None:
        self.model = model

    def learn(self, chunk: Chunk, position: Position) -> None:
        """Learn the rows."""
        self.model.partial_fit(*chunk)


class FileModel(AbstractContextManager["FileModel"]):
    """A model in a file, which continues the last run with this file.

    Parameters
    ----------
    path : Path
        The file, or a folder for it.
    model : online estimator
        Unfitted estimator of the first run.
    settings : dict
        Settings that a resumed run must share.
    every : float
        Seconds between checkpoints: larger values make a run faster and resuming it slower.
    """

    def __init__(self, path: Path, model: Any, settings: dict[str, Any], every: float) -> None:
        self._settings, self._every, self._written_at = settings, every, time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._durable = Durable(path, model)
        except ValueError as error:  # such as another estimator
            raise DataError(f"{path}: {error} Use another --state.") from error
        try:
            self.start = self._found()
        except BaseException:
            self._durable.close()
            raise

    def _found(self) -> Position:
        found = self._durable.positions.get(INPUT)
        if found is None and self._durable.reopened is not None:
            raise DataError(f"{self._durable.path} was not written by a run: use another --state.")
        if found is None:
            return Position()
        before, path = found["settings"], self._durable.path
        if before.get("source") != self._settings.get("source"):
            raise DataError(
                f"{path} has learned {before.get('source')}: use batch2online learn {path} FILE to append further "
                "files, or another --state."
            )
        if APPENDED in self._durable.positions:
            raise DataError(f"{path} has learned further files since its run: use batch2online learn {path} FILE.")
        for key in sorted(before.keys() | self._settings.keys()):
            if before.get(key) != self._settings.get(key):
                raise DataError(
                    f"{self._durable.path} belongs to a run with {key} {before.get(key)!r}, not "
                    f"{self._settings.get(key)!r}: use another --state or remove it."
                )
        curve = tuple(  # JSON stores NaN as null
            {name: math.nan if value is None else value for name, value in point.items()} for point in found["curve"]
        )
        return Position(found["rows"], found["checksum"], curve, facts_in(found))

    @property
    def model(self) -> Any:
        """The current model, read-only."""
        return self._durable.model

    def learn(self, chunk: Chunk, position: Position) -> None:
        """Learn the rows, and store them with the position after them."""
        rows, targets = chunk
        kept = asdict(position) | {"settings": self._settings, "curve": valid(list(position.curve)), "finished": False}
        self._durable.partial_fit(rows, targets, source=(INPUT, kept))
        if time.monotonic() - self._written_at >= self._every:
            self._durable.checkpoint()
            self._written_at = time.monotonic()

    def finish(self, paths: Sequence[str]) -> None:
        """Store that the input was learned to its end, and keys of its files."""
        keys = [content_key(path, self._settings.get("query")) for path in paths]
        position = self._durable.positions[INPUT] | {"finished": True}

        def store() -> None:
            self._durable.note(source=(INPUT, position))
            for key in keys:
                self._durable.note(key=key)

        self._durable.batch(store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: TracebackType | None) -> None:
        self._durable.close()
