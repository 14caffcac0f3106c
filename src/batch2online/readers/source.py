"""Which reader an input needs: by its first bytes, by its name where these leave a choice."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol, cast

from batch2online.readers.batch import Batch, DataError, Kind
from batch2online.readers.blocks import blocks, damage_named
from batch2online.readers.columnar import ArrowFile, ArrowStream, Parquet
from batch2online.readers.delimited import Delimited
from batch2online.readers.json_lines import JsonLines

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow")
_GZIP, _PARQUET, _ARROW_FILE, _ARROW_STREAM = b"\x1f\x8b", b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_SUFFIXES = {
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "arrows": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
}


class Source(Protocol):
    """A table to be read once."""

    names: list[str]
    kinds: dict[str, Kind]

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Iterate over the rows, with these columns alone."""


def open_source(path: str, format: str | None = None, *, header: bool = True) -> Source:  # noqa: A002
    """Return a reader for a file, or for standard input where the path is ``-``.

    Parameters
    ----------
    path : str
        A file of any of the formats, gzipped or not, or ``-``.
    format : str or None
        One of csv, tsv, jsonl, parquet, arrow; None looks at the first bytes and the name.
    header : bool
        Whether delimited text starts with the names of its columns.
    """
    name = "standard input" if path == "-" else Path(path).name
    file = _opened(path)
    start = _peek(file, name)
    zipped = start.startswith(_GZIP)
    if zipped:
        file = _unzipped(file, path)
        start = _peek(file, name)
    kind = format or _format_of(start, path.removesuffix(".gz"))
    if kind == "arrow" and start.startswith(_ARROW_STREAM):
        return ArrowStream(file, name)
    if kind in ("parquet", "arrow"):
        file.close()
        return _columnar(kind, path, name, zipped)
    if kind == "jsonl":
        return JsonLines(blocks(file, name), name)
    return Delimited(blocks(file, name), name, "\t" if kind == "tsv" else None, header)


def _opened(path: str) -> IO[bytes]:
    if path == "-":
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except IsADirectoryError:
        raise DataError(f"{path} is a folder, not a file.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def _unzipped(file: IO[bytes], path: str) -> IO[bytes]:
    if path == "-":
        return cast("IO[bytes]", io.BufferedReader(gzip.GzipFile(fileobj=file)))
    file.close()
    return cast("IO[bytes]", io.BufferedReader(gzip.GzipFile(path)))


def _peek(file: IO[bytes], name: str) -> bytes:
    """Return the first bytes, which stay to be read."""
    with damage_named(file, name):
        return cast("io.BufferedReader", file).peek(8)[:4096]


def _format_of(start: bytes, path: str) -> str:
    if start.startswith(_PARQUET):
        return "parquet"
    if start.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return "arrow"
    by_name = _SUFFIXES.get(Path(path).suffix.lower().removeprefix("."))
    if by_name:
        return by_name
    return "jsonl" if start.lstrip().startswith(b"{") else "csv"


def _columnar(kind: str, path: str, name: str, zipped: bool) -> Source:
    if path == "-" or zipped:
        how = "from standard input" if path == "-" else "gzipped"
        raise DataError(f"{name}: {kind.capitalize()} cannot be read {how}, it must be a plain file.")
    return Parquet(path, name) if kind == "parquet" else ArrowFile(path, name)
