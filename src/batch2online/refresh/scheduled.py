"""Policies that take a new model at fixed row counts, or whenever the coreset has changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from batch2online.refresh.policy import Policy, check_growth, is_count
from batch2online.schema import storable
from batch2online.theory import bounds
from batch2online.theory.bounds import Promise, SensitivityBound


@storable
@dataclass(frozen=True)
class EveryStep(Policy):
    """The schedule of Algorithm 1: solve after every row, from the first refresh on.

    The algorithm as printed, which also draws a new coreset at every row, is ``reference.batch_to_online``. Here rows
    keep their uniforms, and the model changes only where the coreset does (or, with ``solve="exact"``, at every row).
    """

    start: int | None = None


@storable
@dataclass(frozen=True)
class OnChange(Policy):
    """The paper's consistent version: a new model whenever the coreset has changed.

    Polylogarithmic in the number of rows, yet thousands of changes at ordinary sizes, and the
    coreset is computed at every row.
    """

    only_on_change: ClassVar[bool] = True
    needs_coupling: ClassVar[bool] = True
    start: int | None = None

    def promise(
        self,
        sensitivity: SensitivityBound,
        n: int,
        epsilon: float,
        *,
        remembers: bool = False,
        degrees: float = 1.0,
    ) -> Promise:
        promise = super().promise(sensitivity, n, epsilon, remembers=remembers)
        changes = bounds.on_change_inconsistency(sensitivity, n, self.decided_start())
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
        check_growth(self.growth)


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
            if not is_count(getattr(self, name)):
                raise ValueError(f"{name} must be a positive integer, got {getattr(self, name)!r}.")

    def starting_at(self, default: int) -> Self:
        policy = super().starting_at(default)
        if policy.start is not None and policy.start >= self.horizon:
            raise ValueError(f"horizon must exceed the first refresh, at {policy.start} rows, got {self.horizon}.")
        return policy

    @property
    def growth(self) -> float:  # type: ignore[override]
        return float(max(1.0, self.horizon / (self.start or 1)) ** (1 / self.changes))
