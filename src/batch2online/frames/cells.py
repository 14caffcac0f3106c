"""One cell as one number, exactly: what stands for a gap, a text, a whole number, a date."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from batch2online._types import BoolArray, FloatArray

GAP = -(2.0**400)
"""What stands for a cell without a value."""

LARGEST = 2.0**399
"""Numbers of a table are below this."""

LONGEST = 2**24
"""Characters of a text, at most."""

_EXACT = 2.0**53

NUMBER, BOOLEAN, DATE, TIME, DURATION, TEXT, GAPS = "number", "boolean", "date", "time", "duration", "text", "gaps"
ZONED = "time with a zone"
KINDS = (NUMBER, BOOLEAN, DATE, TIME, ZONED, DURATION, TEXT, GAPS)
"""What a column can hold; the last is that of a column in which no value has come yet.

A time with a zone is a point in time, one without is what a clock on some wall showed: they never mix.
"""

TOO_FINE = "holds a time finer than a microsecond: round the column."

MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Of the units of time that are no finer."""


@dataclass(frozen=True)
class Cells:
    """A column as numbers: what kind of values they stand for, and the texts that are among them.

    ``form`` is what the table that it came in calls the type; ``levels`` are those of an ordered category.
    """

    kind: str
    form: str
    codes: FloatArray
    texts: dict[float, str] = field(default_factory=dict)
    levels: tuple[str, ...] = ()


class BadCellError(ValueError):
    """A cell cannot be taken: in which row it is, and why."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row, self.why = row, why


def code(text: str) -> float:
    """Return the number that stands for a text: 52 bits of a hash, so that it is exact.

    >>> code("Ideal")
    1942821534648736.0
    """
    return float(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 12)


def of_texts(values: list[str], places: Any) -> dict[str, float]:
    """Return the codes of texts; ``places`` says in which row each stands."""
    codes: dict[str, float] = {}
    for text, row in zip(values, places, strict=True):
        if text in codes:
            continue
        if len(text) > LONGEST:
            raise BadCellError(row, f"holds a text of {len(text):,} characters: at most {LONGEST:,} are possible.")
        try:
            codes[text] = code(text)
        except UnicodeEncodeError as error:
            raise BadCellError(row, f"holds a text that is no Unicode: {text[:20]!r}.") from error
    return codes


def of_floats(values: FloatArray) -> FloatArray:
    """Return numbers as cells: NaN is a gap, infinity is refused."""
    missing = np.isnan(values)
    bad = ~(np.abs(values) < LARGEST) & ~missing
    if bad.any():
        row = int(bad.argmax())
        value = values[row]
        why = "infinity." if np.isinf(value) else f"{value:g}: magnitudes below {LARGEST:g} are supported."
        raise BadCellError(row, f"contains {why}")
    return np.where(missing, GAP, values)


def of_integers(values: Any, missing: BoolArray, what: str = "the number {}") -> FloatArray:
    """Return whole numbers as cells, where a double holds them."""
    codes = values.astype(np.float64)
    large = (np.abs(codes) >= _EXACT) & ~missing
    if large.any():
        for row in np.flatnonzero(large).tolist():
            if int(codes[row]) != int(values[row]):
                why = f"holds {what.format(values[row])}, which no double holds: pass the column as text."
                raise BadCellError(row, why)
    return np.where(missing, GAP, codes)


def of_ticks(values: Any, missing: BoolArray, unit: str) -> FloatArray:
    """Return times since 1970, or durations, in microseconds, given as whole numbers of a unit."""
    if unit == "ns":
        finer = (values % 1000 != 0) & ~missing
        if finer.any():
            raise BadCellError(int(finer.argmax()), TOO_FINE)
        return of_integers(values // 1000, missing)
    if unit not in MICROSECONDS:
        raise BadCellError(0, f"holds times in units of {unit}: use microseconds.")
    factor = MICROSECONDS[unit]
    far = (np.abs(values.astype(np.float64)) > 2.0**62 / factor) & ~missing
    if far.any():
        raise BadCellError(int(far.argmax()), "holds a time too far away.")
    return of_integers(np.where(missing, 0, values) * factor, missing, "a time {} microseconds from 1970")
