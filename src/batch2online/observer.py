"""Observers of a stream: each sees the rows of every segment after they were scored.

A model depends on no observer, but for :attr:`Observer.is_alarmed`. What an observer finds does not depend on how rows
are cut into calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

from batch2online._types import FloatArray
from batch2online.problem import Problem, Totals
from batch2online.rows import Rows


@dataclass(frozen=True)
class Scored:
    """A segment of rows that were scored and not learned yet.

    Attributes
    ----------
    rows : Rows
        The rows with their given weights.
    losses, secondary : arrays (n,)
        Loss and secondary loss of each row, under the model that predicted it.
    totals : Totals
        Their sums, each row with its given weight.
    problem, model : Problem, model
        The current model, and the problem that it solves.
    seed : int
        The seed of all random draws.
    is_known : bool
        Whether rows have a loss: without a model there may be none.
    """

    rows: Rows
    losses: FloatArray
    secondary: FloatArray
    totals: Totals
    problem: Problem
    model: Any
    seed: int
    is_known: bool = True


class Observer(ABC):
    """Base class. A value: methods return another one."""

    @abstractmethod
    def after(self, scored: Scored) -> Self:
        """Return the observer after these rows."""

    @abstractmethod
    def merge(self, other: Self) -> Self:
        """Return the observer after the rows of both."""

    @abstractmethod
    def emptied(self, skipped: int = 0) -> Self:
        """Return one with the same settings before the first row, after ``skipped`` rows that it does not see."""

    def settled(self) -> Self:
        """Return the same with all done that was put off."""
        return self

    @property
    def is_alarmed(self) -> bool:
        """Whether rows were found not to come in random order."""
        return False
