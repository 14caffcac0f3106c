"""What every reader yields, and the one error that every reader raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from batch2online.frames.arrow import column_type
from batch2online.frames.columns import ColumnType


class Remedy(StrEnum):
    """What a caller can ask for so that the input is taken after all."""

    NO_HEADER = "read the first line as a row"
    SKIP_LINES = "pass over the first lines"
    DROP_LINES = "leave out lines that cannot be read"
    DROP_ROWS = "drop rows with a gap"
    FILL_GAPS = "fill gaps with the mean"
    LOOK_FURTHER = "look at more rows before deciding"
    LEAVE_OUT = "leave the column out"
    ENCODE_TEXT = "encode text as categories"
    ENCODE_DATES = "read dates as numbers"
    OTHER_LEVEL = "count further levels as one"
    MORE_LEVELS = "give more levels a column of their own"
    MISSING_WORD = "read a text as a missing value"
    ENCODING = "read another encoding"
    FORMAT = "name the format"
    DATE_FORMAT = "say how dates are written"
    SEPARATOR = "say what stands between values"
    OTHER_TARGET = "name another target"
    QUERY = "ask a database"


class DataError(ValueError):
    """The input cannot be used; the message is a sentence that names the place.

    Attributes
    ----------
    remedies : tuple of Remedy
        What would let the readers go on.
    about : (str, str)
        The column and the text that a remedy may have to name.
    """

    def __init__(self, message: str, *remedies: Remedy, about: tuple[str, str] = ("", "")) -> None:
        super().__init__(message)
        self.remedies, self.about = remedies, about


DATES = (ColumnType.TIME, ColumnType.ZONED)
"""Points in time: readings of some clock, and such with a zone. The two never mix."""

UNITS = {ColumnType.TIME: "days since 1970", ColumnType.ZONED: "days since 1970, UTC", ColumnType.DURATION: "hours"}
"""What readers make of dates and times."""


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a table.

    Attributes
    ----------
    table : pyarrow.Table
        The columns asked for: numbers, dates and times as float64, text as string; others as they are.
    place : callable
        Where a row of the batch stands in its file, such as "table.csv, line 17".
    """

    table: Any
    place: Callable[[int], str]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, rows: slice) -> Batch:
        start, stop, _ = rows.indices(len(self))
        return Batch(self.table.slice(start, stop - start), lambda row: self.place(start + row))


def row_place(name: str, start: int, row: int) -> str:
    """Where a row stands in a table without lines, counted from 1."""
    return f"{name}, row {start + row + 1:,}"


def kind_of(dtype: Any) -> ColumnType:
    """Return what a column of this Arrow type holds for a model: number, string, time, duration or something else.

    A date is a time, a time of day a duration. Of nothing but missing values: numbers, which may still come.
    """
    if pa.types.is_decimal(dtype):
        return ColumnType.NUMBER
    if pa.types.is_time(dtype):
        return ColumnType.DURATION
    found = column_type(dtype)
    numbers = (ColumnType.BOOLEAN, ColumnType.ALL_MISSING)
    return ColumnType.NUMBER if found in numbers else ColumnType.TIME if found is ColumnType.DATE else found


def mismatch(column: str, wanted: ColumnType, found: ColumnType) -> str:
    """Return what to say of a column that holds something else than it must."""
    ways = {ColumnType.TIME: "take the zone off these", ColumnType.ZONED: "add the zone to these"}
    way = f": {ways[wanted]}" if wanted in DATES and found in DATES else ""
    return f"column {column!r} must hold {wanted.plural}, it holds {found.plural}{way}."


def both_sorts(place: str, column: str, text: str) -> DataError:
    """Return the error of a date with a zone among dates without one, or the reverse."""
    message = f"{place}: {text!r} and the dates before it are not alike: all must have a zone, or none."
    return DataError(message, Remedy.LEAVE_OUT, about=(column, ""))


def with_plain_types(table: Any, untouched: Sequence[str] = ()) -> Any:
    """Return the same columns as float64 and string; lists and others, and those to be left untouched, stay."""
    if set(table.schema.types) <= {pa.float64(), pa.string()}:
        return table
    left = set(untouched)
    columns = [column if name in left else plain(column) for name, column in _named(table)]
    return pa.table(columns, names=table.column_names)


def _named(table: Any) -> Any:
    return zip(table.column_names, table.columns, strict=True)


def plain(column: Any) -> Any:
    """Return a column as float64 or string, if it is of any of the kinds that a model can use."""
    kind = kind_of(column.type)
    if kind in DATES:
        return _days(column)
    if kind is ColumnType.DURATION:
        return _hours(column)
    wanted = {ColumnType.NUMBER: pa.float64(), ColumnType.STRING: pa.string()}.get(kind, column.type)
    if column.type == wanted:
        return column
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    return column.cast(wanted, safe=False)


def _days(column: Any) -> Any:
    microseconds = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
    return _divided(microseconds, 86_400e6)


def _hours(column: Any) -> Any:
    is_duration = pa.types.is_duration(column.type)
    wanted = pa.duration("us") if is_duration else pa.time64("us")
    return _divided(column.cast(wanted, safe=False).cast(pa.int64()), 3_600e6)


def _divided(column: Any, by: float) -> Any:
    import pyarrow.compute as pc

    return pc.divide(column.cast(pa.float64(), safe=False), by)


def distinct(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return names in which none comes twice, and those that had to be changed.

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
