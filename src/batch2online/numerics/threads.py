"""Limit BLAS to one thread, unless an environment variable sets the number of threads.

Blocks of rows are small work for BLAS. On an idle machine a second thread gains little, and nothing for few columns; on
a busy one threads wait for each other, which costs up to a hundred times the work. If you have the machine for yourself
and hundreds of columns, set the variable of your BLAS, such as ``OPENBLAS_NUM_THREADS``. Learning from rows of fewer
columns takes one thread all the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
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


@contextmanager
def one_thread(columns: int | None = None) -> Iterator[None]:
    """Limit BLAS to one thread, for rows of so many columns or for any other work; also a decorator."""
    is_small = columns is not None and columns <= _FEW_COLUMNS
    libraries = _blas_libraries() if is_small or not _is_set() else []
    before = [library.get_num_threads() for library in libraries]
    if all(count == 1 for count in before):
        yield
        return
    try:
        for library in libraries:
            library.set_num_threads(1)
        yield
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.set_num_threads(count)
