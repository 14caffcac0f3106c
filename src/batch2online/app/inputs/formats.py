"""Recognise a file by its first bytes, then by its name, and open it with the reader of its format."""

from __future__ import annotations

import lzma
import os
import re
import stat
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BufferedReader, RawIOBase, UnsupportedOperation
from pathlib import Path
from typing import Protocol, cast

import pyarrow as pa

from batch2online.app.inputs.batch import Batch, DataError, Remedy, explained
from batch2online.app.inputs.columnar import of_arrow_file, of_arrow_stream, of_parquet
from batch2online.app.inputs.database import is_database, open_query
from batch2online.app.inputs.delimited import Delimited
from batch2online.app.inputs.json_lines import JsonLines
from batch2online.app.inputs.layout import Layout

_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz"}
_PACKED_SUFFIX = re.compile(r"\.(gz|bz2|xz|zst|zip)$")
_ZIP, _PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PK\x03\x04", b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_SUFFIXES = {"csv": "csv", "tsv": "tsv", "tab": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl",
             "parquet": "parquet", "pq": "parquet", "arrow": "arrow", "arrows": "arrow", "feather": "arrow",
             "ipc": "arrow"}  # fmt: skip


class TableReader(Protocol):
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
    reader: TableReader
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


def open_file(path: str, layout: Layout) -> OpenFile:
    """Open a file of any format, a URL, or standard input."""
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


def name_of(path: str) -> str:
    """Return the name of a file in errors."""
    return "standard input" if path == "-" else path.rsplit("/", 1)[-1] if "://" in path else Path(path).name
