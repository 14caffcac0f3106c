"""Which center is the nearest to each point of a coreset, remembered while the coreset lives."""

from __future__ import annotations

import weakref
from typing import NamedTuple

from batch2online._types import FloatArray, IntArray
from batch2online.core.coreset import Coreset
from batch2online.linalg.distances import nearest

Assignment = tuple[IntArray, FloatArray]
"""The nearest center of each point, and the squared distance to it."""


class _Known(NamedTuple):
    coreset: weakref.ref[Coreset]
    found: dict[bytes, Assignment]
    labels: dict[bytes, IntArray]


class Assignments:
    """Labels and squared distances of the points of the last coreset, computed once for each set of centers.

    At a refresh the same centers are asked for several times: their cost, their cluster ids, what has changed. A copy,
    also one made by pickling, begins empty. Threads may share one: each looks things up in what it found or made.
    """

    def __init__(self) -> None:
        self._known: _Known | None = None

    def of(self, coreset: Coreset, centers: FloatArray) -> Assignment:
        """Return the assignment of the coreset's points to these centers (k, d)."""
        found, key = self._of(coreset).found, centers.tobytes()
        if key not in found:
            found[key] = nearest(coreset.points, centers)
        return found[key]

    def labels(self, coreset: Coreset, centers: FloatArray) -> IntArray:
        """Return the nearest centers alone, as they were found or told."""
        told = self._of(coreset).labels.get(centers.tobytes())
        return self.of(coreset, centers)[0] if told is None else told

    def know(self, coreset: Coreset, centers: FloatArray, labels: IntArray) -> None:
        """Hear of the nearest centers, as a solver has found them."""
        self._of(coreset).labels[centers.tobytes()] = labels

    def _of(self, coreset: Coreset) -> _Known:
        known = self._known
        if known is None or known.coreset() is not coreset:
            known = self._known = _Known(weakref.ref(coreset), {}, {})
        return known

    def __reduce__(self) -> tuple[type[Assignments], tuple[()]]:
        return Assignments, ()
