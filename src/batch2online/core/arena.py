"""Memory for rows that are kept, asked for in large arrays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from batch2online._types import FloatArray

_LARGEST_BYTES = 2**25


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
            self.large, self.used = np.empty((max(n, min(self.handed_out, most)), self.columns)), 0
        self.used += n
        self.handed_out += n
        return self.large[self.used - n : self.used]


def joined(arrays: list[FloatArray]) -> FloatArray:
    """Arrays of rows in one: without a copy if each lies directly after the one before."""
    first, rows = arrays[0], sum(map(len, arrays))
    large = first.base
    if not all(_follows(one, other) for one, other in pairwise(arrays)):
        return np.concatenate(arrays)
    assert isinstance(large, np.ndarray)
    start = (first.ctypes.data - large.ctypes.data) // large.strides[0]
    return large[start : start + rows]


def _follows(one: FloatArray, other: FloatArray) -> bool:
    large = one.base
    return (
        isinstance(large, np.ndarray)
        and large is other.base
        and large.flags.c_contiguous
        and large.dtype == one.dtype == other.dtype
        and large.shape[1:] == one.shape[1:] == other.shape[1:]
        and one.strides == other.strides == large.strides
        and one.ctypes.data + one.nbytes == other.ctypes.data
    )
