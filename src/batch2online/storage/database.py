"""The SQLite file of a model: its tables, its checksums and counts, one transaction for every change.

============  ======================================================================================================
``meta``      format, counts of everything, positions of sources; under a checksum of its own
``state``     the tree of the model as JSON (part 0) and its arrays, each with its SHA-256
``journal``   rows learned since the state was written, a call each, to be learned again when the file is opened
``history``   all rows seen, where they are kept, in segments
``request``   hashes of the keys of calls that were carried out, in buckets: a call sent twice is carried out once
``change``    all changes of the model, where these are logged
``row_key``   keys of rows, with the ids of learned rows and the numbers of questions; from the first key on
``question``  rows that were predicted and wait for their targets; from the first one on
``answer``    the models that have predicted them
============  ======================================================================================================

Every blob has a checksum that covers its place too. Counts in ``meta`` make a lost end an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from batch2online._types import FloatArray
from batch2online.storage.errors import StoreCorrupted, StoreError, intact, typed

APPLICATION_ID = 0x62326F6E
SCHEMA = 4
MAGIC = b"SQLite format 3\0"
PAGE_BYTES = 65_536
_FEW_VALUES = 500

_TABLES = {
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "state": "CREATE TABLE state (part INTEGER PRIMARY KEY, content BLOB NOT NULL, sha256 BLOB NOT NULL)",
    "journal": "CREATE TABLE journal (number INTEGER PRIMARY KEY, shape TEXT NOT NULL, entry TEXT NOT NULL,"
    " content BLOB NOT NULL, crc INTEGER NOT NULL)",
    "history": "CREATE TABLE history (number INTEGER PRIMARY KEY, shape TEXT NOT NULL, content BLOB NOT NULL,"
    " crc INTEGER NOT NULL)",
    "request": "CREATE TABLE request (number INTEGER PRIMARY KEY, shape TEXT NOT NULL, content BLOB NOT NULL,"
    " crc INTEGER NOT NULL)",
    "change": "CREATE TABLE change (number INTEGER PRIMARY KEY, content TEXT NOT NULL, crc INTEGER NOT NULL)",
}
_LATER_TABLES = {
    "row_key": "CREATE TABLE row_key (key NOT NULL PRIMARY KEY, id INTEGER NOT NULL, crc INTEGER NOT NULL)"
    " WITHOUT ROWID",
    "question": "CREATE TABLE question (number INTEGER PRIMARY KEY, key NOT NULL, at REAL, answer INTEGER NOT NULL,"
    " strings TEXT NOT NULL, content BLOB NOT NULL, crc INTEGER NOT NULL)",
    "answer": "CREATE TABLE answer (number INTEGER PRIMARY KEY, waiting INTEGER NOT NULL, sha256 BLOB NOT NULL,"
    " content BLOB NOT NULL)",
}
"""Tables that a file has from their first use on."""

_PRAGMAS = {
    "read": ("query_only=ON", "mmap_size=0"),
    "inspect": ("query_only=ON", "mmap_size=0"),
    "copy": ("journal_mode=MEMORY", "synchronous=OFF"),
    "scratch": ("journal_mode=MEMORY", "synchronous=OFF"),
    "live": ("journal_mode=WAL", "secure_delete=ON", "wal_autocheckpoint=256", "fullfsync=ON"),
}


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
        self.segments: dict[int, Any] = {}
        """The segments of a history in memory that are in the table, by their number there."""
        is_new = use in ("copy", "scratch")
        with typed(f"cannot open {path}"):
            self._connection = _connected(path, use)
            try:
                self._prepare(use, is_new)
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self, use: str, is_new: bool) -> None:
        run = self._connection.execute
        if use not in ("read", "inspect"):
            run("PRAGMA locking_mode=EXCLUSIVE")
        if is_new:
            run(f"PRAGMA page_size={PAGE_BYTES}")
        else:
            self._check_format()
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", *_PRAGMAS[use]):
            run(f"PRAGMA {pragma}").fetchall()
        if is_new:
            self.transact(self._create_tables)
        else:
            with intact(self.path):
                self._check_tables()
                self.meta = self._read_meta()
                self._check_size()

    def _create_tables(self) -> None:
        self._connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        for statement in _TABLES.values():
            self._connection.execute(statement)
        self.meta = {"format": "batch2online", "schema": SCHEMA}

    def _check_format(self) -> None:
        (found,) = self._connection.execute("PRAGMA application_id").fetchone()
        if found != APPLICATION_ID:
            raise StoreCorrupted(f"{self.path} is no file of batch2online.")

    def _check_tables(self) -> None:
        """Refuse a file with anything but our tables: no trigger, no view, no table with computed columns."""
        found = set(self._connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))
        needed, later = (
            {("table", name, name, statement) for name, statement in tables.items()}
            for tables in (_TABLES, _LATER_TABLES)
        )
        if not needed <= found <= needed | later:
            raise StoreCorrupted(f"{self.path} has other tables than batch2online writes, or a trigger, view or index.")

    def _check_size(self) -> None:
        """Refuse a file that was cut or has grown, unless a part of it is in its log."""
        log = self.path.with_name(f"{self.path.name}-wal")
        if not log.exists() or not log.stat().st_size:
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            (size,) = self._connection.execute("PRAGMA page_size").fetchone()
            if pages * size != self.path.stat().st_size:
                raise StoreCorrupted(f"{self.path} is truncated, or has data after its end.")

    # -- meta -----------------------------------------------------------------------------------------

    def _read_meta(self) -> dict[str, Any]:
        pairs = dict(self._connection.execute("SELECT key, value FROM meta"))
        if pairs.pop("check", None) != _digest(pairs):
            raise StoreCorrupted(f"{self.path} is damaged: its table of counts does not match its checksum.")
        meta = {key: json.loads(value) for key, value in pairs.items()}
        if meta.get("format") != "batch2online" or not isinstance(meta.get("schema"), int):
            raise StoreCorrupted(f"{self.path} is no file of batch2online.")
        if meta["schema"] != SCHEMA:
            older_or_newer = "a newer" if meta["schema"] > SCHEMA else "the older"
            raise StoreError(
                f"{self.path} has schema {meta['schema']}, this version reads schema {SCHEMA}: load it with "
                f"{older_or_newer} version of batch2online."
            )
        return meta

    def _write_meta(self, meta: dict[str, Any]) -> None:
        pairs = {key: json.dumps(value, allow_nan=False) for key, value in meta.items()}
        pairs["check"] = _digest(pairs)
        self._connection.execute("DELETE FROM meta")
        self._connection.executemany("INSERT INTO meta VALUES (?, ?)", pairs.items())

    # -- changes --------------------------------------------------------------------------------------

    def create_table(self, name: str) -> None:
        """Create one of the tables that files have from their first use on, inside a transaction."""
        self._connection.execute(_LATER_TABLES[name])

    def transact(self, act: Callable[[], object]) -> None:
        """Carry out changes of tables and of ``meta`` as one; an error, or an interrupt at any moment, undoes them.

        This takes a function because ``with`` is not atomic: an interrupt may come between entering and the body.
        Inside another transaction the changes are a part of it that is undone by itself.
        """
        self.check_process()
        before = dict(self.meta)
        if self.in_transaction:
            self._transact_inside(act, before)
            return
        try:
            with typed(f"cannot write to {self.path}"):
                self._connection.execute("BEGIN IMMEDIATE")
                act()
                self._write_meta(self.meta)
                self._connection.execute("COMMIT")
        except BaseException:
            self.meta, self.segments = before, {}
            with suppress(sqlite3.Error, StoreError):  # SQLite may have undone, or done, all of it by now
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self.meta = self._read_meta()
            raise

    def _transact_inside(self, act: Callable[[], object], before: dict[str, Any]) -> None:
        try:
            with typed(f"cannot write to {self.path}"):
                self._connection.execute("SAVEPOINT inside")
                act()
                self._connection.execute("RELEASE inside")
        except BaseException:
            self.meta, self.segments = before, {}
            with suppress(sqlite3.Error):  # without one, SQLite has undone the whole transaction, or nothing yet
                self._connection.execute("ROLLBACK TO inside")
                self._connection.execute("RELEASE inside")
            raise

    @property
    def in_transaction(self) -> bool:
        """Whether changes are under way that are not committed yet."""
        return self._connection.in_transaction

    def check_process(self) -> None:
        """Raise if another process has opened the file."""
        if self._owner != os.getpid():
            raise StoreError(f"{self.path} belongs to the process that opened it: open it again after a fork.")

    def run(self, statement: str, values: tuple[Any, ...] = ()) -> None:
        """Change a table, inside a transaction."""
        self._connection.execute(statement, values)

    def run_many(self, statement: str, values: Iterable[tuple[Any, ...]]) -> None:
        """Change a table by one statement with many values, inside a transaction."""
        self._connection.executemany(statement, values)

    def select_many(self, statement: str, values: Sequence[Any]) -> Iterator[Any]:
        """Iterate over the rows of a query in which ``IN (?)`` stands for these values, some at a time."""
        for start in range(0, len(values), _FEW_VALUES):
            some = tuple(values[start : start + _FEW_VALUES])
            yield from self.select(statement.replace("IN (?)", f"IN ({','.join('?' * len(some))})"), some)

    def select(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return all rows of a query."""
        self.check_process()
        with typed(f"cannot read {self.path}"):
            return self._connection.execute(statement, values).fetchall()

    def pragma(self, pragma: str) -> None:
        """Run a pragma."""
        with typed(f"cannot work on {self.path}"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()

    def close(self) -> None:
        """Release the file, so that others can open it."""
        if self._owner == os.getpid():
            self.is_open = False
            with suppress(sqlite3.Error):
                self._connection.close()


def _connected(path: Path, use: str) -> sqlite3.Connection:
    """Return a connection; one that only reads leaves no trace beside the file, since it takes it as it stands."""
    how = {"read": "mode=ro&immutable=1", "inspect": "mode=ro"}.get(use, "mode=rwc")
    address = f"file:{quote(os.fspath(path.absolute()))}?{how}"
    return sqlite3.connect(address, uri=True, isolation_level=None, timeout=0.0, check_same_thread=False)


def _digest(pairs: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(pairs.items())).encode()).hexdigest()


# -- arrays of numbers under a checksum ---------------------------------------------------------------------


def packed(place: str, *arrays: FloatArray) -> tuple[str, bytes, int]:
    """Return shapes as JSON, the bytes of arrays of 8-byte numbers, and a checksum of both and of their place."""
    shape = json.dumps([list(array.shape) for array in arrays])
    content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return shape, content, checksum(place, shape, content)


def unpacked(place: str, shape: str, content: bytes, crc: int) -> list[FloatArray]:
    """Return the arrays that :func:`packed` was given, read-only; they are checked first."""
    arrays, at = [], 0
    with intact(place):
        if checksum(place, shape, content) != crc:
            raise StoreCorrupted(f"rows are damaged: {place} does not match its checksum.")
        for dimensions in json.loads(shape):
            count = int(np.prod(dimensions, dtype=np.int64))
            if min(dimensions, default=0) < 0 or at + 8 * count > len(content):
                raise StoreCorrupted(f"{place} claims more numbers than it holds.")
            arrays.append(np.frombuffer(content, dtype="<f8", count=count, offset=at).reshape(dimensions))
            at += 8 * count
    return arrays


def checksum(place: str, text: str, content: bytes = b"") -> int:
    """Return the CRC-32 of a content, of what describes it and of where it stands."""
    return zlib.crc32(content, zlib.crc32(f"{place}\0{text}\0".encode()))
