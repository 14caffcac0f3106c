"""Bytes by size from a file, and by time from a pipe or a growing file, cut into blocks of whole records."""

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
        What errors call it.
    seconds : float
        From a pipe, or from a file that grows: the longest that bytes wait for more of them.
    grows : bool
        Whether to wait for more at the end of the file.
    is_over : callable
        Whether to wait no longer.
    raw : binary file, optional
        What a packed file is read from, to be closed with it.
    """

    def __init__(
        self,
        file: Any,
        name: str,
        seconds: float = SECONDS,
        grows: bool = False,
        is_over: Callable[[], bool] = lambda: False,
        raw: Any = None,
    ) -> None:
        self.file, self.name, self.grows, self._raw = file, name, grows, raw
        self._seconds, self._is_over = seconds, is_over
        self.is_live = grows or _is_pipe(file)

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        if self._raw is not None:
            self._raw.close()

    def pieces(self, size: int) -> Iterator[bytes]:
        """Iterate over pieces of about ``size`` bytes; of a live file over what has come in the meantime."""
        with damage_named(self.file, self.name):
            yield from self._live(size) if self.is_live else iter(lambda: self.file.read(size), b"")

    def _live(self, size: int) -> Iterator[bytes]:
        while some := self._some(size):
            yield some

    def _some(self, size: int) -> bytes:
        """Wait for the first bytes, then for more until there are enough or the time is over."""
        gathered = [self._next(size, None)]
        until = time.monotonic() + self._seconds
        while gathered[-1] and sum(map(len, gathered)) < size and time.monotonic() < until:
            gathered.append(self._next(size, until))
        return b"".join(gathered)

    def _next(self, size: int, until: float | None) -> bytes:
        """Return what there is; nothing at the end, or when the time is over."""
        while True:
            if not self.grows and not _has_more(self.file, until):
                return b""
            piece: bytes = self.file.read1(size)
            if piece or not self.grows or self._is_over() or (until is not None and time.monotonic() >= until):
                return piece
            self._check_not_shorter()
            time.sleep(_NAP)

    def _check_not_shorter(self) -> None:
        if os.fstat(self.file.fileno()).st_size < self.file.tell():
            raise DataError(f"{self.name} has become shorter while it was followed.")


def _is_pipe(file: Any) -> bool:
    """Whether bytes come from somebody who may take his time: a pipe, a socket, a terminal."""
    raw: Any = getattr(file, "raw", None)
    if type(raw).__name__ != "FileIO":
        return False
    return not stat.S_ISREG(os.fstat(raw.fileno()).st_mode)


def _has_more(file: Any, until: float | None) -> bool:
    """Wait for bytes or for the end of a pipe; False if the time is over first."""
    if until is None or sys.platform == "win32":  # which cannot wait for a pipe
        return until is None
    ready, _, _ = select.select([file.fileno()], [], [], max(0.0, until - time.monotonic()))
    return bool(ready)


@contextmanager
def damage_named(file: IO[bytes], name: str) -> Iterator[None]:
    """Whatever goes wrong in reading becomes a sentence that says how far the file was sound."""
    try:
        yield
    except EOFError as error:
        raise DataError(f"{name} is truncated: its {_packing(file)} data end too early{_after(file)}.") from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{name} has damaged {_packing(file)} data{_after(file)}: {error}.") from error
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}.") from error


def _packing(file: Any) -> str:
    kinds = {gzip.GzipFile: "gzip", bz2.BZ2File: "bzip2", lzma.LZMAFile: "xz"}
    return next((word for kind, word in kinds.items() if isinstance(getattr(file, "raw", file), kind)), "packed")


def _after(file: IO[bytes]) -> str:
    return f" after {file.tell():,} bytes of text"


BLOCK = 1 << 22
_LONGEST_LINE = 1 << 26
_LONGEST_QUOTED = 1 << 24
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_OPENING = re.compile(rb'(?:^|[,;\t|])[ ]*"')  # a quote opens a value only where a value begins


@dataclass(frozen=True)
class LineBlock:
    """Whole lines, the first of which has this number in its file; in quoted values lines may end as well."""

    content: bytes
    first_line: int
    quoted: bool = False

    @property
    def is_blank(self) -> bool:
        return not self.content or self.content.isspace()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Iterate over the lines that are not blank, with their numbers."""
        for offset, line in enumerate(self.content.splitlines()):
            if line.strip():
                yield self.first_line + offset, line

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Iterate over the records: lines, or several where a quoted value goes on; with the number of the first."""
        if not self.quoted or b'"' not in self.content:
            yield from self.lines()
            return
        waiting: list[bytes] = []
        first, is_open = 0, False
        for offset, line in enumerate(self.content.splitlines(keepends=True)):
            if not waiting and not line.strip():
                continue
            first = first if waiting else self.first_line + offset
            waiting.append(line)
            is_open = is_open_after(line, is_open)
            if not is_open:
                yield first, b"".join(waiting).rstrip(b"\r\n")
                waiting = []
        if waiting:
            yield first, b"".join(waiting).rstrip(b"\r\n")

    def n_lines(self) -> int:
        """How many lines end in this block, by a newline, a carriage return or both."""
        newlines = self.content.count(b"\n")
        returns = self.content.count(b"\r")
        return newlines + returns - (self.content.count(b"\r\n") if returns else 0)

    def line_of(self, row: int) -> int:
        """Return the number of the line at which the row-th row begins, blank lines passed over."""
        return next(number for index, (number, _) in enumerate(self.records()) if index == row)

    def joined(self, other: LineBlock) -> LineBlock:
        """Return the lines of this block and of the one that follows it."""
        return replace(self, content=self.content + other.content)


def is_open_after(line: bytes, was_open: bool) -> bool:
    """Whether a quoted value goes on beyond this line. Quotes inside a value are doubled; others mean nothing.

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
    feed: ByteStream, size: int = BLOCK, least_lines: int = 256, *, encoding: str | None = None, quoted: bool = False
) -> Iterator[LineBlock]:
    """Iterate over the records of a file in blocks of about ``size`` bytes; the last line may lack its end.

    After the first block, which should come soon, long lines make larger blocks of ``least_lines`` lines: a block
    costs time for each of its columns. Of a live feed each block is what has come. With ``quoted`` a quoted value
    may hold ends of lines.
    """
    rest, line, least = b"", 1, 1
    with feed:
        for piece in _as_utf8(feed.pieces(size), feed.name, encoding):
            rest += piece
            is_quoted = quoted and b'"' in rest
            cut = _end_of_last_record(rest) if is_quoted else _end_of_last_line(rest)
            if not cut and len(rest) > (_LONGEST_QUOTED if is_quoted else _LONGEST_LINE):
                raise _too_long(feed.name, line, is_quoted)
            block = LineBlock(rest[:cut], line, quoted)
            n_lines = block.n_lines()
            if cut and (n_lines >= least or feed.is_live or len(rest) > _LONGEST_LINE):
                rest, line, least = rest[cut:], line + n_lines, least_lines
                yield block
    if rest and not feed.grows:
        _check_closed(rest, line, feed.name, quoted)
        yield LineBlock(rest, line, quoted)


def _check_closed(rest: bytes, line: int, name: str, quoted: bool) -> None:
    """Refuse a quoted value that the end of the file cuts off."""
    if not quoted or b'"' not in rest:
        return
    cut = _end_of_last_record(rest)
    is_open = False
    for text in rest[cut:].splitlines():
        is_open = is_open_after(text, is_open)
    if is_open:
        number = line + LineBlock(rest[:cut], line).n_lines()
        raise DataError(f"{name}, line {number:,}: a quoted value does not end properly.")


def _too_long(name: str, line: int, is_quoted: bool) -> DataError:
    if is_quoted:
        return DataError(
            f"{name}, line {line:,}: a quoted value begins and does not end in {_LONGEST_QUOTED >> 20} MB."
        )
    return DataError(f"{name}, line {line:,} is longer than {_LONGEST_LINE >> 20} MB: no table of text.", Remedy.FORMAT)


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
    """Where the last complete line ends; a final carriage return may be half of an end and waits."""
    return max(content.rfind(b"\n"), content.rfind(b"\r", 0, -1)) + 1


def _end_of_last_record(content: bytes) -> int:
    """Where the last complete line ends that no quoted value goes beyond."""
    end, is_open, start = 0, False, 0
    complete = content[: _end_of_last_line(content)]
    if not any(
        line.count(b'"') & 1 for line in complete.splitlines()
    ):  # a value over lines has odd first and last ones
        return len(complete)
    for match in _LINE_END.finditer(complete):
        is_open = is_open_after(complete[start : match.start()], is_open)
        start = match.end()
        end = end if is_open else start
    return end
