"""Rows that came before the first model and that nothing could score: they are left out of loss and optimum alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from batch2online._types import BoolArray, IntArray
from batch2online.rows import Intervals, Rows, united
from batch2online.schema import storable


@storable
@dataclass(frozen=True)
class Unscored:
    """How many rows were not scored, their weight under decay, and half-open intervals of their ids.

    >>> rows = Rows(np.empty((3, 0)), np.empty((3, 0)), np.ones(3), np.arange(5, 8))
    >>> Unscored().after(rows).scored(np.array([4, 5, 7, 8])).tolist()
    [True, False, False, True]
    """

    rows: int = 0
    weight: float = 0.0
    intervals: list[tuple[int, int]] = field(default_factory=list)

    def after(self, rows: Rows) -> Unscored:
        """Return the same with these rows, which have the weights that they have under decay."""
        return self.joined(Unscored(len(rows), float(rows.weights.sum()), _interval(rows)))

    def joined(self, other: Unscored) -> Unscored:
        """Return the rows of both."""
        return Unscored(self.rows + other.rows, self.weight + other.weight, united(self.intervals, other.intervals))

    def scaled(self, factor: float) -> Unscored:
        """Return the same with weights multiplied by this."""
        return replace(self, weight=self.weight * factor)

    def within(self, parts: Iterable[Rows]) -> Unscored:
        """Return those that are among these rows."""
        found = [part[~self.scored(part.ids)] for part in parts] if self.rows else []
        return Unscored(sum(map(len, found)), float(sum(rows.weights.sum() for rows in found)), self.intervals)

    @property
    def excluded(self) -> tuple[Callable[[IntArray], BoolArray], ...]:
        """Further arguments of a problem's ``cost`` and ``hindsight`` that leave these rows out, if there are any."""
        return (self.scored,) if self.rows else ()

    def scored(self, ids: IntArray) -> BoolArray:
        """Return which of these rows were scored."""
        is_scored = np.ones(len(ids), dtype=bool)
        for start, stop in self.intervals:
            is_scored &= (ids < start) | (ids >= stop)
        return is_scored


def _interval(rows: Rows) -> Intervals:
    return [(int(rows.ids[0]), int(rows.ids[-1]) + 1)] if len(rows) else []
