"""Open inputs with the reader of their format; read several files as one."""

from __future__ import annotations

import lzma
import os
import re
import stat
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import escape, glob, has_magic
from io import BufferedReader, RawIOBase, UnsupportedOperation
from pathlib import Path
from typing import Protocol, cast

import pyarrow as pa

from batch2online.app.inputs.batch import Batch, DataError, Remedy, explained, mismatch
from batch2online.app.inputs.columnar import of_arrow_file, of_arrow_stream, of_parquet, of_table
from batch2online.app.inputs.database import is_database, open_query
from batch2online.app.inputs.delimited import Delimited
from batch2online.app.inputs.json_lines import JsonLines
from batch2online.app.inputs.layout import Layout
from batch2online.tables.columns import ColumnType, type_of_arrow

_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz"}
_PACKED_SUFFIX = re.compile(r"\.(gz|bz2|xz|zst|zip)$")
_ZIP, _PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PK\x03\x04", b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_SUFFIXES = {"csv": "csv", "tsv": "tsv", "tab": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl",
             "parquet": "parquet", "pq": "parquet", "arrow": "arrow", "arrows": "arrow", "feather": "arrow",
             "ipc": "arrow"}  # fmt: skip
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class Reader(Protocol):
    """A table of one format, to read once."""

    types: dict[str, pa.DataType]
    notes: list[str]
    is_live: bool

    def batches(self, columns: Sequence[str], verbatim: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; ``verbatim`` columns of text are strings."""


@dataclass(frozen=True)
class OpenFile:
    """A file with the reader of its format; ``size`` is None if it is unknown, as of pipes."""

    name: str
    reader: Reader
    raw: BufferedReader | None = None
    size: int | None = None

    def progress(self, n_read: int) -> float | None:
        """Return the fraction read so far, of which ``n_read`` are the rows."""
        n_rows = getattr(self.reader, "n_rows", None)
        if n_rows is not None:
            return float(n_read / max(1, n_rows))
        if self.raw is None or not self.size:
            return None
        return 1.0 if self.raw.closed else float(self.raw.tell() / self.size)

    def close(self) -> None:
        """Close the file."""
        if self.raw is not None:
            self.raw.close()


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
                self._file = _open(path, known)
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
    return Source(_open(paths[0], layout), paths, layout, folders)


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


def name_of(path: str) -> str:
    """Return the name of a file in errors."""
    return "standard input" if path == "-" else path.rsplit("/", 1)[-1] if "://" in path else Path(path).name


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


# -- recognise a file --------------------------------------------------------------------------------------------


def _open(path: str, layout: Layout) -> OpenFile:
    raw = _raw(path)
    try:
        return _recognised(path, raw, layout)
    except BaseException:
        raw.close()
        raise


def _raw(path: str) -> BufferedReader:
    if path == "-":
        return cast("BufferedReader", sys.stdin.buffer)
    if "://" in path:
        return _remote(path)
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder: give its files, such as '{path.rstrip('/')}/*.csv'.")
    with explained(f"{path} cannot be read"):
        return open(path, "rb")


def _remote(path: str) -> BufferedReader:
    try:
        import fsspec
    except ImportError as error:
        raise DataError(f"{path} needs the package fsspec: pip install 'batch2online[remote]'.") from error
    with explained(f"{path} cannot be read", errors=(Exception,)):  # each file system has its own errors
        return BufferedReader(fsspec.open(path, "rb").open())


def _recognised(path: str, raw: BufferedReader, layout: Layout) -> OpenFile:
    """Return the reader of a file, by its first bytes, then by its name."""
    name, is_local = name_of(path), path != "-" and "://" not in path
    start = _peek(raw, name)
    if is_database(start) or layout.query is not None:
        raw.close()
        if not is_database(start) or not is_local:
            raise DataError(f"{name} is not a SQLite or DuckDB file: remove --query.")
        return OpenFile(name, open_query(path, name, start, layout.query))
    file = _unpacked(raw, name, start, path)
    is_packed = file is not raw
    start = _peek(file, name) if is_packed else start
    kind = layout.format or _format_of(start, path)
    if layout.follow and (is_packed or path == "-" or kind in ("parquet", "arrow")):
        raise DataError(f"{name} cannot be followed: --follow needs an uncompressed text file.")
    size = None if layout.follow else _size(raw)
    if kind == "arrow" and start.startswith(_ARROW_STREAM):
        return OpenFile(name, of_arrow_stream(file, name, is_live=size is None), raw, size)
    if kind in ("parquet", "arrow"):
        if path == "-" or is_packed:
            how = "from standard input" if path == "-" else "compressed"
            raise DataError(f"{name}: {kind.capitalize()} cannot be read {how}.", Remedy.FORMAT)
        if is_local:
            raw.close()  # Arrow's own threads read the file
        opener = of_parquet if kind == "parquet" else of_arrow_file
        return OpenFile(name, opener(path if is_local else file, name), None if is_local else raw)
    if kind == "tsv" and layout.sep is None:
        layout = replace(layout, sep="\t")
    return OpenFile(name, (JsonLines if kind == "jsonl" else Delimited)(file, name, layout), raw, size)


def _peek(file: BufferedReader, name: str) -> bytes:
    """Return the first bytes without consuming them."""
    with explained(f"{name} cannot be read"):
        return bytes(file.peek(16)[:4096])


def _size(raw: BufferedReader) -> int | None:
    """Return the size of a plain file."""
    try:
        status = os.fstat(raw.fileno())
    except (OSError, AttributeError, UnsupportedOperation):
        return getattr(getattr(raw, "raw", None), "size", None)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _unpacked(raw: BufferedReader, name: str, start: bytes, path: str) -> BufferedReader:
    """Return the file that a compressed one contains, or the file itself."""
    if start.startswith(_ZIP) and path != "-":
        return _unzipped(raw, name)
    packing = next((packing for magic, packing in _PACKED.items() if start.startswith(magic)), None)
    if packing is None:
        return raw
    return BufferedReader(lzma.LZMAFile(raw) if packing == "xz" else pa.CompressedInputStream(raw, packing))


def _unzipped(raw: BufferedReader, name: str) -> BufferedReader:
    """Return the only file of a zip archive; a workbook is a zip archive too."""
    with explained(
        f"{name} is a damaged archive", errors=(zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError)
    ):
        archive = zipfile.ZipFile(raw)
        members = [member for member in archive.namelist() if not member.endswith("/")]
        if any(member.startswith("xl/") for member in members):
            raise DataError(f"{name} is an Excel workbook: save the sheet as CSV.")
        if len(members) != 1:
            raise DataError(f"{name} is an archive of {len(members)} files: extract it and give one of them.")
        return BufferedReader(cast("RawIOBase", archive.open(members[0])))


def _format_of(start: bytes, path: str) -> str:
    if start.startswith(_PARQUET):
        return "parquet"
    if start.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return "arrow"
    by_name = _SUFFIXES.get(Path(_PACKED_SUFFIX.sub("", path)).suffix.lower().removeprefix("."))
    if by_name:
        return by_name
    return "jsonl" if start.lstrip().startswith(b"{") else "csv"
