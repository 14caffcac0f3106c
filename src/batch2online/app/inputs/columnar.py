"""Parquet and Arrow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import IO, Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet

from batch2online.app.inputs.batch import Batch, DataError, kind_of, row_place, with_plain_types

ROWS = 1 << 16
_DAMAGE = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, MemoryError)  # a damaged size may need any memory


class Columnar(ABC):
    """Reader of a format with a schema; places are rows, not lines."""

    def __init__(self, name: str, schema: Any) -> None:
        self._name = name
        try:
            self.names = list(schema.names)
        except UnicodeDecodeError as error:
            raise DataError(f"{name} has a column whose name is not valid UTF-8.") from error
        if len(set(self.names)) < len(self.names):
            raise DataError(f"{name} has several columns with the same name.")
        self.kinds = {field.name: kind_of(field.type) for field in schema}
        self.notes: list[str] = []

    @abstractmethod
    def _record_batches(self, columns: list[str]) -> Iterator[Any]:
        """Iterate over record batches that contain these columns."""

    def batches(self, columns: Sequence[str], untouched: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; ``untouched`` columns are not converted."""
        start, wanted = 0, [*columns, *untouched]
        try:
            for records in self._record_batches(wanted):
                chosen = pa.Table.from_batches([records]).select(wanted)
                chosen.validate(full=True)  # invalid offsets would crash the process
                yield Batch(with_plain_types(chosen, untouched), partial(row_place, self._name, start))
                start += len(records)
        except _DAMAGE as error:
            raise DataError(f"{self._name} is damaged after row {start:,}: {first_line(error)}") from error


class Parquet(Columnar):
    """A Parquet file, a row group or less at a time."""

    def __init__(self, file: Any, name: str) -> None:
        try:
            self._file = parquet.ParquetFile(file, pre_buffer=False)
            self._is_local = isinstance(file, str)  # threads of Arrow must not wait for Python files
        except _DAMAGE as error:
            raise DataError(f"{name} is truncated or not a Parquet file: {first_line(error)}") from error
        super().__init__(name, self._file.schema_arrow)
        self.n_rows = int(self._file.metadata.num_rows)

    def _record_batches(self, columns: list[str]) -> Iterator[Any]:
        return self._file.iter_batches(  # type: ignore[no-any-return]
            batch_size=ROWS, columns=columns, use_threads=self._is_local
        )


class ArrowStream(Columnar):
    """Arrow's streaming format, from a file or a pipe."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        try:
            self._reader = ipc.open_stream(file)
        except _DAMAGE as error:
            raise DataError(f"{name} is truncated or not an Arrow stream: {first_line(error)}") from error
        super().__init__(name, self._reader.schema)

    def _record_batches(self, columns: list[str]) -> Iterator[Any]:
        with self._file:
            yield from self._reader


class ArrowFile(Columnar):
    """Arrow's file format, also called Feather."""

    def __init__(self, file: Any, name: str) -> None:
        try:
            self._reader = ipc.open_file(pa.memory_map(file) if isinstance(file, str) else file)
        except _DAMAGE as error:
            raise DataError(f"{name} is truncated or not an Arrow file: {first_line(error)}") from error
        super().__init__(name, self._reader.schema)

    def _record_batches(self, columns: list[str]) -> Iterator[Any]:
        return map(self._reader.get_batch, range(self._reader.num_record_batches))


def first_line(error: BaseException) -> str:
    """Return the first line of an error message, with a full stop."""
    text = (str(error).splitlines() or [""])[0].strip().rstrip(".")
    return f"{text or type(error).__name__}."
