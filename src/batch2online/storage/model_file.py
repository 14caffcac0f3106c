"""A model in a file: its state as blobs, the rows of its history as segments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from batch2online.history import History, HistoryPlace
from batch2online.storage.atomic import replaced
from batch2online.storage.database import MAGIC, Database
from batch2online.storage.disk_history import BRANCH, DiskHistory, get, put, scratch
from batch2online.storage.errors import StoreCorrupted, StoreError, typed
from batch2online.storage.tree import CheckpointError, parts_of, state_of

# -- writing ------------------------------------------------------------------------------------------------


def save(path: str | os.PathLike[str], state: dict[str, Any], sources: dict[str, Any] | None = None) -> None:
    """Write a state to a file of its own, atomically; the old file stays until the new one is complete and intact.

    ``sources`` are the positions of the inputs that the rows came from, as JSON; see :func:`sources_in`.
    """

    def write() -> None:
        write_state(database, state)
        database.meta |= {} if sources is None else {"sources": sources}

    with typed(f"cannot write {os.fspath(path)}"), replaced(path) as temporary:
        with closing(Database(temporary, "copy")) as database:
            database.transact(write)
        with closing(Database(temporary, "read")) as written:
            verify(written)


def write_state(database: Database, state: dict[str, Any]) -> None:
    """Replace the state, and all rows of its history that are not there yet, inside a transaction."""
    stream = state["stream"]
    history = stream["state"].history
    if history is not None:
        learned = stream["state"].with_history(_written(database, history))
        state = state | {"stream": stream | {"state": learned}}
    parts = parts_of(state)
    for part, content in enumerate(parts):
        database.put("state", part, "", content)
    database.keep_only("state", 0, len(parts))
    database.meta["parts"] = len(parts)


def _written(database: Database, history: History) -> HistoryPlace:
    """Write the history to its table; return where it is."""
    branch, segments = 0, history.n_segments
    if isinstance(history, DiskHistory) and history.database is database:
        history = history.copy()  # that it is written is true once the transaction is committed
        history.write()
        branch = history.branch
    else:
        _write_segments(database, history)
    first = branch * BRANCH
    database.keep_only("history", first, first + segments)
    database.meta["history"] = [branch, segments]
    return HistoryPlace(
        history.is_in_memory, history.block, history.width, history.n_targets, branch, segments, len(history)
    )


def _write_segments(database: Database, history: History) -> None:
    """Write the segments of a history in memory that are not in the table.

    Segments never change, so one that is there is the same object. Ids do not tell: rows that are encoded again keep
    theirs.
    """
    known = database.segments
    for number, rows in enumerate(history):
        if known.get(number) is not rows:
            put(database, number, rows)
            known[number] = rows
    for number in range(history.n_segments, len(known)):
        del known[number]


# -- reading ------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the state in a file; a history on disk comes along in a file of its own."""
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise CheckpointError(f"{os.fspath(path)} is no file of batch2online, or its beginning is damaged.")
    try:
        with closing(Database(Path(path), "read")) as database:
            if database.meta.get("in_use"):
                raise CheckpointError(
                    f"{path} was not closed: open it with batch2online.Durable, which restores it, and close that."
                )
            return read_state(database, scratch)
    except StoreError as error:
        raise CheckpointError(str(error)) from error


def sources_in(path: Path) -> dict[str, Any]:
    """Return the positions of the inputs that the rows of a file came from."""
    with closing(Database(path, "read")) as database:
        found = database.meta.get("sources", {})
    return found if isinstance(found, dict) else {}


def read_state(database: Database, home: Any = None) -> dict[str, Any]:
    """Return the state; a history on disk stays in this file, or moves to the one that ``home`` makes."""
    try:
        state = state_of(list(_parts(database)))
        if not isinstance(state, dict) or "stream" not in state:
            raise CheckpointError("it holds no model.")
        stream = state["stream"]
        if isinstance(stream["state"].history, HistoryPlace):
            history = _history(database, stream["state"].history, home)
            state["stream"] = stream | {"state": stream["state"].with_history(history)}
        return state
    except (StoreError, MemoryError):
        raise
    except Exception as error:  # what makes no sense is no model
        raise CheckpointError(f"{database.path}: {error}") from error


def _parts(database: Database) -> Iterator[bytes]:
    found, expected = database.numbers("state"), database.meta.get("parts")
    if not isinstance(expected, int) or found != list(range(min(expected, len(found) + 1))):
        raise StoreCorrupted(f"{database.path} has lost a part of its state.")
    for part in found:
        _, content = database.get("state", part)
        yield content


def _history(database: Database, place: HistoryPlace, home: Any) -> History:
    shape = (place.block, place.width, place.n_targets)
    history = DiskHistory.found(database, place.branch, place.segments, shape)
    if len(history) != place.rows or database.meta.get("history") != [place.branch, place.segments]:
        raise StoreCorrupted(f"{database.path} has lost rows: {len(history)} of {place.rows} are there.")
    if place.is_in_memory:
        fields = {"block": place.block, "width": place.width, "n_targets": place.n_targets}
        in_memory = History.from_fields(fields | {"segments": list(history)})
        database.segments = dict(enumerate(in_memory))
        return in_memory
    return history if home is None else history.moved_to(home())


def verify(database: Database) -> None:
    """Check every blob against its checksum, and their numbers against the counts."""
    list(_parts(database))
    branch, segments = database.meta.get("history", [0, 0])
    for index in range(segments):
        get(database, branch * BRANCH + index)
