"""Forward decay: rows lose weight as others come.

The weight of a row is ``2 ** (id / half_life)``, relative to a reference id. Weights relative to each other never
change, so nothing has to be subtracted as rows come: statistics stay sums, and scores never rise. The reference
moves on by two half-lives at a time. All sums are then multiplied by exactly 1/4, and by 1/2 where roots of weights
enter, which binary numbers do without rounding. So nothing depends on when that happens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.rows import Rows
from batch2online.schema import storable

_LEAST, _MOST = -900, 900
"""Exponents of weights are clipped to these: weights beyond are negligible next to the rest."""

LEAST_WEIGHT = 2.0**_LEAST
"""Smallest weight of a row."""

_TOGETHER = 64
"""Half-lives of rows in one segment, at most."""

CHECKS = 4
"""Checks in a half-life, at least."""


@storable
@dataclass(frozen=True)
class ForwardDecay:
    """The weight of a row halves with every ``half_life`` ids; those at ``reference`` weigh one.

    >>> ForwardDecay(100).factors(np.array([0, 100, 150, 200, 400])).tolist()
    [1.0, 2.0, 2.8284271247461903, 4.0, 16.0]
    """

    half_life: int
    reference: int = 0  # a multiple of two half-lives

    @classmethod
    def of(cls, half_life: object) -> ForwardDecay | None:
        """Return the decay with this half-life, None for None; refuse anything but a positive integer.

        >>> ForwardDecay.of(0.5)
        Traceback (most recent call last):
        ValueError: half_life must be a positive integer or None, got 0.5.
        """
        if half_life is None:
            return None
        if isinstance(half_life, bool) or not isinstance(half_life, int | np.integer) or half_life < 1:
            raise ValueError(f"half_life must be a positive integer or None, got {half_life!r}.")
        return cls(int(half_life))

    def factors(self, ids: IntArray) -> FloatArray:
        """Return the weights of rows with these ids, which would weigh one without decay."""
        steps, place = np.divmod(ids - self.reference, 2 * self.half_life)
        return np.asarray(np.ldexp(np.exp2(place / self.half_life), np.clip(2 * steps, _LEAST, _MOST)))

    def moved_to(self, at: int) -> tuple[ForwardDecay, float]:
        """Return the decay with the last reference up to this id, and the factor for all weights until now."""
        reference = max(self.reference, at - at % (2 * self.half_life))
        steps = (reference - self.reference) // self.half_life
        return replace(self, reference=reference), 2.0 ** max(_LEAST, -steps)

    def weighted(self, rows: Rows) -> Rows:
        """Return the rows with the weights that they have under decay."""
        return replace(rows, weights=rows.weights * self.factors(rows.ids))

    def rows_to_cut(self, at: int) -> int:
        """Return how many rows from this id on may form one segment, so that no weight is too large."""
        return _TOGETHER * self.half_life - at % (_TOGETHER * self.half_life)

    @property
    def longest_step(self) -> int:
        """Maximum number of rows between two checks: a quarter of a half-life."""
        return max(1, self.half_life // CHECKS)
