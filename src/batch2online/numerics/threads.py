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
    """The limit of one thread of libraries whose setting is that of the process: it holds until the last user ends.

    There is no lock, which an interrupt could leave held for ever: a user is added and removed by one operation each.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start without users, as the child of a fork does."""
        self._users: set[object] = set()
        self._before: dict[int, tuple[Any, int]] = {}

    def enter(self, libraries: list[Any]) -> object:
        """Return a new user; while there is one, the libraries have one thread."""
        user = object()
        self._users.add(user)
        for library in libraries:
            if (count := library.get_num_threads()) != 1:
                self._before[id(library)] = library, count
                library.set_num_threads(1)
        return user

    def exit(self, user: object) -> None:
        """Remove a user; the last one gives the libraries their threads back."""
        self._users.discard(user)
        if self._users:
            return
        for library, count in list(self._before.values()):
            library.set_num_threads(count if not self._users else 1)  # another thread may begin meanwhile


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
    user = _blas_limit.enter(_blas_libraries())
    try:
        yield
    finally:
        _blas_limit.exit(user)
