"""Keys of calls and of rows, with a number each: strings or integers of the caller.

A key is stored as a hash of 128 bits with its number, in one of 1,024 buckets that the hash selects. A lookup reads one
bucket and checks its checksum, so that a damaged or missing key is an error, never an unknown one. A key that is
removed leaves no trace in the file. Methods that write are called inside a transaction.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from batch2online._types import BoolArray, IntArray
from batch2online.storage.database import Database
from batch2online.storage.errors import DuplicateKey, StoreCorrupted

Key = str | int
BUCKETS = 1024
_LARGEST = 2**63 - 1
_SHOWN = 5


class _Bucket(NamedTuple):
    """A bucket that was read: its number, the places of its keys among those wanted, their hashes, its entries."""

    number: int
    places: list[int]
    hashes: IntArray
    entries: IntArray


class Keys:
    """The keys of one kind in a file.

    Parameters
    ----------
    database : Database
        The file.
    kind : {"call", "row"}
        What the keys are of.
    """

    def __init__(self, database: Database, kind: str) -> None:
        self._database, self._count = database, f"{kind}_keys"
        self._first = BUCKETS * ("call", "row").index(kind)
        self._last: tuple[Sequence[Key] | None, list[_Bucket]] = None, []

    def __len__(self) -> int:
        """Return how many keys were added and not removed by :meth:`remove`."""
        return int(self._database.meta.get(self._count, 0))

    def find(self, keys: Sequence[Key]) -> dict[Key, int]:
        """Return the numbers of those keys that the file has."""
        found: dict[Key, int] = {}
        for _, places, hashes, entries in self._buckets_of(keys):
            which, where = _same(hashes, entries).nonzero()
            for i, number in zip(which.tolist(), entries[where, 2].tolist(), strict=True):
                found[keys[places[i]]] = number
        return found

    def add(self, keys: Sequence[Key], numbers: IntArray, oldest: int = -_LARGEST) -> None:
        """Add new keys with their numbers; drop those of their buckets with a number below the oldest."""
        if self._count not in self._database.meta:
            for bucket in range(BUCKETS):
                self._write(bucket, np.empty((0, 3), dtype=np.int64))
        self._database.meta[self._count] = len(self) + len(keys)
        for bucket, places, hashes, entries in self._buckets_of(keys):
            kept = entries if oldest < 0 else entries[entries[:, 2] >= oldest]
            new = np.concatenate([hashes, numbers[places, None]], axis=1)
            self._write(bucket, np.concatenate([kept, new]))

    def remove(self, keys: Sequence[Key]) -> None:
        """Remove keys that the file has."""
        for bucket, _, hashes, entries in self._buckets_of(keys):
            self._drop(bucket, entries, np.any(_same(hashes, entries), axis=0))

    def remove_numbers(self, numbers: Iterable[int]) -> None:
        """Remove the keys that have these numbers."""
        gone = np.fromiter(numbers, dtype=np.int64)
        for bucket in range(BUCKETS) if len(self) else ():
            entries = self._entries(bucket)
            self._drop(bucket, entries, np.isin(entries[:, 2], gone))

    def _drop(self, bucket: int, entries: IntArray, is_gone: BoolArray) -> None:
        if is_gone.any():
            self._write(bucket, entries[~is_gone])
            self._database.meta[self._count] = len(self) - int(is_gone.sum())

    def _buckets_of(self, keys: Sequence[Key]) -> list[_Bucket]:
        """Return the buckets of keys, if the file has any: once for keys that are looked up and then added."""
        if self._last[0] is not keys:
            self._last = keys, list(self._read(keys))
        return self._last[1]

    def _read(self, keys: Sequence[Key]) -> Iterator[_Bucket]:
        if self._count not in self._database.meta or not len(keys):
            return
        texts = (f"{type(key).__name__} {key}".encode() for key in keys)
        digests = b"".join(hashlib.blake2b(text, digest_size=16).digest() for text in texts)
        hashes = np.frombuffer(digests, dtype="<i8").reshape(-1, 2)
        groups: dict[int, list[int]] = {}
        for place, bucket in enumerate((hashes[:, 0] % BUCKETS).tolist()):
            groups.setdefault(bucket, []).append(place)
        for bucket, places in groups.items():
            yield _Bucket(bucket, places, hashes[places], self._entries(bucket))

    def _entries(self, bucket: int) -> IntArray:
        """Return the entries of a bucket (n, 3): a hash in two parts, and the number."""
        try:
            _, content = self._database.get("key", self._first + bucket)
        except StoreCorrupted as error:
            raise StoreCorrupted(f"{self._database.path} is damaged: keys are missing or changed.") from error
        return np.frombuffer(content, dtype="<i8").reshape(-1, 3)

    def _write(self, bucket: int, entries: IntArray) -> None:
        self._last = None, []
        self._database.put("key", self._first + bucket, "", entries.tobytes())


def _same(hashes: IntArray, entries: IntArray) -> BoolArray:
    """Return which hashes (n) are those of which entries (m), as (n, m)."""
    same: BoolArray = (hashes[:, None, 0] == entries[:, 0]) & (hashes[:, None, 1] == entries[:, 1])
    return same


def checked_keys(keys: Any, n: int) -> list[Key]:
    """Return the keys of n rows as strings and integers, each once."""
    if isinstance(keys, str | bytes) or not hasattr(keys, "__iter__"):
        raise TypeError(f"keys must be a list of strings or integers, one for each row, got {keys!r}.")
    found = [_checked(key) for key in (keys.tolist() if hasattr(keys, "tolist") else keys)]
    if len(found) != n:
        raise ValueError(f"keys must be one for each row: got {len(found)} keys for {n} rows.")
    if len(set(found)) < n:
        twice = [key for key, times in Counter(found).items() if times > 1]
        raise DuplicateKey(f"keys must differ, got more than once: {shown(twice)}.")
    return found


def check_call_key(key: object) -> None:
    """Refuse a key of a call that is no string, or that UTF-8 cannot encode."""
    if not isinstance(key, str):
        raise TypeError(f"key must be a string, got {key!r} of type {type(key).__name__}: pass {str(key)!r}.")
    _checked(key)


def _checked(key: Any) -> Key:
    if isinstance(key, np.integer | np.str_):
        key = key.item()
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise TypeError(f"A key must be a string or an integer, got {key!r} of type {type(key).__name__}.")
    if isinstance(key, int):
        if not -_LARGEST <= key <= _LARGEST:
            raise ValueError(f"The key {key} is an integer beyond 64 bits: pass {str(key)!r}.")
        return key
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"key {key!r} holds a lone surrogate at position {error.start}: pass valid Unicode.") from None
    return key


def shown(keys: Sequence[Key]) -> str:
    """Return the first keys, for messages."""
    more = f" and {len(keys) - _SHOWN:,} more" if len(keys) > _SHOWN else ""
    return ", ".join(map(repr, keys[:_SHOWN])) + more
