"""Limit BLAS and OpenMP to one thread, unless an environment variable sets the number of threads.

Blocks of rows are small work for BLAS. On an idle machine a second thread gains little, and nothing for few columns; on
a busy one threads wait for each other, which costs up to a hundred times the work. If you have the machine for yourself
and hundreds of columns, set the variable of your BLAS, such as ``OPENBLAS_NUM_THREADS``. Learning from rows of fewer
columns takes one thread all the same. Wrapped estimators use OpenMP: for more threads set ``OMP_NUM_THREADS``, or their
own ``n_jobs``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from threading import RLock
from typing import Any

from threadpoolctl import ThreadpoolController

_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS")


_FEW_COLUMNS = 200


@cache
def _blas_libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _is_set() -> bool:
    """Return whether a variable set the number of threads at the first call."""
    return any(os.environ.get(name) for name in _VARIABLES)


@lru_cache(maxsize=1)
def _openmp_libraries(n_modules: int) -> list[Any]:
    """Return the OpenMP libraries; further modules may have loaded further ones."""
    return list(ThreadpoolController().select(user_api="openmp").lib_controllers)


class _Limit:
    """The limit of one thread of libraries whose setting is that of the process: it holds until the last user ends."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start without users, as the child of a fork does."""
        self._lock, self._users = RLock(), 0  # an interrupt can leave it held: its thread goes on all the same
        self._before: list[tuple[Any, int]] = []

    def enter(self, libraries: list[Any]) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                counts = [(library, library.get_num_threads()) for library in libraries]
                self._before = [(library, count) for library, count in counts if count != 1]
                for library, _ in self._before:
                    library.set_num_threads(1)

    def exit(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                for library, count in self._before:
                    library.set_num_threads(count)


_blas_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_blas_limit.begin)


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Limit OpenMP to one thread, in which estimators like boosters are fitted and predict; also a decorator."""
    libraries = [] if _is_set() else _openmp_libraries(len(sys.modules))
    before = [library.get_num_threads() for library in libraries]  # each thread has its own number
    try:
        for library in libraries:
            library.set_num_threads(1)
        yield
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.set_num_threads(count)


@contextmanager
def one_thread(columns: int | None = None) -> Iterator[None]:
    """Limit BLAS to one thread, for rows of so many columns or for any other work; also a decorator."""
    is_small = columns is not None and columns <= _FEW_COLUMNS
    if not is_small and _is_set():
        yield
        return
    _blas_limit.enter(_blas_libraries())
    try:
        yield
    finally:
        _blas_limit.exit()
