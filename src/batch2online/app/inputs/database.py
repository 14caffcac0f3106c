"""Rows of a database query, streamed: SQLite by the standard library, DuckDB by its package."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from batch2online.app.inputs.batch import Batch, DataError, Remedy, check_zones, kind_of, row_place, with_plain_types
from batch2online.app.inputs.columnar import ROWS, Columnar, first_line
from batch2online.frames.columns import ColumnType

SQLITE, DUCKDB = b"SQLite format 3\0", b"DUCK"
_TABLES = {
    True: "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name",
    False: "SELECT table_name FROM information_schema.tables ORDER BY table_name",
}
"""Queries of the names of tables, by whether the database is SQLite."""


def is_database(start: bytes) -> bool:
    """Whether these are the first bytes of a database."""
    return start.startswith(SQLITE) or start[8:12] == DUCKDB


def open_query(path: str, name: str, start: bytes, query: str | None) -> Any:
    """Return a reader of the rows of a query."""
    is_sqlite = start.startswith(SQLITE)
    try:
        connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True) if is_sqlite else _duckdb(path)
        if query is None:
            tables = [str(table) for (table,) in connection.execute(_TABLES[is_sqlite]).fetchall()]
            listed = ", ".join(map(repr, tables[:8])) or "none"
            first = f'SELECT * FROM "{tables[0]}"' if tables else ""
            raise DataError(f"{name} is a database; its tables are {listed}.", Remedy.QUERY, about=("", first))
        return SqliteRows(connection, query, name) if is_sqlite else DuckDbRows(connection, query, name)
    except DataError:
        raise
    except Exception as error:
        if isinstance(error, ImportError | MemoryError):
            raise
        raise DataError(f"{name}: the query failed: {first_line(error)}", Remedy.QUERY) from error


def _duckdb(path: str) -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise DataError("A DuckDB file needs the package duckdb: pip install 'batch2online[duckdb]'.") from error
    return duckdb.connect(path, read_only=True)


class SqliteRows:
    """Rows of a SQLite query; the first rows determine the types of columns."""

    def __init__(self, connection: Any, query: str, name: str) -> None:
        self._name, self.notes = name, list[str]()
        self._cursor = connection.execute(query)
        if self._cursor.description is None:
            raise DataError(f"{name}: the query returns no rows.", Remedy.QUERY)
        self.names = [column[0] for column in self._cursor.description]
        if len(set(self.names)) < len(self.names):
            raise DataError(f"{name}: the query returns two columns with the same name.", Remedy.QUERY)
        self._first = self._cursor.fetchmany(ROWS)
        self._types = {column: _type_of([row[j] for row in self._first]) for j, column in enumerate(self.names)}
        self.kinds = {column: kind_of(dtype) for column, dtype in self._types.items()}
        for j, column in enumerate(self.names):
            values = [row[j] for row in self._first]
            if self.kinds[column] is ColumnType.STRING and set(map(type, values)) <= {str, type(None)}:
                check_zones(pa.array(values, pa.string()), column, partial(row_place, name, 0))

    def batches(self, columns: Sequence[str], untouched: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; ``untouched`` columns are not converted."""
        places = {column: self.names.index(column) for column in (*columns, *untouched)}
        start, rows = 0, self._first
        while rows:
            table = pa.table(
                {column: self._column(column, [row[j] for row in rows], start) for column, j in places.items()}
            )
            yield Batch(with_plain_types(table, untouched), partial(row_place, self._name, start))
            start, rows = start + len(rows), self._cursor.fetchmany(ROWS)

    def _column(self, column: str, values: list[Any], start: int) -> Any:
        try:
            return _array(values, self._types[column])
        except (pa.ArrowException, TypeError, ValueError):
            row = next(row for row, value in enumerate(values) if not _converts([value], self._types[column]))
            place, bad = row_place(self._name, start, row), values[row]
            message = f"{place}, column {column!r}: {bad!r} differs from the {self.kinds[column].plural} before it."
            raise DataError(message, Remedy.EXCLUDE, about=(column, str(bad))) from None


def _type_of(values: list[Any]) -> Any:
    try:
        found = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.float64() if isinstance(next(v for v in values if v is not None), int | float) else pa.string()
    if pa.types.is_string(found.type):
        times = (pa.timestamp("us"), pa.timestamp("us", "UTC"))
        return next((dtype for dtype in times if _converts(values, dtype)), found.type)
    return pa.float64() if kind_of(found.type) is ColumnType.NUMBER else found.type


def _array(values: list[Any], dtype: Any) -> Any:
    return pa.array(values, pa.string()).cast(dtype) if pa.types.is_timestamp(dtype) else pa.array(values, dtype)


def _converts(values: list[Any], dtype: Any) -> bool:
    try:
        _array(values, dtype)
    except (pa.ArrowException, TypeError, ValueError):
        return False
    return True


class DuckDbRows(Columnar):
    """Rows of a DuckDB query."""

    def __init__(self, connection: Any, query: str, name: str) -> None:
        answer = connection.sql(query)
        if answer is None:
            raise DataError(f"{name}: the query returns no rows.", Remedy.QUERY)
        make = getattr(answer, "to_arrow_reader", None) or answer.fetch_arrow_reader  # of versions before 2
        self._connection, self._reader = connection, make(ROWS)
        super().__init__(name, self._reader.schema)

    def _record_batches(self, columns: list[str]) -> Iterator[Any]:
        yield from self._reader
