"""Rows that wait until a block is full or a refresh is due."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.coreset import all_ones
from batch2online.storage import storable


@storable
class Buffer:
    """An array of rows [a | b] that grows; a row counts once unless it says otherwise."""

    _memory: Any = None
    """What the values lie in, which single rows are written to; a loaded buffer has none until it needs it."""

    def __init__(self, width: int, n_targets: int, capacity: int) -> None:
        self.width, self.columns, self.capacity = width, width + n_targets, capacity
        self.count = 0
        self.values: Any = np.empty((0, self.columns))
        self.weights: FloatArray = np.empty(0)

    def append(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> None:
        stop = self.count + len(points)
        if stop > len(self.weights):
            self._grow(stop)
        self.values[self.count : stop, : self.width] = points
        self.values[self.count : stop, self.width :] = targets
        if not all_ones(weights):
            self.weights[self.count : stop] = weights
        self.count = stop

    def append_one(self, values: Sequence[float], target: Sequence[float]) -> int:
        """Append one row of Python floats, and say how many wait now."""
        at = self.count
        if at == len(self.weights):
            self._grow(at + 1)
        if self._memory is None:
            self._grow(len(self.weights))
        _packer(self.columns).pack_into(self._memory, at * self.columns * 8, *values, *target)
        self.count = at + 1
        return at + 1

    def rows(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Points, targets and weights of the rows that wait; the buffer is not to be written to afterwards."""
        values = self.values[: self.count]
        points, targets = np.ascontiguousarray(values[:, : self.width]), values[:, self.width :].copy()
        return points, targets, self.weights[: self.count]

    def truncate(self, count: int) -> None:
        """Drop all rows after the first ``count``, without a trace."""
        self.count = count
        self.weights[count:] = 1.0

    def trimmed(self) -> Buffer:
        """A copy that holds the rows that wait and nothing else."""
        twin: Buffer = object.__new__(Buffer)
        twin.__dict__.update(self.__dict__)
        twin.values, twin.weights, twin._memory = (
            self.values[: self.count].copy(),
            self.weights[: self.count].copy(),
            None,
        )
        return twin

    def _grow(self, least: int) -> None:
        rows = 64 if least <= 64 else max(least, self.capacity)
        memory, weights = bytearray(rows * self.columns * 8), np.ones(rows)
        values = np.frombuffer(memory).reshape(rows, self.columns)
        values[: self.count], weights[: self.count] = self.values[: self.count], self.weights[: self.count]
        self.values, self.weights, self._memory = values, weights, memory


@cache
def _packer(columns: int) -> struct.Struct:
    """Writes a row of Python floats into an array in less time than NumPy needs to convert it."""
    return struct.Struct(f"{columns}d")
