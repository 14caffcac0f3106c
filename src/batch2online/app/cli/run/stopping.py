"""A run without an end is ended by an interrupt, and shows what it has found."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stop:
    """Whether to wait no longer; a second interrupt ends the process as usual."""

    def __init__(self) -> None:
        self._is_over = False

    def __call__(self) -> bool:
        return self._is_over

    def set(self, *_: Any) -> None:
        """Wait no longer."""
        if self._is_over:
            raise KeyboardInterrupt
        self._is_over = True


@contextmanager
def stoppable(follow: bool) -> Iterator[Stop]:
    """Take an interrupt as the end of a file that is followed."""
    stop = Stop()
    if not follow or threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGINT, stop.set)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
