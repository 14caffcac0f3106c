"""The journal of a model: rows since the last state, a record for each call, and all changes if they are logged.

Opening the file learns the rows again. Functions that write are called inside a transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.rows import Batch, all_ones, ones
from batch2online.storage.database import Database, arrays_as_bytes, arrays_of_bytes
from batch2online.storage.errors import StoreCorrupted, intact
from batch2online.storage.tree import decoded, encoded

# -- rows -----------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """The rows of one call.

    Attributes
    ----------
    batch
        Points, targets and weights.
    answers : array (2, n) or None
        Losses of earlier answers, if their targets came late.
    decoding : JSON value
        Labels and strings that decode the rows.
    waits : bool
        Whether the call returned before its rows were learned, by a worker.
    """

    batch: Batch
    answers: FloatArray | None
    decoding: Any
    waits: bool


def append(database: Database, entry: Entry) -> None:
    """Write the rows of a call."""
    first, stop, n_rows = _extent(database)
    points, targets, weights = entry.batch
    late = () if entry.answers is None else (entry.answers,)
    shapes, content = arrays_as_bytes(points, targets, np.empty(0) if all_ones(weights) else weights, *late)
    database.put("journal", stop, json.dumps([shapes, entry.decoding, entry.waits]), content)
    database.meta |= {"journal": [first, stop + 1, n_rows + len(points)], "next_id": next_id(database) + len(points)}


def entries(database: Database) -> Iterator[Entry]:
    """Iterate over the calls whose rows are not in the state, oldest first."""
    first, stop, _ = _extent(database)
    found = database.numbers("journal")
    if found != list(range(first, min(stop, first + len(found) + 1))):
        raise StoreCorrupted(f"{database.path} has lost rows: {len(found)} of {stop - first} calls are there.")
    for number in found:
        text, content = database.get("journal", number)
        with intact(database.path):
            shapes, decoding, waits = json.loads(text)
            points, targets, weights, *late = arrays_of_bytes(shapes, content)
        batch = points, targets, weights if len(weights) else ones(len(points))
        yield Entry(batch, late[0] if late else None, decoding, bool(waits))


def clear(database: Database, keep: int, n_rows: int) -> None:
    """Remove the rows of all calls but the last ones, which have so many rows."""
    _, stop, _ = _extent(database)
    database.keep_only("journal", stop - keep)
    database.meta["journal"] = [stop - keep, stop, n_rows]


def n_rows(database: Database) -> int:
    """Return how many rows are not in the state."""
    return _extent(database)[2]


def next_id(database: Database) -> int:
    """Return the id that the next row gets."""
    return int(database.meta.get("next_id", 0))


def _extent(database: Database) -> tuple[int, int, int]:
    """Return the numbers of the first call and of the next one, and how many rows the calls have."""
    first, stop, rows = database.meta.get("journal", [0, 0, 0])
    return first, stop, rows


# -- changes --------------------------------------------------------------------------------------------------


def logs_changes(database: Database) -> bool:
    """Return whether the file logs changes."""
    return "changes" in database.meta


def start_change_log(database: Database, events: Iterable[Any] = ()) -> None:
    """Start a new log of changes with these."""
    database.keep_only("change", 0, 0)
    database.meta["changes"] = 0
    log_changes(database, events)


def restart_change_log(database: Database) -> None:
    """Remove all changes from the log, if the file has one."""
    if logs_changes(database):
        start_change_log(database)


def log_changes(database: Database, events: Iterable[Any]) -> None:
    """Write changes."""
    for event in events:
        number = database.meta["changes"]
        database.put("change", number, encoded(event)[0])
        database.meta["changes"] = number + 1


def read_changes(database: Database) -> Iterator[Any]:
    """Iterate over all changes, oldest first; they are read one by one."""
    for number in range(database.meta["changes"]):
        yield decoded(database.get("change", number)[0], [])
