"""Several half-lives side by side: the one in force is the one that has cost the least lately.

Each rival is an engine of its own, fed with the same segments. What the model in force has cost more than a rival's is
summed over segments, with a half-life of its own, and so are the squares of these differences. A rival takes over when
the sum exceeds twice the root of the squares: more than chance would make of equals. Then all comparisons start anew.
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

_MEMORY = 10_000
"""Rows after which a difference counts half."""

_CHANCE = 2.0
_FIRST = 1_000
"""Rows before the first comparison."""


@storable
@dataclass(frozen=True)
class Contest:
    """The rivals, and by how much each has been better lately."""

    rivals: tuple[Any, ...]
    advantages: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, rivals: list[Any]) -> Contest:
        return cls(tuple(rivals), np.zeros(len(rivals)), np.zeros(len(rivals)))

    def copy(self) -> Contest:
        """Return an independent contest in the same state."""
        return Contest(tuple(rival.copy() for rival in self.rivals), self.advantages, self.squares)

    def after(self, rows: int, differences: FloatArray) -> Contest:
        """Return the contest after a segment in which the model in force has cost so much more than each rival's."""
        kept = 2.0 ** (-rows / _MEMORY)
        return Contest(
            self.rivals, kept * self.advantages + differences, kept**2 * self.squares + differences * differences
        )

    def winner(self, n_learned: int) -> int | None:
        """Return the rival that is to take over, None while none is better than chance would have it."""
        if n_learned < _FIRST or not all(rival.is_solved for rival in self.rivals):
            return None
        margins = self.advantages - _CHANCE * np.sqrt(self.squares)
        best = int(margins.argmax())
        return best if margins[best] > 0 else None


def exchange(one: Any, other: Any) -> None:
    """Let two constructions change places; rows that wait stay where they are."""
    mine, theirs = dict(vars(one)), dict(vars(other))
    for target, content, queue in ((one, theirs, mine["queue"]), (other, mine, theirs["queue"])):
        vars(target).clear()
        vars(target).update(content, queue=queue)
