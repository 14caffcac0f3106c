"""Keys of calls and of rows, with a number each: strings or integers of the caller.

A key is stored as a hash of 128 bits with its number, in one of 1,024 buckets that the hash selects. A lookup reads one
bucket and checks its checksum, so that a damaged or missing key is an error, never an unknown one. A key that is
removed leaves no trace in the file. Methods that write are called inside a transaction.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from batch2online._types import BoolArray, IntArray
from batch2online.storage.database import Database
from batch2online.storage.errors import DuplicateKey, StoreCorrupted

Key = str | int
BUCKETS = 1024
_LARGEST = 2**63 - 1
_SHOWN = 5


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

    def __len__(self) -> int:
        """Return how many keys were added and not removed by :meth:`remove`."""
        return int(self._database.meta.get(self._count, 0))

    def find(self, keys: Iterable[Key]) -> dict[Key, int]:
        """Return the numbers of those keys that the file has."""
        found: dict[Key, int] = {}
        for bucket, some in self._by_bucket(keys).items():
            entries = self._entries(bucket)
            for key, digest in some.items():
                places = np.flatnonzero((entries[:, :2] == digest).all(axis=1))
                if len(places):
                    found[key] = int(entries[places[-1], 2])
        return found

    def add(self, numbers: Mapping[Key, int], oldest: int = -_LARGEST) -> None:
        """Add new keys with their numbers; drop those of their buckets with a number below the oldest."""
        if self._count not in self._database.meta:
            for bucket in range(BUCKETS):
                self._write(bucket, np.empty((0, 3), dtype=np.int64))
        self._database.meta[self._count] = len(self) + len(numbers)
        for bucket, some in self._by_bucket(numbers).items():
            entries = self._entries(bucket)
            new = np.array([[*digest, numbers[key]] for key, digest in some.items()], dtype=np.int64)
            self._write(bucket, np.concatenate([entries[entries[:, 2] >= oldest], new]))

    def remove(self, keys: Iterable[Key]) -> None:
        """Remove keys that the file has."""
        for bucket, some in self._by_bucket(keys).items():
            self._drop(bucket, partial(_have_hashes, np.array(list(some.values()))))

    def remove_numbers(self, numbers: Iterable[int]) -> None:
        """Remove the keys that have these numbers."""
        gone = np.fromiter(numbers, dtype=np.int64)
        for bucket in range(BUCKETS) if len(self) else ():
            self._drop(bucket, lambda entries: np.isin(entries[:, 2], gone))

    def _drop(self, bucket: int, which: Callable[[IntArray], BoolArray]) -> None:
        entries = self._entries(bucket)
        is_gone = which(entries)
        if is_gone.any():
            self._write(bucket, entries[~is_gone])
            self._database.meta[self._count] = len(self) - int(is_gone.sum())

    def _by_bucket(self, keys: Iterable[Key]) -> dict[int, dict[Key, IntArray]]:
        """Return the hashes of keys by their buckets; none if the file has no keys yet."""
        found: dict[int, dict[Key, IntArray]] = {}
        for key in keys if self._count in self._database.meta else ():
            digest = hashlib.blake2b(f"{type(key).__name__} {key}".encode(), digest_size=16).digest()
            bucket = int.from_bytes(digest[:2], "little") % BUCKETS
            found.setdefault(bucket, {})[key] = np.frombuffer(digest, dtype="<i8")
        return found

    def _entries(self, bucket: int) -> IntArray:
        """Return the entries of a bucket (n, 3): a hash in two parts, and the number."""
        try:
            _, content = self._database.get("key", self._first + bucket)
        except StoreCorrupted as error:
            raise StoreCorrupted(f"{self._database.path} is damaged: keys are missing or changed.") from error
        return np.frombuffer(content, dtype="<i8").reshape(-1, 3)

    def _write(self, bucket: int, entries: IntArray) -> None:
        self._database.put("key", self._first + bucket, "", entries.tobytes())


def _have_hashes(hashes: IntArray, entries: IntArray) -> BoolArray:
    """Return which entries have one of these hashes."""
    which: BoolArray = (entries[:, None, :2] == hashes).all(axis=2).any(axis=1)
    return which


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
