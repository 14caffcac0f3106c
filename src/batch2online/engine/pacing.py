"""How an engine keeps pace: what each solve gains is measured, which decides on the next one and on sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from batch2online._types import FloatArray
from batch2online.engine.window import Window
from batch2online.problem import Problem
from batch2online.refresh import Measured, Policy
from batch2online.refresh.benefit import Pace
from batch2online.rows import Rows
from batch2online.sketches.base import Construction

TRIAL = 2_000
"""Rows on which a model that was replaced is scored beside its successor."""

WORTH = 0.01
"""Share of the loss that a coreset of twice the size must be expected to gain."""


class Pacing:
    """The part of the engine that measures what solves gain."""

    problem: Problem
    construction: Construction
    policy: Policy
    model: Any
    is_solved: bool
    n_learned: int
    window: Window | None
    pace: Pace | None

    def _start_pace(self, former: Any) -> None:
        """Begin to measure what the present model gains over the one before, if there was one."""
        if not (self.policy.measures or self.construction.can_grow):
            return
        old, size = self.pace, float(self.problem.solved_rows(self.model, self.construction))
        if former is self.model and old is not None:  # the same model came out: it gains nothing
            self.pace = replace(old.looked(), at=self.n_learned)
            return
        known = old is not None and former is not None
        self.pace = Pace(self.n_learned, size, former if known else None, old.size if known and old else 0.0)

    def _heed(self, rows: Rows, losses: FloatArray) -> None:
        """Use what rows have cost under the model in force: to keep pace, and to score them for the coreset."""
        if self.is_solved:
            self._keep_pace(rows, losses)
        if self.construction.wants_sizes:
            self.construction.expect(self.problem.sizes(losses) if self.is_solved else None)

    def _keep_pace(self, rows: Rows, losses: FloatArray) -> None:
        """Take note of what rows cost, and for a while of what they would have cost under the model before."""
        pace = self.pace
        if pace is None:
            return
        if pace.former is not None:
            some = rows[: TRIAL - pace.gains.rows]
            former = self.problem.losses(pace.former, some.points, some.targets)[0]
            pace = pace.with_gains(former, losses[: len(some)], some.weights)
        self.pace = pace.with_rows(losses, rows.weights)
        if pace.former is not None and pace.gains.rows >= TRIAL:
            self._end_trial()

    def _end_trial(self) -> None:
        """Let the model before go, and the coreset grow if that is worth it."""
        assert self.pace is not None
        self._grow()
        self.pace = replace(self.pace, former=None)

    def _grow(self) -> None:
        """Double the size of the coreset, before it is full or after, if a model of more rows would gain enough."""
        pace, construction = self.pace, self.construction
        if pace is None or not construction.can_grow:
            return
        size = construction.expected_size
        if construction.n_rows > size / 2 and pace.foreseen(2 * size, -1.0) - pace.foreseen(size, -1.0) >= WORTH:
            construction.grow()

    def _why_now(self) -> str | None:
        """Return why a look solves; None if what was measured says that it need not."""
        self._grow()
        policy, pace = self.policy, self.pace
        if not isinstance(policy, Measured) or pace is None:
            return "scheduled"
        passing = self.window or self.construction.decay
        longest = None if passing is None else passing.longest_step
        kind = policy.reason(pace, self.n_learned, len(self.construction.coreset()), longest)
        if kind is None:
            self.pace = pace.looked()
        return kind
