"""A policy that refits where the measured benefit of refits is worth it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from batch2online.refresh.benefit import RefitBenefit
from batch2online.refresh.policy import Policy, check_growth, is_count
from batch2online.schema import storable

_STANDARD_ERRORS = 2.0
"""Standard errors by which a gain may be larger or smaller than measured."""

_CALM = 0.5
"""Standard errors within which recent losses count as unchanged. A single row that costs more than all others together
makes one."""

_LARGE = 0.5
"""Relative increase of the loss, be it of one row among the recent ones, that triggers a refit."""

_SIGNIFICANT = 4.0
"""Standard errors beyond which an increase of the loss is not chance."""


@storable
@dataclass(frozen=True)
class Measured(Policy):
    """Refit where it pays: by the measured gain of the last refit, and by the loss of recent rows.

    For models of any type, which overfit the rows they are fitted to, so that costs on these say little. After a change
    the old model is scored beside the new one on the next rows, which neither was fitted to. A check refits if

    - the rows have grown by ``growth`` since the last refit, unless the expected gain is surely below ``floor`` (by two
      standard errors) and recent rows cost hardly more than the first ones under the same model;
    - or recent rows cost more than the first ones, by four standard errors and by ``floor``, or by half, be it for a
      single row among them;
    - or the rows have grown by ``max_growth``.

    So a calm stream sees fewer refits once the coreset is full: a model of as many rows as before gains little. No
    theorem covers it: when to refit depends on losses. Nothing depends on clocks.

    Parameters
    ----------
    growth : float, default 2.0
        Factor by which rows grow between two refits that pay.
    checks_per_growth : int, default 3
        Checks in that time; one that does not refit costs nothing.
    floor : float, default 0.002
        Gains below this share of the loss do not matter.
    max_growth : float, default 4.0
        Factor by which rows grow at most between two refits.
    start : int or None
        Rows at the first check; None for the default of the problem.

    Examples
    --------
    >>> policy = Measured(growth=2.0, checks_per_growth=3, start=100)
    >>> policy.next_check(100), policy.next_check(126), policy.next_check(159)
    (126, 159, 201)
    """

    measures_benefit: ClassVar[bool] = True
    growth: float = 2.0
    checks_per_growth: int = 3
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
        step = math.pow(self.growth, 1 / self.checks_per_growth)
        return max(n + 1, math.ceil(min(step * n, 2.0**62)))

    def trigger(self, benefit: RefitBenefit, n: int, coreset_size: float, max_step: int | None = None) -> str | None:
        """Return why the check at n rows refits, ``"loss_increase"`` or ``"scheduled"``; None if it does not.

        ``max_step`` is the largest number of rows between two refits where old rows decay.
        """
        z, increase = benefit.loss_increase_z(), benefit.loss_increase()
        if (z > _SIGNIFICANT and increase > self.floor) or (z > _CALM and increase > _LARGE):
            return "loss_increase"
        is_due = n >= self.growth * benefit.at or (max_step is not None and n - benefit.at >= max_step)
        expected = benefit.expected_benefit(coreset_size, _STANDARD_ERRORS)
        is_calm = (z < _CALM or increase < self.floor) and expected < self.floor  # false where nothing is known
        return "scheduled" if (is_due and not is_calm) or n >= self.max_growth * benefit.at else None
