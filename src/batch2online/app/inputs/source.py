"""Read several files as one table, with the columns that names of folders give."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from glob import escape, glob, has_magic

import pyarrow as pa

from batch2online.app.inputs.batch import Batch, DataError, Remedy, mismatch
from batch2online.app.inputs.columnar import of_table
from batch2online.app.inputs.database import open_query
from batch2online.app.inputs.formats import OpenFile, name_of, open_file
from batch2online.app.inputs.layout import Layout
from batch2online.tables.columns import ColumnType, type_of_arrow

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class Source:
    """A table in one file or several, to read once.

    Attributes
    ----------
    name : str
        Name of the input in errors.
    types, kinds : dict
        Arrow types of the columns, and their types as features.
    notes : list of str
        Notes on how it is read, which grow while it is read.
    is_live : bool
        Whether the input is a pipe or a growing file.
    n_read : int
        Number of rows read so far.
    """

    def __init__(
        self,
        first: OpenFile,
        paths: Sequence[str] = (),
        layout: Layout | None = None,
        folders: Mapping[str, pa.Array] | None = None,
    ) -> None:
        self._file, self._paths, self._layout = first, paths or [""], layout or Layout()
        self.name = first.name + (f" and {len(paths) - 1:,} more" if len(paths) > 1 else "")
        self._folders = {name: values for name, values in (folders or {}).items() if name not in first.reader.types}
        self.types = first.reader.types | {name: values.type for name, values in self._folders.items()}
        self.kinds = {name: type_of_arrow(dtype) for name, dtype in self.types.items()}
        self.is_live, self.n_read = first.reader.is_live, 0
        self._earlier_notes: list[str] = []
        self._index, self._start = 0, 0

    @property
    def names(self) -> list[str]:
        return list(self.types)

    @property
    def notes(self) -> list[str]:
        return list(dict.fromkeys([*self._earlier_notes, *self._file.reader.notes]))

    def progress(self) -> float | None:
        """Return the fraction read so far; None if the size is unknown."""
        fraction = self._file.progress(self.n_read - self._start)
        return None if fraction is None else (self._index + fraction) / len(self._paths)

    def close(self) -> None:
        """Close the current file."""
        self._file.close()

    def batches(self, columns: Sequence[str], verbatim: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; ``verbatim`` columns of text are strings as they are in the file."""
        own, others = ([name for name in some if name not in self._folders] for some in (columns, verbatim))
        known = replace(self._layout, kinds={column: self.kinds[column] for column in own})
        for index, path in enumerate(self._paths):
            if index:
                self._index = index
                self._earlier_notes, self._start = self.notes, self.n_read
                self._file = open_file(path, known)
                self._check_columns([*own, *others])
            try:
                for batch in self._file.reader.batches(own, others):
                    self.n_read += len(batch)
                    yield self._with_folders(batch, [*columns, *verbatim])
            finally:
                self.close()

    def _with_folders(self, batch: Batch, wanted: Sequence[str]) -> Batch:
        """Return a batch with the columns of the folders of the current file."""
        if not self._folders:
            return batch
        table = batch.table
        for name in (name for name in wanted if name in self._folders):
            table = table.append_column(name, pa.repeat(self._folders[name][self._index], len(batch)))
        return replace(batch, table=table.select(wanted))

    def _check_columns(self, wanted: Sequence[str]) -> None:
        """Raise an error if the current file lacks a column, or has another type of it."""
        name, types = self._file.name, self._file.reader.types
        for column in wanted:
            if column not in types:
                message = f"{name} has no column {column!r}, which {name_of(self._paths[0])} has."
                raise DataError(message, Remedy.EXCLUDE, about=(column, ""))
            kind = type_of_arrow(types[column])
            if kind is not self.kinds[column]:
                message = f"{name}: {mismatch(column, self.kinds[column], kind)}"
                raise DataError(message, Remedy.EXCLUDE, about=(column, ""))


def open_source(path: str, layout: Layout | None = None) -> Source:
    """Open a file of any format, optionally compressed, a URL that fsspec supports, or standard input, ``-``."""
    return open_sources([path], layout or Layout())


def open_sources(paths: Sequence[str], layout: Layout) -> Source:
    """Open one file, or several as one; names of folders such as ``month=7`` are columns.

    Without a file, a query names the files and databases that DuckDB reads.
    """
    if not paths:
        return Source(OpenFile("the query", open_query(None, "the query", b"", layout.query)))
    folders = folder_columns(paths, layout.kinds)
    if len(paths) > 1:
        if layout.follow:
            raise DataError("Only one file can be followed.")
        if "-" in paths:
            raise DataError("Standard input cannot be one of several files.")
    return Source(open_file(paths[0], layout), paths, layout, folders)


def source_of(table: pa.Table, name: str) -> Source:
    """Return an Arrow table in memory as a source."""
    return Source(OpenFile(name, of_table(table, name)))


def paths_of(given: Sequence[str]) -> list[str]:
    """Expand folders, and patterns such as ``part-*.csv``, to their files, sorted, without markers like _SUCCESS."""
    found: list[str] = []
    for path in given:
        is_folder = os.path.isdir(path)
        if not is_folder and (not has_magic(path) or "://" in path or os.path.exists(path)):
            found.append(path)
            continue
        pattern = os.path.join(escape(path), "**") if is_folder else path
        files = (file for file in glob(pattern, recursive=True) if os.path.isfile(file))
        matching = sorted(file for file in files if not is_folder or os.path.basename(file)[0] not in "_.")
        if not matching:
            raise DataError(f"{path} is an empty folder." if is_folder else f"There is no file {path}.")
        found += matching
    return found


def folder_columns(paths: Sequence[str], known: Mapping[str, ColumnType]) -> dict[str, pa.Array]:
    """Return the columns that names of folders such as ``month=7`` give: numbers, dates or strings, one for each file.

    ``known`` are types of columns; one of strings stays so.
    """
    found = [dict(re.findall(r"([^/=]+)=([^/=]*)/", path)) for path in paths]
    columns = {}
    for name in dict.fromkeys(key for each in found for key in each):
        values = [each.get(name) for each in found]
        strings = pa.array([None if value == _NO_VALUE else value for value in values], pa.string())
        columns[name] = strings if known.get(name) is ColumnType.STRING else _typed(strings)
    return columns


def _typed(strings: pa.Array) -> pa.Array:
    for dtype in (pa.float64(), pa.timestamp("us")):
        with suppress(pa.ArrowInvalid):
            return strings.cast(dtype)
    return strings
