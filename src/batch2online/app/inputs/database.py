"""Rows of a query, streamed: SQLite by the standard library, DuckDB by its package."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from batch2online.app.inputs.batch import Batch, DataError, Remedy, explained, row_places
from batch2online.app.inputs.columnar import ROWS, Columnar
from batch2online.app.inputs.values import column_of, settled_type

_SQLITE, _DUCKDB = b"SQLite format 3\0", b"DUCK"


def is_database(start: bytes) -> bool:
    """Whether these are the first bytes of a database."""
    return start.startswith(_SQLITE) or start[8:12] == _DUCKDB


def open_query(path: str | None, name: str, start: bytes, query: str | None) -> SqliteRows | Columnar:
    """Return the reader of the rows of a query of a database; without one, DuckDB reads what the query names."""
    with explained(f"{name}: the query failed", Remedy.QUERY, errors=(Exception,)):
        if start.startswith(_SQLITE):
            connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
            tables = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name"
            return SqliteRows(connection, query or _no_query(connection, tables, name), name)
        connection = _duckdb(path)
        tables = "SELECT table_name FROM information_schema.tables ORDER BY table_name"
        return _duckdb_rows(connection, query or _no_query(connection, tables, name), name)


def _no_query(connection: Any, tables: str, name: str) -> str:
    found = [str(table) for (table,) in connection.execute(tables).fetchall()]
    first = f'SELECT * FROM "{found[0]}"' if found else ""
    listed = ", ".join(map(repr, found[:8])) or "none"
    raise DataError(f"{name} is a database; its tables are {listed}.", Remedy.QUERY, about=("", first))


def _duckdb(path: str | None) -> Any:
    try:
        import duckdb
    except ImportError as error:
        what = "A query without a database" if path is None else "A DuckDB file"
        raise DataError(f"{what} needs the package duckdb: pip install 'batch2online[duckdb]'.") from error
    return duckdb.connect() if path is None else duckdb.connect(path, read_only=True)


def _duckdb_rows(connection: Any, query: str, name: str) -> Columnar:
    connection.execute("SET python_enable_replacements = false")  # a query names no variables of this process
    answer = connection.sql(query)
    if answer is None:
        raise DataError(f"{name}: the query returns no rows.", Remedy.QUERY)
    make = getattr(answer, "to_arrow_reader", None) or answer.fetch_arrow_reader  # of versions before 2
    reader = make(ROWS)

    def record_batches(_: list[str]) -> Iterator[pa.RecordBatch]:
        with connection:  # which must live as long
            yield from reader

    return Columnar(name, reader.schema, record_batches)


class SqliteRows:
    """TableReader of the rows of a SQLite query; the first rows determine the types of columns."""

    is_live = False

    def __init__(self, connection: sqlite3.Connection, query: str, name: str) -> None:
        self._name, self.notes = name, list[str]()
        self._cursor = connection.execute(query)
        if self._cursor.description is None:
            raise DataError(f"{name}: the query returns no rows.", Remedy.QUERY)
        self._names = [column[0] for column in self._cursor.description]
        if len(set(self._names)) < len(self._names):
            raise DataError(f"{name}: the query returns two columns with the same name.", Remedy.QUERY)
        self._first = self._cursor.fetchmany(ROWS)
        values = {column: [row[j] for row in self._first] for j, column in enumerate(self._names)}
        self.types = {column: settled_type(values[column], column, row_places(name)) for column in self._names}

    def batches(self, columns: Sequence[str], verbatim: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; all have the types of the first rows."""
        wanted = {column: self._names.index(column) for column in (*columns, *verbatim)}
        start, rows = 0, self._first
        while rows:
            place = row_places(self._name, start)
            found = {
                name: column_of([row[j] for row in rows], self.types[name], name, place) for name, j in wanted.items()
            }
            yield Batch(pa.table(found), place)
            start += len(rows)
            with explained(f"{self._name}: the query failed", Remedy.QUERY, errors=(sqlite3.Error,)):
                rows = self._cursor.fetchmany(ROWS)
