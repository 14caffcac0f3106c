"""What every reader yields, and the one error that every reader raises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa


class Remedy(StrEnum):
    """What a caller can ask for so that the input is taken after all."""

    NO_HEADER = "read the first line as a row"
    DROP_ROWS = "drop rows with a gap"
    FILL_GAPS = "fill gaps with the mean"
    LOOK_FURTHER = "look at more rows before deciding"
    LEAVE_OUT = "leave the column out"
    ENCODE_TEXT = "encode text as categories"


class DataError(ValueError):
    """The input cannot be used; the message is a sentence that names the place.

    Attributes
    ----------
    remedies : tuple of Remedy
        What would let the readers go on.
    """

    def __init__(self, message: str, *remedies: Remedy) -> None:
        super().__init__(message)
        self.remedies = remedies


class Kind(StrEnum):
    """What a column holds, as far as a model is concerned."""

    NUMBER = "numbers"
    TEXT = "text"
    OTHER = "dates, lists or other values"


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a table.

    Attributes
    ----------
    table : pyarrow.Table
        The columns asked for: numbers as float64, text as string.
    place : callable
        Where a row of the batch stands in its file, such as "line 17".
    """

    table: Any
    place: Callable[[int], str]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, rows: slice) -> Batch:
        start, stop, _ = rows.indices(len(self))
        return Batch(self.table.slice(start, stop - start), lambda row: self.place(start + row))


def row_place(start: int, row: int) -> str:
    """Where a row stands in a table without lines, counted from 1."""
    return f"row {start + row + 1:,}"


def kind_of(dtype: Any) -> Kind:
    """Return what a column of this Arrow type holds. Of nothing but gaps: numbers, which may still come."""
    types = pa.types
    if types.is_dictionary(dtype):
        return kind_of(dtype.value_type)
    if types.is_boolean(dtype) or types.is_integer(dtype) or types.is_floating(dtype) or types.is_null(dtype):
        return Kind.NUMBER
    if types.is_decimal(dtype):
        return Kind.NUMBER
    if types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype):
        return Kind.TEXT
    return Kind.OTHER


def with_plain_types(table: Any) -> Any:
    """Return the same columns as float64 and string; others stay as they are."""
    if set(table.schema.types) <= {pa.float64(), pa.string()}:
        return table
    return pa.table([_plain(column) for column in table.columns], names=table.column_names)


def _plain(column: Any) -> Any:
    wanted = {Kind.NUMBER: pa.float64(), Kind.TEXT: pa.string()}.get(kind_of(column.type), column.type)
    if column.type == wanted:
        return column
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    return column.cast(wanted, safe=False)


def check_distinct(names: Sequence[str], name: str) -> None:
    """Refuse a table with two columns of one name."""
    if len(set(names)) < len(names):
        repeated = min(column for column, count in Counter(names).items() if count > 1)
        raise DataError(f"{name} has more than one column named {repeated!r}.")
