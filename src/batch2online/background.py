"""Calls in threads, whose results the caller takes when it needs them.

A thread that computes in Python holds the interpreter for a switch interval at a time, 5 ms by default, while other
threads wait. So the interval is shorter while a call is under way.
"""

from __future__ import annotations

import os
import sys
from _thread import start_new_thread
from collections.abc import Callable
from contextvars import copy_context
from threading import Event, Lock
from typing import Any, Self

_SWITCH_SECONDS = 2e-4
"""Switch interval while a call is under way."""

_NOBODY = -1
"""In place of a process: no thread computes the result, and the caller does."""


class _SwitchInterval:
    """The switch interval of the interpreter: a short one while there are calls, afterwards the one before."""

    def __init__(self) -> None:
        self._lock, self._calls, self._before, self._own = Lock(), 0, 0.0, 0.0

    def shorten(self) -> None:
        with self._lock:
            if not self._calls:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, _SWITCH_SECONDS))
                self._own = sys.getswitchinterval()
            self._calls += 1

    def restore(self) -> None:
        with self._lock:
            self._calls -= 1
            if not self._calls:
                self._set_back()

    def forget_calls(self) -> None:
        """In the child of a fork, which has no calls under way."""
        if self._calls:
            self._set_back()
        self._lock, self._calls = Lock(), 0

    def _set_back(self) -> None:
        if sys.getswitchinterval() == self._own:  # otherwise somebody has set another one meanwhile
            sys.setswitchinterval(self._before)


_interval = _SwitchInterval()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_interval.forget_calls)


class BackgroundCall:
    """A call of a pure function in a thread of its own, which never keeps the interpreter from exiting.

    Parameters
    ----------
    compute : callable
        The function, without arguments.
    """

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute: Callable[[], Any] | None = compute
        self._result: Any = None
        self._error: BaseException | None = None
        self._ended, self._process = Event(), os.getpid()
        _interval.shorten()
        try:
            start_new_thread(copy_context().run, (self._run, compute))  # a Thread waits until it runs
        except RuntimeError:  # the system has no more threads
            _interval.restore()
            self._process = _NOBODY

    @classmethod
    def ended(cls, result: Any) -> Self:
        """Return a call that has ended with this result."""
        call = object.__new__(cls)
        call._compute, call._result, call._error = None, result, None
        return call

    def _run(self, compute: Callable[[], Any]) -> None:
        try:
            self._result = compute()
            self._compute = None
        except BaseException as error:  # the caller raises it
            self._error = error
        finally:
            _interval.restore()
            self._ended.set()

    def result(self) -> Any:
        """Wait for the end, and return the result; raise the error if there was one.

        A call after an error, in the child of a fork, or without a thread computes the result itself.
        """
        if self._compute is not None and self._error is None and self._process == os.getpid():
            self._ended.wait()
        error, self._error = self._error, None
        if error is not None:
            self._process = _NOBODY
            raise error
        compute = self._compute
        if compute is not None:
            self._result, self._compute = compute(), None
        return self._result
