"""Rows that wait until a block is full or a refresh is due."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.memory import Memory
from batch2online.core.registry import storable
from batch2online.core.rows import all_ones, ones


@storable
class Buffer:
    """An array of rows [a | b] that grows; a row counts once unless it says otherwise."""

    _memory: Memory | None = None
    """Where rows wait that will stay where they are."""

    _packed: bytearray | None = None
    """What other rows lie in once single ones have come: packing them there is twice as fast as into an array."""

    def __init__(self, width: int, n_targets: int, capacity: int, memory: Memory | None = None) -> None:
        self.width, self.columns, self.capacity = width, width + n_targets, capacity
        self.count, self._memory = 0, memory
        self.values: Any = np.empty((0, self.columns))
        self.weights: FloatArray = ones(0)

    def append(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> None:
        start, stop = self.count, self.count + len(points)
        if stop > len(self.values):
            self._grow(stop)
        place = self.values[start:stop]
        place[:, : self.width] = points
        place[:, self.width :] = targets
        if not all_ones(weights):
            self._own_weights()[start:stop] = weights
        self.count = stop

    def append_one(self, values: Sequence[float], target: Sequence[float]) -> int:
        """Append one row of Python floats, and say how many wait now."""
        at = self.count
        packed = self._memory is None
        if at == len(self.values) or (packed and self._packed is None):
            self._grow(at + 1, packed)
        place = self.values if self._packed is None else self._packed
        _packer(self.columns)(place, at * self.columns * 8, *values, *target)
        self.count = at = at + 1
        return at

    def rows(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Points, targets and weights of the rows that wait, to be kept: the buffer is not to be written to again."""
        values = self.values[: self.count]
        points, targets = np.ascontiguousarray(values[:, : self.width]), values[:, self.width :].copy()
        return points, targets, self.weights[: self.count]

    def truncate(self, count: int) -> None:
        """Drop all rows after the first ``count``, without a trace."""
        self.count = count
        if self._has_own_weights:
            self.weights[count:] = 1.0

    def trimmed(self) -> Buffer:
        """A copy that holds the rows that wait and nothing else."""
        twin: Buffer = object.__new__(Buffer)
        twin.__dict__.update(self.__dict__)
        twin.values, twin.weights = self.values[: self.count].copy(), self.weights[: self.count].copy()
        twin._packed = None
        return twin

    @property
    def _has_own_weights(self) -> bool:
        return self.weights.strides != (0,)

    def _own_weights(self) -> FloatArray:
        """The weights as an array that can be written to; while all are one, there is none."""
        if not self._has_own_weights:
            self.weights = np.ones(len(self.values))
        return self.weights

    def _grow(self, least: int, packed: bool = False) -> None:
        """Have room for so many rows."""
        rows = 64 if least <= 64 else max(least, self.capacity)
        if packed:
            self._packed = bytearray(rows * self.columns * 8)
            values = np.frombuffer(self._packed).reshape(rows, self.columns)
        elif self._memory is not None and rows == self.capacity:
            values = self._memory.rows(rows)
        else:
            values, self._packed = np.empty((rows, self.columns)), None
        values[: self.count] = self.values[: self.count]
        weights = ones(rows)
        if self._has_own_weights:
            weights = np.ones(rows)
            weights[: self.count] = self.weights[: self.count]
        self.values, self.weights = values, weights


@cache
def _packer(columns: int) -> Any:
    """Writes a row of Python floats into memory in less time than NumPy needs to convert it."""
    return struct.Struct(f"{columns}d").pack_into
