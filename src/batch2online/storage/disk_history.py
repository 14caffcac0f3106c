"""All rows seen, on disk: memory does not grow with their number."""

from __future__ import annotations

import json
import os
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from batch2online.history import History
from batch2online.rows import Rows, all_ones, ones
from batch2online.schema import check_instance, storable, stores
from batch2online.storage.database import Database, arrays_as_bytes, arrays_of_bytes
from batch2online.storage.errors import StoreCorrupted, StoreError, intact, typed

BRANCH = 2**40
"""Segments that one branch of a history may have; a history that is rewritten moves to the next branch."""

_PENDING = 16
_CACHED = 8


def scratch(folder: str | os.PathLike[str] | None = None) -> Database:
    """Return a file for the rows of a running model, which is gone when the model is, however its process ends."""
    with typed(f"cannot keep rows in {folder}"):
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix="rows-", suffix=".b2o")
    try:
        created = os.fstat(handle)
        os.close(handle)  # before SQLite locks the file: closing it later would release the lock
        database = Database(Path(name), "scratch")
        database.pragma("secure_delete=ON")
        if not os.path.samestat(created, os.lstat(name)):
            raise StoreError(f"{name} was replaced by another file while it was opened.")
    finally:
        is_gone = _removed(name)
    if not is_gone:  # where open files cannot be removed, the model removes it at its end
        weakref.finalize(database, os.unlink, name)
    return database


def _removed(name: str) -> bool:
    with suppress(OSError):
        os.unlink(name)
        return True
    return False


def put(database: Database, number: int, rows: Rows) -> None:
    """Write a segment inside a transaction."""
    weights = np.empty(0) if all_ones(rows.weights) else rows.weights
    shapes, content = arrays_as_bytes(rows.points, rows.targets, weights, rows.ids.view(np.float64))
    database.put("history", number, json.dumps(shapes), content)


def get(database: Database, number: int) -> Rows:
    """Read a segment, and check it."""
    shapes, content = database.get("history", number)
    with intact(database.path):
        points, targets, weights, ids = arrays_of_bytes(json.loads(shapes), content)
    rows = Rows(points, targets, weights if len(weights) else ones(len(points)), ids.view(np.int64))
    check_instance(rows)
    return rows


@storable
@stores()
class DiskHistory(History):
    """A history whose segments lie in the table of a file.

    Reading writes nothing: a reader that adds rows adds them to a copy, :meth:`for_reading`.
    """

    is_in_memory = False
    is_for_reading = False

    def __init__(self, block: int, width: int, n_targets: int, database: Database, branch: int = 0) -> None:
        super().__init__(block, width, n_targets)
        self.database, self.branch = database, branch
        self.n_written = 0
        self._recent: dict[int, Rows] = {}  # the segments read last

    def append(self, rows: Rows) -> Self:
        """Return the history with rows of one block, with larger ids than all before."""
        new = super().append(rows)
        if new.n_segments - new.n_written > _PENDING and not new.is_for_reading:
            new.write()
        return new

    def join_small_ones(self) -> None:
        """Leave segments as they are: the last ones may be on disk."""

    def write(self) -> None:
        """Put on disk what is not there yet; other histories that share the list keep what they have in memory."""
        first, stop = self.n_written, self._count
        if first == stop:
            return
        self._transact(lambda: self._put(first, stop))
        self._segments = [(end, None) for end, _ in self._segments[:stop]]
        self.n_written = stop

    def _put(self, first: int, stop: int) -> None:
        for index in range(first, stop):
            rows = self._segments[index][1]
            assert rows is not None
            put(self.database, self.branch * BRANCH + index, rows)

    def tidy(self) -> None:
        """Remove the rows of histories before this one, and of those that came to nothing."""
        first = self.branch * BRANCH
        self._transact(lambda: self.database.keep_only("history", first, first + self.n_written))

    def _transact(self, act: Callable[[], object]) -> None:
        if self.database.in_transaction:
            act()
        else:
            self.database.transact(act)

    def _segment(self, index: int) -> Rows:
        rows = self._segments[index][1]
        if rows is None:
            rows = self._recent.get(index)
        if rows is None:
            rows = get(self.database, self.branch * BRANCH + index)
            self._recent = dict([*self._recent.items(), (index, rows)][-_CACHED:])
        return rows

    def emptied(self) -> DiskHistory:
        """Return a history without any rows in another branch of the same file."""
        return DiskHistory(self.block, self.width, self.n_targets, self.database, self.branch + 1)

    def for_reading(self) -> Self:
        """Return a copy that keeps in memory what is appended to it."""
        twin = self.copy()
        twin.is_for_reading = True
        return twin

    def moved_to(self, database: Database, branch: int = 0) -> DiskHistory:
        """Return the same history in another file, written there."""
        new = DiskHistory(self.block, self.width, self.n_targets, database, branch)
        for rows in self:
            new = new.append(rows)
        new.write()
        return new

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> DiskHistory:
        """Refuse a history in the tree of a state: reading a file writes nothing."""
        raise ValueError("rows on disk lie in their table, never in the state")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._unpickled, (self.stored_fields(),)

    @classmethod
    def _unpickled(cls, fields: dict[str, Any]) -> DiskHistory:
        """Return a history with these segments, in a file of its own."""
        history = cls(fields["block"], fields["width"], fields["n_targets"], scratch())
        for rows in fields["segments"]:
            history = history.append(rows)
        history.write()
        return history

    @classmethod
    def found(cls, database: Database, branch: int, count: int, shape: tuple[int, int, int]) -> DiskHistory:
        """Return the history that a file holds already."""
        history = cls(*shape, database, branch)
        first = branch * BRANCH
        query = "SELECT number, text FROM history WHERE number >= ? AND number < ? ORDER BY number"
        stored = database.select(query, first, first + count)
        if [number - first for number, _ in stored] != list(range(min(count, len(stored) + 1))):
            raise StoreCorrupted(f"{database.path} has lost rows: {len(stored)} of {count} segments are there.")
        with intact(database.path):
            for _, shapes in stored:
                history.add_segment(int(json.loads(shapes)[0][0]), None)
        history.n_written = count
        return history
