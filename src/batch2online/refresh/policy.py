"""What a refresh policy is, and what it promises."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np

from batch2online.theory import bounds
from batch2online.theory.bounds import Promise, SensitivityBound

_NEVER = 2.0**62


class Policy:
    """What all policies share. The defaults: look again at every row, always take the new model."""

    only_on_change: ClassVar[bool] = False
    needs_exact_costs: ClassVar[bool] = False  # for its theorem to hold
    needs_coupling: ClassVar[bool] = False  # of coresets: stability of losses is not enough for its theorem
    measures: ClassVar[bool] = False  # what each solve gains, by scoring the model before beside the new one
    growth: float = 1.0
    floor: float = 0.0
    uneven: float = 1.0
    start: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.generic):
                object.__setattr__(self, name, value.item())
        if self.start is not None and not is_count(self.start):
            raise ValueError(f"start must be a positive number of rows, got {self.start!r}.")

    def starting_at(self, default: int) -> Self:
        """Return the policy with its first refresh decided: its own ``start``, or the problem's default."""
        return self if self.start is not None else replace(self, start=default)  # type: ignore[type-var]

    def following(self, at: int, idle: int = 0) -> int:
        """Return the row count of the refresh after the one at ``at`` rows; ``idle`` solves before it were in vain."""
        return max(at + 1, math.ceil(min(self.growth * at, _NEVER)))

    def after(self, n: int) -> int:
        """Return the first of the refreshes ``start``, ``following(start)``, ... that comes after n rows."""
        start = self.decided_start()
        at = start if self.growth > 1 else max(start, n + 1)
        while at <= n:
            at = self.following(at)
        return at

    def allowance(self, seed: int, at: int, noise: float = 0.0) -> float:
        """Return how many times the new model's cost the present one may cost and be kept; 0 for never.

        ``noise`` is the model's degrees of freedom over the rows seen.
        """
        return 0.0

    def may_wait(self, at: int, gain: float, noise: float, rise: float, grown: float) -> bool:
        """Whether the look at ``at`` rows may be left out.

        ``gain`` is what a new model gains by chance alone, as a share of the cost, and ``noise`` the degrees of freedom
        over the rows seen; ``rise`` is how much more than chance explains the rows since the last solve have cost; by
        ``grown`` rows have multiplied since.
        """
        return False

    @property
    def compares_costs(self) -> bool:
        """Whether the present model may be kept because of what it costs."""
        return type(self).allowance is not Policy.allowance

    def promise(
        self,
        sensitivity: SensitivityBound,
        n: int,
        epsilon: float,
        *,
        remembers: bool = False,
        degrees: float = 1.0,
    ) -> Promise:
        """Return what the policy promises for the first n rows, where costs are exact.

        ``sensitivity`` bounds the average sensitivity of a model that is (1 + epsilon)-approximate and has this many
        ``degrees`` of freedom. A solver that starts from the current model ``remembers`` the order of rows.
        """
        start = self.decided_start()
        if remembers:
            additive = bounds.lazy_regret(sensitivity, n, start, self.growth, tolerance=0.0)
        else:
            additive = bounds.geometric_regret(sensitivity, n, start, self.growth)
        return Promise(1 + epsilon, additive, bounds.geometric_models(n, start, self.growth))

    def decided_start(self) -> int:
        """Return the row count of the first refresh."""
        if self.start is None:
            raise ValueError("The first refresh is not decided: give the policy a start.")
        return int(self.start)


def check_growth(growth: float) -> None:
    """Refuse what is no factor above 1."""
    if not 1 < growth < math.inf:
        raise ValueError(f"growth must be a finite number above 1, got {growth!r}.")


def is_count(value: object) -> bool:
    """Whether a value is a positive integer."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)
