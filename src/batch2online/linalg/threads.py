"""One BLAS thread, unless somebody asks for more.

Blocks of rows are small work for BLAS. On an idle machine a second thread gains little, and nothing for few columns; on
a busy one threads wait for each other, which costs up to a hundred times the work. Whoever has the machine for himself
and thousands of columns asks for threads by the variable that his BLAS knows, such as ``OPENBLAS_NUM_THREADS``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS")


@cache
def _blas_libraries() -> list[Any]:
    """Libraries to be limited: none if threads were asked for when the first was needed."""
    if any(os.environ.get(name) for name in _VARIABLES):
        return []
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread for a while; also a decorator."""
    libraries = _blas_libraries()
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
