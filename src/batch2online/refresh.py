"""When to re-run the batch algorithm.

A policy says at which row counts to look (exact counts, so the model is a pure function of the
sequence and the seed) and how much worse than a fresh model the present one may be to be kept. For rows
in random order, losses in [0, L], and an algorithm that is (1 + epsilon)-approximate with coupled average
sensitivity beta, :class:`Geometric` promises

    E[prequential loss] <= (1 + epsilon) OPT_n + L (s_0 + sum_t beta(s(t) + 1))

with at most ``1 + log_growth(n / s_0)`` models, where s(t) is the last refresh before t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from batch2online.core.randomness import TOLERANCE, uniforms
from batch2online.core.registry import storable
from batch2online.theory import bounds
from batch2online.theory.bounds import SensitivityBound

_NEVER = 2.0**62


@dataclass(frozen=True)
class Promise:
    """What the theorem of a policy promises for rows in random order and losses in [0, 1].

    Attributes
    ----------
    factor : float
        What multiplies the hindsight optimum.
    additive : float
        What the expected prequential loss may be beyond that; it grows in proportion to a bound of the losses.
    models : float
        The most models that come into force (in expectation for :class:`OnChange`).
    """

    factor: float
    additive: float
    models: float


class Policy:
    """What all policies share. The defaults: look again at every row, always take the new model."""

    only_on_change: ClassVar[bool] = False
    growth: float = 1.0
    start: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.generic):
                object.__setattr__(self, name, value.item())
        if self.start is not None and not _is_count(self.start):
            raise ValueError(f"start must be a positive number of rows, got {self.start!r}.")

    def starting_at(self, default: int) -> Self:
        """Return the policy with its first refresh decided: its own ``start``, or the problem's default."""
        return self if self.start is not None else replace(self, start=default)  # type: ignore[type-var]

    def following(self, at: int) -> int:
        """Return the row count of the refresh after the one at ``at`` rows."""
        return max(at + 1, math.ceil(min(self.growth * at, _NEVER)))

    def after(self, n: int) -> int:
        """Return the first of the refreshes ``start``, ``following(start)``, ... that comes after n rows."""
        start = self._decided_start()
        at = start if self.growth > 1 else max(start, n + 1)
        while at <= n:
            at = self.following(at)
        return at

    def allowance(self, seed: int, at: int) -> float:
        """Return the present model is kept while it costs at most this many times the new one; 0 for never."""
        return 0.0

    def promise(self, sensitivity: SensitivityBound, n: int, epsilon: float, *, remembers: bool = False) -> Promise:
        """Return what the policy promises for the first n rows.

        ``sensitivity`` bounds the average sensitivity of a model that is (1 + epsilon)-approximate. A solver that
        starts from the current model ``remembers`` the order of rows.
        """
        start = self._decided_start()
        if remembers:
            additive = bounds.lazy_regret(sensitivity, n, start, self.growth, tolerance=0.0)
        else:
            additive = bounds.geometric_regret(sensitivity, n, start, self.growth)
        return Promise(1 + epsilon, additive, bounds.geometric_models(n, start, self.growth))

    def _decided_start(self) -> int:
        if self.start is None:
            raise ValueError("The first refresh is not decided: give the policy a start.")
        return int(self.start)


@storable
@dataclass(frozen=True)
class EveryStep(Policy):
    """Algorithm 1 of the paper as printed: a new model at every row."""

    start: int | None = None


@storable
@dataclass(frozen=True)
class OnChange(Policy):
    """The paper's consistent version: a new model whenever the coreset has changed.

    Polylogarithmic in the number of rows, yet thousands of changes at ordinary sizes, and the
    coreset is computed at every row.
    """

    only_on_change: ClassVar[bool] = True
    start: int | None = None

    def promise(self, sensitivity: SensitivityBound, n: int, epsilon: float, *, remembers: bool = False) -> Promise:
        promise = super().promise(sensitivity, n, epsilon, remembers=remembers)
        changes = bounds.on_change_inconsistency(sensitivity, n, self._decided_start())
        return replace(promise, models=1 + changes)


@storable
@dataclass(frozen=True)
class Geometric(Policy):
    """Refresh at row counts ``s, growth * s, growth^2 * s, ...`` (rounded up, at least one row later).

    >>> policy = Geometric(growth=1.5, start=10)
    >>> policy.following(10), policy.following(15)
    (15, 23)
    """

    growth: float = 1.1
    start: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_growth(self.growth)


@storable
@dataclass(frozen=True)
class Lazy(Policy):
    """Look at the times of :class:`Geometric`, but keep the present model while it is good enough.

    Good enough is a cost of at most f times the fresh model's, with f drawn for each look
    log-uniformly between ``1 + tolerance / 2`` and ``1 + tolerance``: a fixed threshold would let single
    points decide, a random one keeps the average sensitivity low. The guarantee of :class:`Geometric`
    holds with ``(1 + tolerance)(1 + epsilon)`` in place of ``1 + epsilon``.

    >>> 1.01 <= Lazy(tolerance=0.02).allowance(seed=0, at=1000) <= 1.02
    True
    """

    growth: float = 1.1
    tolerance: float = 0.05
    start: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_growth(self.growth)
        if not 0 < self.tolerance < math.inf:
            raise ValueError(f"tolerance must be a finite number above 0, got {self.tolerance!r}.")

    def allowance(self, seed: int, at: int) -> float:
        u = float(uniforms(seed, TOLERANCE, range(at, at + 1))[0])
        return float((1 + self.tolerance / 2) ** (1 - u) * (1 + self.tolerance) ** u)

    def promise(self, sensitivity: SensitivityBound, n: int, epsilon: float, *, remembers: bool = False) -> Promise:
        """Return a model that is kept remembers the order of rows, whatever the solver does."""
        start = self._decided_start()
        additive = bounds.lazy_regret(sensitivity, n, start, self.growth, self.tolerance)
        models = bounds.geometric_models(n, start, self.growth)
        return Promise((1 + epsilon) * (1 + self.tolerance), additive, models)


@storable
@dataclass(frozen=True)
class Budget(Policy):
    """The growth that spends at most ``changes`` changes between the first model and ``horizon`` rows.

    >>> policy = Budget(changes=20, horizon=1_000_000, start=100)
    >>> round(policy.growth, 3)
    1.585
    """

    changes: int
    horizon: int
    start: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("changes", "horizon"):
            if not _is_count(getattr(self, name)):
                raise ValueError(f"{name} must be a positive integer, got {getattr(self, name)!r}.")

    def starting_at(self, default: int) -> Self:
        policy = super().starting_at(default)
        if policy.start is not None and policy.start >= self.horizon:
            raise ValueError(f"horizon must exceed the first refresh, at {policy.start} rows, got {self.horizon}.")
        return policy

    @property
    def growth(self) -> float:  # type: ignore[override]
        return float(max(1.0, self.horizon / (self.start or 1)) ** (1 / self.changes))


def _check_growth(growth: float) -> None:
    if not 1 < growth < math.inf:
        raise ValueError(f"growth must be a finite number above 1, got {growth!r}.")


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)
