"""What a batch problem is to the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.core.coreset import Coreset
from batch2online.core.rows import Rows
from batch2online.coresets.construction import Construction
from batch2online.problems.hindsight import Hindsight
from batch2online.problems.warm_up import WarmUp


class DependsOn(Enum):
    """What a new model is computed from, and so what it reacts to when a single row is left out."""

    CORESET = "the coreset alone"
    CURRENT_MODEL = "the coreset and the model in force, which remembers the order of rows"
    ALL_ROWS = "statistics of all rows"


class Contender(NamedTuple):
    """A model that may replace the current one.

    What the current one and it cost, where the solver has found out; and how evenly rows share that: the share of them
    that would say as much if all cost the same, 1 where nothing is known.
    """

    model: Any
    costs: tuple[float, float] | None = None
    evenness: float = 1.0


class Totals(NamedTuple):
    """The loss of rows in total and their second number in total; the largest loss, and what gives the loss of each.

    ``least`` is a number that no loss is below.
    """

    loss: float
    second: float
    largest: float
    losses: Callable[[], FloatArray]
    least: float = 0.0


class Problem(ABC):
    """A batch problem: what a model is, what it costs, and how to solve for one."""

    needs: ClassVar[type] = Construction
    """The kind of construction that the problem can be solved on."""

    loss_bound: float | None = None
    """No row costs more than this; None where nothing is known."""

    costs_are_exact: ClassVar[bool] = False
    """Whether ``cost`` and ``optimum`` are those of all rows seen; otherwise ``cost`` is measured on the coreset, and
    so is ``optimum`` where no history is kept."""

    @property
    def secondary_name(self) -> str:
        """What the second number of a row is called, see :meth:`losses`."""
        return "secondary loss"

    @property
    def tells_costs(self) -> bool:
        """Whether ``contender`` mostly tells what models cost: it is then not worth finding out before."""
        return False

    @property
    def models_depend_on(self) -> DependsOn:
        """What ``solve`` looks at: the theorems promise less where it is more than the coreset."""
        return DependsOn.CORESET

    def stability(self, construction: Any) -> Callable[[int], float] | None:
        """Return a bound of what leaving one of n rows out costs that row on average, in units of a bound of losses.

        For models of statistics of all rows; None where none is proved.
        """
        return None

    @abstractmethod
    def first_refresh(self, width: int, n_targets: int) -> int:
        """Rows after which the problem can be posed."""

    @abstractmethod
    def warm_up(self) -> WarmUp:
        """Return what scores rows until the first model, and has seen none."""

    @abstractmethod
    def initial(self, answer: Any, width: int, n_targets: int) -> Any:
        """Return the model before the first refresh: the simplest there is, by what the warm-up answers, or None."""

    @abstractmethod
    def losses(self, model: Any, points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the loss of each row, and a second number for it.

        The engine sums both. The second is named by ``secondary_name``.
        """

    def numbers(self, rows: Rows) -> Rows:
        """Return rows as numbers that can be compared: what stands for texts and gaps is made one."""
        return rows

    def spread_of(self, rows: Rows) -> FloatArray | None:
        """Return the values (n, k) whose spread the loss is compared with (R2, variance kept); None where none is."""
        return None

    def total_losses(self, model: Any, rows: Rows) -> Totals:
        """Return the sums of both numbers over rows, weights apart; a problem may know a shorter way to them."""
        losses, second = self.losses(model, rows.points, rows.targets)
        return totals_of(losses, second)

    def bounded(self, losses: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what a warm-up gives in the problem's terms: as it is, unless losses are clipped."""
        return losses, second

    @abstractmethod
    def solve(self, construction: Any, current: Any) -> Any:
        """Return the batch algorithm, run on the coreset."""

    def contender(self, construction: Any, current: Any) -> Contender:
        """Return a solution beside the current model, and what the solver knows of both."""
        return Contender(self.solve(construction, current))

    @abstractmethod
    def cost(self, model: Any, construction: Any) -> float:
        """Total loss on all rows seen: exact, or measured on the coreset."""

    @abstractmethod
    def lower_bound(self, construction: Any) -> float:
        """Return a bound that no model's cost is below; 0 where nothing better is known."""

    @abstractmethod
    def optimum(self, construction: Any, model: Any) -> float:
        """Return the hindsight optimum on all rows seen, or the best that is known."""

    def hindsight(self, construction: Any, model: Any) -> Hindsight:
        """Return the optimum, and all that is known beside it."""
        return Hindsight(self.optimum(construction, model))

    def solved_rows(self, model: Any, construction: Any) -> int:
        """Return on how many rows a model was solved that has just come out."""
        is_exact = self.models_depend_on is DependsOn.ALL_ROWS
        return int(construction.n_rows if is_exact else len(construction.coreset()))

    def sizes(self, losses: FloatArray) -> FloatArray:
        """Return how much rows with these losses pull at the model: as much as they cost, where no more is known."""
        return np.maximum(losses, 0.0)

    def sizes_on(self, model: Any, coreset: Coreset) -> FloatArray:
        """Return how much the rows of a coreset pull at a model."""
        targets = np.empty((len(coreset), 0)) if coreset.targets is None else coreset.targets
        return self.sizes(self.losses(model, coreset.points, targets.reshape(len(coreset), -1))[0])

    def degrees(self, model: Any, construction: Any) -> float:
        """Return the degrees of freedom of a model, relative to those of the loss of one row.

        A model solved on n rows costs these about ``1 - degrees / n`` times what it costs others like them.
        :class:`refresh.Adaptive` allows for it.
        """
        return 1.0

    def unevenness(self, model: Any, construction: Any) -> float:
        """Return by which factor a fresh model is noisier than its degrees of freedom tell, at least 1.

        They tell it of rows whose losses are alike; a few rows that pull at a model more than others make it noisier.
        :class:`refresh.Adaptive` may ask before a model is replaced.
        """
        return 1.0

    @abstractmethod
    def difference(self, old: Any, new: Any, construction: Any) -> dict[str, Any]:
        """How far the model has moved, as fields of a ``ChangeEvent``: ``magnitude`` at least."""

    @abstractmethod
    def same(self, old: Any, new: Any) -> bool:
        """Whether two models are identical."""


def totals_of(losses: FloatArray, second: FloatArray) -> Totals:
    """Return the totals of rows with these losses and second numbers."""
    sums = float(losses.sum()), float(second.sum())
    return Totals(*sums, float(losses.max()), lambda: losses, float(losses.min()))


def check_losses(losses: FloatArray, ids: IntArray) -> None:
    """Refuse losses that are no numbers: a sum with one of them is none either.

    >>> check_losses(np.array([1.0, np.nan]), np.array([7, 8]))
    Traceback (most recent call last):
    ValueError: loss gave NaN for row 8 of the stream.
    """
    missing = np.isnan(losses)
    if missing.any():
        raise ValueError(f"loss gave NaN for row {int(ids[missing.argmax()])} of the stream.")


def check_joined(problem: object, construction: object) -> None:
    """Refuse a problem and a construction that cannot work together.

    >>> from batch2online.coresets import Uniform
    >>> from batch2online.problems.regression import LeastSquares
    >>> check_joined(LeastSquares(), Uniform())
    Traceback (most recent call last):
    TypeError: LeastSquares is solved on a coreset of the kind Leverage, got Uniform.
    """
    missing = sorted(name for name in Problem.__abstractmethods__ if not hasattr(problem, name))
    if missing:
        raise TypeError(f"A problem must have the methods of Problem; {type(problem).__name__} lacks {missing[0]}.")
    needs = getattr(problem, "needs", Construction)
    if not isinstance(construction, needs):
        wanted, got = needs.__name__, type(construction).__name__
        raise TypeError(f"{type(problem).__name__} is solved on a coreset of the kind {wanted}, got {got}.")
