"""A progress bar on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Generic, TextIO, TypeVar

Item = TypeVar("Item")
_WIDTH = 30


class ProgressBar(Generic[Item]):
    """Passes items on and shows how many have come, of how many, and the time left.

    On a terminal one line is redrawn; elsewhere a line is written at the end only.
    """

    def __init__(self, items: Iterable[Item], total: int, label: str, stream: TextIO | None = None) -> None:
        self.items, self.total, self.label = items, max(total, 1), label
        self.stream = sys.stderr if stream is None else stream

    def __iter__(self) -> Iterator[Item]:
        started = time.perf_counter()
        for done, item in enumerate(self.items, start=1):
            yield item
            self._show(done, time.perf_counter() - started)

    def _show(self, done: int, seconds: float) -> None:
        is_last = done == self.total
        if not (is_last or self.stream.isatty()):
            return
        filled = _WIDTH * done // self.total
        left = f"{seconds:.1f} s" if is_last else f"{seconds * (self.total - done) / done:.0f} s left"
        line = f"{self.label} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{self.total}, {left}"
        start = "\r" if self.stream.isatty() else ""
        self.stream.write(f"{start}{line:<78}{chr(10) if is_last else ''}")
        self.stream.flush()
