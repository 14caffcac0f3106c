"""Several half-lives side by side: the one in force is the one that has cost the least lately.

Each rival is an engine of its own, fed with the same segments. What each has cost is summed, with a half-life of its
own. A rival takes over when its sum is the least and below that of the half-life in force by half a percent: smaller
differences are not worth a change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.registry import storable

HALF_LIVES = (600, 2_400, 9_600, 38_400)
"""Beside none: for models that are solved from moments."""

FEW_HALF_LIVES = (5_000,)
"""Beside none: for models whose solution takes longer."""

_MEMORY = 20_000
"""Rows after which a loss counts half."""

_MARGIN = 0.005
"""Share of the loss by which a rival must be better to take over."""

_FIRST = 1_000
"""Rows before the first comparison."""


@storable
@dataclass(frozen=True)
class Contest:
    """The rivals, and what all have cost lately: ``recent`` holds the half-life in force first."""

    rivals: tuple[Any, ...]
    recent: FloatArray

    @classmethod
    def of(cls, rivals: list[Any]) -> Contest:
        """Return a contest in which nothing has happened yet."""
        return cls(tuple(rivals), np.zeros(len(rivals) + 1))

    def copy(self) -> Contest:
        """Return an independent contest in the same state."""
        return Contest(tuple(rival.copy() for rival in self.rivals), self.recent)

    def after(self, rows: int, losses: FloatArray) -> Contest:
        """Return the contest after a segment that has cost each so much."""
        return Contest(self.rivals, 2.0 ** (-rows / _MEMORY) * self.recent + losses)

    def winner(self, n_learned: int) -> int | None:
        """Return the place of the rival that is to take over, None while none is better by enough."""
        if n_learned < _FIRST or not all(rival.is_solved for rival in self.rivals):
            return None
        best = int(self.recent[1:].argmin())
        return best if self.recent[best + 1] < (1 - _MARGIN) * self.recent[0] else None

    def with_winner(self, place: int) -> Contest:
        """Return the contest after the rival at this place has changed places with the one in force."""
        recent = self.recent.copy()
        recent[[0, place + 1]] = recent[[place + 1, 0]]
        return Contest(self.rivals, recent)


def exchange(one: Any, other: Any) -> None:
    """Let two constructions change places; rows that wait stay where they are."""
    mine, theirs = dict(vars(one)), dict(vars(other))
    for target, content, queue in ((one, theirs, mine["queue"]), (other, mine, theirs["queue"])):
        vars(target).clear()
        vars(target).update(content, queue=queue)
