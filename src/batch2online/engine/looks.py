"""Looks: the row counts at which the engine solves, or finds that it need not, and what becomes of the model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np

from batch2online.engine.pacing import Pacing
from batch2online.engine.window import Window
from batch2online.numerics.threads import one_thread
from batch2online.problem import Contender, Problem
from batch2online.refresh import Policy
from batch2online.results import KEPT, ChangeEvent, Costs, Counts, counted
from batch2online.sketches.base import Construction
from batch2online.warm_up import WarmUp


class Looks(Pacing):
    """The part of the engine that solves."""

    problem: Problem
    construction: Construction
    policy: Policy
    model: Any
    is_solved: bool
    warm_up: WarmUp | None
    changes: tuple[ChangeEvent, ...]
    """The newest changes of the model, at most ``KEPT``."""

    change_counts: Counts
    """How many changes there were of each kind, those included that are not held any more."""

    on_change: Callable[[ChangeEvent], None] | None = None
    """Callback invoked with every change; ``Durable`` uses it to log them."""

    next_refresh: int
    idle_solves: int
    """How many solves in a row have left the model in place."""

    solved_then: tuple[float, float, float, float] | None
    """At the last look that solved: rows of equal loss that say as much as those so far, weight and loss of these, cost
    of the model on them."""

    n_learned: int
    costs: Costs
    budget: float | None = None
    """Seconds of solves for a million rows seen, at most; None for no limit."""

    _last_solve: tuple[int, float] = (0, 0.0)
    loss: float
    last_coreset: tuple[Any, ...] | None
    _room: int
    copy: Callable[[], Self]
    rows_to_cut: Callable[[], int]
    _process: Callable[..., None]
    _slide: Callable[[], None]
    _advance: Callable[[int], None]
    window: Window | None

    def _look(self) -> None:
        """Solve at a scheduled time unless that cannot change anything; replace the model unless it is good enough."""
        problem, construction = self.problem, self.construction
        if not self.is_solved:
            self._solve_first()
            return
        if self.policy.only_on_change and not self._coreset_changed():
            return
        if not self._affords():
            return
        kind, former = self._why_now(), self.model
        if kind is None:
            return
        before = 0.0 if problem.tells_costs else problem.cost(self.model, construction)
        noise = problem.degrees(self.model, construction) / construction.effective_rows
        allowance = self.policy.allowance(construction.seed, self.n_learned, noise)
        if allowance and not problem.tells_costs and before <= allowance * problem.lower_bound(construction):
            return
        new, costs, evenness = self._contender()
        before, after = costs or (before or problem.cost(self.model, construction), problem.cost(new, construction))
        if self.policy.uneven > 1 and before > allowance * after:
            noise *= min(self.policy.uneven, problem.unevenness(new, construction))
            allowance = self.policy.allowance(construction.seed, self.n_learned, noise)
        if allowance and before <= allowance * after:
            self.idle_solves += not problem.costs_are_exact  # where they are, a look takes next to nothing
            self._note_solve(before, evenness)
            return
        self.idle_solves = 0
        self._replace(new, before, after, kind=kind, allowed=allowance - 1 if allowance else None)
        self._note_solve(after, evenness)
        self._start_pace(former)

    def _solved(self, current: Any) -> Any:
        """Return a model solved now."""
        start = time.perf_counter()
        model = self.problem.solve(self.construction, current)
        self._note_seconds(model, time.perf_counter() - start)
        return model

    def _contender(self) -> Contender:
        """Return a model that may replace the present one, with what the solver knows of both."""
        start = time.perf_counter()
        contender = self.problem.contender(self.construction, self.model)
        self._note_seconds(contender.model, time.perf_counter() - start)
        return contender

    def _note_seconds(self, model: Any, seconds: float) -> None:
        """Note what the solve of a model has cost."""
        self._last_solve = (self.problem.solved_rows(model, self.construction), seconds)
        self.costs = self.costs.after(*self._last_solve)

    def _affords(self) -> bool:
        """Whether a solve keeps within the budget of seconds; without one nothing depends on clocks."""
        if self.budget is None:
            return True
        return self.costs.affords(self.n_learned, len(self.construction.coreset()), self.budget)

    def _note_solve(self, cost: float, evenness: float) -> None:
        """Remember what a later look needs to know to be left out, where all rows count for ever.

        Few rows with most of the loss say less than their number.
        """
        construction = self.construction
        if self.policy.floor > 0 and self.window is None and construction.decay is None:
            known = (construction.effective_rows * evenness, construction.weight, self.loss, cost)
            self.solved_then = known if cost > 0 and self.loss >= 0 else None  # nothing follows from negative losses

    def _may_wait(self) -> bool:
        """Whether this look can be left out, by what rows have cost since the last solve."""
        known, construction = self.solved_then, self.construction
        if known is None:
            return False
        rows, weight, loss, cost = known
        mean, more = cost / weight, construction.weight - weight
        if not (mean > 0 and more > 0):  # as rounded: rows since may weigh next to nothing
            return False
        grown, degrees = construction.weight / weight, self.problem.degrees(self.model, construction)
        recent = (self.loss - loss) / more
        variance = max(0.0, construction.effective_rows / grown / rows - 1)  # of losses, over their squared mean
        error = math.sqrt(variance / construction.effective_rows * grown**2 / (grown - 1))
        rise = recent / mean - 1 - 2 * degrees / rows - 2 * error
        gain, noise = degrees / rows * (1 - 1 / grown), degrees / construction.effective_rows
        return self.policy.may_wait(self.n_learned, gain, noise, rise, grown)

    def _soon(self, at: int) -> int:
        """Return the row count of the next look: the policy's, or an earlier one where old rows fade."""
        passing = self.window or self.construction.decay
        return at if passing is None else min(at, self.n_learned + passing.longest_step)

    def _solve_first(self) -> None:
        self._adopt(self._solved(None))
        self.is_solved, self.warm_up = True, None
        if self.policy.floor > 0:
            self._note_solve(self.problem.cost(self.model, self.construction), evenness=1.0)
        self._start_pace(None)
        if self.policy.only_on_change:
            self._coreset_changed()

    def _replace(self, new: Any, before: float, after: float, **details: Any) -> None:
        if self.problem.same(self.model, new):
            return
        difference = self.problem.difference(self.model, new, self.construction)
        size = self._last_solve[0] if details["kind"] != "half_life" else None
        event = ChangeEvent(
            self.n_learned, cost_before=before, cost_after=after, solved_on=size, **difference, **details
        )
        self._adopt(new)
        self.changes, self.change_counts = (*self.changes, event)[-KEPT:], counted(self.change_counts, event)
        if self.on_change is not None:
            self.on_change(event)

    def _adopt(self, model: Any) -> None:
        """Put a model in force; the construction hears of it at the same row, whatever the chunks."""
        self.model = model
        self.costs = self.costs.with_model(self.n_learned, *self._last_solve)
        self.construction.adopt(model)
        if self.construction.wants_sizes:
            self.construction.measure(partial(self.problem.sizes_on, model))

    def _coreset_changed(self) -> bool:
        coreset = self.construction.coreset()
        old, self.last_coreset = self.last_coreset, (coreset.ids, coreset.weights)
        return old is None or not all(map(np.array_equal, old, self.last_coreset))

    @one_thread()
    def refreshed(self, kind: str, **details: Any) -> Self:
        """Return the engine with a model solved afresh on all rows seen, whatever the present one costs."""
        new = self.copy()
        new._refresh(kind, **details)
        return new

    def _refresh(self, kind: str, **details: Any) -> None:
        """Solve now, with no regard to the present model: nothing that led to it is left in the new one."""
        self.construction.flush(self._process)
        self._slide()
        if self.n_learned:
            self._advance(self.construction.next_id - 1)
        self.construction.settle_exactly()
        self.construction.settle()
        if self.is_solved and self.n_learned:
            before = self.problem.cost(self.model, self.construction)
            new = self._solved(None)
            self._replace(new, before, self.problem.cost(new, self.construction), kind=kind, **details)
            self._start_pace(None)
            self.model = new  # where it is the same but for rounding as well
        elif self.n_learned:
            self._solve_first()
        self.idle_solves, self.solved_then = 0, None
        self.next_refresh = self._soon(self.policy.after(self.n_learned))
        self._room = self.rows_to_cut()
