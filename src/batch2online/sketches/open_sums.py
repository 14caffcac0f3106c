"""Exact sums of rows of weight one whose columns keep their magnitude: nothing is carried from block to block.

Products of digits add up in integers of 64 bits as long as the exponents of the columns stay what they are, which they
do but for a few times; then the sums are closed and others begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.sketches.digits import (
    CHUNK,
    Term,
    digits_of,
    exponents_of,
    products,
    terms_of,
    with_constant,
    without,
)

_ROOM = 1
"""Bits by which columns may become larger before other sums begin."""

_FINER = 3
"""Bits by which they may become smaller."""

_MOST_ROWS = 2**18
"""Rows times digits of which products of 44 bits, and sums over pairs of digits, have less than 63 bits."""

_MOST_ODD = 2048


@dataclass(frozen=True)
class OpenSums:
    """Products of digits of columns with these exponents, and the rows that need more digits than others."""

    exponents: IntArray  # (columns,)
    totals: IntArray  # (digits, columns) by (digits, columns)
    rows: int
    odd: tuple[FloatArray, ...]  # (columns, few) each

    @classmethod
    def added(cls, known: OpenSums | None, parts: tuple[FloatArray, ...]) -> Iterator[OpenSums]:
        """Yield open sums one after the other: the last one is open still, those before it are to be closed."""
        for start in range(0, len(parts[0]), CHUNK):
            columns = with_constant(parts, slice(start, start + CHUNK))
            before, known = known, cls._of(known, columns)
            if before is not None and known.rows == columns.shape[1]:
                yield before
        if known is not None:
            yield known

    @classmethod
    def _of(cls, known: OpenSums | None, columns: FloatArray) -> OpenSums:
        """Return the sums with these columns, or new ones that begin with them."""
        own = exponents_of(columns)
        if known is None or not known._takes(columns, own):
            known = None
            own += _ROOM
        digits, few = digits_of(columns, own if known is None else known.exponents)
        odd = (columns[:, few],) if len(few) else ()
        values = without([digits], few)[0].values
        n_values = values.shape[0] * values.shape[1]
        if known is not None and n_values <= len(known.totals):
            totals = known.totals.copy()
            totals[:n_values, :n_values] += products(values, values)
            return cls(known.exponents, totals, known.rows + columns.shape[1], known.odd + odd)
        return cls(digits.exponents, products(values, values), columns.shape[1], odd)

    def _takes(self, columns: FloatArray, own: IntArray) -> bool:
        """Whether columns with exponents of their own can be cut into digits by those that are known."""
        lower = self.exponents - own
        n_digits = len(self.totals) // len(own) + 1
        is_small = (self.rows + columns.shape[1]) * n_digits <= _MOST_ROWS
        few_odd = sum(part.shape[1] for part in self.odd) <= _MOST_ODD
        other = np.flatnonzero((lower < 0) | (lower > _FINER))
        return is_small and few_odd and not columns[other].any()

    def terms(self) -> Iterator[Term]:
        """Yield the sums as integers with their exponents."""
        yield from terms_of(self.totals, self.exponents, self.exponents)
        if self.odd:
            rest = np.concatenate(self.odd, axis=1)
            for start in range(0, rest.shape[1], CHUNK):
                part = rest[:, start : start + CHUNK]
                digits, _ = digits_of(part, exponents_of(part), most_odd=0.0)
                yield from terms_of(products(digits.values, digits.values), digits.exponents, digits.exponents)
