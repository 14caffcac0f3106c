"""One JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.json as arrow_json

from batch2online.readers.batch import Batch, DataError, Kind, kind_of, with_plain_types
from batch2online.readers.blocks import LineBlock


class JsonLines:
    """Blocks of lines of JSON objects as batches; columns and types are those of the first block.

    A key that an object lacks is a missing value; a key that the first block never had is passed over.
    """

    def __init__(self, blocks: Iterator[LineBlock], name: str) -> None:
        self._blocks, self._name = blocks, name
        self.kinds: dict[str, Kind] = {}
        self._first = next((block for block in blocks if not block.is_blank), None)
        if self._first is None:
            raise DataError(f"{name} is empty.")
        if self._first.content.lstrip().startswith(b"["):
            raise DataError(f"{name} is a JSON list: write one object a line (JSON lines).")
        schema = self._parsed(self._first, None).schema
        self.names = list(schema.names)
        self._types = {field.name: _settled(field.type) for field in schema}
        self.kinds = {column: kind_of(dtype) for column, dtype in self._types.items()}

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """The rows, with these columns alone."""
        block = self._first
        while block is not None:
            if not block.is_blank:
                yield self._batch(block, columns)
            block = next(self._blocks, None)

    def _batch(self, block: LineBlock, columns: Sequence[str]) -> Batch:
        schema = pa.schema([(column, self._types[column]) for column in columns])
        table = with_plain_types(self._parsed(block, schema).select(list(columns)))
        return Batch(table, lambda row: f"line {block.line_of(row):,}")

    def _parsed(self, block: LineBlock, schema: Any) -> Any:
        parse = None
        if schema is not None:
            parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        try:
            table = arrow_json.read_json(
                pa.BufferReader(block.content),
                read_options=arrow_json.ReadOptions(block_size=len(block.content) + 1),
                parse_options=parse,
            )
        except pa.ArrowInvalid as error:
            self._explain(block)
            raise DataError(f"{self._name}, from line {block.first_line:,} on: {error}.") from error
        if table.num_rows != sum(1 for _ in block.lines()):
            self._explain(block)
            raise DataError(f"{self._name}, from line {block.first_line:,} on: not one JSON object a line.")
        return table

    def _explain(self, block: LineBlock) -> None:
        """Raise the error of the first line that is wrong."""
        seen: dict[str, type] = {}
        for number, line in block.lines():
            place = f"{self._name}, line {number:,}"
            row = _loaded(line, place)
            for column, value in row.items():
                self._check(value, column, place, seen)

    def _check(self, value: Any, column: str, place: str, seen: dict[str, type]) -> None:
        if value is None:
            return
        if self.kinds.get(column) is Kind.NUMBER and not isinstance(value, int | float):
            raise DataError(f"{place}, column {column!r}: {value!r} is not a number.")
        if self.kinds.get(column) is Kind.TEXT and not isinstance(value, str):
            raise DataError(f"{place}, column {column!r}: {value!r} is not a text as before.")
        kind = float if type(value) in (int, float) else type(value)
        if not self.kinds and seen.setdefault(column, kind) is not kind:
            raise DataError(f"{place}, column {column!r}: {value!r} is of another type than before.")


def _loaded(line: bytes, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except UnicodeDecodeError as error:
        raise DataError(f"{place}: byte {line[error.start]:#04x} is not valid UTF-8.") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{place} is not valid JSON: {error.msg} at position {error.colno}.") from error
    if not isinstance(row, dict):
        raise DataError(f"{place} is not a JSON object.")
    return row


def _settled(dtype: Any) -> Any:
    """Whole numbers and empty columns so far may still see fractions."""
    return pa.float64() if pa.types.is_integer(dtype) or pa.types.is_null(dtype) else dtype
