"""The strings behind the numbers of a table."""

from __future__ import annotations

import hashlib
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from typing import Any, Self

import numpy as np

from batch2online._types import ByteArray, FloatArray, IntArray
from batch2online.frames.columns import MISSING, ColumnValueError
from batch2online.schema import require, storable, stores

LONGEST = 2**24
"""Characters of a text, at most."""

_FEW, _SHORT = 4_096, 2**24
"""Texts, and characters of them, that are kept before any is dropped."""


def hash_code(text: str) -> float:
    """Return the number that stands for a text: 52 bits of a hash, so that it is exact.

    >>> hash_code("Ideal")
    1942821534648736.0
    """
    return float(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 12)


def hash_codes(values: list[str], places: Any) -> dict[str, float]:
    """Return the codes of texts; ``places`` says in which row each stands."""
    codes: dict[str, float] = {}
    for text, row in zip(values, places, strict=True):
        if text in codes:
            continue
        if len(text) > LONGEST:
            raise ColumnValueError(row, f"holds a text of {len(text):,} characters: at most {LONGEST:,} are possible.")
        try:
            codes[text] = hash_code(text)
        except UnicodeEncodeError as error:
            raise ColumnValueError(row, f"holds a text that is no Unicode: {text[:20]!r}.") from error
    return codes


@storable
@stores(content=ByteArray, ends=IntArray)
class StringTable:
    """Texts by their codes.

    New ones are added in place: what knows more than its rows need is no different for it. Those that no row needs any
    more are left out of a copy, by :meth:`within`, once they may be as many as the others.
    """

    def __init__(self, known: dict[float, str] | None = None) -> None:
        self._known: MutableMapping[float, str] = {} if known is None else known
        self._size = sum(map(len, self._known.values()))
        self._limits = (2 * len(self._known) + _FEW, 2 * self._size + _SHORT)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, more: Mapping[float, str]) -> None:
        """Add texts; one with the code of another is refused."""
        for key, text in more.items():
            if self._known.get(key, text) != text:
                raise ValueError(f"The texts {self._known[key][:40]!r} and {text[:40]!r} cannot be told apart.")
        for key in [key for key in more if key not in self._known]:
            self._known[key] = more[key]
            self._size += len(more[key])

    def beside(self, more: dict[float, str]) -> StringTable:
        """Return these texts and others, to look at rows that are not learned."""
        twin = StringTable()
        twin._known = ChainMap(more, self._known)
        return twin

    def copy(self) -> StringTable:
        """Return other texts, the same until something is added to one of them."""
        return StringTable(dict(self._known))

    @property
    def are_many(self) -> bool:
        """Whether so many were added that it is time to drop some."""
        return len(self._known) > self._limits[0] or self._size > self._limits[1]

    def within(self, codes: FloatArray) -> StringTable:
        """Return the texts with these codes alone, in their order."""
        known = self._known
        return StringTable({key: known[key] for key in np.unique(codes).tolist() if key in known})

    def holds(self, codes: FloatArray) -> bool:
        """Whether all these codes but gaps are known."""
        return all(key in self._known or key == MISSING for key in np.unique(codes).tolist())

    def of(self, codes: FloatArray, missing: Any) -> Any:
        """Return the texts of codes as an array of objects, with ``missing`` for gaps."""
        different, inverse = np.unique(codes, return_inverse=True)
        values = np.empty(len(different), dtype=object)
        values[:] = [missing if key == MISSING else self._known[key] for key in different.tolist()]
        return values[inverse.reshape(-1)]

    def named(self, codes: FloatArray) -> list[str]:
        """Return the texts of codes as a list for a file beside rows, in the order of the codes."""
        known = self._known
        return [known[key] for key in np.unique(codes).tolist() if key in known]

    # -- storing ----------------------------------------------------------------------------------

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds: all texts in a row, and where each one ends."""
        parts = [self._known[key].encode() for key in sorted(self._known)]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64) if parts else np.empty(0, dtype=np.int64)
        return {"content": np.frombuffer(b"".join(parts), dtype=np.uint8), "ends": ends}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Return the texts that :meth:`stored_fields` describes."""
        content, ends = bytes(fields["content"]), fields["ends"].tolist()
        require(sorted(ends) == ends and (ends[-1] if ends else 0) == len(content), "texts follow each other.")
        parts = [content[start:stop].decode() for start, stop in zip([0, *ends], ends, strict=False)]
        known = {hash_code(text): text for text in parts}
        require(len(known) == len(parts), "texts differ from each other.")
        return cls(known)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self._known),)
