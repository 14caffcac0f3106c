"""Rows of a request as an Arrow table: JSON, JSON lines, CSV or Arrow IPC."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc

from batch2online.app.serve.problems import RequestError

Value = str | float | bool | None
Row = dict[str, Value]
_MANY_NAMES = 1_000
_LONG_ROW = 10_000
"""Bytes above which a request is hardly one row."""

_decode_numbers = msgspec.json.Decoder(list[dict[str, float]]).decode
_decode_rows = msgspec.json.Decoder(list[Row]).decode
_decode_row = msgspec.json.Decoder(Row).decode


def table_of(body: bytes, content_type: str) -> pa.Table:
    """Return the rows of a request.

    >>> table_of(b'[{"a": 1, "b": "x"}, {"b": null, "a": 2.5}]', "application/json").to_pydict()
    {'a': [1.0, 2.5], 'b': ['x', None]}
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _READERS:
        raise RequestError(415, f"Content-Type {kind or 'is missing'}: send {', '.join(_READERS)}.")
    try:
        table = _READERS[kind](body)
    except (msgspec.MsgspecError, pa.ArrowException, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(422, f"The body is not a table in {kind}: {error}") from error
    if not table.num_rows:
        raise RequestError(422, "The body has no rows.")
    if len(set(table.column_names)) < table.num_columns:
        raise RequestError(422, "Two columns have the same name.")
    return table


def one_row_of(body: bytes, content_type: str) -> dict[str, float] | None:
    """Return the row of a request that has one row of numbers, in JSON; None for others.

    >>> one_row_of(b'[{"a": 1, "b": 2.5}]', "application/json")
    {'a': 1.0, 'b': 2.5}
    """
    if len(body) > _LONG_ROW or content_type.partition(";")[0].strip().lower() != "application/json":
        return None
    try:
        rows = _decode_numbers(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return rows[0] if len(rows) == 1 else None


def _from_json(body: bytes) -> pa.Table:
    rows = _alike(body, body[body.find(b"{") : body.find(b"}") + 1], is_lines=False)
    return _from_rows(_decode_rows(body)) if rows is None else rows


def _from_lines(body: bytes) -> pa.Table:
    rows = _alike(body, body[: body.find(b"}") + 1], is_lines=True)
    return _from_rows([_decode_row(line) for line in body.splitlines() if line.strip()]) if rows is None else rows


def _alike(body: bytes, first: bytes, *, is_lines: bool) -> pa.Table | None:
    """Return rows with the names and numbers of the first one, twice as fast as others; None if one is different."""
    try:
        names = {name: type(value) is float for name, value in _decode_row(first).items()}
        rows = _decoder(tuple(names.items()), is_lines)(body) if 0 < len(names) <= _MANY_NAMES else []
    except (msgspec.MsgspecError, ValueError):
        return None
    if not rows:
        return None
    columns = zip(names.items(), zip(*map(msgspec.structs.astuple, rows), strict=True), strict=True)
    made = {
        name: pa.array(values, pa.float64()) if is_number else _column(name, values)
        for (name, is_number), values in columns
    }
    return pa.table(made)


@lru_cache(maxsize=64)
def _decoder(names: tuple[tuple[str, bool], ...], is_lines: bool) -> Callable[[bytes], list[Any]]:
    """Return what reads rows with these names, no more and no fewer, and whether their values are numbers."""
    fields = [(f"f{place}", float | None if is_number else Value) for place, (_, is_number) in enumerate(names)]
    rename = {field: name for (field, _), (name, _) in zip(fields, names, strict=True)}
    row: Any = msgspec.defstruct("Row", fields, rename=rename, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(row).decode_lines if is_lines else msgspec.json.Decoder(list[row]).decode


def table_of_rows(contents: Sequence[bytes]) -> pa.Table:
    """Return rows that came one by one, each a JSON object."""
    return _from_rows([_decode_row(content) for content in contents])


def _from_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as columns; a name that is missing in a row is a missing value there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _column(name, [row.get(name) for row in rows]) for name in names})


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= {float}:
        return pa.array(values, pa.float64())
    if len(kinds) > 1:
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise RequestError(422, f"Column {name!r} has values of several types ({found}): send numbers or strings.")
    return pa.array(values, pa.string() if kinds == {str} else None)


def _from_csv(body: bytes) -> pa.Table:
    return pa.csv.read_csv(io.BytesIO(body))


def _from_arrow(body: bytes) -> pa.Table:
    return pa.ipc.open_stream(pa.BufferReader(body)).read_all()


_READERS: dict[str, Callable[[bytes], pa.Table]] = {
    "application/json": _from_json,
    "application/x-ndjson": _from_lines,
    "text/csv": _from_csv,
    "application/vnd.apache.arrow.stream": _from_arrow,
}
