"""One BLAS thread where two would only wait for each other.

On blocks of a few columns a second thread gains nothing on an idle machine (``python -m benchmarks.suite --only
lines/threads``), and on a busy one threads wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

FEW_COLUMNS = 200


@cache
def _blas_libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_thread_for(columns: int) -> Iterator[None]:
    """Limit BLAS to one thread while rows of so few columns are worked on."""
    libraries = _blas_libraries() if columns <= FEW_COLUMNS else []
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
