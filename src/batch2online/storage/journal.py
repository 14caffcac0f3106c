"""The journal of a model: rows since the last state, keys of calls, and all changes if they are logged.

Rows are one record for each call; opening the file learns them again. The key of a call is stored as a hash of 128 bits
with the number of the call, in one of ``BUCKETS`` buckets that the hash selects. A lookup reads one bucket and checks
its checksum, so that a damaged or missing key is an error and never a call that is carried out again. Only the newest
``keep`` keys count: older ones are dropped when their bucket is written again. Functions that write are called inside a
transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from batch2online._types import IntArray
from batch2online.rows import Batch, all_ones, ones
from batch2online.storage.database import Database, checksum, packed, unpacked
from batch2online.storage.errors import StoreCorrupted
from batch2online.storage.tree import decoded, encoded

BUCKETS = 1024

# -- rows -----------------------------------------------------------------------------------------------------


def append(database: Database, model: Any, batches: list[Batch], prepared: Any) -> int:
    """Write the rows of one call, with the labels and strings that decode them; return their number."""
    stream, number, rows = model._stream, database.meta["journal"], database.meta["journal_rows"]
    empty = (np.empty((0, stream.width)), np.empty((0, stream.n_targets)), np.empty(0))
    points, targets, weights = (np.concatenate(parts) for parts in zip(*(batches or [empty]), strict=True))
    own = np.empty(0) if all_ones(weights) else weights
    entry = model._journal_entry(points, prepared.problem or stream.problem)
    if prepared.table is not None:
        entry = {"rows": entry, "table": prepared.table.journal_entry()}
    entry = json.dumps(entry)
    late = () if prepared.answers is None else (prepared.answers,)
    shape, content, crc = packed(_row_place(number, entry), points, targets, own, *late)
    database.run("INSERT INTO journal VALUES (?, ?, ?, ?, ?)", (number, shape, entry, content, crc))
    database.meta |= {"journal": number + 1, "journal_rows": rows + len(points)}
    return len(points)


def replay(database: Database, model: Any) -> tuple[int, list[tuple[Any, ...]]]:
    """Learn the rows since the state again; return their number, and the batches that a worker could not learn.

    Those are the last ones of the journal, each with earlier answers for its rows if there are any.
    """
    total, learned, unlearned = 0, 0, list[tuple[Any, ...]]()
    stored = database.select("SELECT number FROM journal ORDER BY number")
    if [number for (number,) in stored] != list(range(database.meta.get("journal", 0))):
        raise StoreCorrupted(f"{database.path} has lost rows: found {len(stored)} of {database.meta['journal']} calls.")
    for (number,) in stored:
        statement = "SELECT shape, entry, content, crc FROM journal WHERE number = ?"
        ((shape, entry, content, crc),) = database.select(statement, (number,))
        points, targets, weights, *late = unpacked(_row_place(number, entry), shape, content, crc)
        batch = points, targets, weights if len(weights) else ones(len(points))
        total += len(points)
        if number >= len(stored) - database.meta.get("unlearned", 0):
            unlearned.append((batch, *late))
            continue
        try:
            model._replay(batch, json.loads(entry), *late)
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            why = f"the rows of call {number} cannot be learned again: {error}"
            raise StoreCorrupted(f"{database.path} is damaged: {why}") from error
        learned += len(points)
    if total != database.meta.get("journal_rows", 0):
        raise StoreCorrupted(f"{database.path} has lost rows: found {total} of {database.meta['journal_rows']}.")
    return learned, unlearned


def _row_place(number: int, entry: str) -> str:
    return f"journal {number} with entry {entry}"


# -- keys -----------------------------------------------------------------------------------------------------


def check_key(key: object) -> None:
    """Refuse a key that is no string, or that UTF-8 cannot encode."""
    if not isinstance(key, str):
        raise TypeError(f"key must be a string, got {key!r} of type {type(key).__name__}: pass {str(key)!r}.")
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"key {key!r} holds a lone surrogate at position {error.start}: pass valid Unicode.") from None


def has_key(database: Database, key: str, keep: int) -> bool:
    """Return whether the call of this key was carried out, and is among the newest ``keep`` calls with keys."""
    if not database.meta.get("requests"):
        return False
    digest, bucket = _hashed(key)
    entries = _bucket(database, bucket)
    found = (entries[:, :2] == digest).all(axis=1)
    return bool((entries[found, 2] >= _oldest(database, keep)).any())


def store_key(database: Database, key: str, keep: int) -> None:
    """Store the key of a call; drop the keys of its bucket that are too old."""
    number = database.meta.get("requests", 0)
    if not number:
        for bucket in range(BUCKETS):
            _write_bucket(database, bucket, np.empty((0, 3), dtype=np.int64))
    database.meta["requests"] = number + 1
    digest, bucket = _hashed(key)
    entries = _bucket(database, bucket)
    kept = entries[entries[:, 2] >= _oldest(database, keep)]
    _write_bucket(database, bucket, np.concatenate([kept, np.array([[*digest, number]])]))


def _hashed(key: str) -> tuple[IntArray, int]:
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    return np.frombuffer(digest, dtype="<i8"), int.from_bytes(digest[:2], "little") % BUCKETS


def _oldest(database: Database, keep: int) -> int:
    """Return the number of the oldest call whose key counts."""
    return int(database.meta["requests"]) - keep


def _write_bucket(database: Database, bucket: int, entries: IntArray) -> None:
    row = (bucket, *packed(f"request {bucket}", entries.view(np.float64)))
    database.run("INSERT OR REPLACE INTO request VALUES (?, ?, ?, ?)", row)


def _bucket(database: Database, bucket: int) -> IntArray:
    """Return the entries of a bucket (n, 3): a hash in two parts, and the number of its call."""
    stored = database.select("SELECT shape, content, crc FROM request WHERE number = ?", (bucket,))
    if not stored:
        raise StoreCorrupted(f"{database.path} is damaged: keys of its calls are missing.")
    try:
        (entries,) = unpacked(f"request {bucket}", *stored[0])
    except StoreCorrupted as error:
        raise StoreCorrupted(f"{database.path} is damaged: keys of its calls do not match their checksum.") from error
    return entries.reshape(-1, 3).view(np.int64)


# -- changes --------------------------------------------------------------------------------------------------


def logs_changes(database: Database) -> bool:
    """Return whether the file logs changes."""
    return "changes" in database.meta


def start_change_log(database: Database, events: Iterable[Any] = ()) -> None:
    """Start a new log of changes with these."""
    database.run("DELETE FROM change")
    database.meta["changes"] = 0
    for event in events:
        log_change(database, event)


def log_change(database: Database, event: Any) -> None:
    """Write a change if the file logs changes."""
    if logs_changes(database):
        number, (content, _) = database.meta["changes"], encoded(event)
        database.run("INSERT INTO change VALUES (?, ?, ?)", (number, content, checksum(f"change {number}", content)))
        database.meta["changes"] = number + 1


def read_changes(database: Database) -> Iterator[Any]:
    """Iterate over all changes, oldest first; they are read one by one."""
    for number in range(database.meta["changes"]):
        stored = database.select("SELECT content, crc FROM change WHERE number = ?", (number,))
        content, crc = stored[0] if stored else (None, None)
        if not isinstance(content, str) or checksum(f"change {number}", content) != crc:
            raise StoreCorrupted(
                f"{database.path} is damaged: change {number} is missing or does not match its checksum."
            )
        yield decoded(content, [])
