"""All that was learned from the rows of a stream: a value that holds data and no settings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.answers import Answered
from batch2online.decay import ForwardDecay
from batch2online.observer import Observer
from batch2online.record import Unscored
from batch2online.refresh.measured import RefitBenefit
from batch2online.results import ChangeEvent, Counts, Timings
from batch2online.rows import Intervals, Rows
from batch2online.schema import replace, storable
from batch2online.sketches.base import Sketch
from batch2online.warm_up import WarmUp

Events = tuple[ChangeEvent, ...]
_Observer = TypeVar("_Observer", bound=Observer)


class Scores(NamedTuple):
    """Loss and secondary loss of each row of a segment, before it was learned."""

    losses: FloatArray
    secondary: FloatArray


@storable
@dataclass(frozen=True)
class FitStatistics:
    """The stream at the last refit, by which a check can be skipped.

    Attributes
    ----------
    effective_rows : float
        Number of rows of equal weight and equal loss that carry as much information as those seen.
    weight : float
        Total weight of the rows.
    loss : float
        Prequential loss of the rows.
    cost : float
        Loss of the fitted model on the same rows.
    """

    effective_rows: float
    weight: float
    loss: float
    cost: float


@storable
@dataclass(frozen=True)
class RefreshState:
    """What the next check depends on.

    Attributes
    ----------
    next_check : int
        Row count of the next check.
    n_kept : int
        Consecutive refits that kept the current model.
    last_fit : FitStatistics or None
        Statistics of the last refit; None if no check may be skipped.
    benefit : RefitBenefit or None
        What the current model gains over the one before.
    last_coreset : (ids, weights) or None
        The coreset at the last check, for policies that compare it.
    in_time : bool
        Whether rows were found not to come in random order: :class:`~batch2online.refresh.Measured` then refits more
        often, see its ``in_time``.
    """

    next_check: int
    n_kept: int = 0
    last_fit: FitStatistics | None = None
    benefit: RefitBenefit | None = None
    last_coreset: tuple[Any, ...] | None = None
    in_time: bool = False


@storable
@dataclass(frozen=True)
class State:
    """All that was learned from the rows of a stream, up to the end of a segment.

    Attributes
    ----------
    sketch : Sketch
        Sums and candidates of the rows learned.
    refresh : RefreshState
        What the next check depends on.
    model, has_model
        The current model, and whether it was fitted; before that it is the simplest one that the rows give.
    n_learned, last_id : int
        Rows learned, and the largest id among them.
    ids : list of (int, int)
        Ids of all rows, also of those forgotten since, as half-open intervals.
    decay : ForwardDecay or None
        How rows lose weight with age.
    history : History or None
        All rows, or those of the window, where they are kept.
    window_losses : tuple of arrays (2, n)
        Of a window, weighted loss and secondary loss of its rows.
    warm_up : WarmUp or None
        What scores rows until the first model.
    loss, secondary_loss : float
        Sums over the rows, each scored before it was learned.
    late_loss, late_secondary_loss : float
        What rows with late targets cost more under the models that predicted them, see :class:`Answered`.
    answered : Answered or None
        Earlier answers for rows to come with late targets, if there are any.
    unscored : Unscored
        Rows that nothing could score.
    observers : tuple of Observer
        What is measured of the rows besides; none of them in a candidate that is not the current one.
    changes, change_counts
        The newest changes of the model, and how many there were of each kind.
    timings : Timings
        Seconds of refits; they differ from run to run, and are stored beside the state.
    others : tuple of State
        Of several half-lives, the states of those that are not the current one.
    half_lives : HalfLifeScores or None
        Their recent losses, by which one is selected.
    """

    sketch: Sketch
    refresh: RefreshState
    model: Any = None
    has_model: bool = False
    n_learned: int = 0
    last_id: int = -1
    ids: Intervals = field(default_factory=list)
    decay: ForwardDecay | None = None
    history: Any = None
    window_losses: tuple[FloatArray, ...] = ()
    warm_up: WarmUp | None = None
    loss: float = 0.0
    secondary_loss: float = 0.0
    late_loss: float = 0.0
    late_secondary_loss: float = 0.0
    answered: Answered | None = None
    unscored: Unscored = field(default_factory=Unscored)
    observers: tuple[Observer, ...] = ()
    changes: Events = ()
    change_counts: Counts = ()
    timings: Timings = field(default_factory=Timings)
    others: tuple[Any, ...] = ()
    half_lives: Any = None

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds: rows that are kept are stored once."""
        others = tuple(replace(each, history=None) for each in self.others)
        return {name: value for name, value in vars(self).items() if name != "timings"} | {"others": others}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> State:
        """Return the state that :meth:`stored_fields` describes."""
        return cls(**fields)

    def each(self, change: Callable[[State], State]) -> State:
        """Return the state changed, and those of all other half-lives as well."""
        return replace(change(self), others=tuple(map(change, self.others)))

    def with_history(self, history: Any) -> State:
        """Return the state with its rows in another place."""
        return self.each(lambda state: replace(state, history=history))

    def observer(self, kind: type[_Observer]) -> _Observer | None:
        """Return the observer of this kind; None if there is none."""
        return next((each for each in self.observers if isinstance(each, kind)), None)

    def weighted(self, rows: Rows) -> Rows:
        """Return rows with the weights that they have under decay."""
        return rows if self.decay is None else self.decay.weighted(rows)

    @property
    def n_changes(self) -> int:
        """How often the model has changed."""
        return sum(count for _, count in self.change_counts)

    @property
    def half_life(self) -> float:
        """Rows after which a row has half the weight, infinite without decay."""
        return math.inf if self.decay is None else float(self.decay.half_life)

    @property
    def newest_weight(self) -> float:
        """Weight of the last row under decay, if it was given a weight of one."""
        return 1.0 if self.decay is None else float(self.decay.factors(np.array([self.last_id]))[0])

    @property
    def prequential_losses(self) -> tuple[float, float]:
        """Loss and secondary loss of all rows, each under the model that predicted it."""
        return self.loss + self.late_loss, self.secondary_loss + self.late_secondary_loss
