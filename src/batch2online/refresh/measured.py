"""A policy that solves where measurements say that it pays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from batch2online.refresh.policy import Policy, check_growth, is_count
from batch2online.schema import storable


class Measurements(Protocol):
    """What is measured of the rows since the last solve."""

    @property
    def at(self) -> int:
        """Rows seen at the last solve."""

    def foreseen(self, size: float, doubt: float = 0.0) -> float:
        """Return the share that a model of so many rows would gain; not a number where it is not known."""

    def surprise(self) -> float:
        """Return by how many standard errors recent rows cost more than the first ones under the same model."""

    def excess(self) -> float:
        """Return by which share they do."""


@storable
@dataclass(frozen=True)
class Measured(Policy):
    """Solve again where it pays: by what the last solve has gained, and by what recent rows cost.

    For models of any kind, which overfit the rows they are solved on, so that costs on these say little. After a change
    the old model is scored beside the new one on the next rows, which neither has seen. A look solves if

    - the rows have grown by ``growth`` since the last solve, unless the gain that it foretells is surely below
      ``floor`` (by two standard errors) and recent rows cost hardly more than the first ones under the same model;
    - or recent rows cost more than the first ones, by four standard errors and by ``floor``, or by half, be it for a
      single row among them;
    - or the rows have grown by ``patience``.

    So a calm stream sees fewer solves once the coreset is full: a model of as many rows as before gains little. No
    theorem covers it: when to solve depends on losses. Nothing depends on clocks.

    Parameters
    ----------
    growth : float, default 2.0
        Factor by which rows grow between two solves that pay.
    looks : int, default 3
        Looks in that time; one that does not solve costs nothing.
    floor : float, default 0.002
        Gains below this share of the loss do not matter.
    patience : float, default 4.0
        Factor by which rows may grow at most between two solves.
    start : int or None
        Rows at the first look; None leaves it to the problem.

    Examples
    --------
    >>> policy = Measured(growth=2.0, looks=3, start=100)
    >>> policy.following(100), policy.following(126), policy.following(159)
    (126, 159, 201)
    """

    measures: ClassVar[bool] = True
    growth: float = 2.0
    looks: int = 3
    floor: float = 0.002
    patience: float = 4.0
    start: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_growth(self.growth)
        if not is_count(self.looks):
            raise ValueError(f"looks must be a positive integer, got {self.looks!r}.")
        if not 0 <= self.floor < math.inf:
            raise ValueError(f"floor must be a finite number that is not negative, got {self.floor!r}.")
        if not self.patience >= self.growth:
            raise ValueError(f"patience must be at least growth, {self.growth!r}, got {self.patience!r}.")

    def following(self, at: int, idle: int = 0) -> int:
        step = math.pow(self.growth, 1 / self.looks)
        return max(at + 1, math.ceil(min(step * at, 2.0**62)))

    def reason(self, known: Measurements, rows: int, size: float, longest: int | None = None) -> str | None:
        """Return why a look at so many rows, with a coreset of this size, solves; None if it does not.

        ``longest`` is the most rows between two solves where old rows fade.
        """
        is_certain = known.surprise() > _SURPRISING and known.excess() > self.floor
        if is_certain or (known.surprise() > _CALM and known.excess() > _MUCH):
            return "costlier"
        is_due = rows >= self.growth * known.at or (longest is not None and rows - known.at >= longest)
        is_as_before = known.surprise() < _CALM or known.excess() < self.floor
        is_calm = is_as_before and known.foreseen(size, _DOUBT) < self.floor  # false where nothing is known
        return "scheduled" if (is_due and not is_calm) or rows >= self.patience * known.at else None


_DOUBT = 2.0
"""Standard errors by which a gain may be larger or smaller than it was measured."""

_CALM = 0.5
"""Standard errors within which recent rows cost as much as the first ones. A single row that costs more than all others
together makes one."""

_MUCH = 0.5
"""Share by which recent rows may cost more, be it for one row among them, without a solve."""

_SURPRISING = 4.0
"""Standard errors beyond which recent rows are not like the first ones."""
