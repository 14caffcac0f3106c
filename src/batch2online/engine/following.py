"""How an engine follows rows that drift: a window that slides, half-lives that compete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.rows import Rows, all_ones
from batch2online.coresets.construction import Construction
from batch2online.engine.contest import Contest, exchange
from batch2online.engine.scoring import total
from batch2online.engine.window import Window
from batch2online.problems.problem import Problem

_OF_A_HALF_LIFE = ("is_solved", "next_refresh", "idle_solves", "warm_up", "last_coreset", "loss", "second_loss")
"""What belongs to the half-life in force, besides the construction and the model."""


class Following:
    """The part of the engine that lets old rows go."""

    problem: Problem
    construction: Construction
    model: Any
    window: Window | None
    contest: Contest | None
    n_learned: int
    loss: float
    second_loss: float
    _replace: Callable[..., None]
    _segment_loss = 0.0  # of the rows that came last, by the weights that were given

    @property
    def rivals(self) -> tuple[Any, ...]:
        """Engines of other half-lives, fed with the same rows."""
        return () if self.contest is None else self.contest.rivals

    def _check_all_rows_count(self, what: str) -> None:
        if self.window is not None or self.contest is not None:
            kind = "a window" if self.window is not None else 'half_life="auto"'
            raise ValueError(f"{what} is for estimators of all rows or of one half-life, not for {kind}.")

    def _remember(self, rows: Rows, losses: FloatArray, second: FloatArray) -> None:
        """Keep what the rows have cost for as long as it is asked for."""
        self._segment_loss = total(losses, rows.weights)
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

    def _compete(self, rows: Rows) -> None:
        """Let the rivals learn what came, and one of them take over if it has been better."""
        assert self.contest is not None
        losses = [self._segment_loss]
        for rival in self.contest.rivals:
            rival._process(rows)
            losses.append(rival._segment_loss)
        self.contest = self.contest.after(len(rows), np.array(losses))
        winner = self.contest.winner(self.n_learned)
        if winner is not None:
            self._change_places(self.contest.rivals[winner])
            self.contest = self.contest.with_winner(winner)

    def _change_places(self, rival: Any) -> None:
        """Take over all that a rival knows, and leave it what was in force."""
        old, new = self.model, rival.model
        exchange(self.construction, rival.construction)
        for name in _OF_A_HALF_LIFE:
            mine, theirs = getattr(self, name), getattr(rival, name)
            setattr(self, name, theirs)
            setattr(rival, name, mine)
        rival.model = old
        before, after = (self.problem.cost(model, self.construction) for model in (old, new))
        decay = self.construction.decay
        self._replace(new, before, after, kind="half_life", rows=0 if decay is None else decay.half_life)
