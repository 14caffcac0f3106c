"""Refresh policies: row counts of checks, and the tolerance within which the current model is kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from batch2online.sampling import TOLERANCE, uniforms
from batch2online.schema import storable
from batch2online.theory import bounds
from batch2online.theory.bounds import Guarantee, SensitivityBound

_NEVER = 2.0**62

_RISE = 0.01
"""A check is never skipped once losses rise by this share."""

_MAX_GROWTH = 8.0
"""A check is never skipped once the rows have multiplied by this."""


class Policy:
    """Base class of refresh policies: check at every row, always replace the model."""

    on_coreset_change: ClassVar[bool] = False  # refit only if the coreset has changed since the last check
    needs_exact_costs: ClassVar[bool] = False  # for its theorem to hold
    needs_coupling: ClassVar[bool] = False  # of coresets: stability of losses is not enough for its theorem
    measures_benefit: ClassVar[bool] = False  # score the replaced model beside the new one
    growth: float = 1.0
    rows: int = 1
    floor: float = 0.0
    max_noise_factor: float = 1.0
    start: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.generic):
                object.__setattr__(self, name, value.item())
        if self.start is not None and not is_count(self.start):
            raise ValueError(f"start must be a positive number of rows, got {self.start!r}.")

    def starting_at(self, default: int) -> Self:
        """Return the policy with its first check set: its own ``start``, or the default of the problem."""
        return self if self.start is not None else replace(self, start=default)  # type: ignore[type-var]

    def with_few_rows(self, default: int) -> Self:
        """Return the policy that knows below how many rows costs say little, where it compares costs."""
        return self

    def decided_start(self) -> int:
        """Return the row count of the first check."""
        if self.start is None:
            raise ValueError("The first refresh is not decided: give the policy a start.")
        return int(self.start)

    def next_check(self, n: int, n_kept: int = 0) -> int:
        """Return the row count of the check after the one at n rows.

        ``n_kept`` is the number of consecutive refits that kept the current model.
        """
        if self.growth <= 1:
            return (n // self.rows + 1) * self.rows
        return max(n + 1, math.ceil(min(self.growth * n, _NEVER)))

    def first_check_after(self, n: int) -> int:
        """Return the first of the checks ``start``, ``next_check(start)``, ... after n rows."""
        start = self.decided_start()
        at = start if self.growth > 1 or n < start else self.next_check(n)
        while at <= n:
            at = self.next_check(at)
        return at

    def cost_tolerance(self, seed: int, n: int, noise: float = 0.0) -> float:
        """Return up to which multiple of the new model's cost the current one is kept; 0 to always replace it.

        ``noise`` is the number of degrees of freedom of the model over the number of rows.
        """
        return 0.0

    def priced(self, n: int, degrees_of_freedom: float) -> Self:
        """Return the policy of the check at n rows, where the price of a change depends on their number."""
        return self

    def can_skip(self, n: int, gain: float, noise: float, rise: float, growth: float) -> bool:
        """Return whether the check at n rows can be skipped.

        Parameters
        ----------
        n : int
            Rows seen.
        gain : float
            Expected gain of a new model by chance alone, as a share of the cost.
        noise : float
            Degrees of freedom over the number of rows.
        rise : float
            Relative increase of the loss since the last refit, beyond what chance explains.
        growth : float
            Factor by which the rows have multiplied since.
        """
        return False

    @property
    def skips_checks(self) -> bool:
        """Whether a check can be skipped because of the losses since the last refit."""
        return type(self).can_skip is not Policy.can_skip and self.floor > 0

    @property
    def compares_costs(self) -> bool:
        """Whether the current model can be kept because of its cost."""
        return type(self).cost_tolerance is not Policy.cost_tolerance

    def guarantee(
        self,
        sensitivity: SensitivityBound,
        n: int,
        epsilon: float,
        *,
        warm_starts: bool = False,
        degrees_of_freedom: float = 1.0,
    ) -> Guarantee:
        """Return what the theorem of the policy guarantees for the first n rows, where costs are exact.

        Parameters
        ----------
        sensitivity : callable
            Bound of the average sensitivity of a model that is (1 + epsilon)-approximate, by the number of rows.
        n, epsilon : int, float
            Number of rows, approximation error of the model.
        warm_starts : bool
            Whether the solver starts from the current model, so that a model depends on the order of rows.
        degrees_of_freedom : float
            Degrees of freedom of the model.
        """
        start = self.decided_start()
        if warm_starts:
            additive = bounds.warm_start_regret(sensitivity, n, start, self.growth, rows=self.rows)
        else:
            additive = bounds.geometric_regret(sensitivity, n, start, self.growth, rows=self.rows)
        return Guarantee(1 + epsilon, additive, bounds.geometric_models(n, start, self.growth, self.rows))


def check_growth(growth: float) -> None:
    """Raise ValueError unless the growth is a finite factor above 1."""
    if not 1 < growth < math.inf:
        raise ValueError(f"growth must be a finite number above 1, got {growth!r}.")


def is_count(value: object) -> bool:
    """Return whether a value is a positive integer."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


@storable
@dataclass(frozen=True)
class EveryStep(Policy):
    """Refit after every row, from the first check on: the schedule of Algorithm 1.

    The algorithm as printed, which also draws a new coreset at every row, is ``reference.batch_to_online``. Here rows
    keep their uniforms, and the model changes only where the coreset does (or, with ``solve="exact"``, at every row).
    """

    start: int | None = None


@storable
@dataclass(frozen=True)
class Every(Policy):
    """Refit whenever so many further rows have come, at the multiples of ``rows``: the schedule of a script.

    Row counts alone decide, so that results do not depend on how rows are split into calls: a caller that learns one
    night a call has a refit a night with the usual number of rows of a night.

    >>> policy = Every(1_000)
    >>> policy.next_check(1_000), policy.next_check(1_700)
    (2000, 2000)
    """

    rows: int
    start: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_count(self.rows):
            raise ValueError(f"rows must be a positive integer, got {self.rows!r}.")

    def starting_at(self, default: int) -> Self:
        """Return the policy with its first check at the first multiple of ``rows`` that is enough for a model."""
        return super().starting_at(-(-default // self.rows) * self.rows)


@storable
@dataclass(frozen=True)
class OnChange(Policy):
    """Refit whenever the coreset has changed: the paper's consistent version.

    The number of changes is polylogarithmic in the number of rows, yet thousands at ordinary sizes, and the coreset is
    computed at every row.
    """

    on_coreset_change: ClassVar[bool] = True
    needs_coupling: ClassVar[bool] = True
    start: int | None = None

    def guarantee(
        self,
        sensitivity: SensitivityBound,
        n: int,
        epsilon: float,
        *,
        warm_starts: bool = False,
        degrees_of_freedom: float = 1.0,
    ) -> Guarantee:
        guarantee = super().guarantee(sensitivity, n, epsilon, warm_starts=warm_starts)
        changes = bounds.on_change_inconsistency(sensitivity, n, self.decided_start())
        return replace(guarantee, models=1 + changes)


@storable
@dataclass(frozen=True)
class Geometric(Policy):
    """Refit at row counts ``s, growth * s, growth^2 * s, ...`` (rounded up, at least one row later).

    >>> policy = Geometric(growth=1.5, start=10)
    >>> policy.next_check(10), policy.next_check(15)
    (15, 23)
    """

    growth: float = 1.1
    start: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_growth(self.growth)


@storable
@dataclass(frozen=True)
class Adaptive(Policy):
    r"""Check often, and keep the current model while chance alone can explain that the new one costs less.

    After n rows a model with p degrees of freedom is kept while it costs at most :math:`1 + a_n` times the new one,
    :math:`a_n = \max(\mathrm{floor}, \kappa p / n)` times a factor drawn for each check log-uniformly between 1/2 and
    1. A model fitted to s rows costs about :math:`1 + p (1/s - 1/n)` times the new one if the rows are alike, so calm
    streams see a change about whenever the rows have multiplied by 1 + kappa, or by less: a change of the data is
    answered at the next check. The tolerances sum to :math:`O(\kappa p \ln n)` times the mean loss of a row.

    Refits whenever rows have multiplied by 1 + k lose :math:`p\,k / \ln(1 + k)` mean losses for each unit of
    :math:`\ln n`. If a change is worth a share c of the loss so far, the sum of both is least near
    :math:`k = \sqrt{2 c n / p}`: many parameters for few rows ask for more changes. This k, but at least 1 (doublings)
    and at most kappa, multiplies :math:`p / n`.

    The problem defines p: d + 1 for least squares, the rank, the number of clusters. n is the effective sample size.
    Where a check takes a refit, one that keeps the model doubles the step to the next check, which comes when the rows
    have doubled at the latest.

    Parameters
    ----------
    kappa : float, default 2.0
        Tolerance in multiples of the noise of a fitted model.
    growth : float, default 1.1
        The next check comes when the rows have grown by this factor.
    floor : float, default 0.0
        Gains below this share do not matter, however many rows there are. If given, checks are skipped: one whose
        expected gain is below it, and every second one whose expected gain is below the tolerance; unless the loss
        since the last refit has risen by a hundredth and by more than chance explains, or the rows have multiplied by
        eight.
    start : int or None
        Rows at the first check; None for the default of the problem.
    change_price : float, default infinity
        The share c of the loss that a change is worth. At infinity, kappa alone counts.
    few_rows : int or None
        Below so many rows checks come at doublings and always replace the model, since costs on the rows that it was
        fitted to say little. None for the default of the problem.
    max_noise_factor : float, default 1.0
        Rows of high leverage and high loss make a new model noisier than p says. Before a change the factor by which
        it is noisier is measured on the coreset, and p is multiplied by it, by this number at most. At 1 nothing is
        measured. Regression and low rank measure it, by leverages and losses.

    Examples
    --------
    >>> 1.01 <= Adaptive(kappa=2.0).cost_tolerance(seed=0, n=1000, noise=10 / 1000) <= 1.02
    True
    >>> policy = Adaptive(growth=1.25)
    >>> [policy.next_check(1000, n_kept) for n_kept in (0, 1, 2, 9)]
    [1250, 1500, 2000, 2000]
    """

    needs_exact_costs: ClassVar[bool] = True
    kappa: float = 2.0
    growth: float = 1.1
    floor: float = 0.0
    start: int | None = None
    max_noise_factor: float = 1.0
    change_price: float = math.inf
    few_rows: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_growth(self.growth)
        if not self.change_price > 0:
            raise ValueError(f"change_price must be a number above 0, got {self.change_price!r}.")
        if self.few_rows and not is_count(self.few_rows):
            raise ValueError(f"few_rows must be a number of rows, 0 or more, got {self.few_rows!r}.")
        if not 1 <= self.max_noise_factor < math.inf:
            raise ValueError(
                f"max_noise_factor must be a finite number that is at least 1, got {self.max_noise_factor!r}."
            )
        if not 0 < self.kappa < math.inf:
            raise ValueError(f"kappa must be a finite number above 0, got {self.kappa!r}.")
        if not 0 <= self.floor < math.inf:
            raise ValueError(f"floor must be a finite number that is not negative, got {self.floor!r}.")

    def with_few_rows(self, default: int) -> Self:
        return self if self.few_rows is not None else replace(self, few_rows=default)

    def _has_few(self, n: int) -> bool:
        return self.few_rows is not None and n < self.few_rows

    def next_check(self, n: int, n_kept: int = 0) -> int:
        step = max(super().next_check(n) - n, n if self._has_few(n) else 1)
        return n + min(step << min(n_kept, 62), max(step, n))

    def can_skip(self, n: int, gain: float, noise: float, rise: float, growth: float) -> bool:
        check = round(math.log(n / self.decided_start()) / math.log(self.growth))
        enough = self._tolerated(noise) if check % 2 else self.floor
        return gain < enough and rise < _RISE and growth < _MAX_GROWTH and not self._has_few(n)

    def _tolerated(self, noise: float) -> float:
        """Return the largest tolerance that a check can draw."""
        return max(self.floor, self.kappa * noise)

    def priced(self, n: int, degrees_of_freedom: float) -> Self:
        if not (self.change_price < math.inf and degrees_of_freedom):
            return self
        least = max(1.0, math.sqrt(2 * self.change_price * n / degrees_of_freedom))
        return self if least >= self.kappa else replace(self, kappa=least)

    def cost_tolerance(self, seed: int, n: int, noise: float = 0.0) -> float:
        return 0.0 if self._has_few(n) else float(1 + self._tolerated(noise) * 2 ** -_uniform(seed, n))

    def guarantee(
        self,
        sensitivity: SensitivityBound,
        n: int,
        epsilon: float,
        *,
        warm_starts: bool = False,
        degrees_of_freedom: float = 1.0,
    ) -> Guarantee:
        """Return the guarantee of Theorem 5 with ``eta = epsilon``, on its conditions."""
        start, slack = self.decided_start(), 1 + epsilon
        plain = super().guarantee(sensitivity, n, epsilon, warm_starts=warm_starts)
        tolerated = self.kappa * self.max_noise_factor * degrees_of_freedom
        kept = bounds.allowed_regret(n, start, self.growth, tolerated, epsilon)
        factor = slack * (slack + bounds.kept_model(epsilon) * self.floor)
        return Guarantee(factor, slack * (plain.additive + kept), plain.models, slack * kept)


def _uniform(seed: int, n: int) -> float:
    """Return the uniform random number of the check at n rows."""
    return float(uniforms(seed, TOLERANCE, range(n, n + 1))[0])
