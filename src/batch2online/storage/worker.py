"""A thread that learns rows which a journal holds already, in their order, so that no call waits for a fit."""

from __future__ import annotations

import sys
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock
from typing import Any

_SWITCH_SECONDS = 2e-4
"""Switch interval of the interpreter while a thread learns: other threads wait for no longer than this."""


class _SwitchInterval:
    """The switch interval of the process, which all workers share: the one before returns with the last of them."""

    def __init__(self) -> None:
        self._lock, self._users, self._before = Lock(), 0, 0.0

    @contextmanager
    def shortened(self) -> Iterator[None]:
        """Shorten the interval for a while."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, _SWITCH_SECONDS))
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    sys.setswitchinterval(self._before)


_interval = _SwitchInterval()


class Worker:
    """Queue of rows, and a thread that learns them until the queue is empty.

    Rows that could not be learned stay first in the queue, and are tried again after their error was raised.

    Parameters
    ----------
    learn : callable
        Learns the rows of one call.
    """

    def __init__(self, learn: Callable[[Any], None]) -> None:
        self._learn = learn
        self.waiting: deque[Any] = deque()
        self._changed, self._is_running = Condition(), False
        self._error: BaseException | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the queue is empty and no rows are being learned."""
        return not self.waiting

    def put(self, rows: Any) -> None:
        """Let rows be learned after those in the buffer."""
        with self._changed:
            self.waiting.append(rows)
            self._start()

    def check(self) -> None:
        """Raise the error of rows that could not be learned, once."""
        with self._changed:
            error, self._error = self._error, None
            if error is None:
                self._start()
        if error is not None:
            raise error

    def flush(self) -> None:
        """Wait until all rows are learned; raise the error of those that cannot be."""
        self.check()
        with self._changed:
            self._changed.wait_for(lambda: not self._is_running)
        self.check()

    def _start(self) -> None:
        if self.waiting and not self._is_running and self._error is None:
            self._is_running = True
            start_new_thread(self._run, ())

    def _run(self) -> None:
        error = None
        with _interval.shortened():
            while self.waiting and error is None:
                try:
                    self._learn(self.waiting[0])
                    self.waiting.popleft()
                except BaseException as raised:  # the next call raises it
                    error = raised
        with self._changed:
            self._error, self._is_running = error, False
            self._start()  # rows that came since the last look
            self._changed.notify_all()
