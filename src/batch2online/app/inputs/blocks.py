"""Read bytes, by size from a file and by time from a pipe or a growing file, in blocks of whole records."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import re
import select
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

import numpy as np

from batch2online._types import IntArray
from batch2online.app.inputs.batch import DataError, Remedy
from batch2online.app.inputs.layout import Layout

BLOCK = 1 << 22
MIN_LINES = 256
"""Lines of a block after the first: a block costs time per column."""

_LONGEST_LINE = 1 << 26
_LONGEST_QUOTED = 1 << 24
_NAP = 0.05
_NEWLINE, _QUOTE = 10, 34


class ByteStream:
    """The bytes of a file.

    Parameters
    ----------
    file : binary file
        With ``read1``, as buffered files have it.
    name : str
        Name of the file in errors.
    layout : Layout
        Says whether the file grows, and how long to buffer the bytes of a live one.
    """

    def __init__(self, file: Any, name: str, layout: Layout) -> None:
        self.file, self.name, self._layout = file, name, layout
        self.grows = layout.follow
        self.is_live = self.grows or _is_pipe(file)

    def pieces(self) -> Iterator[bytes]:
        """Iterate over pieces of some megabytes; of a live file over the bytes received meanwhile."""
        with read_errors(self.file, self.name):
            read = self._buffered if self.is_live else self.file.read
            yield from iter(lambda: read(BLOCK), b"")

    def _buffered(self, size: int) -> bytes:
        """Wait for the first bytes, then for further ones until there are ``size`` or the time is over."""
        gathered = [self._next(size, None)]
        until = time.monotonic() + self._layout.seconds
        while gathered[-1] and sum(map(len, gathered)) < size and time.monotonic() < until:
            gathered.append(self._next(size, until))
        return b"".join(gathered)

    def _next(self, size: int, until: float | None) -> bytes:
        """Return the available bytes; none at the end, or when the time is over."""
        while True:
            if not self.grows and not _has_more(self.file, until):
                return b""
            piece: bytes = self.file.read1(size)
            if piece or not self.grows or self._layout.stopped() or (until is not None and time.monotonic() >= until):
                return piece
            if os.fstat(self.file.fileno()).st_size < self.file.tell():
                raise DataError(f"{self.name} was truncated while it was followed.")
            time.sleep(_NAP)


def _is_pipe(file: Any) -> bool:
    """Whether bytes come from a pipe, a socket or a terminal."""
    raw: Any = getattr(file, "raw", None)
    if type(raw).__name__ != "FileIO":
        return False
    return not stat.S_ISREG(os.fstat(raw.fileno()).st_mode)


def _has_more(file: Any, until: float | None) -> bool:
    """Wait for bytes or the end of a pipe; False if the time is over first."""
    if until is None or sys.platform == "win32":  # cannot wait for a pipe
        return until is None
    ready, _, _ = select.select([file.fileno()], [], [], max(0.0, until - time.monotonic()))
    return bool(ready)


@contextmanager
def read_errors(file: IO[bytes], name: str) -> Iterator[None]:
    """Raise errors of reading as a DataError that says how much of the file was read."""
    try:
        yield
    except EOFError as error:
        raise DataError(
            f"{name} is truncated: its {_compression(file)} data end after {file.tell():,} bytes."
        ) from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise DataError(
            f"{name} has damaged {_compression(file)} data after {file.tell():,} bytes: {error}."
        ) from error
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}.") from error


def _compression(file: Any) -> str:
    kinds = {gzip.GzipFile: "gzip", bz2.BZ2File: "bzip2", lzma.LZMAFile: "xz"}
    return next((word for kind, word in kinds.items() if isinstance(getattr(file, "raw", file), kind)), "compressed")


@dataclass(frozen=True)
class Block:
    """Whole records, which end in newlines, and the number of the first line in its file.

    ``separators`` are those after which a quote opens a value; None if quotes mean nothing.
    """

    content: bytes
    first_line: int
    separators: bytes | None = None

    @property
    def is_blank(self) -> bool:
        return self._is_blank(self.content)

    def _is_blank(self, content: bytes) -> bool:
        """Whether lines are blank; separators alone are missing values, whitespace alone is no JSON."""
        return not content.strip(None if self.separators is None else b"\r\n")

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Iterate over the line numbers and contents of records that are not blank."""
        start, line = 0, self.first_line
        for end in [*record_ends(self.content, self.separators).tolist(), len(self.content)]:
            record = self.content[start:end]
            if not self._is_blank(record):
                yield line, record.rstrip(b"\r\n")
            start, line = end, line + record.count(b"\n")

    def line_of(self, row: int) -> int:
        """Return the first line number of a row; blank lines are not rows."""
        return next(islice(self.records(), row, None))[0]

    def without_first_record(self) -> Block:
        """Return the rest of this block."""
        ends = record_ends(self.content, self.separators)
        whole = (end for end in ends.tolist() if not self._is_blank(self.content[:end]))
        end = next(whole, len(self.content))
        return Block(self.content[end:], self.first_line + self.content.count(b"\n", 0, end), self.separators)

    def joined(self, other: Block) -> Block:
        """Return this block followed by another."""
        return Block(self.content + other.content, self.first_line, self.separators)


def record_ends(content: bytes, separators: bytes | None) -> IntArray:
    """Return where complete records end: after newlines outside quoted values."""
    ends = np.flatnonzero(np.frombuffer(content, np.uint8) == _NEWLINE) + 1
    if separators is not None and b'"' in content:
        ends = ends[np.searchsorted(quotes(content, separators), ends) % 2 == 0]
    return ends


def quotes(content: bytes, separators: bytes) -> IntArray:
    """Return the positions of quotes that open and close values, in turns.

    A quote opens a value at its start alone: that of ``5" pipe`` means nothing. A doubled one closes and opens again.

    >>> quotes(b'1,"a ""b"" c",5" pipe,"d"', b",").tolist()
    [2, 5, 6, 8, 9, 12, 22, 24]
    """
    found = np.flatnonzero(np.frombuffer(content, np.uint8) == _QUOTE)
    before = np.frombuffer(b"\n" + content, np.uint8)[found]
    at_start = np.isin(before, np.frombuffer(b"\n" + separators, np.uint8))
    is_doubled = np.diff(found, prepend=-2) == 1
    if (at_start | is_doubled)[::2].all():
        return found
    kept: list[int] = []  # some quotes mean nothing: decide on one after the other
    for at, is_first in zip(found.tolist(), at_start.tolist(), strict=True):
        if is_first or len(kept) % 2 or (kept and kept[-1] == at - 1):
            kept.append(at)
    return np.array(kept, dtype=np.int64)


class Blocks:
    """The blocks of a file, of some megabytes each; those of a live file are the records received.

    Attributes
    ----------
    separators : bytes or None
        Bytes after which a quote opens a value; they may be set after the first block. None if quotes mean nothing.
    """

    def __init__(self, stream: ByteStream, encoding: str | None, separators: bytes | None) -> None:
        self._stream, self._encoding, self.separators = stream, encoding, separators

    def __iter__(self) -> Iterator[Block]:
        rest, line, least = b"", 1, 1
        for piece in _with_newlines(_as_utf8(self._stream.pieces(), self._stream.name, self._encoding)):
            rest += piece
            cut = self._end_of_last_record(rest)
            self._check_length(rest, cut, line)
            n_lines = rest.count(b"\n", 0, cut)
            if cut and (n_lines >= least or self._stream.is_live or len(rest) > _LONGEST_LINE):
                yield Block(rest[:cut], line, self.separators)
                rest, line, least = rest[cut:], line + n_lines, MIN_LINES
        if rest and not self._stream.grows:
            block = Block(rest, line, self.separators)
            self._check_closed(block)
            yield block

    def _end_of_last_record(self, content: bytes) -> int:
        if self.separators is None or b'"' not in content:
            return content.rfind(b"\n") + 1
        ends = record_ends(content, self.separators)
        return int(ends[-1]) if len(ends) else 0

    def _check_length(self, rest: bytes, cut: int, line: int) -> None:
        """Raise an error if there is no end of a record for too many bytes."""
        if cut or len(rest) <= _LONGEST_QUOTED:
            return
        place = f"{self._stream.name}, line {line:,}"
        if self.separators is not None and len(quotes(rest, self.separators)) % 2:
            raise DataError(f"{place}: a quoted value is not terminated within {_LONGEST_QUOTED >> 20} MB.")
        if len(rest) > _LONGEST_LINE:
            raise DataError(f"{place}: longer than {_LONGEST_LINE >> 20} MB.", Remedy.FORMAT)

    def _check_closed(self, block: Block) -> None:
        """Raise an error if a quoted value is not terminated at the end of the file, which Arrow accepts."""
        if self.separators is not None and len(quotes(block.content, self.separators)) % 2:
            line = max(line for line, _ in block.records())
            raise DataError(f"{self._stream.name}, line {line:,}: a quoted value is not terminated.")


def _with_newlines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the bytes with lines that end in a newline: a single carriage return is a line end of its own."""
    held = b""
    for given in pieces:
        piece = held + given
        held = b"\r" if piece.endswith(b"\r") else b""  # may be half of a line end
        piece = piece.removesuffix(held) if held else piece
        if b"\r" in piece and piece.count(b"\r") != piece.count(b"\r\n"):
            piece = re.sub(rb"\r(?!\n)", b"\n", piece)
        if piece:
            yield piece
    if held:
        yield b"\n"


def _as_utf8(pieces: Iterator[bytes], name: str, encoding: str | None) -> Iterator[bytes]:
    first = next(pieces, b"")
    if encoding is None and first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    if encoding is None or codecs.lookup(encoding).name == "utf-8":
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        yield decoder.decode(first).encode()
        for piece in pieces:
            yield decoder.decode(piece).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise DataError(f"{name} is not encoded as {encoding}: {error}.", Remedy.ENCODING) from error
