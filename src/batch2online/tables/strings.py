"""The strings behind the numbers of a table."""

from __future__ import annotations

import hashlib
import sys
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from typing import Any, Self

import numpy as np

from batch2online._types import ByteArray, FloatArray, IntArray
from batch2online.schema import storable, stores

MISSING = -(2.0**400)
"""The number that stands for a missing value in rows; it is below every number of a table."""

_SPARE_STRINGS, _SPARE_CHARACTERS = 4_096, 2**24
"""Unused strings, and characters of them, that are kept before any is dropped."""

_ENTRY_BYTES = 128
"""Bytes of an entry of a dictionary and its key, a float."""


def hash_code(string: str) -> float:
    """Return the number that stands for a string: 52 bits of a hash, so that it is exact.

    >>> hash_code("Ideal")
    1942821534648736.0
    """
    return float(int.from_bytes(hashlib.blake2b(string.encode(), digest_size=8).digest()) >> 12)


@storable
@stores(content=ByteArray, ends=IntArray)
class StringTable:
    """Strings by their hash.

    Strings are added in place to a table that copies share: more of them than the rows need do no harm. Those that no
    row needs any more are left out of a copy, by :meth:`within`, once they may be as many as the others.
    """

    def __init__(self, known: dict[float, str] | None = None) -> None:
        self._known: MutableMapping[float, str] = {} if known is None else known
        self._size = sum(map(len, self._known.values()))
        self._limits = (2 * len(self._known) + _SPARE_STRINGS, 2 * self._size + _SPARE_CHARACTERS)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, more: Mapping[float, str]) -> None:
        """Add strings; one with the hash of another is refused."""
        for key, string in more.items():
            if self._known.get(key, string) != string:
                raise ValueError(f"The strings {self._known[key][:40]!r} and {string[:40]!r} have the same hash.")
        for key in [key for key in more if key not in self._known]:
            self._known[key] = more[key]
            self._size += len(more[key])

    def beside(self, more: dict[float, str]) -> StringTable:
        """Return these strings and others, to decode rows that are not learned."""
        twin = StringTable()
        twin._known = ChainMap(more, self._known)
        return twin

    def merged(self, other: StringTable) -> StringTable:
        """Return a table with the strings of both."""
        both = StringTable(dict(self._known))
        both.add(other._known)
        return both

    @property
    def by_hash(self) -> Mapping[float, str]:
        """The strings by their hash."""
        return self._known

    @property
    def are_many(self) -> bool:
        """Whether so many were added that unused ones should be dropped."""
        return len(self._known) > self._limits[0] or self._size > self._limits[1]

    def within(self, codes: FloatArray) -> StringTable:
        """Return the strings with these hashes alone, in their order."""
        known = self._known
        return StringTable({key: known[key] for key in np.unique(codes).tolist() if key in known})

    def holds(self, codes: FloatArray) -> bool:
        """Whether all these hashes are known; missing values have none."""
        return all(key in self._known or key == MISSING for key in np.unique(codes).tolist())

    def of(self, codes: FloatArray, missing: Any) -> Any:
        """Return the strings of hashes as an array of objects, with ``missing`` for missing values."""
        different, inverse = np.unique(codes, return_inverse=True)
        values = np.empty(len(different), dtype=object)
        values[:] = [missing if key == MISSING else self._known[key] for key in different.tolist()]
        return values[inverse.reshape(-1)]

    def bytes_of(self, codes: FloatArray) -> int:
        """Return the bytes that the different strings of hashes take, with their entries in the table."""
        return sum(sys.getsizeof(string) + _ENTRY_BYTES for string in self.listed(codes))

    def listed(self, codes: FloatArray) -> list[str]:
        """Return the different strings of hashes, in the order of the hashes."""
        return list(self.within(codes)._known.values())

    def stored_fields(self) -> dict[str, Any]:
        """Return the fields for a file: all strings in a row, and where each one ends."""
        parts = [self._known[key].encode() for key in sorted(self._known)]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64) if parts else np.empty(0, dtype=np.int64)
        return {"content": np.frombuffer(b"".join(parts), dtype=np.uint8), "ends": ends}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Return the strings that :meth:`stored_fields` describes."""
        content, ends = bytes(fields["content"]), fields["ends"].tolist()
        if sorted(ends) != ends or (ends[-1] if ends else 0) != len(content):
            raise ValueError(f"ends: found {ends[:5]}, expected ascending positions up to {len(content)}")
        parts = [content[start:stop].decode() for start, stop in zip([0, *ends], ends, strict=False)]
        known = {hash_code(string): string for string in parts}
        if len(known) != len(parts):
            raise ValueError(f"content: found {len(parts)} strings, {len(known)} of them different")
        return cls(known)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self._known),)
