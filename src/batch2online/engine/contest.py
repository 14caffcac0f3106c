"""Several half-lives side by side: the current one is the one that has cost the least lately, beyond chance.

Each candidate is an engine of its own, fed with the same rows. Two sums of losses decay:

- a slow one, of what rows cost under the model that each candidate had when the block of ``NOTED`` rows began. So one
  sees it who asks for predictions a block at a time: what is good for the very next row alone has no advantage.
- a quick one, of what rows cost as they came, for changes that are large and sudden.

A candidate takes over when it leads by a share of the loss that is worth a change, and by a multiple of the root of the
sum of squares of differences, over groups of ``_GROUP`` rows. That ratio is small, whatever the losses, where a lead
comes from a few rows: a wild row decides nothing, and a calm stream keeps all rows. Nor does it stand in the way for
long: a loss counts as no more than ``_MOST`` times the mean of those around it.

The quick sum only ever decides for a shorter half-life, by a lead over what rows cost *usually*: where rows change
suddenly all candidates cost many times that, and a share of it would be reached too late. Such a decision says that
the rows before are not like those to come, so the slow sum begins anew. When the next decision is made, the slow sum
tells whether it was right. If not (rows that are like each other for an hour only look like a change every hour), the
next one takes a lead ``_DOUBT`` times as large.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.schema import storable

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
"""A loss counts as no more than so many times the mean of the others."""

_UNCOUNTED = 512
"""First rows, which do not count: candidates differ by how often they refit, which says nothing of later rows."""

_FIRST = 1_024
"""Rows before the first decision."""

_FEWEST = 500
"""Rows that the slow sum decides by, at least; it decays a little."""

_QUICK, _SLOW = 500, 20_000
"""Rows after which a loss counts half."""

_DECAY = 2.0 ** (-JUDGED / np.array([_QUICK, _SLOW, _SLOW]))
_WORTH_QUICK, _WORTH_SLOW = 0.05, 0.0025
_SURE_QUICK, _SURE_SLOW, _SURE_OF_LONGER = 2.0, 4.0, 1.0
_DOUBT, MOST_DOUBTS = 8.0, 2


@storable
@dataclass(frozen=True)
class Contest:
    """The rivals, and what all have cost lately; arrays hold the current half-life first.

    ``noted`` are the current models when the block began, None where there was none. ``waiting`` (2, k, m) are the
    losses of the last rows, as they came and under the models noted. ``sums`` (3, k) are the quick sum, a slow one of
    the same losses, and the slow one of losses under models noted; ``rows`` (3,) are how many rows count in each;
    ``spreads`` (2, k, k) are roots of sums of squares of differences in the first and in the last. ``left`` is the
    place of the half-life that the quick sum has decided against in the last decision, -1 if the slow one has made it;
    ``doubts`` is how many more of the quick sum's decisions were wrong than right, at least 0.
    """

    rivals: tuple[Any, ...]
    noted: tuple[Any, ...]
    waiting: FloatArray
    sums: FloatArray
    rows: FloatArray
    spreads: FloatArray
    left: int = -1
    doubts: int = 0

    @classmethod
    def of(cls, rivals: list[Any]) -> Contest:
        """Return a contest in which nothing has happened yet."""
        k = len(rivals) + 1
        sums, rows, spreads = np.zeros((3, k)), np.zeros(3), np.zeros((2, k, k))
        return cls(tuple(rivals), (None,) * k, np.zeros((2, k, 0)), sums, rows, spreads)

    def copy(self) -> Contest:
        """Return an independent contest in the same state."""
        return replace(self, rivals=tuple(rival.copy() for rival in self.rivals))

    def after(self, losses: FloatArray) -> Contest:
        """Return the contest after rows that have cost so much, (2, k, n)."""
        return replace(self, waiting=np.concatenate([self.waiting, losses], axis=2))

    def judged(self, n_learned: int) -> Contest:
        """Return the contest with the losses of all rows that wait in its sums, after so many rows."""
        n = self.waiting.shape[2]
        if not n or n_learned <= _UNCOUNTED:
            return self._emptied()
        with np.errstate(all="ignore"):
            groups = np.add.reduceat(_tamed(self.waiting), np.arange(0, n, _GROUP), axis=2)
            totals = groups.sum(axis=2)[[0, 0, 1]]
            spreads = np.hypot(_DECAY[::2, None, None] * self.spreads, _norms(groups[:, :, None] - groups[:, None]))
            sums, rows = _DECAY[:, None] * self.sums + totals, _DECAY * self.rows + n
        return replace(self._emptied(), sums=sums, rows=rows, spreads=spreads)

    def winner(self, half_lives: FloatArray, n_learned: int) -> tuple[int, bool]:
        """Return the place of the half-life that is to be current, 0 for the present one, and if by the quick sum."""
        if n_learned < _FIRST or not all(rival.is_solved for rival in self.rivals):
            return 0, False
        with np.errstate(all="ignore"):
            lead = self.sums[:, :1] - self.sums
            sure = np.where(half_lives > half_lives[0], _SURE_OF_LONGER, _SURE_SLOW)
            slow = self._best(2, lead[2] / (sure * self.spreads[1, 0]), _WORTH_SLOW * self.sums[2, 0])
            slow = slow if self.rows[2] >= _FEWEST else (0, 0.0)
            usual = min(self.sums[0, 0], self.sums[1, 0] / self.rows[1] * self.rows[0])
            surplus = np.where(half_lives < half_lives[0], lead[0] / (_SURE_QUICK * self.spreads[0, 0]), 0.0)
            quick = self._best(0, surplus, _WORTH_QUICK * _DOUBT**self.doubts * usual)
        return (quick[0], True) if quick[1] > slow[1] else (slow[0], False)

    def _best(self, which: int, surplus: FloatArray, worth: Any) -> tuple[int, float]:
        """Return the place that costs the least in one of the sums of those that lead by enough, and its surplus."""
        sums = self.sums[which]
        leads = (surplus > 1) & (sums[0] - sums > worth)
        place = int(np.where(leads, sums, np.inf).argmin()) if leads.any() else 0
        return place, float(surplus[place]) if place else 0.0

    def decided(self, is_quick: bool) -> Contest:
        """Return the contest before one of its sums puts another half-life in the place of the current one."""
        doubts = self.doubts
        if self.left >= 0:
            was_right = self.sums[2, self.left] > self.sums[2, 0]
            doubts = max(0, doubts - 1) if was_right else min(MOST_DOUBTS, doubts + 1)
        if not is_quick:
            return replace(self, left=-1, doubts=doubts)
        kept = np.array([1.0, 1.0, 0.0])
        sums, spreads = self.sums * kept[:, None], self.spreads * kept[1:, None, None]
        return replace(self, sums=sums, rows=self.rows * kept, spreads=spreads, left=0, doubts=doubts)

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
        return replace(self._emptied(), noted=(None,) * len(self.noted), left=-1)

    def _emptied(self) -> Contest:
        return replace(self, waiting=self.waiting[..., :0])

    def _permuted(self, order: IntArray) -> Contest:
        """Return the contest with all but the rivals themselves in another order."""
        return replace(
            self,
            noted=tuple(self.noted[i] for i in order),
            waiting=self.waiting[:, order],
            sums=self.sums[:, order],
            left=int(np.flatnonzero(order == self.left)[0]) if self.left >= 0 else -1,
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
