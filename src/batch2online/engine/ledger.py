"""What solves have cost: seconds and rows of each that brought a model, and sums over all.

Seconds are measured, so they differ from run to run. Nothing depends on them unless a budget of seconds is given, and
they take no part in comparisons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from batch2online.engine.changes import KEPT

_STEEPEST = 3.0
"""Seconds grow like this power of the rows at most, where they are foretold."""


class Solve(NamedTuple):
    """A solve that brought a model: rows seen, rows solved on, seconds."""

    at: int
    rows: int
    seconds: float


@dataclass(frozen=True)
class Costs:
    """What solves have cost so far.

    Attributes
    ----------
    solves, rows, seconds : int, int, float
        How many there were, with those that left the model in place; rows solved on and seconds in all.
    models : tuple of Solve
        Those that brought a model, the newest 10,000 of them.
    """

    solves: int = 0
    rows: int = 0
    seconds: float = 0.0
    models: tuple[Solve, ...] = ()

    def after(self, rows: int, seconds: float) -> Costs:
        """Return the costs with one more solve."""
        return replace(self, solves=self.solves + 1, rows=self.rows + rows, seconds=self.seconds + seconds)

    def with_model(self, at: int, rows: int, seconds: float) -> Costs:
        """Return the costs with the note that the last solve has brought a model."""
        return replace(self, models=(*self.models, Solve(at, rows, seconds))[-KEPT:])

    def expected(self, rows: float) -> float:
        """Return the seconds that a solve on so many rows is expected to take: a power of the rows.

        The power is that of the solves so far, at least 1 and at most 3; 1 where they were all on as many rows.

        >>> costs = Costs(2, 300, 0.05, (Solve(100, 100, 0.01), Solve(200, 200, 0.04)))
        >>> round(costs.expected(400), 6)
        0.16
        """
        if not self.models:
            return 0.0
        last = max(self.models[-_MANY:], key=lambda solve: solve.rows)
        return last.seconds * math.pow(rows / max(1, last.rows), self._power())

    def _power(self) -> float:
        sizes, seconds = np.array([(max(1, s.rows), max(1e-9, s.seconds)) for s in self.models[-_MANY:]]).T
        x, y = np.log(sizes), np.log(seconds)
        spread = float(np.square(x - x.mean()).sum())
        slope = float((x - x.mean()) @ (y - y.mean())) / spread if spread > 1e-9 else 1.0
        return min(_STEEPEST, max(1.0, slope))

    def of_refits(self, rows: int, times: int = 30) -> float:
        """Return the seconds that refits on all rows, after each of ``times`` equal parts of them, would have taken.

        As if the rows had come in so many days, with a refit each night. An estimate by :meth:`expected`.
        """
        return sum(self.expected(rows * night / times) for night in range(1, times + 1))

    def affords(self, rows_seen: int, size: float, per_million: float) -> bool:
        """Whether one more solve on so many rows keeps within a budget of seconds for a million rows seen."""
        expected = self.expected(size)
        return math.isfinite(expected) and self.seconds + expected <= per_million * rows_seen / 1e6


_MANY = 20
"""The last so many solves tell how seconds grow with rows."""
