r"""The benefit of a refit, measured on the rows after it: an estimate of what the next one would gain.

The replaced model is scored beside its successor on the first rows after the change, which neither was fitted to. The
difference of their losses is what the last refit gained, for models of any type. If losses exceed the least possible
ones by a share in proportion to 1 / m for models of m rows, a gain of g from m to m' rows predicts one of
:math:`g\,(1/m' - 1/m'') / (1/m - 1/m')` from m' to m''.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.schema import Count, at_least, storable

_SIMILAR = 1.2
"""Numbers of rows within this factor count as equal."""


@storable
@dataclass(frozen=True)
class RunningMoments:
    """Weighted sum and sum of squares of a value per row."""

    rows: Count = 0
    weight: Annotated[float, at_least(0)] = 0.0
    total: float = 0.0
    squares: Annotated[float, at_least(0)] = 0.0

    def plus(self, values: FloatArray, weights: FloatArray) -> RunningMoments:
        """Return the moments with further rows."""
        with np.errstate(over="ignore"):
            weighted = values * weights
            total, squares = float(weighted.sum()), float(weighted @ values)
        return RunningMoments(
            self.rows + len(values), self.weight + float(weights.sum()), self.total + total, self.squares + squares
        )

    @property
    def mean(self) -> float:
        """Weighted mean of the values."""
        return self.total / self.weight if self.weight else math.nan

    @property
    def variance(self) -> float:
        """Variance of the mean, as if all rows had the same weight."""
        if not self.rows:
            return math.inf
        return max(0.0, self.squares / self.weight - self.mean * self.mean) / self.rows


@storable
@dataclass(frozen=True)
class RefitBenefit:
    """Losses since the last refit, and those of the replaced model beside them.

    Attributes
    ----------
    at, size : int, float
        Rows seen at the refit, and rows that the model was fitted to.
    former, former_size : model, float
        The replaced model, until the trial ends, and the rows that it was fitted to.
    gains, magnitude : RunningMoments, float
        Loss of the replaced model less that of its successor by row, and the sum of absolute losses.
    first, recent : RunningMoments
        Losses until the first check, and since the last check.
    is_checked : bool
        Whether there was a check since the refit.
    """

    at: Count
    size: Annotated[float, at_least(0)]
    former: Any = None
    former_size: Annotated[float, at_least(0)] = 0.0
    gains: RunningMoments = RunningMoments()
    magnitude: Annotated[float, at_least(0)] = 0.0
    first: RunningMoments = RunningMoments()
    recent: RunningMoments = RunningMoments()
    is_checked: bool = False

    def with_rows(self, losses: FloatArray, weights: FloatArray) -> RefitBenefit:
        """Return the benefit with the losses of further rows."""
        if self.is_checked:
            return replace(self, recent=self.recent.plus(losses, weights))
        return replace(self, first=self.first.plus(losses, weights))

    def with_trial(self, former: FloatArray, losses: FloatArray, weights: FloatArray) -> RefitBenefit:
        """Return the benefit with the losses of further rows under the replaced model and under the current one."""
        magnitude = self.magnitude + float(weights @ np.abs(losses))
        return replace(self, gains=self.gains.plus(former - losses, weights), magnitude=magnitude)

    def after_check(self) -> RefitBenefit:
        """Return the benefit after a check that kept the model."""
        return replace(self, recent=RunningMoments(), is_checked=True)

    def gain(self, n_standard_errors: float = 0.0) -> float:
        """Return the share of the loss that the last refit gained, plus so many standard errors; NaN if unknown."""
        if not self.gains.rows:
            return math.nan
        if not self.magnitude:
            return 0.0
        upper = self.gains.mean + n_standard_errors * math.sqrt(self.gains.variance)
        return upper * self.gains.weight / self.magnitude

    def expected_benefit(self, size: float, n_standard_errors: float = 0.0) -> float:
        """Return the share of the loss that a model of ``size`` rows would gain, by the gain of the last one.

        If the current model has no more rows than the one before, a further one is expected to gain as much again.
        """
        gain = self.gain(n_standard_errors)
        if self.size <= _SIMILAR * self.former_size:
            return gain
        former, current = max(1.0, self.former_size), max(2.0, self.size)
        return gain * max(0.0, 1 / current - 1 / max(current, size)) / (1 / former - 1 / current)

    def loss_increase_z(self) -> float:
        """Return the increase of the mean loss in standard errors, recent rows against the first; 0 for too few."""
        if min(self.first.rows, self.recent.rows) < 2:
            return 0.0
        error = math.sqrt(self.first.variance + self.recent.variance)
        increase = self.recent.mean - self.first.mean
        return increase / error if error else math.inf if increase > 0 else 0.0

    def loss_increase(self) -> float:
        """Return the relative increase of the mean loss, recent rows against the first."""
        if not (self.first.weight and self.recent.weight):
            return 0.0
        increase, base = self.recent.mean - self.first.mean, abs(self.first.mean)
        return increase / base if base else math.inf if increase > 0 else 0.0
