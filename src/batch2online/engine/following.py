"""How an engine follows rows that drift: a window that slides, half-lives that compete."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.drift.order_monitor import Monitor
from batch2online.engine.contest import JUDGED, NOTED, Contest, exchange
from batch2online.engine.scoring import weighted_totals
from batch2online.engine.unscored import Unscored
from batch2online.engine.window import Window
from batch2online.problem import Problem
from batch2online.record import FEWEST_RECENT, RECENT, Record
from batch2online.refresh.benefit import Pace
from batch2online.rows import Rows, all_ones
from batch2online.sketches.base import Construction

_OF_A_HALF_LIFE = (
    "model",
    "is_solved",
    "next_refresh",
    "idle_solves",
    "pace",
    "solved_then",
    "warm_up",
    "last_coreset",
    "loss",
    "second_loss",
    "unscored",
)
"""What belongs to the half-life in force, besides the construction."""

_NOTHING: tuple[Any, FloatArray] = (None, np.empty(0))


class Following:
    """The part of the engine that lets old rows go."""

    problem: Problem
    construction: Construction
    model: Any
    is_solved: bool
    window: Window | None
    contest: Contest | None
    pace: Pace | None
    monitor: Monitor | None  # rivals have none
    n_learned: int
    loss: float
    second_loss: float
    unscored: Unscored
    record: Record | None
    _replace: Callable[..., None]
    _scored: tuple[Any, FloatArray] = _NOTHING  # the model that scored the last rows, and their losses

    @property
    def rivals(self) -> tuple[Any, ...]:
        """Engines of other half-lives, fed with the same rows."""
        return () if self.contest is None else self.contest.rivals

    @property
    def half_life(self) -> float:
        """Rows after which a row counts half as much, infinite without decay."""
        decay = self.construction.decay
        return math.inf if decay is None else float(decay.half_life)

    @property
    def _only_sums_count(self) -> bool:
        """Whether nobody asks what single rows have cost: there is no window, no rival, and this is none.

        Nor are rows scored by their losses, or solves by what they gain.
        """
        is_alone = self.window is None and self.contest is None and self.monitor is not None
        return is_alone and self.pace is None and not self.construction.wants_sizes

    def _check_all_rows_count(self, what: str) -> None:
        if self.window is not None or self.contest is not None:
            kind = "a window" if self.window is not None else 'half_life="auto"'
            raise ValueError(f"{what} is for estimators of all rows or of one half-life, not for {kind}.")

    def _note(self, rows: Rows, losses: FloatArray, second: FloatArray) -> None:
        """Take down what rows have cost, and where old rows are let go, what the last ones have."""
        record = self.record or Record(self._span())
        with np.errstate(over="ignore"):
            last = record.with_last(rows, losses, second, self.problem.spread_of(rows)) if record.span else None
        self.record = record.after(rows, weighted_totals(losses, second, rows.weights), last)

    def _span(self) -> int:
        """Return how many of the last rows are told of beside all rows, 0 where all rows count alike."""
        decay, window = self.construction.decay, self.window
        if decay is None and window is None and self.contest is None:
            return 0
        steps = [RECENT if decay is None else decay.half_life, RECENT if window is None else window.size]
        return max(FEWEST_RECENT, min(RECENT, *steps))

    def _remember(self, rows: Rows, losses: FloatArray, second: FloatArray) -> None:
        """Keep what the rows have cost for as long as it is asked for."""
        if self.contest is not None or self.monitor is None:
            self._scored = (self.model if self.is_solved else None, losses)
        if self.window is not None:
            both = np.stack([losses, second])
            self.window = self.window.after(rows, both if all_ones(rows.weights) else both * rows.weights)

    def _slide(self) -> None:
        """Go over to a construction of the rows in the window alone."""
        if self.window is None:
            return
        self.window = self.window.trimmed()
        fresh = self.construction.emptied()
        for rows in self.window.blocks(fresh.block):
            fresh.take(rows)
        exchange(self.construction, fresh)
        self.loss, self.second_loss = map(float, self.window.total)
        self.unscored = self.unscored.within(self.window.parts)

    # -- half-lives that compete ----------------------------------------------------------------------

    def _rows_to_verdict(self) -> float:
        """Return how many rows there are to the next verdict on half-lives."""
        return math.inf if self.contest is None else JUDGED - self.n_learned % JUDGED

    def _compete(self, rows: Rows) -> None:
        """Compare what the rows have cost all, who have learned them; after so many of them one may take over."""
        assert self.contest is not None
        engines = (self, *self.contest.rivals)
        losses = [engine._judged(noted, rows) for engine, noted in zip(engines, self.contest.noted, strict=True)]
        self.contest = self.contest.after(np.stack(losses, axis=1))
        if self.n_learned % JUDGED == 0:
            self.contest = self.contest.judged(self.n_learned)
            if self.n_learned % NOTED == 0:
                models = tuple(engine.model if engine.is_solved else None for engine in engines)
                self.contest = self.contest.with_models(models)
            self._decide(np.array([engine.half_life for engine in engines]))

    def _judged(self, noted: Any, rows: Rows) -> FloatArray:
        """Return what the rows have cost, and what they cost under a model noted before, (2, n)."""
        (scored_by, losses), self._scored = self._scored, _NOTHING
        under_noted = losses
        if noted is not None and noted is not scored_by:
            under_noted = self.problem.losses(noted, rows.points, rows.targets)[0]
        with np.errstate(over="ignore"):
            return np.stack([losses, under_noted]) * rows.weights

    def _decide(self, half_lives: FloatArray) -> None:
        """Let another half-life take over if it has been better by enough: a change of the model."""
        assert self.contest is not None
        place, is_quick = self.contest.winner(half_lives, self.n_learned)
        if place:
            self.contest = self.contest.decided(is_quick)
            self._hand_over(place)

    def _hand_over(self, place: int) -> None:
        """Let the half-life at this place among all take over, and tell of it."""
        old = self.model
        self._change_places(place)
        new, self.model = self.model, old
        before, after = (self.problem.cost(model, self.construction) for model in (old, new))
        self._replace(
            new, before, after, kind="half_life", rows=int(self.half_life) if self.half_life < math.inf else 0
        )

    def _change_places(self, place: int) -> None:
        """Take over all that the half-life at this place knows, and leave it what was in force."""
        assert self.contest is not None
        if not place:
            return
        rival = self.contest.rivals[place - 1]
        exchange(self.construction, rival.construction, staying=("queue", "history", "keep_history"))
        for name in _OF_A_HALF_LIFE:
            mine, theirs = getattr(self, name), getattr(rival, name)
            setattr(self, name, theirs)
            setattr(rival, name, mine)
        self.contest = self.contest.with_winner(place)

    def _bring_into_force(self, half_life: float) -> None:
        """Put a half-life in force without a word."""
        if self.contest is not None:
            places = [engine.half_life for engine in (self, *self.contest.rivals)]
            self._change_places(places.index(half_life))
