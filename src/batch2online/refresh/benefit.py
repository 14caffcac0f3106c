r"""What the rows since the last solve say about the next one: whether it would gain anything.

The model that was replaced is scored beside its successor on the first rows that follow, which neither has seen. By how
much it costs more is what the last solve has gained, whatever the kind of model. If losses exceed the least possible
ones by a share in proportion to 1 / m for models of m rows, a gain of g from m to m' rows foretells one of
:math:`g\,(1/m' - 1/m'') / (1/m - 1/m')` from m' to m''.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.schema import Count, at_least, storable

_ALIKE = 1.2
"""Models of numbers of rows within this factor are said to be of as many."""


@storable
@dataclass(frozen=True)
class LossSums:
    """LossSums over rows of one value each."""

    rows: Count = 0
    weight: Annotated[float, at_least(0)] = 0.0
    total: float = 0.0
    squares: Annotated[float, at_least(0)] = 0.0

    def plus(self, values: FloatArray, weights: FloatArray) -> LossSums:
        """Return the sums with further rows."""
        with np.errstate(over="ignore"):
            weighted = values * weights
            total, squares = float(weighted.sum()), float(weighted @ values)
        return LossSums(
            self.rows + len(values), self.weight + float(weights.sum()), self.total + total, self.squares + squares
        )

    @property
    def mean(self) -> float:
        """Weighted mean of the values."""
        return self.total / self.weight if self.weight else math.nan

    @property
    def variance(self) -> float:
        """Variance of the mean, as if all rows weighed the same."""
        if not self.rows:
            return math.inf
        return max(0.0, self.squares / self.weight - self.mean * self.mean) / self.rows


@storable
@dataclass(frozen=True)
class Pace:
    """A model's first rows, and those that came lately.

    Attributes
    ----------
    at, size : int, float
        Rows seen when the model was solved, and rows that it was solved on.
    former, former_size : model, float
        The model before, until it is known what the present one gains; rows that it was solved on.
    gains, magnitude : LossSums, float
        By how much rows would have cost more under the model before, and the sum of the magnitudes of their losses.
    first, recent : LossSums
        What rows have cost until the first look, and those since the last look.
    has_looked : bool
        Whether the first look is over.
    """

    at: Count
    size: Annotated[float, at_least(0)]
    former: Any = None
    former_size: Annotated[float, at_least(0)] = 0.0
    gains: LossSums = LossSums()
    magnitude: Annotated[float, at_least(0)] = 0.0
    first: LossSums = LossSums()
    recent: LossSums = LossSums()
    has_looked: bool = False

    def with_rows(self, losses: FloatArray, weights: FloatArray) -> Pace:
        """Return the pace after further rows."""
        if self.has_looked:
            return replace(self, recent=self.recent.plus(losses, weights))
        return replace(self, first=self.first.plus(losses, weights))

    def with_gains(self, former: FloatArray, losses: FloatArray, weights: FloatArray) -> Pace:
        """Return the pace with what rows would have cost under the model before, and what they have cost."""
        magnitude = self.magnitude + float(weights @ np.abs(losses))
        return replace(self, gains=self.gains.plus(former - losses, weights), magnitude=magnitude)

    def looked(self) -> Pace:
        """Return the pace after a look that has left the model in place."""
        return replace(self, recent=LossSums(), has_looked=True)

    def gain(self, doubt: float = 0.0) -> float:
        """Return the share of the loss by which the model before would have cost more, and ``doubt`` standard errors.

        Not a number where it is not known.
        """
        if not self.gains.rows:
            return math.nan
        if not self.magnitude:
            return 0.0
        return (self.gains.mean + doubt * math.sqrt(self.gains.variance)) * self.gains.weight / self.magnitude

    def foreseen(self, size: float, doubt: float = 0.0) -> float:
        """Return the share of the loss that a model of this many rows would gain, by the gain of the last one.

        Where the present model is of no more rows than the one before, any further one gains as much as it did.
        """
        gain = self.gain(doubt)
        if self.size <= _ALIKE * self.former_size:
            return gain
        former, present = max(1.0, self.former_size), max(2.0, self.size)
        return gain * max(0.0, 1 / present - 1 / max(present, size)) / (1 / former - 1 / present)

    def surprise(self) -> float:
        """Return by how many standard errors recent rows cost more than the first ones; zero where too few came."""
        if min(self.first.rows, self.recent.rows) < 2:
            return 0.0
        error = math.sqrt(self.first.variance + self.recent.variance)
        more = self.recent.mean - self.first.mean
        return more / error if error else math.inf if more > 0 else 0.0

    def excess(self) -> float:
        """Return by which share recent rows cost more than the first ones."""
        if not (self.first.weight and self.recent.weight):
            return 0.0
        more, base = self.recent.mean - self.first.mean, abs(self.first.mean)
        return more / base if base else math.inf if more > 0 else 0.0
