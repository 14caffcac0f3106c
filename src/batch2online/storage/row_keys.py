"""Keys of rows: strings or integers of the caller, by which rows are forgotten and late targets arrive.

A key has the id of its row; that of a row that waits for its target has ``-1 - number`` of its question. Each entry has
a checksum, and ``meta`` holds the number and the sum of all checksums. The first lookup after opening verifies them, so
that a damaged key raises an error instead of being reported as unknown. A key that is removed leaves no trace in the
file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from batch2online.storage.database import Database, checksum
from batch2online.storage.errors import DuplicateKey, StoreCorrupted, UnknownKey, intact

Key = str | int
_LARGEST = 2**63 - 1
_SHOWN = 5


def checked(keys: Any, n: int) -> list[Key]:
    """Return the keys of n rows as strings and integers, each once."""
    if isinstance(keys, str | bytes) or not hasattr(keys, "__iter__"):
        raise TypeError(f"keys must be a list of strings or integers, one for each row, got {keys!r}.")
    found = [_checked(key) for key in (keys.tolist() if hasattr(keys, "tolist") else keys)]
    if len(found) != n:
        raise ValueError(f"keys must be one for each row: got {len(found)} keys for {n} rows.")
    if len(set(found)) < n:
        seen, twice = set[Key](), list[Key]()
        for key in found:
            (twice.append if key in seen else seen.add)(key)
        raise DuplicateKey(f"keys must differ, got more than once: {shown(twice)}.")
    return found


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


def shown(keys: Iterable[Key]) -> str:
    """Return the first keys, for messages."""
    found = list(keys)
    return ", ".join(map(repr, found[:_SHOWN])) + (f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else "")


class RowKeys:
    """The keys of rows in a file. Methods that write are called inside a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_compared = False

    def __len__(self) -> int:
        return self._sums()[0]

    def _sums(self) -> tuple[int, int]:
        """Return the number of keys and the sum of their checksums."""
        found = self._database.meta.get("row_keys", [0, 0])
        if not (isinstance(found, list) and len(found) == 2 and all(type(each) is int and each >= 0 for each in found)):
            raise StoreCorrupted(f"{self._database.path} is damaged: its number of keys is {str(found)[:40]}.")
        return found[0], found[1]

    def find(self, keys: Sequence[Key]) -> dict[Key, int]:
        """Return the ids of those keys that the file has."""
        if not len(self):
            return {}
        self._compare_all()
        found = self._database.select_many("SELECT key, id, crc FROM row_key WHERE key IN (?)", keys)
        return {key: self._intact(key, place, crc) for key, place, crc in found}

    def find_all(self, keys: Sequence[Key]) -> list[int]:
        """Return the ids of keys that the file must have."""
        found = self.find(keys)
        unknown = [key for key in keys if key not in found]
        if unknown:
            raise UnknownKey(f"{self._database.path.name} has no row with the key {shown(unknown)}.")
        return [found[key] for key in keys]

    def check_new(self, keys: Sequence[Key]) -> None:
        """Refuse keys that the file has."""
        found = self.find(keys)
        waiting, learned = ([key for key in keys if key in found and (found[key] < 0) is is_] for is_ in (True, False))
        if learned:
            raise DuplicateKey(f"{self._database.path.name} has learned a row with the key {shown(learned)} already.")
        if waiting:
            raise DuplicateKey(
                f"{self._database.path.name} holds a row that waits for its target under the key {shown(waiting)}: "
                "pass the target to label."
            )

    def of_ids(self, ids: Iterable[int]) -> list[Key]:
        """Return the keys of rows with these ids, where they have one."""
        if not len(self):
            return []
        self._compare_all()
        wanted = set(ids)
        entries = self._database.select("SELECT key, id FROM row_key")
        return [key for key, place in entries if place in wanted]

    def add(self, keys: Sequence[Key], places: Iterable[int]) -> None:
        """Add new keys, with ids or with ``-1 - number`` of questions."""
        if "row_keys" not in self._database.meta:
            self._database.create_table("row_key")
        entries = [(key, place, _crc(key, place)) for key, place in zip(keys, places, strict=True)]
        self._database.run_many("INSERT INTO row_key VALUES (?, ?, ?)", entries)
        self._count(len(entries), sum(crc for *_, crc in entries))

    def remove(self, keys: Sequence[Key]) -> None:
        """Remove keys that the file has."""
        found = self.find(keys)
        if not found:
            return
        self._database.run_many("DELETE FROM row_key WHERE key = ?", ((key,) for key in found))
        self._count(-len(found), -sum(_crc(key, place) for key, place in found.items()))

    def _count(self, n: int, total: int) -> None:
        count, before = self._sums()
        self._database.meta["row_keys"] = [count + n, before + total]

    def _compare_all(self) -> None:
        if self._is_compared:
            return
        with intact(self._database.path):
            entries = iter(self._database.select("SELECT key, id, crc FROM row_key"))
            count = total = 0
            while some := list(islice(entries, 10_000)):
                count, total = count + len(some), total + sum(crc for *_, crc in some)
                for entry in some:
                    self._intact(*entry)
            if (count, total) != self._sums():
                raise StoreCorrupted(f"{self._database.path} is damaged: keys of rows are missing.")
        self._is_compared = True

    def _intact(self, key: Key, place: int, crc: int) -> int:
        if _crc(key, place) != crc:
            raise StoreCorrupted(f"{self._database.path} is damaged: a key of a row does not match its checksum.")
        return place


def _crc(key: Key, place: int) -> int:
    return checksum(f"row_key {type(key).__name__}", f"{place} {key}")
