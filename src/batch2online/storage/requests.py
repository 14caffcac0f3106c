"""Keys of calls that were carried out: a call that is sent twice is carried out once.

A key is stored as a hash of 128 bits with the number of its call, in one of ``BUCKETS`` buckets that its hash selects.
A lookup reads one bucket and checks its checksum, so that a damaged or missing key is an error and never a call that is
carried out again. Opening a file reads no keys. Only the newest ``keep`` keys count: older ones are dropped when their
bucket is written again.
"""

from __future__ import annotations

import hashlib

import numpy as np

from batch2online._types import IntArray
from batch2online.storage.database import Database, packed, unpacked
from batch2online.storage.errors import StoreCorrupted

BUCKETS = 1024


def check_key(key: object) -> None:
    """Refuse a key that is no string, or that UTF-8 cannot encode."""
    if not isinstance(key, str):
        raise TypeError(f"key must be a string, got {key!r} of type {type(key).__name__}: pass {str(key)!r}.")
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"key {key!r} holds a lone surrogate at position {error.start}: pass valid Unicode.") from None


def was_done(database: Database, key: str, keep: int) -> bool:
    """Return whether the call of this key was carried out, and is among the newest ``keep`` calls with keys."""
    if not database.meta.get("requests"):
        return False
    digest, bucket = _hashed(key)
    entries = _bucket(database, bucket)
    found = (entries[:, :2] == digest).all(axis=1)
    return bool((entries[found, 2] >= _oldest(database, keep)).any())


def note(database: Database, key: str, keep: int) -> None:
    """Store the key of a call, inside a transaction; drop the keys of its bucket that are too old."""
    number = database.meta.get("requests", 0)
    if not number:
        for bucket in range(BUCKETS):
            _write(database, bucket, np.empty((0, 3), dtype=np.int64))
    database.meta["requests"] = number + 1
    digest, bucket = _hashed(key)
    _add(database, bucket, np.array([[*digest, number]]), keep)


def _hashed(key: str) -> tuple[IntArray, int]:
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    return np.frombuffer(digest, dtype="<i8"), int.from_bytes(digest[:2], "little") % BUCKETS


def _oldest(database: Database, keep: int) -> int:
    """Return the number of the oldest call whose key counts."""
    return int(database.meta["requests"]) - keep


def _add(database: Database, bucket: int, new: IntArray, keep: int) -> None:
    entries = _bucket(database, bucket)
    kept = entries[entries[:, 2] >= _oldest(database, keep)]
    _write(database, bucket, np.concatenate([kept, new]))


def _write(database: Database, bucket: int, entries: IntArray) -> None:
    row = (bucket, *packed(_place(bucket), entries.view(np.float64)))
    database.run("INSERT OR REPLACE INTO request VALUES (?, ?, ?, ?)", row)


def _bucket(database: Database, bucket: int) -> IntArray:
    """Return the entries of a bucket (n, 3): a hash in two parts, and the number of its call."""
    stored = database.select("SELECT shape, content, crc FROM request WHERE number = ?", (bucket,))
    if not stored:
        raise StoreCorrupted(f"{database.path} is damaged: keys of its calls are missing.")
    try:
        (entries,) = unpacked(_place(bucket), *stored[0])
    except StoreCorrupted as error:
        raise StoreCorrupted(f"{database.path} is damaged: keys of its calls do not match their checksum.") from error
    return entries.reshape(-1, 3).view(np.int64)


def _place(bucket: int) -> str:
    return f"request {bucket}"
