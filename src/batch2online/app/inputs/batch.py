"""Batches of rows, which every reader yields, and the error that every reader raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batch2online.frames.arrow import column_type
from batch2online.frames.columns import ColumnType


class Remedy(StrEnum):
    """Options of the command line that accept an input, each with its effect."""

    NO_HEADER = "--no-header reads the first line as data"
    SKIP_LINES = "--skip-lines N skips the first N lines"
    DROP_LINES = "--bad-lines drop drops such lines"
    DROP_ROWS = "--missing drop drops such rows"
    IMPUTE = "--missing mean imputes the mean"
    MORE_ROWS = "--lookahead N infers types and categories from more rows"
    EXCLUDE = "--exclude {column} ignores the column"
    ENCODE_STRINGS = "--categories encode accepts strings"
    ENCODE_DATES = "--dates number encodes them as days"
    ENCODE_OTHER = "--unknown other encodes such values as one category"
    MORE_CATEGORIES = "--max-levels {value} gives each its own column"
    NA_VALUE = "--na-values {value} reads it as missing"
    ENCODING = "--encoding cp1252 reads files of older Windows programs, latin-1 any bytes"
    FORMAT = "--format sets the format"
    DATE_FORMAT = "--date-format sets the format of dates"
    SEPARATOR = "--sep sets the separator"
    OTHER_TARGET = "--target selects another column"
    QUERY = "--query {query} selects rows"


class DataError(ValueError):
    """Invalid input; the message names the place.

    Attributes
    ----------
    remedies : tuple of Remedy
        Options that accept the input.
    about : (str, str)
        The column and the value that remedies refer to.
    """

    def __init__(self, message: str, *remedies: Remedy, about: tuple[str, str] = ("", "")) -> None:
        super().__init__(message)
        self.remedies, self.about = remedies, about


DATES = (ColumnType.TIME, ColumnType.ZONED)
"""Times without and with a time zone. The two never mix."""

_DAY = r"^\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?"
_ISO = (rf"{_DAY}$", rf"{_DAY}(Z|[+-]\d\d(:?\d\d)?)$")

SINGULAR = {
    ColumnType.NUMBER: "a number",
    ColumnType.TIME: "a date",
    ColumnType.ZONED: "a date with a time zone",
    ColumnType.DURATION: "a time of day or a duration",
}

UNITS = {ColumnType.TIME: "days since 1970", ColumnType.ZONED: "days since 1970, UTC", ColumnType.DURATION: "hours"}
"""Units of dates and times as numbers."""


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a table.

    Attributes
    ----------
    table : pyarrow.Table
        The selected columns: numbers, dates and times as float64, strings as string; others are unchanged.
    place : callable
        Returns the place of a row in its file, such as "table.csv, line 17".
    """

    table: Any
    place: Callable[[int], str]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, rows: slice) -> Batch:
        start, stop, _ = rows.indices(len(self))
        return Batch(self.table.slice(start, stop - start), lambda row: self.place(start + row))


def row_place(name: str, start: int, row: int) -> str:
    """Return the place of a row in a table without lines; rows count from 1."""
    return f"{name}, row {start + row + 1:,}"


def kind_of(dtype: Any) -> ColumnType:
    """Return the type of an Arrow column as a feature.

    A date is a time, a time of day a duration, a boolean a number. A column of missing values may still get numbers.
    """
    if pa.types.is_decimal(dtype):
        return ColumnType.NUMBER
    if pa.types.is_time(dtype):
        return ColumnType.DURATION
    found = column_type(dtype)
    numbers = (ColumnType.BOOLEAN, ColumnType.ALL_MISSING)
    return ColumnType.NUMBER if found in numbers else ColumnType.TIME if found is ColumnType.DATE else found


def mismatch(column: str, wanted: ColumnType, found: ColumnType) -> str:
    """Return the error message of a column of an unexpected type."""
    advice = {ColumnType.TIME: ": remove the time zone", ColumnType.ZONED: ": add a time zone"}
    added = advice[wanted] if wanted in DATES and found in DATES else ""
    return f"column {column!r} must contain {wanted.plural}, it contains {found.plural}{added}."


def check_zones(strings: Any, column: str, place: Callable[[int], str]) -> None:
    """Raise an error if all values are dates, some with a time zone and others without."""
    naive, zoned = (np.asarray(pc.match_substring_regex(strings, pattern).fill_null(False)) for pattern in _ISO)
    if naive.any() and zoned.any() and (naive | zoned | np.asarray(strings.is_null())).all():
        row = int(max(naive.argmax(), zoned.argmax()))
        message = f"{strings[row].as_py()!r} differs from earlier dates: either all or none must have a time zone."
        raise DataError(f"{place(row)}, column {column!r}: {message}", Remedy.EXCLUDE, about=(column, ""))


def with_plain_types(table: Any, untouched: Sequence[str] = ()) -> Any:
    """Convert columns to float64 and string; ``untouched`` ones and those of other types are unchanged."""
    if set(table.schema.types) <= {pa.float64(), pa.string()}:
        return table
    left = set(untouched)
    named = zip(table.column_names, table.columns, strict=True)
    return pa.table([column if name in left else plain(column) for name, column in named], names=table.column_names)


def plain(column: Any) -> Any:
    """Return a column as float64 or string, if a model can use its type."""
    kind = kind_of(column.type)
    if kind in DATES:
        microseconds = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
        return pc.divide(microseconds.cast(pa.float64(), safe=False), 86_400e6)
    if kind is ColumnType.DURATION:
        microsecond = pa.duration("us") if pa.types.is_duration(column.type) else pa.time64("us")
        ticks = column.cast(microsecond, safe=False).cast(pa.int64())
        return pc.divide(ticks.cast(pa.float64(), safe=False), 3_600e6)
    wanted = {ColumnType.NUMBER: pa.float64(), ColumnType.STRING: pa.string()}.get(kind, column.type)
    if column.type == wanted:
        return column
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    return column.cast(wanted, safe=False)


def distinct(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return unique names, and those that were changed.

    >>> distinct(["a", "b", "a", "a"])
    (['a', 'b', 'a (2)', 'a (3)'], ['a (2)', 'a (3)'])
    """
    found: dict[str, None] = {}
    known = set(names)
    for name in names:
        free, count = name, 1
        while free in found or (count > 1 and free in known):
            count += 1
            free = f"{name} ({count})"
        found[free] = None
    return list(found), [new for new, old in zip(found, names, strict=True) if new != old]
