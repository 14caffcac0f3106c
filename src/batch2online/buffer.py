"""Rows that wait until a block is full or a refresh is due."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.coreset import all_ones, ones
from batch2online.storage import storable


@storable
class Buffer:
    """An array of rows [a | b] that grows; a row counts once unless it says otherwise."""

    _memory: bytearray | None = None
    """What the values lie in once single rows have come: packing them there is twice as fast as into an array."""

    def __init__(self, width: int, n_targets: int, capacity: int) -> None:
        self.width, self.columns, self.capacity = width, width + n_targets, capacity
        self.count = 0
        self.values: Any = np.empty((0, self.columns))
        self.weights: FloatArray = np.empty(0)

    def append(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> None:
        start, stop = self.count, self.count + len(points)
        if stop > len(self.weights):
            rows = self._more_rows(stop)
            self._move_to(np.empty((rows, self.columns)), None)
        place = self.values[start:stop]
        place[:, : self.width] = points
        place[:, self.width :] = targets
        if not all_ones(weights):
            self.weights[start:stop] = weights
        self.count = stop

    def append_one(self, values: Sequence[float], target: Sequence[float]) -> int:
        """Append one row of Python floats, and say how many wait now."""
        at = self.count
        if self._memory is None or at == len(self.weights):
            rows = self._more_rows(at + 1)
            memory = bytearray(rows * self.columns * 8)
            self._move_to(np.frombuffer(memory).reshape(rows, self.columns), memory)
        _packer(self.columns)(self._memory, at * self.columns * 8, *values, *target)
        self.count = at = at + 1
        return at

    def rows(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Points, targets and weights of the rows that wait; the buffer is not to be written to afterwards."""
        values, weights = self.values[: self.count], self.weights[: self.count]
        points, targets = np.ascontiguousarray(values[:, : self.width]), values[:, self.width :].copy()
        return points, targets, ones(self.count) if all_ones(weights) else weights

    def truncate(self, count: int) -> None:
        """Drop all rows after the first ``count``, without a trace."""
        self.count = count
        self.weights[count:] = 1.0

    def trimmed(self) -> Buffer:
        """A copy that holds the rows that wait and nothing else."""
        twin: Buffer = object.__new__(Buffer)
        twin.__dict__.update(self.__dict__)
        twin.values, twin.weights = self.values[: self.count].copy(), self.weights[: self.count].copy()
        twin._memory = None
        return twin

    def _more_rows(self, least: int) -> int:
        return 64 if least <= 64 else max(least, self.capacity)

    def _move_to(self, values: FloatArray, memory: bytearray | None) -> None:
        """Have the rows lie in this array, which is not smaller."""
        weights = np.ones(len(values))
        values[: self.count], weights[: self.count] = self.values[: self.count], self.weights[: self.count]
        self.values, self.weights, self._memory = values, weights, memory


@cache
def _packer(columns: int) -> Any:
    """Writes a row of Python floats into memory in less time than NumPy needs to convert it."""
    return struct.Struct(f"{columns}d").pack_into
