"""One JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from io import BufferedReader
from itertools import chain

import orjson
import pyarrow as pa

from batch2online.app.inputs.batch import ARROW_TYPES, Batch, DataError, Remedy, encoding_error
from batch2online.app.inputs.blocks import Block, RecordBlocks, first_block
from batch2online.app.inputs.layout import Layout
from batch2online.app.inputs.values import column_of, settled_type

_Row = dict[str, object]


class JsonLines:
    """TableReader of JSON objects, one per line; the first block determines the columns and their types.

    A key that an object lacks is a missing value; a key that the first block lacks is ignored.
    """

    def __init__(self, file: BufferedReader, name: str, layout: Layout) -> None:
        self._name, self._missing = name, frozenset(layout.na_values)
        blocks = RecordBlocks(file, name, layout, separators=None)
        self._blocks, self.is_live = iter(blocks), blocks.is_live
        self._first = first_block(self._blocks, name, layout.min_rows if self.is_live else 1)
        if self._first.content.lstrip().startswith(b"["):
            message = f"{name} is a JSON array, but one object per line is expected: convert it with jq -c '.[]'."
            raise DataError(message, Remedy.FORMAT)
        rows = self._rows(self._first)
        place = partial(self._place, self._first)
        self.notes: list[str] = []
        self.types: dict[str, pa.DataType] = {}
        for column in dict.fromkeys(key for row in rows for key in row):
            kind, values = layout.kinds.get(column), [row.get(column) for row in rows]
            self.types[column] = ARROW_TYPES[kind] if kind in ARROW_TYPES else settled_type(values, column, place)

    def batches(self, columns: Sequence[str], verbatim: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; ``verbatim`` columns are strings, of other values their JSON."""
        for block in chain([self._first], self._blocks):
            rows, place = self._rows(block), partial(self._place, block)
            found = {
                name: column_of([row.get(name) for row in rows], self.types[name], name, place) for name in columns
            }
            found |= {name: _as_strings(row.get(name) for row in rows) for name in verbatim}
            if rows:
                yield Batch(pa.table(found), place)

    def _rows(self, block: Block) -> list[_Row]:
        try:
            rows = [orjson.loads(line) for line in block.content.splitlines() if line and not line.isspace()]
        except orjson.JSONDecodeError:
            rows = [None]
        if set(map(type, rows)) - {dict}:
            raise self._first_error(block)
        if self._missing:
            rows = [{key: self._without_missing(value) for key, value in row.items()} for row in rows]
        return rows

    def _without_missing(self, value: object) -> object:
        return None if type(value) is str and value in self._missing else value

    def _first_error(self, block: Block) -> DataError:
        """Return the error of the first line that is not a JSON object."""
        for line, record in block.records():
            try:
                record.decode()
                row = orjson.loads(record)
            except UnicodeDecodeError as error:
                return encoding_error(self._name, line, record, error)
            except orjson.JSONDecodeError as error:
                return DataError(f"{self._name}, line {line:,} is not valid JSON: {error.msg}.")
            if not isinstance(row, dict):
                break
        return DataError(f"{self._name}, line {line:,} is not a JSON object.")

    def _place(self, block: Block, row: int) -> str:
        return f"{self._name}, line {block.line_of(row):,}"


def _as_strings(values: Iterable[object]) -> pa.Array:
    """Return values of any type as strings, other types as JSON."""
    plain = [None if v is None else v if type(v) is str else orjson.dumps(v).decode() for v in values]
    return pa.array(plain, pa.string())
