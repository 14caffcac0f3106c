"""Rows of a request as an Arrow table: JSON, JSON lines, CSV or Arrow IPC, of limited size when they are decoded."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc

from batch2online.app.serve.problems import RequestError
from batch2online.tables.columns import ColumnType, type_of_arrow

Value = str | int | float | bool | None
Row = dict[str, Value]
_SOME = msgspec.Meta(min_length=1)
ROWS_SCHEMA = Annotated[list[Annotated[Row, _SOME]], _SOME]

MAX_VALUES = 64 * 2**20
MAX_COLUMNS = 10_000
_LONG_ROW = 10_000
"""Bytes above which a body is hardly one row."""

_LONG_BODY = 100_000
"""Bytes above which a body is decoded in a thread, so that other requests do not wait for it."""

_LARGEST_EXACT = 2**53

_decode_numbers = msgspec.json.Decoder(list[dict[str, float]]).decode
_decode_rows = msgspec.json.Decoder(list[Row]).decode
_row_decoder = msgspec.json.Decoder(Row)


class TableBody:
    """The body of a request that is a table of at most so many values, decoded when it is asked for."""

    def __init__(self, body: bytes, content_type: str, max_values: int) -> None:
        self._body, self._content_type, self._max_values = body, content_type, max_values

    def one_row(self) -> dict[str, float] | None:
        """Return the row of a body that has one row of numbers, in JSON; None for others."""
        if len(self._body) > _LONG_ROW or _kind_of(self._content_type) != "application/json":
            return None
        try:
            rows = _decode_numbers(self._body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return rows[0] if len(rows) == 1 else None

    async def table(self) -> pa.Table:
        """Return the table."""
        given = self._body, self._content_type, self._max_values
        return table_of(*given) if len(self._body) <= _LONG_BODY else await asyncio.to_thread(table_of, *given)


def table_of(body: bytes, content_type: str, max_values: int = MAX_VALUES) -> pa.Table:
    """Return the rows of a request.

    >>> table_of(b'[{"a": 1, "b": "x"}, {"b": null, "a": 2.5}]', "application/json").to_pydict()
    {'a': [1.0, 2.5], 'b': ['x', None]}
    """
    kind = _kind_of(content_type)
    if kind not in _READERS:
        raise RequestError(415, f"Content-Type {kind or 'is missing'}: send {', '.join(_READERS)}.")
    try:
        table = _READERS[kind](body, max_values)
        n_names = len(set(table.column_names))  # fails where names in CSV are not UTF-8
    except (msgspec.MsgspecError, pa.ArrowException, ValueError, OSError, ArithmeticError, RecursionError) as error:
        raise RequestError(422, f"The body is not a table in {kind}: {error}") from error
    if not table.num_rows:
        raise RequestError(422, "The body has no rows.")
    if n_names < table.num_columns:
        raise RequestError(422, "Two columns have the same name.")
    return table


def _kind_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _check_size(rows: int, columns: int, max_values: int) -> None:
    if columns > MAX_COLUMNS:
        raise RequestError(422, f"The body has {columns:,} columns: send at most {MAX_COLUMNS:,}.")
    if rows * max(1, columns) > max_values:
        raise RequestError(422, f"The body has more than {max_values:,} values: send fewer rows at once.")


# -- JSON -----------------------------------------------------------------------------------------------------


def _from_json(decode: Callable[[bytes], list[Row]]) -> Callable[[bytes, int], pa.Table]:
    def table(body: bytes, max_values: int) -> pa.Table:
        _check_size(10 * body.count(b"{"), 1, max_values)  # a dictionary takes as much memory as ten values
        return _from_rows(decode(body), max_values)

    return table


def table_of_rows(contents: Sequence[bytes]) -> pa.Table:
    """Return rows that came one by one, each a JSON object."""
    return _from_rows([_row_decoder.decode(content) for content in contents])


def _from_rows(rows: Sequence[Mapping[str, Any]], max_values: int = MAX_VALUES) -> pa.Table:
    """Return rows as columns; a name that is missing in a row is a missing value there."""
    names = sorted(set[str]().union(*rows))
    _check_size(len(rows), len(names), max_values)
    return pa.table({name: _column(name, [row.get(name) for row in rows]) for name in names})


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    kinds = set(map(type, values)) - {NoneType}
    if kinds <= {int, float}:
        return _numbers(values)
    if len(kinds) > 1:
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise RequestError(422, f"Column {name!r} has values of several types ({found}): send numbers or strings.")
    return pa.array(values)


def _numbers(values: Sequence[Any]) -> pa.Array:
    """Return numbers as doubles; integers that doubles cannot hold stay integers, since they may be keys."""
    try:
        return pa.array(values, pa.float64())
    except pa.ArrowInvalid:
        if all(value is None or (isinstance(value, int) and abs(value) < 2**63) for value in values):
            return pa.array(values, pa.int64())
        return pa.array([None if value is None else float(value) for value in values], pa.float64())


def exact_keys(column: pa.ChunkedArray) -> list[Any]:
    """Return keys of rows; a double that is an integer is that integer."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_temporal(kind):
        raise RequestError(422, f"Keys are strings or integers, and these are of type {kind}: send strings.")
    found = []
    for key in column.to_pylist():
        if isinstance(key, float) and key.is_integer():
            if abs(key) >= _LARGEST_EXACT:
                raise RequestError(422, f"The key {key:.0f} is no exact integer: send it as an integer or a string.")
            key = int(key)
        found.append(key)
    return found


# -- CSV and Arrow --------------------------------------------------------------------------------------------


def _from_csv(body: bytes, max_values: int) -> pa.Table:
    _check_size(1, body.partition(b"\n")[0].count(b","), max_values)
    return pa.csv.read_csv(io.BytesIO(body))


def _from_arrow(body: bytes, max_values: int) -> pa.Table:
    """Return a stream of Arrow: sizes and buffers are checked before any value is read."""
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
        if message.type in ("record batch", "dictionary") and _is_compressed(message):
            raise RequestError(422, "The body holds compressed batches: send them uncompressed.")
    reader, batches, rows, text = pa.ipc.open_stream(pa.BufferReader(body)), [], 0, 0
    for field in reader.schema:
        if type_of_arrow(field.type) is ColumnType.OTHER:
            raise RequestError(422, f"Column {field.name!r} is of type {field.type}: send numbers, strings or times.")
    for batch in reader:
        rows += batch.num_rows
        _check_size(rows, batch.num_columns, max_values)
        batch.validate(full=True)
        text += sum(map(_text_bytes, batch.columns))
        _check_size(text // 8, 1, max_values)
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def _text_bytes(column: pa.Array) -> int:
    """Return the bytes of the strings of a column, each counted as often as it occurs."""
    texts = column.dictionary if pa.types.is_dictionary(column.type) else column
    if pa.types.is_string_view(texts.type):  # a length, then a prefix and where the rest is
        lengths = np.frombuffer(texts.buffers()[1], "<i4")[::4][texts.offset :][: len(texts)]
        sizes = pa.array(lengths, mask=texts.is_null().to_numpy(zero_copy_only=False))
    elif pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
        sizes = pc.binary_length(texts)
    else:
        return 0
    return pc.sum(sizes if texts is column else sizes.take(column.indices)).as_py() or 0


def _is_compressed(message: pa.ipc.Message) -> bool:
    """Return whether a message of a stream has compressed buffers.

    Its header is a table of flatbuffers: a table begins with the distance to the places of its fields.
    """
    header = message.metadata.to_pybytes()

    def number(at: int, n_bytes: int = 4, signed: bool = False) -> int:
        if not 0 <= at <= len(header) - n_bytes:
            raise ValueError("a message ends too early")
        return int.from_bytes(header[at : at + n_bytes], "little", signed=signed)

    def field(table: int, place: int) -> int:
        places = table - number(table, signed=True)
        entry = 4 + 2 * place
        offset = number(places + entry, 2) if entry < number(places, 2) else 0
        return table + offset if offset else 0

    def table_in(table: int, place: int) -> int:
        at = field(table, place)
        return at + number(at)

    start = 8 if header[:4] == b"\xff\xff\xff\xff" else 0
    batch = table_in(start + number(start), 2)
    if message.type == "dictionary":
        batch = table_in(batch, 1)
    return field(batch, 3) != 0


_READERS: dict[str, Callable[[bytes, int], pa.Table]] = {
    "application/json": _from_json(_decode_rows),
    "application/x-ndjson": _from_json(_row_decoder.decode_lines),
    "text/csv": _from_csv,
    "application/vnd.apache.arrow.stream": _from_arrow,
}
