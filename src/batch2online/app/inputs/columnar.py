"""Tables with a schema: Parquet, Arrow, rows of a DuckDB query, and tables in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedReader

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet

from batch2online.app.inputs.batch import Batch, DataError, explained, row_places

ROWS = 1 << 16


class Columnar:
    """TableReader of record batches; places are rows, not lines.

    Parameters
    ----------
    name : str
        Name of the input in errors.
    schema : pyarrow.Schema
    record_batches : callable
        Returns record batches that contain some columns.
    n_rows : int, optional
        Number of rows, if it is known.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        record_batches: Callable[[list[str]], Iterable[pa.RecordBatch]],
        n_rows: int | None = None,
    ) -> None:
        self._name, self._record_batches, self.n_rows = name, record_batches, n_rows
        self.notes: list[str] = []
        self.is_live = False
        with explained(f"{name} has a column whose name is not valid UTF-8"):
            names = list(schema.names)
        if len(set(names)) < len(names):
            raise DataError(f"{name} has several columns with the same name.")
        self.types = {field.name: field.type for field in schema}

    def batches(self, columns: Sequence[str], verbatim: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; all have the types of the schema."""
        start, wanted = 0, [*columns, *verbatim]
        with explained(lambda: f"{self._name} is damaged after row {start:,}"):
            for records in self._record_batches(wanted):
                chosen = pa.Table.from_batches([records]).select(wanted)
                chosen.validate(full=True)  # invalid offsets would crash the process
                yield Batch(chosen, row_places(self._name, start))
                start += len(records)


def of_parquet(file: str | BufferedReader, name: str) -> Columnar:
    """Return the reader of a Parquet file, by a path or an open file, a row group or less at a time."""
    with explained(f"{name} is truncated or not a Parquet file"):
        opened = parquet.ParquetFile(file, pre_buffer=False)
    is_local = isinstance(file, str)  # threads of Arrow must not wait for Python files

    def record_batches(columns: list[str]) -> Iterator[pa.RecordBatch]:
        yield from opened.iter_batches(ROWS, columns=columns, use_threads=is_local)

    return Columnar(name, opened.schema_arrow, record_batches, opened.metadata.num_rows)


def of_arrow_stream(file: BufferedReader, name: str, is_live: bool) -> Columnar:
    """Return the reader of Arrow's streaming format, from a file or a pipe."""
    with explained(f"{name} is truncated or not an Arrow stream"):
        opened = ipc.open_stream(file)
    found = Columnar(name, opened.schema, lambda _: opened)
    found.is_live = is_live
    return found


def of_arrow_file(file: str | BufferedReader, name: str) -> Columnar:
    """Return the reader of Arrow's file format, also called Feather, by a path or an open file."""
    with explained(f"{name} is truncated or not an Arrow file"):
        opened = ipc.open_file(pa.memory_map(file) if isinstance(file, str) else file)
    return Columnar(name, opened.schema, lambda _: map(opened.get_batch, range(opened.num_record_batches)))


def of_table(table: pa.Table, name: str) -> Columnar:
    """Return the reader of an Arrow table in memory."""
    return Columnar(name, table.schema, lambda columns: table.select(columns).to_batches(ROWS), table.num_rows)
