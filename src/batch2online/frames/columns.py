"""One column of a table: its type, its name in the container, and its values as numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.schema import storable

MISSING = -(2.0**400)
"""The number that stands for a missing value; it is below every number of a table."""

MAX_ABS_VALUE = 2.0**399
"""Numbers of a table are below this."""

_EXACT = 2.0**53

TOO_FINE = "holds a time finer than a microsecond: round the column."
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}

CATEGORICAL = ("category", "Categorical", "Enum")
"""Forms of columns of categories."""

_ZONE_NAME = r"[A-Za-z0-9_+\-/:]{1,64}"
PANDAS_FORMS = re.compile(
    r"u?int(8|16|32|64)|U?Int(8|16|32|64)|float(16|32|64)|Float(32|64)|bool|boolean|object|str|string|category"
    rf"|(datetime|timedelta)64\[(s|ms|us|ns)\]|datetime64\[(s|ms|us|ns), {_ZONE_NAME}\]"
)
_ARROW_FORMS = re.compile(  # and those of polars
    r"u?int(8|16|32|64)|halffloat|float|double|bool|null|(large_)?string(_view)?|date(32|64)\[(day|ms)\]|category"
    rf"|duration\[(s|ms|us|ns)\]|timestamp\[(s|ms|us|ns)(, tz={_ZONE_NAME})?\]|[A-Z][A-Za-z0-9]*"
)
_ZONE = re.compile(r", (?:tz=)?(.+)\]")


class ColumnType(StrEnum):
    """The type of the values of a column.

    A time with a zone is a point in time, one without is a reading of some clock: the two never mix.
    """

    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    TIME = "time"
    ZONED = "time with a zone"
    DURATION = "duration"
    STRING = "string"
    ALL_MISSING = "missing value"
    OTHER = "other"

    @property
    def plural(self) -> str:
        """The values in words, for files: a date is a time there, and a time of day a duration."""
        return {
            ColumnType.TIME: "dates",
            ColumnType.ZONED: "dates with a time zone",
            ColumnType.DURATION: "times of day or durations",
            ColumnType.OTHER: "lists or other values",
        }.get(self, f"{self}s")


class ColumnValueError(ValueError):
    """A value that a column cannot hold, with its row and the reason."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row, self.why = row, why


def unsupported(dtype: Any) -> ColumnValueError:
    """Return the error for a column of a type that is not supported."""
    return ColumnValueError(0, f"is of type {dtype}: neither number, string, category, truth value nor date.")


@dataclass(frozen=True)
class EncodedColumn:
    """A column as numbers: the type of its values, and the strings that are among them by their hash.

    ``form`` is the name of the type in the container; ``categories`` are those of an ordered category.
    """

    kind: str
    form: str
    codes: FloatArray
    strings: dict[float, str] = field(default_factory=dict)
    categories: tuple[str, ...] = ()


@storable
@dataclass(frozen=True)
class FrameColumn:
    """The type of a column, and the name of that type in the container."""

    name: str | int | None
    kind: str
    form: str
    categories: tuple[str, ...] = ()

    def validate(self) -> None:
        if self.kind not in set(ColumnType) - {ColumnType.OTHER}:
            raise ValueError(f"kind: found {self.kind[:40]!r}, expected a type of column")
        if not (PANDAS_FORMS.fullmatch(self.form) or _ARROW_FORMS.fullmatch(self.form)):
            raise ValueError(f"form: found {self.form[:40]!r}, expected a type of pandas, polars or Arrow")
        if self.kind == ColumnType.TIME and _ZONE.search(self.form):
            raise ValueError(f"kind: found a time without a zone in the form {self.form}")
        if len(set(self.categories)) != len(self.categories):
            raise ValueError("categories: found one of them twice")

    @property
    def zone(self) -> str:
        """The zone of a column of times with one; UTC where the container has no name for it."""
        found = _ZONE.search(self.form)
        return found[1] if found else "UTC"

    def joined(self, other: EncodedColumn) -> tuple[FrameColumn, FloatArray]:
        """Return the column with these values added, and their codes in it; ValueError if their types differ."""
        if other.kind in (self.kind, ColumnType.ALL_MISSING):
            return self, other.codes
        if self.kind == ColumnType.ALL_MISSING:
            return FrameColumn(self.name, other.kind, other.form, other.categories), other.codes
        if (self.kind, other.kind) == (ColumnType.NUMBER, ColumnType.BOOLEAN):
            return self, other.codes
        if (self.kind, other.kind) == (ColumnType.TIME, ColumnType.DATE):
            return self, np.where(other.codes == MISSING, MISSING, other.codes * 86_400e6)
        if self.kind == ColumnType.ZONED and other.kind in (ColumnType.TIME, ColumnType.DATE):
            raise ValueError(
                f"holds a {other.kind} without a zone, but times with a zone in the rows before: set its zone, "
                f"as pandas' .dt.tz_localize({self.zone!r}) does."
            )
        if other.kind == ColumnType.ZONED and self.kind == ColumnType.TIME:
            raise ValueError(
                "holds a time with a zone, but times without one in the rows before: convert it to their zone and "
                "drop it, as pandas' .dt.tz_convert('UTC').dt.tz_localize(None) does for UTC."
            )
        raise ValueError(f"holds a {other.kind}, but a {self.kind} in the rows before.")


def of_floats(values: FloatArray) -> FloatArray:
    """Encode numbers: NaN is a missing value, infinity is refused."""
    if (np.abs(values) < MAX_ABS_VALUE).all():
        return values
    missing = np.isnan(values)
    bad = ~(np.abs(values) < MAX_ABS_VALUE) & ~missing
    if bad.any():
        row = int(bad.argmax())
        value = values[row]
        why = "infinity." if np.isinf(value) else f"{value:g}: magnitudes below {MAX_ABS_VALUE:g} are supported."
        raise ColumnValueError(row, f"contains {why}")
    return np.where(missing, MISSING, values)


def of_integers(values: Any, missing: BoolArray, what: str = "the number {}") -> FloatArray:
    """Encode whole numbers; one that a double cannot hold is refused."""
    codes = values.astype(np.float64)
    large = (np.abs(codes) >= _EXACT) & ~missing
    for row in np.flatnonzero(large).tolist():
        if int(codes[row]) != int(values[row]):
            why = f"holds {what.format(values[row])}, which no double holds: pass the column as strings."
            raise ColumnValueError(row, why)
    return np.where(missing, MISSING, codes)


def of_ticks(values: Any, missing: BoolArray, unit: str) -> FloatArray:
    """Encode times since 1970, or durations, as microseconds; they are given as whole numbers of a unit."""
    if unit == "ns":
        finer = (values % 1000 != 0) & ~missing
        if finer.any():
            raise ColumnValueError(int(finer.argmax()), TOO_FINE)
        return of_integers(values // 1000, missing)
    if unit not in _MICROSECONDS:
        raise ColumnValueError(0, f"holds times in units of {unit}: use microseconds.")
    factor = _MICROSECONDS[unit]
    far = (np.abs(values.astype(np.float64)) > 2.0**62 / factor) & ~missing
    if far.any():
        raise ColumnValueError(int(far.argmax()), "holds a time too far away.")
    return of_integers(np.where(missing, 0, values) * factor, missing, "a time {} microseconds from 1970")


def of_categories(
    indices: IntArray, form: str, encode: Callable[[IntArray], EncodedColumn], all_names: Callable[[], Any] | None
) -> EncodedColumn:
    """Encode a column of categories, given by the index of each value; -1 is a missing value.

    ``encode`` is called with the indices in use and encodes these categories; others are not read. ``all_names``
    returns the names of all categories where their order is to be kept, as strings.
    """
    used = np.unique(indices[indices >= 0])
    try:
        inner = encode(used)
    except ColumnValueError as error:
        row = int((indices == used[error.row]).argmax()) if len(used) else 0
        raise ColumnValueError(row, error.why) from error
    codes = np.append(inner.codes, MISSING)[np.where(indices < 0, len(used), np.searchsorted(used, indices))]
    is_listed = inner.kind == ColumnType.STRING or form == "Enum"
    categories = tuple(map(str, all_names())) if all_names is not None and is_listed else ()
    inner = replace(inner, form=form, codes=codes, categories=categories)
    return inner if len(used) else replace(inner, kind=ColumnType.ALL_MISSING)
