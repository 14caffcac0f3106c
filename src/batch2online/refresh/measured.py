r"""The measured benefit of refits, and the policy that refits where the next one is expected to pay.

The replaced model is scored beside its successor on the first rows after the change, which neither was fitted to. The
difference of their losses is what the last refit gained, for models of any type. If losses exceed the least possible
ones by a share in proportion to 1 / m for models of m rows, a gain of g from m to m' rows predicts one of
:math:`g\,(1/m' - 1/m'') / (1/m - 1/m')` from m' to m''.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.refresh.policy import Policy, check_growth, is_count
from batch2online.schema import storable

_SIMILAR = 1.2
"""Numbers of rows within this factor count as equal."""

_STANDARD_ERRORS = 2.0
"""Standard errors by which a gain may be larger or smaller than measured."""

_CALM = 0.5
"""Standard errors within which recent losses count as unchanged. A single row that costs more than all others together
makes one."""

_LARGE = 0.5
"""Relative increase of the loss, be it of one row among the recent ones, that triggers a refit."""

_SIGNIFICANT = 4.0
"""Standard errors beyond which an increase of the loss is not chance."""

_ANCHOR = 1_000
"""One of the row counts at which refits come, whatever the first one is."""

_FEW, _MANY = 500, 8_000
"""Between these row counts rows grow by a root of 2, not above the growth: models still gain much by further rows."""

_ROUNDING, _NEARLY = 1e-9, 0.01

_GROWTH_IN_TIME = 1.05
"""Growth if rows do not come in random order. Refits then come at multiples of the anchor: fewer rows are no step."""

_MOST_ROWS = 2.0**62


@storable
@dataclass(frozen=True)
class RunningMoments:
    """Weighted sum and sum of squares of a value per row."""

    rows: int = 0
    weight: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    def plus(self, values: FloatArray, weights: FloatArray) -> RunningMoments:
        """Return the moments with further rows."""
        with np.errstate(over="ignore"):
            weighted = values * weights
            total, squares = float(weighted.sum()), float((weighted * values).sum())
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

    at: int
    size: float
    former: Any = None
    former_size: float = 0.0
    gains: RunningMoments = RunningMoments()
    magnitude: float = 0.0
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
        magnitude = self.magnitude + float((weights * np.abs(losses)).sum())
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


@storable
@dataclass(frozen=True)
class Measured(Policy):
    """Refit where it pays: by the measured gain of the last refit, and by the loss of recent rows.

    For models of any type, which overfit the rows they are fitted to, so that costs on these say little. After a change
    the old model is scored beside the new one on the next rows, which neither was fitted to. A check refits if

    - the rows have grown by ``growth``, unless the new model would be fitted to no more rows than the current one, its
      expected gain is surely below ``floor`` (by two standard errors), and recent rows cost hardly more than the first
      ones under the same model;
    - or recent rows cost more than the first ones, by four standard errors and by ``floor``, or by half, be it for a
      single row among them;
    - or the rows have grown by ``max_growth``.

    So no refit is skipped while all rows are kept, and a calm stream sees fewer of them after that. No theorem covers
    it: when to refit depends on losses. Nothing depends on clocks.

    Between 500 and 8,000 rows, where models gain most by further rows and fits are short, rows grow by the largest root
    of 2 up to the growth: 500, 708, 1,000, 1,415, 2,000, ..., 8,000, and from there by 1.5: 12,000, 18,000. Below 500
    they grow by its square, up to 2. So a refit comes at 1,000, 2,000, 4,000 and 8,000 rows, whatever the first one is.

    If rows do not come in random order, the growth is 1.05, and refits come at whole thousands.

    Parameters
    ----------
    growth : float, default 1.5
        Factor by which rows grow at most between two refits that pay. 1.26 comes close to a refit every night, for
        about twice the time of 1.5.
    checks_per_growth : int, default 2
        Checks in that time; one that does not refit costs nothing.
    floor : float, default 0.002
        Gains below this share of the loss do not matter.
    max_growth : float, default 4.0
        Factor by which rows grow at most between two refits.
    start : int or None
        Rows at the first check; None for the default of the problem.

    Examples
    --------
    >>> policy = Measured(start=500)
    >>> policy.next_check(500), policy.next_check(595), policy.next_check(1_000), policy.next_check(1_190)
    (595, 708, 1190, 1415)
    """

    measures_benefit: ClassVar[bool] = True
    growth: float = 1.5
    checks_per_growth: int = 2
    floor: float = 0.002
    max_growth: float = 4.0
    start: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_growth(self.growth)
        if not is_count(self.checks_per_growth):
            raise ValueError(f"checks_per_growth must be a positive integer, got {self.checks_per_growth!r}.")
        if not 0 <= self.floor < math.inf:
            raise ValueError(f"floor must be a finite number that is not negative, got {self.floor!r}.")
        if not self.max_growth >= self.growth:
            raise ValueError(f"max_growth must be at least growth, {self.growth!r}, got {self.max_growth!r}.")

    def next_check(self, n: int, n_kept: int = 0) -> int:
        low, high = self._refits_around(n)
        step = math.pow(high / low, 1 / self.checks_per_growth)
        between = (math.ceil(low * step**i) for i in range(1, self.checks_per_growth))
        return low if n < low else next((at for at in between if n < at < high), high)

    def _refits_around(self, n: int) -> tuple[int, int]:
        """Return the last row count of a scheduled refit up to n rows, the first one if there is none, and the next."""
        low = self.start or 1
        while (high := self._next_refit(low)) <= n:
            low = high
        return low, high

    def _next_refit(self, n: int) -> int:
        """Return the row count of the scheduled refit after one at n rows."""
        most = min(self.growth * n, _MOST_ROWS)
        if self.growth <= _GROWTH_IN_TIME:
            return _ANCHOR * max(n // _ANCHOR + 1, math.ceil(most / _ANCHOR))
        if n >= _MANY:
            return max(n + 1, math.ceil(most))
        per_doubling = math.ceil(math.log(2) / math.log(self.growth) - _NEARLY)
        growth = 2 ** min(1.0, (2 if n < _FEW else 1) / per_doubling)
        steps = math.floor(math.log(n / _ANCHOR) / math.log(growth) + _ROUNDING) + 1
        return max(n + 1, math.ceil(_ANCHOR * growth**steps * (1 - _ROUNDING)))

    def in_time(self) -> Measured:
        """Return the policy for rows that do not come in random order."""
        return replace(self, growth=min(self.growth, _GROWTH_IN_TIME))

    def trigger(self, benefit: RefitBenefit, n: int, n_fit_rows: float, max_step: int | None = None) -> str | None:
        """Return why the check at n rows refits, ``"loss_increase"`` or ``"scheduled"``; None if it does not.

        ``n_fit_rows`` is the number of rows that a model would be fitted to, ``max_step`` the largest number of rows
        between two refits where old rows decay.
        """
        z, increase = benefit.loss_increase_z(), benefit.loss_increase()
        if (z > _SIGNIFICANT and increase > self.floor) or (z > _CALM and increase > _LARGE):
            return "loss_increase"
        low, high = self._refits_around(n)
        is_new = n >= math.cbrt(high / low) * benefit.at  # the last refit may have come out of turn, just before
        is_due = (is_new and low > benefit.at) or (max_step is not None and n - benefit.at >= max_step)
        expected = benefit.expected_benefit(n_fit_rows, _STANDARD_ERRORS)
        is_calm = (z < _CALM or increase < self.floor) and expected < self.floor  # false where nothing is known
        can_wait = is_calm and n_fit_rows <= min(_SIMILAR, math.sqrt(self.growth)) * benefit.size
        return "scheduled" if (is_due and not can_wait) or n >= self.max_growth * benefit.at else None
