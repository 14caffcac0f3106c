"""Bytes as they come: by size from a file, by time as well from a pipe or from a file that grows."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import select
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from batch2online.app.inputs.batch import DataError

SECONDS = 0.5
_NAP = 0.05


class Feed:
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

    def __enter__(self) -> Feed:
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
