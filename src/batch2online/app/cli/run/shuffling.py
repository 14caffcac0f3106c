"""Rows in random order, by way of a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online._types import FloatArray

Chunk = tuple[FloatArray, Any]
"""Rows, and their targets: numbers, labels or None."""
ROWS = 1 << 16


class _Labels:
    """Labels as numbers in a file, in the order in which they come; targets that are numbers stay what they are."""

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}

    def to_numbers(self, targets: Any) -> FloatArray:
        if targets.dtype.kind == "f":
            return np.asarray(targets)
        values, inverse = np.unique(targets, return_inverse=True)
        places = [self._places.setdefault(value, len(self._places)) for value in values.tolist()]
        return np.array(places, dtype=np.float64)[inverse]

    def from_numbers(self, numbers: FloatArray) -> Any:
        return np.array(list(self._places))[numbers.astype(np.int64)] if self._places else numbers.copy()


def shuffled(chunks: Iterator[Chunk], seed: int) -> Iterator[Chunk]:
    """Give the same rows in random order: memory stays bounded."""
    labels = _Labels()
    with tempfile.TemporaryFile() as file:
        width, has_targets = 0, False
        for rows, targets in chunks:
            width, has_targets = rows.shape[1], targets is not None
            file.write((np.column_stack([rows, labels.to_numbers(targets)]) if has_targets else rows).tobytes())
        file.flush()
        if not width:
            return
        table = np.memmap(file, dtype=np.float64, mode="r").reshape(-1, width + has_targets)
        order = np.random.default_rng(seed).permutation(len(table))
        for start in range(0, len(table), ROWS):
            piece = np.asarray(table[order[start : start + ROWS]])
            yield np.ascontiguousarray(piece[:, :width]), labels.from_numbers(piece[:, width]) if has_targets else None
