"""One JSON object a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from batch2online.app.inputs.batch import DATES, SINGULAR, Batch, DataError, Remedy, check_zones, plain
from batch2online.app.inputs.byte_stream import LineBlock
from batch2online.app.inputs.delimited import first_block
from batch2online.app.inputs.layout import Layout
from batch2online.frames.columns import ColumnType

_Row = dict[str, Any]
_TYPES: dict[ColumnType, set[type]] = {
    ColumnType.NUMBER: {int, float, bool, type(None)},
    ColumnType.STRING: {str, type(None)},
}


class JsonLines:
    """Reader of JSON objects, one per line; the first block determines the columns and their types.

    A key that an object lacks is a missing value; a key that the first block lacks is ignored. Columns of lists and
    objects have a name, but their values are not stored.
    """

    def __init__(self, blocks: Iterator[LineBlock], name: str, layout: Layout) -> None:
        self._blocks, self._name = blocks, name
        self._missing = frozenset(layout.na_values)
        self.notes: list[str] = []
        first = first_block(blocks, name, layout.min_rows)
        if first.content.lstrip().startswith(b"["):
            raise DataError(
                f"{name} is a JSON array, but one object per line is expected: convert it with jq -c '.[]'.",
                Remedy.FORMAT,
            )
        self._first = first
        self._first_rows = self._rows(first)
        self.names = list(dict.fromkeys(key for row in self._first_rows for key in row))
        self.kinds = {column: layout.kinds.get(column) or self._kind(column) for column in self.names}

    def batches(self, columns: Sequence[str], untouched: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; ``untouched`` columns are not converted."""
        yield self._batch(self._first, self._first_rows, columns, untouched)
        self._first_rows = []
        for block in self._blocks:
            if not block.is_blank:
                yield self._batch(block, self._rows(block), columns, untouched)

    def _rows(self, block: LineBlock) -> list[_Row]:
        try:
            rows = [orjson.loads(line) for _, line in block.lines()]
        except orjson.JSONDecodeError:
            raise self._first_error(block) from None
        if set(map(type, rows)) - {dict}:
            raise self._first_error(block)
        if self._missing:
            rows = [
                {key: None if type(value) is str and value in self._missing else value for key, value in row.items()}
                for row in rows
            ]
        return rows

    def _first_error(self, block: LineBlock) -> DataError:
        """Return the error of the first line that is not a JSON object."""
        return next(
            DataError(f"{self._name}, line {number:,}{error}")
            for number, line in block.lines()
            if (error := _line_error(line))
        )

    def _kind(self, column: str) -> ColumnType:
        """Return the type of the first value; a value of another type is an error when the column is read."""
        values = [value for row in self._first_rows if (value := row.get(column)) is not None]
        if not values or type(values[0]) in _TYPES[ColumnType.NUMBER]:
            return ColumnType.NUMBER
        if type(values[0]) is not str:
            return ColumnType.OTHER
        found = next((kind for kind in DATES if _dates(values, kind) is not None), ColumnType.STRING)
        if found is ColumnType.STRING and set(map(type, values)) == {str}:
            rows = [row for row, own in enumerate(self._first_rows) if own.get(column) is not None]
            check_zones(pa.array(values, pa.string()), column, lambda row: self._place(self._first)(rows[row]))
        return found

    def _place(self, block: LineBlock) -> Callable[[int], str]:
        return lambda row: f"{self._name}, line {block.line_of(row):,}"

    def _batch(self, block: LineBlock, rows: list[_Row], columns: Sequence[str], untouched: Sequence[str]) -> Batch:
        found = self._numbers([column for column in columns if self.kinds[column] is ColumnType.NUMBER], rows, block)
        found |= {
            column: self._strings(column, rows, block) for column in columns if self.kinds[column] is ColumnType.STRING
        }
        found |= {column: self._days(column, rows, block) for column in columns if self.kinds[column] in DATES}
        found |= {column: _as_strings(row.get(column) for row in rows) for column in untouched}
        nothing = pa.nulls(len(rows))
        names = [*columns, *untouched]
        table = pa.table([found.get(column, nothing) for column in names], names=names)
        return Batch(table, self._place(block))

    def _days(self, column: str, rows: list[_Row], block: LineBlock) -> Any:
        values = self._strings(column, rows, block)
        kind = self.kinds[column]
        dates = _dates(values, kind)
        if dates is None:
            bad = next(row for row, value in enumerate(values) if _dates([value.as_py()], kind) is None)
            raise self._error(column, bad, values[bad].as_py(), block, f"is not {SINGULAR[kind]}")
        return plain(dates)

    def _numbers(self, columns: list[str], rows: list[_Row], block: LineBlock) -> dict[str, Any]:
        """Convert all numeric columns at once: there may be thousands."""
        values = [[row.get(column) for column in columns] for row in rows]
        if set().union(*(map(type, some) for some in values)) - _TYPES[ColumnType.NUMBER]:
            by_column = zip(columns, zip(*values, strict=True), strict=True)
            column, bad = next(pair for pair in by_column if set(map(type, pair[1])) - _TYPES[ColumnType.NUMBER])
            raise self._misfit(column, bad, _TYPES[ColumnType.NUMBER], block, "is not a number")
        matrix = np.array(values, dtype=np.float64).T.copy()  # None becomes NaN, and NaN a null
        return {column: pa.array(some, from_pandas=True) for column, some in zip(columns, matrix, strict=True)}

    def _strings(self, column: str, rows: list[_Row], block: LineBlock) -> Any:
        values = [row.get(column) for row in rows]
        if set(map(type, values)) - _TYPES[ColumnType.STRING]:
            raise self._misfit(column, values, _TYPES[ColumnType.STRING], block, "is not a string")
        return pa.array(values, pa.string())

    def _misfit(self, column: str, values: Iterable[Any], types: set[type], block: LineBlock, what: str) -> DataError:
        """Return the error of the first value that has none of the types."""
        fitting = types | {type(None)}
        row, value = next((row, value) for row, value in enumerate(values) if type(value) not in fitting)
        return self._error(column, row, value, block, what)

    def _error(self, column: str, row: int, value: Any, block: LineBlock, what: str) -> DataError:
        place = f"{self._place(block)(row)}, column {column!r}"
        remedies = ([Remedy.NA_VALUE] if type(value) is str else []) + [Remedy.EXCLUDE]
        return DataError(f"{place}: {_short(value)} {what}.", *remedies, about=(column, str(value)))


def _line_error(line: bytes) -> str:
    """Return why a line is not a JSON object; an empty string if it is one."""
    try:
        text = line.decode()
        row = orjson.loads(text)
    except UnicodeDecodeError as error:
        return f": byte {line[error.start]:#04x} is not valid UTF-8."
    except orjson.JSONDecodeError as error:
        return f" is not valid JSON: {error.msg}."
    return "" if isinstance(row, dict) else " is not a JSON object."


def _dates(values: Any, kind: ColumnType) -> Any:
    """Return strings as dates with or without a time zone; None if they are not dates."""
    try:
        strings = pa.array(values, pa.string())
    except pa.ArrowTypeError:  # a number among them
        return None
    with suppress(pa.ArrowInvalid):
        return strings.cast(pa.timestamp("us", "UTC" if kind is ColumnType.ZONED else None))
    return None


def _as_strings(values: Iterable[Any]) -> Any:
    """Return values of any type as strings, other types as JSON."""
    plain_values = [None if v is None else v if type(v) is str else orjson.dumps(v).decode() for v in values]
    return pa.array(plain_values, pa.string())


def _short(value: Any, most: int = 60) -> str:
    shown = repr(value)
    return shown if len(shown) <= most else f"{shown[:most]}…"
