"""Values of one column as numbers, exactly: types of columns, Python objects, and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from batch2online._types import BoolArray, FloatArray

MISSING = -(2.0**400)
"""What stands for a cell without a value."""

LARGEST = 2.0**399
"""Numbers of a table are below this."""

_EXACT = 2.0**53

TOO_FINE = "holds a time finer than a microsecond: round the column."

MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Of the units of time that are no finer."""


class ColumnType(StrEnum):
    """What the values of a column are.

    A time with a zone is a point in time, one without is a reading of some clock: the two never mix.
    """

    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    TIME = "time"
    ZONED = "time with a zone"
    DURATION = "duration"
    STRING = "text"
    ALL_MISSING = "gaps"
    OTHER = "other"

    @property
    def plural(self) -> str:
        """The values in words, as files have them: a date is a time there, and a time of day a duration."""
        return {
            ColumnType.NUMBER: "numbers",
            ColumnType.STRING: "strings",
            ColumnType.TIME: "dates",
            ColumnType.ZONED: "dates with a time zone",
            ColumnType.DURATION: "times of day or durations",
            ColumnType.OTHER: "lists or other values",
        }.get(self, f"{self}s")


@dataclass(frozen=True)
class EncodedColumn:
    """A column as numbers: what kind of values they stand for, and the texts that are among them.

    ``form`` is what the table that it came in calls the type; ``levels`` are those of an ordered category.
    """

    kind: str
    form: str
    codes: FloatArray
    texts: dict[float, str] = field(default_factory=dict)
    levels: tuple[str, ...] = ()


class ColumnValueError(ValueError):
    """A cell cannot be taken: in which row it is, and why."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row, self.why = row, why


def of_floats(values: FloatArray) -> FloatArray:
    """Return numbers as cells: NaN is a gap, infinity is refused."""
    missing = np.isnan(values)
    bad = ~(np.abs(values) < LARGEST) & ~missing
    if bad.any():
        row = int(bad.argmax())
        value = values[row]
        why = "infinity." if np.isinf(value) else f"{value:g}: magnitudes below {LARGEST:g} are supported."
        raise ColumnValueError(row, f"contains {why}")
    return np.where(missing, MISSING, values)


def of_integers(values: Any, missing: BoolArray, what: str = "the number {}") -> FloatArray:
    """Return whole numbers as cells, where a double holds them."""
    codes = values.astype(np.float64)
    large = (np.abs(codes) >= _EXACT) & ~missing
    if large.any():
        for row in np.flatnonzero(large).tolist():
            if int(codes[row]) != int(values[row]):
                why = f"holds {what.format(values[row])}, which no double holds: pass the column as text."
                raise ColumnValueError(row, why)
    return np.where(missing, MISSING, codes)


def of_ticks(values: Any, missing: BoolArray, unit: str) -> FloatArray:
    """Return times since 1970, or durations, in microseconds, given as whole numbers of a unit."""
    if unit == "ns":
        finer = (values % 1000 != 0) & ~missing
        if finer.any():
            raise ColumnValueError(int(finer.argmax()), TOO_FINE)
        return of_integers(values // 1000, missing)
    if unit not in MICROSECONDS:
        raise ColumnValueError(0, f"holds times in units of {unit}: use microseconds.")
    factor = MICROSECONDS[unit]
    far = (np.abs(values.astype(np.float64)) > 2.0**62 / factor) & ~missing
    if far.any():
        raise ColumnValueError(int(far.argmax()), "holds a time too far away.")
    return of_integers(np.where(missing, 0, values) * factor, missing, "a time {} microseconds from 1970")
