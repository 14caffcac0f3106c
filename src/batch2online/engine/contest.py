"""Several half-lives side by side: the one in force is the one that has cost the least lately, beyond chance.

Each rival is an engine of its own, fed with the same rows. Two sums of losses fade:

- a slow one, of what rows cost under the model that each had when the block of ``NOTED`` rows began. So one sees it who
  asks for predictions a block at a time: what is good for the very next row alone has no advantage.
- a quick one, of what rows cost as they came, for changes that are large and sudden.

A rival takes over when it leads by a share of the loss that is worth a change, and by a multiple of the root of the sum
of squares of differences, over groups of ``_GROUP`` rows. That ratio is small, whatever the losses, where a lead comes
from a few rows: a wild row decides nothing, and a calm stream keeps all rows. Nor does it stand in the way for long: a
loss counts as no more than ``_MOST`` times the mean of those around it. The quick sum decides only where the losses of
a longer time do not speak against it, and rests after that: rows that are like each other for an hour only would keep
it busy for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.core.registry import storable

HALF_LIVES = (600, 2_400, 9_600, 38_400)
"""Beside none: for models that are solved from moments."""

TWO_HALF_LIVES = (1_000, 5_000)
"""Beside none: for other losses of a linear predictor, and for clusters of a coreset."""

FEW_HALF_LIVES = (5_000,)
"""Beside none: for models whose solution takes longer."""

JUDGED = 128
"""Rows between two decisions."""

NOTED = 256
"""Rows after which models are noted by which the next rows are judged."""

_GROUP = 8
"""Rows whose losses are summed before they are compared."""

_MOST = 100.0
"""A loss counts as no more than so many times the mean of the others in force."""

_FIRST = 1_024
"""Rows before the first decision."""

_QUICK, _SLOW = 500, 20_000
"""Rows after which a loss counts half; the quick sum decides once in as many rows as the slow one remembers."""

_FADING = 2.0 ** (-JUDGED / np.array([_QUICK, _SLOW, _SLOW]))[:, None]
_WORTH_QUICK, _WORTH_SLOW = 0.1, 0.0025
_SURE_QUICK, _SURE_SLOW, _SURE_OF_LONGER = 3.0, 4.0, 1.0


@storable
@dataclass(frozen=True)
class Contest:
    """The rivals, and what all have cost lately; arrays hold the half-life in force first.

    ``noted`` are the models that were in force when the block began, None where there was none. ``waiting`` (2, k, m)
    are the losses of the last rows, as they came and under the models noted. ``sums`` (3, k) are the quick sum, a slow
    one of the same losses, and the slow one of losses under models noted; ``spreads`` (2, k, k) are roots of sums of
    squares of differences in the first and in the last. ``rested`` are rows since the quick sum has decided.
    """

    rivals: tuple[Any, ...]
    noted: tuple[Any, ...]
    waiting: FloatArray
    sums: FloatArray
    spreads: FloatArray
    rested: int = _SLOW

    @classmethod
    def of(cls, rivals: list[Any]) -> Contest:
        """Return a contest in which nothing has happened yet."""
        k = len(rivals) + 1
        return cls(tuple(rivals), (None,) * k, np.zeros((2, k, 0)), np.zeros((3, k)), np.zeros((2, k, k)))

    def copy(self) -> Contest:
        """Return an independent contest in the same state."""
        return replace(self, rivals=tuple(rival.copy() for rival in self.rivals))

    def after(self, losses: FloatArray) -> Contest:
        """Return the contest after rows that have cost so much, (2, k, n)."""
        return replace(self, waiting=np.concatenate([self.waiting, losses], axis=2))

    def judged(self) -> Contest:
        """Return the contest with the losses of all rows that wait in its sums."""
        rows = self.waiting.shape[2]
        if not rows:
            return self
        with np.errstate(all="ignore"):
            groups = np.add.reduceat(_tamed(self.waiting), np.arange(0, rows, _GROUP), axis=2)
            totals = groups.sum(axis=2)[[0, 0, 1]]
            spreads = np.hypot(_FADING[::2, :, None] * self.spreads, _norms(groups[:, :, None] - groups[:, None]))
            sums = _FADING * self.sums + totals
        rested = min(_SLOW, self.rested + rows)
        return replace(self, waiting=self.waiting[..., :0], sums=sums, spreads=spreads, rested=rested)

    def winner(self, half_lives: FloatArray, n_learned: int) -> tuple[int, bool]:
        """Return the place of the half-life that is to be in force, 0 for the present one, and if quickly found."""
        if n_learned < _FIRST or not all(rival.is_solved for rival in self.rivals):
            return 0, False
        with np.errstate(all="ignore"):
            lead = self.sums[:, :1] - self.sums
            sure = np.where(half_lives > half_lives[0], _SURE_OF_LONGER, _SURE_SLOW)
            slow = self._best(2, lead[2] / (sure * self.spreads[1, 0]), _WORTH_SLOW)
            quick = self._best(
                0, np.where(lead[1] > 0, lead[0] / (_SURE_QUICK * self.spreads[0, 0]), 0.0), _WORTH_QUICK
            )
        if self.rested < _SLOW or quick[1] <= slow[1]:
            return slow[0], False
        return quick[0], True

    def _best(self, which: int, surplus: FloatArray, worth: float) -> tuple[int, float]:
        """Return the place that costs the least in one of the sums of those that lead by enough, and its surplus."""
        sums = self.sums[which]
        leads = (surplus > 1) & (sums[0] - sums > worth * sums[0])
        place = int(np.where(leads, sums, np.inf).argmin()) if leads.any() else 0
        return place, float(surplus[place]) if place else 0.0

    def with_models(self, models: tuple[Any, ...]) -> Contest:
        """Return the contest at the beginning of a block, with the models that are in force."""
        return replace(self, noted=models)

    def with_winner(self, place: int) -> Contest:
        """Return the contest after the rival at this place has changed places with the one in force."""
        order = np.arange(len(self.noted))
        order[[0, place]] = place, 0
        return self._permuted(order)

    def in_order(self, rivals: list[int]) -> Contest:
        """Return the contest with its rivals in this order."""
        new = self._permuted(np.array([0, *(1 + i for i in rivals)]))
        return replace(new, rivals=tuple(self.rivals[i] for i in rivals))

    def begun(self) -> Contest:
        """Return the contest at the beginning of a block, with models that it has not noted."""
        return replace(self, noted=(None,) * len(self.noted), waiting=self.waiting[..., :0])

    def _permuted(self, order: IntArray) -> Contest:
        """Return the contest with all but the rivals themselves in another order."""
        return replace(
            self,
            noted=tuple(self.noted[i] for i in order),
            waiting=self.waiting[:, order],
            sums=self.sums[:, order],
            spreads=self.spreads[:, order][:, :, order],
        )


def _tamed(losses: FloatArray) -> FloatArray:
    """Return losses (2, k, m), those that are out of all proportion cut to a multiple of the mean of the others."""
    own = losses[0, 0]
    most = _MOST * (own.sum() - own.max()) / max(1, len(own) - 1)
    return np.minimum(losses, most) if 0 < most < np.inf else losses


def _norms(values: FloatArray) -> FloatArray:
    """Return roots of sums of squares along the last axis, whatever the magnitude of the values."""
    largest = np.abs(values).max(axis=-1)
    scale = np.where(largest > 0, largest, 1.0)
    return np.asarray(scale * np.sqrt(np.square(values / scale[..., None]).sum(axis=-1)))


def exchange(one: Any, other: Any, staying: tuple[str, ...] = ("queue",)) -> None:
    """Let two constructions change places; rows that wait, and what else is named, stay where they are."""
    mine, theirs = dict(vars(one)), dict(vars(other))
    for target, content, own in ((one, theirs, mine), (other, mine, theirs)):
        vars(target).clear()
        vars(target).update(content, **{name: own[name] for name in staying})
