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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any

from batch2online.app.inputs.batch import DataError, Remedy

SECONDS = 0.5
_NAP = 0.05


class ByteStream:
    """The bytes of a file.

    Parameters
    ----------
    file : binary file
        With ``read1``, as buffered files have it.
    name : str
        Name of the file in errors.
    seconds : float
        Maximum time to buffer bytes of a pipe or a growing file.
    grows : bool
        Whether to wait for further bytes at the end of the file.
    stopped : callable
        Returns whether to stop pending.
    raw : binary file, optional
        Underlying file of a compressed one, closed with it.
    """

    def __init__(
        self,
        file: Any,
        name: str,
        seconds: float = SECONDS,
        grows: bool = False,
        stopped: Callable[[], bool] = lambda: False,
        raw: Any = None,
    ) -> None:
        self.file, self.name, self.grows, self._raw = file, name, grows, raw
        self._seconds, self._stopped = seconds, stopped
        self.is_live = grows or _is_pipe(file)

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        if self._raw is not None:
            self._raw.close()

    def pieces(self, size: int) -> Iterator[bytes]:
        """Iterate over pieces of about ``size`` bytes; of a live file over the bytes received meanwhile."""
        with read_errors(self.file, self.name):
            read = self._buffered if self.is_live else self.file.read
            yield from iter(lambda: read(size), b"")

    def _buffered(self, size: int) -> bytes:
        """Wait for the first bytes, then for further ones until there are ``size`` or the time is over."""
        gathered = [self._next(size, None)]
        until = time.monotonic() + self._seconds
        while gathered[-1] and sum(map(len, gathered)) < size and time.monotonic() < until:
            gathered.append(self._next(size, until))
        return b"".join(gathered)

    def _next(self, size: int, until: float | None) -> bytes:
        """Return the available bytes; none at the end, or when the time is over."""
        while True:
            if not self.grows and not _has_more(self.file, until):
                return b""
            piece: bytes = self.file.read1(size)
            if piece or not self.grows or self._stopped() or (until is not None and time.monotonic() >= until):
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


BLOCK = 1 << 22
_LONGEST_LINE = 1 << 26
_LONGEST_QUOTED = 1 << 24
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_OPENING = re.compile(rb'(?:^|[,;\t|])[ ]*"')  # a quote opens a value only at its start


@dataclass(frozen=True)
class LineBlock:
    """Whole lines, and the number of the first in its file; if ``quoted``, values may contain line ends."""

    content: bytes
    first_line: int
    quoted: bool = False

    @property
    def is_blank(self) -> bool:
        return not self.content or self.content.isspace()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Iterate over the numbers and contents of lines that are not blank."""
        for offset, line in enumerate(self.content.splitlines()):
            if line.strip():
                yield self.first_line + offset, line

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Iterate over the first line numbers and contents of records; a quoted value may span lines."""
        if not self.quoted or b'"' not in self.content:
            yield from self.lines()
            return
        pending: list[bytes] = []
        first, is_open = 0, False
        for offset, line in enumerate(self.content.splitlines(keepends=True)):
            if not pending and not line.strip():
                continue
            first = first if pending else self.first_line + offset
            pending.append(line)
            is_open = is_open_after(line, is_open)
            if not is_open:
                yield first, b"".join(pending).rstrip(b"\r\n")
                pending = []
        if pending:
            yield first, b"".join(pending).rstrip(b"\r\n")

    def n_lines(self) -> int:
        """Return the number of line ends: a newline, a carriage return or both."""
        newlines = self.content.count(b"\n")
        returns = self.content.count(b"\r")
        return newlines + returns - (self.content.count(b"\r\n") if returns else 0)

    def line_of(self, row: int) -> int:
        """Return the first line number of a row; blank lines are not rows."""
        return next(number for index, (number, _) in enumerate(self.records()) if index == row)

    def joined(self, other: LineBlock) -> LineBlock:
        """Return this block followed by another."""
        return replace(self, content=self.content + other.content)


def is_open_after(line: bytes, was_open: bool) -> bool:
    """Whether a quoted value continues after this line. Quotes inside a value are doubled.

    >>> is_open_after(b'1,"a', False), is_open_after(b'5" pipe,"a ""b"" c"', False), is_open_after(b'b",2', True)
    (True, False, False)
    """
    if b'"' not in line:
        return was_open
    at, is_open = 0, was_open
    while True:
        if is_open:
            end = line.find(b'"', at)
            if end < 0:
                return True
            is_open, at = line[end + 1 : end + 2] == b'"', end + 1 + (line[end + 1 : end + 2] == b'"')
        else:
            opening = _OPENING.search(line, at)
            if opening is None:
                return False
            is_open, at = True, opening.end()


def blocks(
    stream: ByteStream, size: int = BLOCK, min_lines: int = 256, *, encoding: str | None = None, quoted: bool = False
) -> Iterator[LineBlock]:
    """Iterate over the records of a file in blocks of about ``size`` bytes; the last line may lack its end.

    After the first block, which should be fast, blocks of long lines have at least ``min_lines`` lines: a block costs
    time per column. Blocks of a live stream are the lines received. If ``quoted``, values may contain line ends.
    """
    rest, line, least = b"", 1, 1
    with stream:
        for piece in _as_utf8(stream.pieces(size), stream.name, encoding):
            rest += piece
            is_quoted = quoted and b'"' in rest
            cut = _end_of_last_record(rest) if is_quoted else _end_of_last_line(rest)
            if not cut and len(rest) > (_LONGEST_QUOTED if is_quoted else _LONGEST_LINE):
                what = "a quoted value is not terminated within" if is_quoted else "longer than"
                limit = (_LONGEST_QUOTED if is_quoted else _LONGEST_LINE) >> 20
                remedies = [] if is_quoted else [Remedy.FORMAT]
                raise DataError(f"{stream.name}, line {line:,}: {what} {limit} MB.", *remedies)
            block = LineBlock(rest[:cut], line, quoted)
            n_lines = block.n_lines()
            if cut and (n_lines >= least or stream.is_live or len(rest) > _LONGEST_LINE):
                rest, line, least = rest[cut:], line + n_lines, min_lines
                yield block
    if rest and not stream.grows:
        _check_closed(rest, line, stream.name, quoted)
        yield LineBlock(rest, line, quoted)


def _check_closed(rest: bytes, line: int, name: str, quoted: bool) -> None:
    """Raise an error if a quoted value is not terminated at the end of the file."""
    if not quoted or b'"' not in rest:
        return
    cut = _end_of_last_record(rest)
    is_open = False
    for text in rest[cut:].splitlines():
        is_open = is_open_after(text, is_open)
    if is_open:
        number = line + LineBlock(rest[:cut], line).n_lines()
        raise DataError(f"{name}, line {number:,}: a quoted value is not terminated.")


def _as_utf8(pieces: Iterator[bytes], name: str, encoding: str | None) -> Iterator[bytes]:
    first = next(pieces, b"")
    if encoding is None and first.startswith(_UTF16_MARKS):
        encoding = "utf-16"
    if encoding is None or codecs.lookup(encoding).name == "utf-8":
        yield first.removeprefix(_UTF8_MARK)
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    yield _recoded(decoder, first, name, encoding)
    for piece in pieces:
        yield _recoded(decoder, piece, name, encoding)
    yield _recoded(decoder, b"", name, encoding, final=True)


def _recoded(
    decoder: codecs.IncrementalDecoder, piece: bytes, name: str, encoding: str, *, final: bool = False
) -> bytes:
    try:
        return decoder.decode(piece, final).encode()
    except UnicodeError as error:
        raise DataError(f"{name} is not encoded as {encoding}: {error}.", Remedy.ENCODING) from error


def _end_of_last_line(content: bytes) -> int:
    """Return the end of the last complete line; a final carriage return may be half of a line end."""
    return max(content.rfind(b"\n"), content.rfind(b"\r", 0, -1)) + 1


def _end_of_last_record(content: bytes) -> int:
    """Return the end of the last complete line outside quoted values."""
    end, is_open, start = 0, False, 0
    complete = content[: _end_of_last_line(content)]
    if not any(line.count(b'"') & 1 for line in complete.splitlines()):  # no value spans lines
        return len(complete)
    for match in _LINE_END.finditer(complete):
        is_open = is_open_after(complete[start : match.start()], is_open)
        start = match.end()
        end = end if is_open else start
    return end
