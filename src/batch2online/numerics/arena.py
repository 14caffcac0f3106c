"""Memory for rows that are kept, asked for in large arrays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from batch2online._types import FloatArray

_LARGEST_BYTES = 2**25
_HUGE_PAGE = 2**21


class Arena:
    """Hands out arrays of rows one after the other from large ones.

    The system maps a large array in huge pages, and writing to it for the first time takes a third of the time that
    small arrays of the same size take. A large array holds as much as was handed out before it, within bounds.
    """

    def __init__(self, columns: int) -> None:
        self.columns, self.handed_out, self.used = columns, 0, 0
        self.large: FloatArray = np.empty((0, columns))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a copy starts with nothing: what was handed out belongs to others."""
        return type(self), (self.columns,)

    def rows(self, n: int) -> FloatArray:
        """Return an array of n rows with any content, directly after the one before if there is room."""
        if self.used + n > len(self.large):
            most = _LARGEST_BYTES // (8 * max(1, self.columns))
            self.large, self.used = _in_huge_pages(max(n, min(self.handed_out, most)), self.columns), 0
        self.used += n
        self.handed_out += n
        return self.large[self.used - n : self.used]


def _in_huge_pages(rows: int, columns: int) -> FloatArray:
    """Return an array that begins where a huge page does, if it is larger than one: no part of it needs small ones."""
    size = 8 * rows * columns
    if size < _HUGE_PAGE:
        return np.empty((rows, columns))
    memory = np.empty(size + _HUGE_PAGE, dtype=np.uint8)
    return np.ndarray((rows, columns), np.float64, memory, -memory.ctypes.data % _HUGE_PAGE)


def joined(arrays: list[FloatArray]) -> FloatArray:
    """Arrays of rows in one: without a copy if each lies directly after the one before."""
    first, rows = arrays[0], sum(map(len, arrays))
    if not all(_follows(one, other) for one, other in pairwise(arrays)):
        return np.concatenate(arrays)
    memory = first.base
    assert isinstance(memory, np.ndarray)
    return np.ndarray((rows, *first.shape[1:]), first.dtype, memory, first.ctypes.data - memory.ctypes.data)


def _follows(one: FloatArray, other: FloatArray) -> bool:
    memory = one.base
    return (
        isinstance(memory, np.ndarray)
        and memory is other.base
        and memory.flags.c_contiguous
        and one.flags.c_contiguous
        and other.flags.c_contiguous
        and one.dtype == other.dtype
        and one.shape[1:] == other.shape[1:]
        and one.ctypes.data + one.nbytes == other.ctypes.data
    )
