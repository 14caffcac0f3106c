"""One JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from batch2online.readers.batch import Batch, DataError, Kind
from batch2online.readers.blocks import LineBlock

_Row = dict[str, Any]
_TYPES: dict[Kind, set[type]] = {Kind.NUMBER: {int, float, bool, type(None)}, Kind.TEXT: {str, type(None)}}


class JsonLines:
    """Blocks of lines of JSON objects as batches; columns and what they hold are those of the first block.

    A key that an object lacks is a missing value; a key that the first block never had is passed over. Columns of
    dates, lists and objects are known by name, but their values are not kept.
    """

    def __init__(self, blocks: Iterator[LineBlock], name: str) -> None:
        self._blocks, self._name = blocks, name
        first = next((block for block in blocks if not block.is_blank), None)
        if first is None:
            raise DataError(f"{name} is empty.")
        if first.content.lstrip().startswith(b"["):
            raise DataError(f"{name} is a JSON list: write one object a line (JSON lines).")
        self._first = first
        self._first_rows = self._rows(first)
        self.names = list(dict.fromkeys(key for row in self._first_rows for key in row))
        self.kinds = {column: self._kind(column) for column in self.names}

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Iterate over the rows, with these columns alone."""
        yield self._batch(self._first, self._first_rows, columns)
        self._first_rows = []
        for block in self._blocks:
            if not block.is_blank:
                yield self._batch(block, self._rows(block), columns)

    def _rows(self, block: LineBlock) -> list[_Row]:
        try:
            rows = [orjson.loads(line) for _, line in block.lines()]
        except orjson.JSONDecodeError:
            raise self._first_mistake(block) from None
        if set(map(type, rows)) - {dict}:
            raise self._first_mistake(block)
        return rows

    def _first_mistake(self, block: LineBlock) -> DataError:
        """Return the error of the first line that holds no JSON object."""
        return next(
            DataError(f"{self._name}, line {number:,}{mistake}")
            for number, line in block.lines()
            if (mistake := _mistake(line))
        )

    def _kind(self, column: str) -> Kind:
        values = [row.get(column) for row in self._first_rows]
        types = set(map(type, values)) - {type(None)}
        if len({float if t is int else t for t in types}) > 1:
            first = next(value for value in values if value is not None)
            alike = {int, float} if type(first) in (int, float) else {type(first)}
            raise self._misfit(column, values, alike, self._first, "is of another type than before")
        if types <= _TYPES[Kind.NUMBER]:
            return Kind.NUMBER
        return Kind.OTHER if types != {str} or _are_dates(values) else Kind.TEXT

    def _batch(self, block: LineBlock, rows: list[_Row], columns: Sequence[str]) -> Batch:
        found = self._numbers([column for column in columns if self.kinds[column] is Kind.NUMBER], rows, block)
        found |= {column: self._text(column, rows, block) for column in columns if self.kinds[column] is Kind.TEXT}
        nothing = pa.nulls(len(rows))
        table = pa.table([found.get(column, nothing) for column in columns], names=list(columns))
        return Batch(table, lambda row: f"line {block.line_of(row):,}")

    def _numbers(self, columns: list[str], rows: list[_Row], block: LineBlock) -> dict[str, Any]:
        """All columns of numbers at once: there may be very many."""
        values = [[row.get(column) for column in columns] for row in rows]
        if set().union(*(map(type, some) for some in values)) - _TYPES[Kind.NUMBER]:
            by_column = zip(columns, zip(*values, strict=True), strict=True)
            column, bad = next(pair for pair in by_column if set(map(type, pair[1])) - _TYPES[Kind.NUMBER])
            raise self._misfit(column, bad, _TYPES[Kind.NUMBER], block, "is not a number")
        matrix = np.array(values, dtype=np.float64).T.copy()  # None becomes NaN, and that a gap
        return {column: pa.array(some, from_pandas=True) for column, some in zip(columns, matrix, strict=True)}

    def _text(self, column: str, rows: list[_Row], block: LineBlock) -> Any:
        values = [row.get(column) for row in rows]
        if set(map(type, values)) - _TYPES[Kind.TEXT]:
            raise self._misfit(column, values, _TYPES[Kind.TEXT], block, "is not a text as before")
        return pa.array(values, pa.string())

    def _misfit(self, column: str, values: Iterable[Any], types: set[type], block: LineBlock, what: str) -> DataError:
        """Return the error of the first value that is of none of the types."""
        fitting = types | {type(None)}
        row, value = next((row, value) for row, value in enumerate(values) if type(value) not in fitting)
        place = f"{self._name}, line {block.line_of(row):,}, column {column!r}"
        return DataError(f"{place}: {_short(value)} {what}.")


def _mistake(line: bytes) -> str:
    """Return what keeps a line from being a JSON object; nothing if it is one."""
    try:
        text = line.decode()
        row = orjson.loads(text)
    except UnicodeDecodeError as error:
        return f": byte {line[error.start]:#04x} is not valid UTF-8."
    except orjson.JSONDecodeError as error:
        return f" is not valid JSON: {error.msg}."
    return "" if isinstance(row, dict) else " is not a JSON object."


def _are_dates(values: list[Any]) -> bool:
    try:
        pa.array(values, pa.string()).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return False
    return True


def _short(value: Any, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"
