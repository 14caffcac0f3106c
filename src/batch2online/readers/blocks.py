"""Blocks of whole lines out of a stream of bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from batch2online.readers.batch import DataError

BLOCK = 1 << 22
_LONGEST_LINE = 1 << 26
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class LineBlock:
    """Whole lines, the first of which has this number in its file."""

    content: bytes
    first_line: int

    @property
    def is_blank(self) -> bool:
        return not self.content or self.content.isspace()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Iterate over the lines that are not blank, with their numbers."""
        for offset, line in enumerate(self.content.splitlines()):
            if line.strip():
                yield self.first_line + offset, line

    def n_lines(self) -> int:
        """How many lines end in this block, by a newline, a carriage return or both."""
        newlines = self.content.count(b"\n")
        returns = self.content.count(b"\r")
        return newlines + returns - (self.content.count(b"\r\n") if returns else 0)

    def line_of(self, row: int) -> int:
        """Return the number of the line that holds the row-th row, blank lines passed over."""
        return next(number for index, (number, _) in enumerate(self.lines()) if index == row)


def blocks(file: IO[bytes], name: str, size: int = BLOCK, least_lines: int = 256) -> Iterator[LineBlock]:
    """Iterate over the lines of a file in blocks of about ``size`` bytes; the last line may lack its end.

    After the first block, which should come soon, long lines make larger blocks of ``least_lines`` lines: a block
    costs time for each of its columns.
    """
    rest, line, least = b"", 1, 1
    with file:
        for piece in _pieces(file, name, size):
            rest += piece
            cut = _end_of_last_line(rest)
            if not cut and len(rest) > _LONGEST_LINE:
                raise DataError(f"{name}, line {line:,} is longer than {_LONGEST_LINE >> 20} MB: no table of text.")
            block = LineBlock(rest[:cut], line)
            n_lines = block.n_lines()
            if n_lines >= least or len(rest) > _LONGEST_LINE:
                rest, line, least = rest[cut:], line + n_lines, least_lines
                yield block
    if rest:
        yield LineBlock(rest, line)


def _pieces(file: IO[bytes], name: str, size: int) -> Iterator[bytes]:
    with damage_named(file, name):
        first = file.read(size)
        if first.startswith(_UTF16_MARKS):
            raise DataError(f"{name} is encoded as UTF-16: convert it to UTF-8.")
        yield first.removeprefix(_UTF8_MARK)
        while piece := file.read(size):
            yield piece


@contextmanager
def damage_named(file: IO[bytes], name: str) -> Iterator[None]:
    """Whatever goes wrong in reading becomes a sentence that says how far the file was sound."""
    try:
        yield
    except EOFError as error:
        raise DataError(f"{name} is truncated: its gzip data end too early{_after(file)}.") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{name} has damaged gzip data{_after(file)}: {error}.") from error
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}.") from error


def _after(file: IO[bytes]) -> str:
    return f" after {file.tell():,} bytes of text"


def _end_of_last_line(content: bytes) -> int:
    """Where the last complete line ends; a final carriage return may be half of an end and waits."""
    return max(content.rfind(b"\n"), content.rfind(b"\r", 0, -1)) + 1
