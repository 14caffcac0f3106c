"""The SQLite file of a model: its tables, a checksum of everything, one transaction for every change.

============  ======================================================================================================
``meta``      counts of everything and positions of sources, as JSON in row 0
``state``     the tree of the model as JSON (row 0) and its arrays
``journal``   rows learned since the state was written, a call each, to be learned again when the file is opened
``history``   all rows seen, where they are kept, in segments
``key``       keys of calls and of rows, see :mod:`batch2online.storage.keys`
``change``    all changes of the model, where these are logged
``question``  rows that were predicted and wait for their targets
``answer``    the models that have predicted them
============  ======================================================================================================

A row of these tables has a number, a text, bytes, and a checksum of all three and of its table. Counts in ``meta`` make
a lost end an error.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from batch2online._types import FloatArray
from batch2online.storage.errors import StoreCorrupted, StoreError, intact, typed

APPLICATION_ID = 0x62326F6E
SCHEMA = 5
MAGIC = b"SQLite format 3\0"
PAGE_BYTES = 65_536

_COLUMNS = "number INTEGER PRIMARY KEY, text TEXT NOT NULL, content BLOB NOT NULL, crc INTEGER NOT NULL"
_TABLES = ("meta", "state", "journal", "history", "key", "change", "answer")
_SCHEMA = {
    *(("table", name, name, f"CREATE TABLE {name} ({_COLUMNS})") for name in _TABLES),
    ("table", "question", "question", f"CREATE TABLE question ({_COLUMNS}, answer INTEGER, at REAL)"),
    ("index", "question_answer", "question", "CREATE INDEX question_answer ON question (answer)"),
}
"""Type, name, table and statement of all that a file has."""

_LISTS = {"journal": 3, "history": 2}
"""Entries of ``meta`` that are so many numbers."""

_PRAGMAS = {
    "read": ("query_only=ON", "mmap_size=0"),
    "inspect": ("query_only=ON", "mmap_size=0"),
    "copy": ("journal_mode=MEMORY", "synchronous=OFF"),
    "scratch": ("journal_mode=MEMORY", "synchronous=OFF"),
    "live": ("journal_mode=WAL", "secure_delete=ON", "wal_autocheckpoint=256", "fullfsync=ON"),
}

_TRANSACTION = "BEGIN IMMEDIATE", "COMMIT", ("ROLLBACK",)
_SAVEPOINT = "SAVEPOINT inside", "RELEASE inside", ("ROLLBACK TO inside", "RELEASE inside")


class Database:
    """An open file. It belongs to the process that opened it; a fork refuses it.

    Parameters
    ----------
    path : Path
        The file.
    use : {"read", "inspect", "copy", "scratch", "live"}
        Only read what is in the file itself; or in its log as well; write a copy that appears when it is complete; keep
        rows of a running model; live in it.
    """

    def __init__(self, path: Path, use: str) -> None:
        self.path, self._owner, self.is_open = path, os.getpid(), True
        self.meta: dict[str, Any] = {}
        self.doubt = ""
        """Why it is not known whether the last change is in the file."""

        self.segments: dict[int, Any] = {}
        """The segments of a history in memory that are in the table, by their number there."""
        with typed(f"cannot open {path}"):
            self.connection = _connected(path, use)
            try:
                self._prepare(use)
            except BaseException:
                self.connection.close()
                raise

    def _prepare(self, use: str) -> None:
        run, is_new = self.run, use in ("copy", "scratch")
        if use not in ("read", "inspect"):
            run("PRAGMA locking_mode=EXCLUSIVE")
        if is_new:
            run(f"PRAGMA page_size={PAGE_BYTES}")
        else:
            self._check_format()
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", *_PRAGMAS[use]):
            run(f"PRAGMA {pragma}")
        if is_new:
            self.transact(self._create)
        else:
            with intact(self.path):
                self._check_tables()
                self.meta = self.stored_meta()
                self._check_size()

    def _create(self) -> None:
        self.run(f"PRAGMA application_id={APPLICATION_ID}")
        self.run(f"PRAGMA user_version={SCHEMA}")
        for *_, statement in sorted(_SCHEMA, reverse=True):  # tables first
            self.run(statement)

    def _check_format(self) -> None:
        (found,), (schema,) = *self.run("PRAGMA application_id"), *self.run("PRAGMA user_version")
        if found != APPLICATION_ID:
            raise StoreCorrupted(f"{self.path} is no file of batch2online.")
        if schema != SCHEMA:
            older_or_newer = "a newer" if schema > SCHEMA else "the older"
            raise StoreError(
                f"{self.path} has schema {schema}, this version reads schema {SCHEMA}: load it with {older_or_newer} "
                "version of batch2online."
            )

    def _check_tables(self) -> None:
        """Refuse a file with anything but our tables: no trigger, no view, no table with computed columns."""
        if set(self.run("SELECT type, name, tbl_name, sql FROM sqlite_schema")) != _SCHEMA:
            raise StoreCorrupted(f"{self.path} has other tables than batch2online writes, or a trigger, view or index.")

    def _check_size(self) -> None:
        """Refuse a file that was cut or has grown, unless a part of it is in its log."""
        log = self.path.with_name(f"{self.path.name}-wal")
        if not log.exists() or not log.stat().st_size:
            (pages,), (size,) = *self.run("PRAGMA page_count"), *self.run("PRAGMA page_size")
            if pages * size != self.path.stat().st_size:
                raise StoreCorrupted(f"{self.path} is truncated, or has data after its end.")

    def stored_meta(self) -> dict[str, Any]:
        """Return what the file holds of ``meta`` now."""
        with intact(self.path):
            meta = json.loads(self.get("meta", 0)[0])
            wrong = [name for name, value in meta.items() if not _is_right(name, value)]
        if wrong:
            raise StoreCorrupted(f"{self.path} is damaged: its {wrong[0]} is {str(meta[wrong[0]])[:40]}.")
        return dict(meta)

    # -- rows under a checksum ------------------------------------------------------------------------

    def put(self, table: str, number: int, text: str, content: bytes = b"", **further: Any) -> None:
        """Write a row of a table, inside a transaction; ``further`` are columns by which rows are selected."""
        crc = checksum(f"{table} {number}", text, content)
        row = {"number": number, "text": text, "content": content, "crc": crc} | further
        columns, values = ", ".join(row), ", ".join("?" * len(row))
        self.run(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({values})", *row.values())

    def get(self, table: str, number: int) -> tuple[str, bytes]:
        """Return text and content of a row; raise StoreCorrupted if it is missing or does not match its checksum."""
        found = self.select(f"SELECT text, content, crc FROM {table} WHERE number = ?", number)
        if not found:
            raise StoreCorrupted(f"{self.path} is damaged: row {number} of its table {table} is missing.")
        text, content, crc = found[0]
        with intact(self.path):
            if checksum(f"{table} {number}", text, content) != crc:
                raise StoreCorrupted(
                    f"{self.path} is damaged: row {number} of its table {table} does not match its checksum."
                )
        return text, content

    def numbers(self, table: str, start: int = 0, stop: int = 2**62) -> list[int]:
        """Return the numbers of rows in ascending order, from the first up to the last."""
        query = f"SELECT number FROM {table} WHERE number >= ? AND number < ? ORDER BY number"
        return [number for (number,) in self.select(query, start, stop)]

    def keep_only(self, table: str, start: int, stop: int = 2**62) -> None:
        """Delete all other rows, inside a transaction."""
        self.run(f"DELETE FROM {table} WHERE number < ? OR number >= ?", start, stop)

    # -- statements -----------------------------------------------------------------------------------

    def run(self, statement: str, *values: Any) -> list[Any]:
        """Run a statement as it is."""
        return self.connection.execute(statement, values).fetchall()

    def select(self, query: str, *values: Any) -> list[Any]:
        """Return all rows of a query."""
        self.check_process()
        with typed(f"cannot read {self.path}"):
            return self.run(query, *values)

    def pragma(self, pragma: str) -> None:
        """Run a pragma."""
        with typed(f"cannot work on {self.path}"):
            self.run(f"PRAGMA {pragma}")

    def transact(self, act: Callable[[], object]) -> None:
        """Carry out changes of tables and of ``meta`` as one; an error, or an interrupt at any moment, undoes them.

        This takes a function because ``with`` is not atomic: an interrupt may come between entering and the body.
        Inside another transaction the changes are a part of it that is undone by itself.
        """
        self.check_process()
        before, is_inside = dict(self.meta), self.in_transaction
        begin, end, undo = _SAVEPOINT if is_inside else _TRANSACTION
        try:
            with typed(f"cannot write to {self.path}"):
                self.run(begin)
                act()
                if not is_inside:
                    self.put("meta", 0, json.dumps(self.meta, allow_nan=False))
                self.run(end)
        except BaseException:
            self.meta, self.segments = before, {}
            with suppress(sqlite3.Error):  # SQLite may have undone, or done, all of it by now
                for statement in undo if self.in_transaction else ():
                    self.run(statement)
            if not is_inside:
                self._read_meta_again()
            raise

    def _read_meta_again(self) -> None:
        """Read what the file holds after a change that has raised: it may have been committed."""
        try:
            self.meta = self.stored_meta() if self.meta else {}
        except StoreError as error:
            self.doubt = f"it is in doubt whether the last call was carried out: {error}"

    @property
    def in_transaction(self) -> bool:
        """Whether changes are under way that are not committed yet."""
        return self.connection.in_transaction

    def check_process(self) -> None:
        """Raise if another process has opened the file."""
        if self._owner != os.getpid():
            raise StoreError(f"{self.path} belongs to the process that opened it: open it again after a fork.")

    def close(self) -> None:
        """Release the file, so that others can open it."""
        if self._owner == os.getpid():
            self.is_open = False
            with suppress(sqlite3.Error):
                self.connection.close()


def _is_right(name: str, value: Any) -> bool:
    """Return whether an entry of ``meta`` is of its type: most are counts."""
    if name in _LISTS:
        return isinstance(value, list) and len(value) == _LISTS[name] and all(type(each) is int for each in value)
    return isinstance(value, {"in_use": str, "sources": dict}.get(name, int))


def _connected(path: Path, use: str) -> sqlite3.Connection:
    """Return a connection; one that only reads leaves no trace beside the file, since it takes it as it stands."""
    how = {"read": "mode=ro&immutable=1", "inspect": "mode=ro"}.get(use, "mode=rwc")
    address = f"file:{quote(os.fspath(path.absolute()))}?{how}"
    return sqlite3.connect(address, uri=True, isolation_level=None, timeout=0.0, check_same_thread=False)


def checksum(place: str, text: str, content: bytes = b"") -> int:
    """Return the CRC-32 of a content, of what describes it and of where it stands."""
    return zlib.crc32(content, zlib.crc32(f"{place}\0{text}\0".encode()))


def arrays_as_bytes(*arrays: FloatArray) -> tuple[list[list[int]], bytes]:
    """Return the shapes of arrays of 8-byte numbers, and their bytes."""
    content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return [list(array.shape) for array in arrays], content


def arrays_of_bytes(shapes: Any, content: bytes) -> list[FloatArray]:
    """Return the arrays of :func:`arrays_as_bytes`, read-only; takes no more memory than there are bytes."""
    arrays, at = [], 0
    for shape in shapes:
        count = math.prod(shape)
        if min(shape, default=0) < 0 or at + 8 * count > len(content):
            raise StoreCorrupted(f"found {len(content)} bytes of arrays of shapes {shapes}.")
        arrays.append(np.frombuffer(content, dtype="<f8", count=count, offset=at).reshape(shape))
        at += 8 * count
    return arrays
