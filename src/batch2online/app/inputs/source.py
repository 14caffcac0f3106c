"""Open inputs with the reader of their format; read several files as one."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from glob import escape, glob, has_magic
from pathlib import Path
from typing import IO, Any, Protocol, cast

import pyarrow as pa

from batch2online.app.inputs.batch import Batch, DataError, Remedy, kind_of, mismatch, plain
from batch2online.app.inputs.byte_stream import ByteStream, blocks, read_errors
from batch2online.app.inputs.columnar import ArrowFile, ArrowStream, Parquet
from batch2online.app.inputs.database import is_database, open_query
from batch2online.app.inputs.delimited import Delimited
from batch2online.app.inputs.json_lines import JsonLines
from batch2online.app.inputs.layout import Layout
from batch2online.frames.columns import ColumnType

_COMPRESSED: dict[bytes, Any] = {b"\x1f\x8b": gzip.GzipFile, b"BZh": bz2.BZ2File, b"\xfd7zXZ": lzma.LZMAFile}
_COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zip")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ZIP, _PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PK\x03\x04", b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_SUFFIXES = {"csv": "csv", "tsv": "tsv", "tab": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl",
             "parquet": "parquet", "pq": "parquet", "arrow": "arrow", "arrows": "arrow", "feather": "arrow",
             "ipc": "arrow"}  # fmt: skip


class Reader(Protocol):
    """A table of one format, to read once."""

    names: list[str]
    kinds: dict[str, ColumnType]
    notes: list[str]

    def batches(self, columns: Sequence[str], untouched: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; ``untouched`` columns are not converted."""


class Source:
    """A table to read once.

    Attributes
    ----------
    name : str
        Name of the input in errors.
    names, kinds : list of str, dict
        Names and types of the columns.
    notes : list of str
        Notes on how it is read, which grow while it is read.
    is_live : bool
        Whether the input is a pipe or a growing file.
    n_read : int
        Number of rows read so far.
    """

    def __init__(
        self, reader: Reader, name: str, *, raw: Any = None, size: int | None = None, is_live: bool = False
    ) -> None:
        self._reader, self._raw, self.name, self.is_live = reader, raw, name, is_live
        self.names, self.kinds = reader.names, reader.kinds
        self.size = size
        self.n_read = 0

    @property
    def notes(self) -> list[str]:
        lines = getattr(self._reader, "dropped_lines", 0)
        dropped = [f"{lines:,} lines with too few or too many values were dropped"] if lines else []
        return [*self._reader.notes, *dropped]

    def progress(self) -> float | None:
        """Return the fraction read so far; None if the size is unknown."""
        n_rows = getattr(self._reader, "n_rows", None)
        if n_rows is not None:
            return float(self.n_read / max(1, n_rows))
        if not self.size or self._raw.closed:
            return 1.0 if self.size else None
        return float(self._raw.tell() / self.size)

    def close(self) -> None:
        """Close the file."""
        if self._raw is not None:
            self._raw.close()

    def batches(self, columns: Sequence[str], untouched: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; ``untouched`` columns are not converted."""
        for batch in self._reader.batches(columns, untouched):
            self.n_read += len(batch)
            yield batch


def open_source(path: str, layout: Layout | None = None) -> Source:
    """Open a file, or standard input if the path is ``-``.

    Parameters
    ----------
    path : str
        A file of any of the formats, optionally compressed, a URL that fsspec supports, or ``-``.
    layout : Layout, optional
        Format of the file.
    """
    raw = _opened(path)
    try:
        return _recognised(path, raw, layout or Layout())
    except BaseException:
        raw.close()
        raise


def _recognised(path: str, raw: Any, layout: Layout) -> Source:
    name = name_of(path)
    start = _peek(raw, name)
    if is_database(start) or layout.query is not None:
        raw.close()
        if not is_database(start) or path == "-" or "://" in path:
            raise DataError(f"{name} is not a SQLite or DuckDB file: remove --query.")
        return Source(open_query(path, name, start, layout.query), name)
    file = _uncompressed(raw, name, start, path)
    is_compressed = file is not raw
    start = _peek(file, name) if is_compressed else start
    kind = layout.format or _format_of(start, path)
    if layout.follow and (is_compressed or path == "-" or kind in ("parquet", "arrow")):
        raise DataError(f"{name} cannot be followed: --follow needs an uncompressed text file.")
    if kind == "arrow" and start.startswith(_ARROW_STREAM):
        size = _size(raw)
        return Source(ArrowStream(file, name), name, raw=raw, size=size, is_live=size is None)
    if kind in ("parquet", "arrow"):
        if path == "-" or is_compressed:
            how = "from standard input" if path == "-" else "compressed"
            raise DataError(f"{name}: {kind.capitalize()} cannot be read {how}.", Remedy.FORMAT)
        if "://" not in path:
            file.close()
        place = file if "://" in path else path
        return Source(Parquet(place, name) if kind == "parquet" else ArrowFile(place, name), name)
    return _text(kind, file, raw, name, layout)


def name_of(path: str) -> str:
    """Return the name of a file in errors."""
    return "standard input" if path == "-" else path.rsplit("/", 1)[-1] if "://" in path else Path(path).name


def _text(kind: str, file: Any, raw: Any, name: str, layout: Layout) -> Source:
    size = None if layout.follow else _size(raw)
    stream = ByteStream(file, name, layout.seconds, layout.follow, layout.stopped, raw)
    layout = replace(layout, is_live=stream.is_live, min_rows=layout.min_rows if stream.is_live else 1)
    if kind == "jsonl":
        reader: Reader = JsonLines(blocks(stream, encoding=layout.encoding), name, layout)
    else:
        layout = replace(layout, sep="\t") if kind == "tsv" and layout.sep is None else layout
        reader = Delimited(blocks(stream, encoding=layout.encoding, quoted=True), name, layout)
    return Source(reader, name, raw=raw, size=size, is_live=stream.is_live)


def _opened(path: str) -> IO[bytes]:
    if path == "-":
        return sys.stdin.buffer
    if "://" in path:
        return _remote(path)
    try:
        return open(path, "rb")
    except IsADirectoryError:
        raise DataError(f"{path} is a folder: give its files, such as '{path.rstrip('/')}/*.csv'.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def _remote(path: str) -> IO[bytes]:
    try:
        import fsspec
    except ImportError as error:
        raise DataError(f"{path} needs the package fsspec: pip install 'batch2online[remote]'.") from error
    try:
        return cast("IO[bytes]", io.BufferedReader(fsspec.open(path, "rb").open()))
    except Exception as error:  # each file system has its own errors
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} cannot be read: {reason.removesuffix('.')}.") from error


def _uncompressed(raw: Any, name: str, start: bytes, path: str) -> Any:
    opener = next((opener for magic, opener in _COMPRESSED.items() if start.startswith(magic)), None)
    if opener is gzip.GzipFile:
        return io.BufferedReader(gzip.GzipFile(fileobj=raw))
    if opener is not None:
        return io.BufferedReader(opener(raw))
    return _unzipped(raw, name) if start.startswith(_ZIP) and path != "-" else raw


def _unzipped(raw: Any, name: str) -> Any:
    """Return the only file of a zip archive; a workbook is a zip archive too."""
    try:
        archive = zipfile.ZipFile(raw)
        members = [member for member in archive.namelist() if not member.endswith("/")]
        if any(member.startswith("xl/") for member in members):
            raise DataError(f"{name} is an Excel workbook: save the sheet as CSV.")
        if len(members) != 1:
            raise DataError(f"{name} is an archive of {len(members)} files: extract it and give one of them.")
        return io.BufferedReader(archive.open(members[0]))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        raise DataError(f"{name} is a damaged archive: {str(error).removesuffix('.')}.") from error


def _peek(file: Any, name: str) -> bytes:
    """Return the first bytes without consuming them."""
    with read_errors(file, name):
        return cast("io.BufferedReader", file).peek(16)[:4096]


def _size(raw: Any) -> int | None:
    """Return the size of a plain file."""
    try:
        status = os.fstat(raw.fileno())
    except (OSError, AttributeError, io.UnsupportedOperation):
        return getattr(getattr(raw, "raw", None), "size", None)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _format_of(start: bytes, path: str) -> str:
    if start.startswith(_PARQUET):
        return "parquet"
    if start.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return "arrow"
    plain = next((path.removesuffix(suffix) for suffix in _COMPRESSED_SUFFIXES if path.endswith(suffix)), path)
    by_name = _SUFFIXES.get(Path(plain).suffix.lower().removeprefix("."))
    if by_name:
        return by_name
    return "jsonl" if start.lstrip().startswith(b"{") else "csv"


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


def folder_columns(paths: Sequence[str], known: Mapping[str, ColumnType]) -> dict[str, Any]:
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


def _typed(strings: Any) -> Any:
    for dtype in (pa.float64(), pa.timestamp("us")):
        with suppress(pa.ArrowInvalid):
            return strings.cast(dtype)
    return strings


def open_sources(paths: Sequence[str], layout: Layout) -> Input:
    """Open one file, or several as one; names of folders such as ``month=7`` are columns."""
    columns = folder_columns(paths, layout.kinds)
    if len(paths) == 1 and not columns:
        return open_source(paths[0], layout)
    if layout.follow:
        raise DataError("Only one file can be followed.")
    if "-" in paths:
        raise DataError("Standard input cannot be one of several files.")
    return Concatenated(paths, layout, columns)


class Concatenated:
    """Files with the same columns, read one after the other; attributes are those of :class:`Source`."""

    is_live = False

    def __init__(self, paths: Sequence[str], layout: Layout, folder_columns: Mapping[str, Any]) -> None:
        self._paths, self._layout = list(paths), layout
        self.name = name_of(paths[0]) + (f" and {len(paths) - 1:,} more" if len(paths) > 1 else "")
        self._current = open_source(paths[0], layout)
        self._folders = {name: one for name, one in folder_columns.items() if name not in self._current.names}
        self.names = [*self._current.names, *self._folders]
        self.kinds = self._current.kinds | {name: kind_of(one.type) for name, one in self._folders.items()}
        self._notes: list[str] = []
        self.n_read = 0
        sizes = [os.path.getsize(path) if os.path.isfile(path) else 0 for path in paths]
        self._starts = [sum(sizes[:index]) for index in range(len(sizes))]
        self._sizes, self._total, self._index = sizes, sum(sizes), 0

    @property
    def notes(self) -> list[str]:
        own = self._current.notes
        return [*self._notes, *(note for note in own if note not in self._notes)]

    def close(self) -> None:
        """Close the current file."""
        self._current.close()

    def progress(self) -> float | None:
        """Return the fraction of all files read so far."""
        fraction = self._current.progress()
        if fraction is None or not self._total:
            return None
        return (self._starts[self._index] + fraction * self._sizes[self._index]) / self._total

    def batches(self, columns: Sequence[str], untouched: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; ``untouched`` columns are not converted."""
        own, others = ([name for name in some if name not in self._folders] for some in (columns, untouched))
        known = replace(self._layout, kinds={column: self.kinds[column] for column in own})
        for index, path in enumerate(self._paths):
            if index:
                self._notes, self._index = self.notes, index
                self._current = open_source(path, known)
                self._check_columns([*own, *others])
            for batch in self._current.batches(own, others):
                self.n_read += len(batch)
                yield self._with_folders(batch, columns, untouched)

    def _with_folders(self, batch: Batch, columns: Sequence[str], untouched: Sequence[str]) -> Batch:
        """Return a batch with the columns of the folders of the current file."""
        table = batch.table
        for name in (name for name in (*columns, *untouched) if name in self._folders):
            values = pa.repeat(self._folders[name][self._index], len(batch))
            table = table.append_column(name, plain(values) if name in columns else values)
        return replace(batch, table=table.select([*columns, *untouched])) if self._folders else batch

    def _check_columns(self, wanted: Sequence[str]) -> None:
        there = set(self._current.names)
        for column in wanted:
            if column not in there:
                message = f"{self._current.name} has no column {column!r}, which {name_of(self._paths[0])} has."
                raise DataError(message, Remedy.EXCLUDE, about=(column, ""))
            if self._current.kinds[column] is not self.kinds[column]:
                message = f"{self._current.name}: {mismatch(column, self.kinds[column], self._current.kinds[column])}"
                raise DataError(message, Remedy.EXCLUDE, about=(column, ""))


Input = Source | Concatenated
"""One file, or several as one."""
