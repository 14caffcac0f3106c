"""Read bytes, by size from a file and by time from a pipe or a growing file, in blocks of whole records."""

from __future__ import annotations

import codecs
import io
import math
import os
import re
import select
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BufferedReader
from itertools import chain, islice

import numpy as np

from batch2online._types import IntArray
from batch2online.app.inputs.batch import DataError, Remedy, explained
from batch2online.app.inputs.layout import Layout

BLOCK = 1 << 22
MIN_LINES = 256
"""Lines of a block after the first: a block costs time per column."""

_LONGEST = 1 << 26
_NAP = 0.05
_NEWLINE, _QUOTE = 10, 34


def is_pipe(file: BufferedReader) -> bool:
    """Whether bytes come from a pipe, a socket or a terminal."""
    raw = getattr(file, "raw", None)
    return isinstance(raw, io.FileIO) and not stat.S_ISREG(os.fstat(raw.fileno()).st_mode)


def _received(file: BufferedReader, name: str, layout: Layout) -> Iterator[bytes]:
    """Yield the bytes that arrive within some time after the first; a growing file is waited for at its end."""
    ended = False
    while not ended:
        gathered, until = b"", math.inf
        while not ended and len(gathered) < BLOCK and time.monotonic() < until:
            if gathered and not layout.follow and not _has_more(file, until):
                break
            piece = file.read1(BLOCK)
            ended = not piece and (not layout.follow or layout.stopped())
            if piece and not gathered:
                until = time.monotonic() + layout.seconds
            elif not piece and not ended:
                if os.fstat(file.fileno()).st_size < file.tell():
                    raise DataError(f"{name} was truncated while it was followed.")
                time.sleep(_NAP)
            gathered += piece
        if gathered:
            yield gathered


def _has_more(file: BufferedReader, until: float) -> bool:
    """Wait for bytes or the end of a pipe; False if the time is over first, or if it cannot be waited for."""
    if sys.platform == "win32":
        return False
    return bool(select.select([file.fileno()], [], [], max(0.0, until - time.monotonic()))[0])


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

    def without_lines(self, n: int) -> Block:
        """Return this block with ``n`` blank lines in place of the first ones."""
        lines = self.content.splitlines(keepends=True)
        return replace(self, content=b"\n" * len(lines[:n]) + b"".join(lines[n:]))

    def joined(self, other: Block) -> Block:
        """Return this block followed by another."""
        return replace(self, content=self.content + other.content)


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


class RecordBlocks:
    """The blocks of a file, of some megabytes each; those of a live file are the records received.

    Parameters
    ----------
    file : binary file
        With ``read1``, as buffered files have it.
    name : str
        Name of the file in errors.
    layout : Layout
        Says whether the file grows, how long to wait for the bytes of a live one, and the encoding.
    separators : bytes or None
        Bytes after which a quote opens a value; they may be set after the first block. None if quotes mean nothing.
    """

    def __init__(self, file: BufferedReader, name: str, layout: Layout, separators: bytes | None) -> None:
        self._file, self._name, self._layout, self.separators = file, name, layout, separators
        self.is_live = layout.follow or is_pipe(file)

    def __iter__(self) -> Iterator[Block]:
        rest, line, least = b"", 1, 1
        for piece in _with_newlines(_as_utf8(self._pieces(), self._name, self._layout.encoding)):
            rest += piece
            cut = self._end_of_last_record(rest)
            if not cut and len(rest) > _LONGEST:
                message = f"longer than {_LONGEST >> 20} MB, or a quoted value is not terminated"
                raise DataError(f"{self._name}, line {line:,}: {message}.", Remedy.FORMAT)
            n_lines = rest.count(b"\n", 0, cut)
            if cut and (n_lines >= least or self.is_live or len(rest) > _LONGEST):
                yield Block(rest[:cut], line, self.separators)
                rest, line, least = rest[cut:], line + n_lines, MIN_LINES
        if rest and not self._layout.follow:
            block = Block(rest, line, self.separators)
            self._check_closed(block)
            yield block

    def _pieces(self) -> Iterator[bytes]:
        with explained(f"{self._name} cannot be read"):
            if self.is_live:
                yield from _received(self._file, self._name, self._layout)
            else:
                yield from iter(lambda: self._file.read(BLOCK), b"")

    def _end_of_last_record(self, content: bytes) -> int:
        if self.separators is None or b'"' not in content:
            return content.rfind(b"\n") + 1
        ends = record_ends(content, self.separators)
        return int(ends[-1]) if len(ends) else 0

    def _check_closed(self, block: Block) -> None:
        """Raise an error if a quoted value is not terminated at the end of the file, which Arrow accepts."""
        if self.separators is not None and len(quotes(block.content, self.separators)) % 2:
            line = max(line for line, _ in block.records())
            raise DataError(f"{self._name}, line {line:,}: a quoted value is not terminated.")


def first_block(blocks: Iterator[Block], name: str, min_lines: int) -> Block:
    """Return the first block that is not blank; of a live input as many blocks as have ``min_lines`` lines."""
    found = next((block for block in blocks if block.content.strip()), None)
    if found is None:
        raise DataError(f"{name} is empty.")
    while len(list(islice(found.records(), min_lines))) < min_lines:
        following = next(blocks, None)
        if following is None:
            break
        found = found.joined(following)
    return found


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
    try:
        for text in codecs.iterdecode(chain([first], pieces), encoding):
            yield text.encode()
    except UnicodeError as error:
        raise DataError(f"{name} is not encoded as {encoding}: {error}.", Remedy.ENCODING) from error
