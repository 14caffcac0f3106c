"""Algorithm 1 of the paper: a sketch of the rows, a batch solver, and a policy that decides when to refit.

An :class:`Engine` holds settings and no data; a :class:`State` holds data and no settings. :meth:`Engine.step` takes a
state over one segment of rows: they are scored by the current model, then the sketch learns them, and at the row counts
of the policy a check decides whether to refit, and whether the new model replaces the current one. No file holds an
engine: the parameters of an estimator make it again. Nothing here depends on any particular problem.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.decay import ForwardDecay
from batch2online.engine.state import FitStatistics, RefreshState, Scores, State
from batch2online.history import History
from batch2online.observer import Scored
from batch2online.problem import FitResult, check_losses
from batch2online.record import FEWEST_RECENT, RECENT, Record, Unscored, weighted_totals
from batch2online.refresh import Measured, Policy
from batch2online.refresh.measured import RefitBenefit
from batch2online.results import KEPT, ChangeEvent, Regret, counted, regret_of
from batch2online.rows import LARGEST_ID, Rows, all_ones, check_ids, extended, united
from batch2online.schema import replace
from batch2online.sketches.base import Sketch, Snapshot, with_settings
from batch2online.warm_up import WarmUp

TRIAL_ROWS = 2_000
"""Rows on which a model that was replaced is scored beside its successor."""

Fit = Callable[[Snapshot, Any], FitResult]


@dataclass(frozen=True)
class Engine:
    """The settings of a stream, and what it does with a segment of rows.

    Attributes
    ----------
    problem, policy
        What a model is and how to fit one; when to refit. A coreset alone has neither.
    empty : Sketch
        The sketch of no rows.
    half_life : int or None
        Rows after which the weight of a row has halved.
    window, checks_per_window : int or None, int
        Number of last rows that models are fitted to, None for all, and the least number of checks among them. These
        rows are kept, and the sketch at a check is computed of them anew. Nothing is ever subtracted, so no digits are
        lost.
    new_history : callable or None
        Returns an empty place for the rows that are kept: all, or those of the window. None if none are.
    reads_rows, rows_on_disk : bool
        Whether sketch and problem may read the rows that are kept, and whether their place is on a disk.
    ordered : bool
        Whether rows come in an order. Otherwise none is scored, and a model is fitted when one is asked for.
    observers : tuple of Observer
        What is measured of the rows besides, before the first one.
    """

    problem: Any
    policy: Policy
    empty: Sketch
    half_life: int | None = None
    window: int | None = None
    checks_per_window: int = 4
    new_history: Callable[[], History] | None = None
    reads_rows: bool = False
    rows_on_disk: bool = False
    ordered: bool = True
    observers: tuple[Any, ...] = ()

    n_states: ClassVar[int] = 1
    """States of a stream: one, or one of each half-life."""

    @property
    def shape(self) -> tuple[int, int]:
        """Columns of the rows, and of the targets."""
        return self.empty.settings.shape

    @property
    def seed(self) -> int:
        """The seed of all random draws."""
        return self.empty.settings.seed

    @property
    def forgetting(self) -> str | None:
        """How old rows are forgotten, in words; None if all rows keep their weight."""
        if self.window is not None:
            return "the window"
        return None if self.half_life is None else "a half-life"

    def with_targets(self, flat: bool) -> Self:
        """Return the engine for targets that come as (n,), or as (n, n_targets)."""
        return replace(self, empty=with_settings(self.empty, flat_targets=flat))

    def with_window(self, rows: int, checks: int | None) -> Self:
        """Return the engine with a window of so many rows, which are checked so often at least."""
        place = partial(History, self.empty.settings.block, *self.shape)
        observers = (Record(max(FEWEST_RECENT, min(RECENT, rows))), *self.observers[1:])
        checks = checks or self.checks_per_window
        return replace(self, window=rows, checks_per_window=checks, observers=observers, new_history=place)

    def check_all_rows_count(self, what: str) -> None:
        """Raise if there is a window, or if the half-life is selected automatically."""
        if self.window is not None or self.n_states > 1:
            kind = "a window" if self.window is not None else 'half_life="auto"'
            raise ValueError(f"{what} is for estimators of all rows or of one half-life, not for {kind}.")

    def new(self, history: History | None = None) -> State:
        """Return the state before the first row; ``history`` is where rows will be kept, None for a new place."""
        return State(
            self.empty,
            RefreshState(1 if self.policy is None else self.policy.decided_start()),
            None if self.problem is None else self.problem.initial_model(None, *self.shape),
            decay=None if self.half_life is None else ForwardDecay(self.half_life),
            history=history,
            observers=self.observers,
        )

    def rows_to_cut(self, state: State, start: int) -> int:
        """Return how many rows from id ``start`` on make the next segment, whatever the calls that bring them.

        It ends at the next check, at the end of a block of ids, at the last id, and where weights under decay become
        too large.
        """
        block = self.empty.settings.block
        to_end = min(block - start % block, LARGEST_ID + 1 - start)
        if state.decay is not None:
            to_end = min(to_end, state.decay.rows_to_cut(start))
        return max(1, min(to_end, self.rows_to_check(state))) if self.ordered else to_end

    def rows_to_check(self, state: State) -> int:
        """Return how many rows may come before the next check."""
        return state.refresh.next_check - state.n_learned

    def snapshot(self, state: State) -> Snapshot:
        """Return what a problem reads: the sketch, and all rows with their weights, where it may read them."""
        history = state.history if self.reads_rows else None
        if history is not None and self.window is not None:
            history = history.of(history.blocks()) if len(history) else None
        return Snapshot(state.sketch, None if history is None else history.under(state.decay))

    def _max_step(self, state: State) -> int | None:
        """Return the largest number of rows between two checks, where old rows lose weight."""
        if self.window is not None:
            return max(1, self.window // self.checks_per_window)
        return None if state.decay is None else state.decay.longest_step

    # -- one segment of rows --------------------------------------------------------------------------------

    def step(self, state: State, rows: Rows) -> State:
        """Return the state after one segment: its rows are scored, then learned, and a check follows if it is due."""
        return self._stepped(state, rows, self._kept(state, rows))[0]

    def _kept(self, state: State, rows: Rows) -> History | None:
        """Return the rows that are kept, these included."""
        if self.new_history is None:
            return None
        return (self.new_history() if state.history is None else state.history).append(rows)

    def _stepped(self, state: State, rows: Rows, history: History | None) -> tuple[State, Scores | None]:
        """Return the state after one segment, which ``history`` holds already, and the losses of its rows."""
        state, scores = self._aged(state, int(rows.ids[0])), None
        if self.ordered:
            state, scores = self._scored(state, rows)
        state = self._learned(state, rows, scores, history)
        if self.ordered and state.n_learned == state.refresh.next_check:
            state = self._checked(state)
        return state, scores

    def _aged(self, state: State, at: int) -> State:
        """Return the state with weights relative to rows near this id: sums are multiplied by a power of 4."""
        if state.decay is None:
            return state
        decay, factor = state.decay.moved_to(at)
        if factor == 1:
            return replace(state, decay=decay)
        return replace(
            state,
            decay=decay,
            sketch=state.sketch.scale(factor),
            loss=state.loss * factor,
            secondary_loss=state.secondary_loss * factor,
            late_loss=state.late_loss * factor,
            late_secondary_loss=state.late_secondary_loss * factor,
            unscored=state.unscored.scaled(factor),
            warm_up=None if state.warm_up is None else state.warm_up.scaled(factor),
        )

    def _scored(self, state: State, rows: Rows) -> tuple[State, Scores]:
        """Return the state with the losses of rows that are not learned yet, and these losses.

        Earlier answers for some of these rows replace their losses in what is reported, and nowhere else.
        """
        problem, weighted = self.problem, state.weighted(rows)
        warm_up = None if state.has_model else state.warm_up or problem.warm_up()
        with np.errstate(over="ignore"):
            losses, secondary, seen = _losses(problem, state.model, warm_up, weighted)
            totals = weighted_totals(losses, secondary, weighted.weights)
            if math.isnan(totals.least):
                check_losses(losses, rows.ids)
            is_known, reported = warm_up is None or warm_up.scores, Scores(losses, secondary)
            if is_known and state.answered is not None:
                reported = Scores(*state.answered.over(rows, losses, secondary))
                state = _with_late(state, reported, Scores(losses, secondary), weighted.weights)
            if state.observers:
                is_plain = weighted is rows and reported.losses is losses
                as_given = totals if is_plain else weighted_totals(*reported, rows.weights)
                scored = Scored(rows, *reported, as_given, problem, state.model, self.seed, is_known)
                state = replace(state, observers=tuple(each.after(scored) for each in state.observers))
        state = replace(
            state,
            warm_up=seen,
            model=state.model if seen is None else problem.initial_model(seen.prediction, *self.shape),
            loss=state.loss + totals.loss,
            secondary_loss=state.secondary_loss + totals.second,
            unscored=state.unscored if is_known else state.unscored.plus(weighted),
        )
        if self.window is not None:
            both = np.stack(reported)
            own = both if all_ones(rows.weights) else both * rows.weights
            state = replace(state, window_losses=(*state.window_losses, own))
        return self._with_benefit_of(state, rows, losses), Scores(losses, secondary)

    def _learned(self, state: State, rows: Rows, scores: Scores | None, history: History | None) -> State:
        """Return the state whose sketch has learned the rows."""
        norms, start, stop = None, int(rows.ids[0]), int(rows.ids[-1]) + 1
        if state.sketch.pilot == "gradients" and state.has_model and scores is not None:
            norms = self.problem.gradient_norms(scores.losses)
        is_again = stop <= state.last_id + 1  # rows that are learned again after others were forgotten
        return replace(
            state,
            sketch=state.sketch.update(state.weighted(rows), norms),
            n_learned=state.n_learned + len(rows),
            last_id=max(state.last_id, stop - 1),
            ids=state.ids if is_again else extended(state.ids, start, stop),
            history=history,
            answered=None if state.answered is None else state.answered.since(stop) or None,
        )

    # -- checks ---------------------------------------------------------------------------------------------

    def _checked(self, state: State) -> State:
        """Return the state after the check that is due, with the row count of the next one."""
        state = self._slid(state)
        if state.has_model:
            return self._scheduled(self._decided(state))
        state = replace(state, sketch=state.sketch.prepared(self.snapshot(state).history))
        return self._scheduled(self._fitted_first(state, self.problem.fit_online))

    def _scheduled(self, state: State, at: int | None = None) -> State:
        """Return the state with the row count of the next check.

        It is that of the policy, or sooner where old rows lose weight or rows do not come in random order.
        """
        n, policy = state.n_learned, self.policy
        if isinstance(policy, Measured) and not state.refresh.in_time and state.observers:
            observers = tuple(each.settled() for each in state.observers)
            in_time = any(each.is_alarmed for each in observers)
            state = _refreshed(replace(state, observers=observers), in_time=in_time)
        if isinstance(policy, Measured) and state.refresh.in_time:
            at = policy.in_time().next_check(n)
        elif at is None:
            at = policy.next_check(n, state.refresh.n_kept)
        if (max_step := self._max_step(state)) is not None:
            at = min(at, n + max_step)
        return _refreshed(state, next_check=max(at, n + 1))

    def _decided(self, state: State) -> State:
        """Return the state with its model kept or replaced.

        A check ends in one of five ways:

        1. it is skipped, since the losses since the last refit show that a refit cannot pay (:meth:`_can_skip`);
        2. the policy gives no reason to refit (:meth:`_triggered`);
        3. the current model is within tolerance of a lower bound of every model's cost: nothing is fitted;
        4. a model is fitted, and the current one is within tolerance of it: it is kept;
        5. the new model replaces the current one.
        """
        data = self.snapshot(state)
        if self._can_skip(state, data):
            return state
        state = replace(state, sketch=state.sketch.prepared(data.history))
        data = data.of(state.sketch)
        state, trigger = self._triggered(state, data)
        if trigger is None:
            return state
        problem, policy, n, model = self.problem, self.policy, state.n_learned, state.model
        degrees = problem.degrees_of_freedom(model, data) if policy.compares_costs else 0.0
        noise, policy = degrees / data.totals.effective_rows, policy.priced(n, degrees)
        tolerance = policy.cost_tolerance(data.seed, n, noise)
        before: float | None = None
        if tolerance and (bound := problem.lower_bound(data)) is not None:
            before = problem.cost(model, data)
            if before <= tolerance * bound:
                return state
        new, seconds = _timed(problem.fit_online, data, model)
        state = replace(state, timings=state.timings.plus(new.n_rows, seconds))
        if new.costs is not None:
            before, after = new.costs
        else:
            before = problem.cost(model, data) if before is None else before
            after = problem.cost(new.model, data)
        if (
            tolerance and policy.max_noise_factor > 1 and before > tolerance * after
        ):  # the random draw of the tolerance is the same
            noise *= min(policy.max_noise_factor, problem.noise_factor(new.model, data))
            tolerance = policy.cost_tolerance(data.seed, n, noise)
        if tolerance and before <= tolerance * after:
            # Checks become rarer with each model kept, unless costs are exact: then a check takes next to no time.
            state = _refreshed(state, n_kept=state.refresh.n_kept + (not problem.costs_are_exact))
            return self._with_fit(state, before, new.ess_ratio)
        state = self._with_fit(_refreshed(state, n_kept=0), after, new.ess_ratio)
        details = {"kind": trigger, "tolerance": tolerance - 1 if tolerance else None, "n_fit_rows": new.n_rows}
        state = self._replaced(state, new.model, (before, after), data, **details)
        return self._with_new_benefit(state, new.n_rows, model)

    def _can_skip(self, state: State, data: Snapshot) -> bool:
        """Return whether the losses since the last refit show that a refit cannot pay.

        ``rise`` is the relative rise of the mean loss since then, beyond what overfitting and two standard errors
        explain; ``gain`` the relative gain that more rows give a refit if nothing has changed.
        """
        last, totals = state.refresh.last_fit, data.totals
        if last is None:
            return False
        mean, weight_since = last.cost / last.weight, totals.weight - last.weight
        if not (mean > 0 and weight_since > 0):  # as rounded: the rows since may weigh next to nothing
            return False
        growth, degrees = totals.weight / last.weight, self.problem.degrees_of_freedom(state.model, data)
        mean_since = (state.loss - last.loss) / weight_since
        # Effective rows of the fit are by loss, those of the totals by weight: their ratio is 1 + variance / mean^2.
        variance = max(0.0, totals.effective_rows / growth / last.effective_rows - 1)
        error = math.sqrt(variance / totals.effective_rows * growth**2 / (growth - 1))
        overfitting = 2 * degrees / last.effective_rows  # in-sample cost against loss on new rows
        rise = mean_since / mean - 1 - overfitting - 2 * error
        gain, noise = degrees / last.effective_rows * (1 - 1 / growth), degrees / totals.effective_rows
        return self.policy.can_skip(state.n_learned, gain, noise, rise, growth)

    def _triggered(self, state: State, data: Snapshot) -> tuple[State, str | None]:
        """Return why a check refits, None if it need not: the coreset is the same, or the expected benefit small."""
        if self.policy.on_coreset_change:
            state, changed = _with_coreset(state, data)
            if not changed:
                return state, None
        policy, benefit = self.policy, state.refresh.benefit
        if not isinstance(policy, Measured) or benefit is None:
            return state, "scheduled"
        policy = policy.in_time() if state.refresh.in_time else policy
        size = self.problem.n_fit_rows(data, state.model)
        trigger = policy.trigger(benefit, state.n_learned, size, self._max_step(state))
        return (state if trigger else _refreshed(state, benefit=benefit.after_check())), trigger

    def _with_fit(self, state: State, cost: float, ess_ratio: float) -> State:
        """Store what :meth:`_can_skip` needs, unless old rows are forgotten or losses are negative."""
        if not self.policy.skips_checks or self._max_step(state) is not None:
            return state
        totals = state.sketch.totals
        if not (cost > 0 and state.loss >= 0):
            return _refreshed(state, last_fit=None)
        last = FitStatistics(totals.effective_rows * ess_ratio, totals.weight, state.loss, cost)
        return _refreshed(state, last_fit=last)

    def _fitted_first(self, state: State, fit: Fit) -> State:
        """Return the state with its first model, which is no change."""
        data = self.snapshot(state)
        new, seconds = _timed(fit, data, None)
        state = replace(state, timings=state.timings.plus(new.n_rows, seconds))
        state = replace(self._adopted(state, new.model, data), has_model=True, warm_up=None)
        data = data.of(state.sketch)
        if self.policy.skips_checks:
            state = self._with_fit(state, self.problem.cost(state.model, data), 1.0)
        state = self._with_new_benefit(state, new.n_rows, None)
        return _with_coreset(state, data)[0] if self.policy.on_coreset_change else state

    def _adopted(self, state: State, model: Any, data: Snapshot) -> State:
        """Return the state with this model, and the sketch that scores the rows by it from here on."""
        sketch = self.problem.piloted(state.sketch, model, data)
        return replace(state, model=model, sketch=sketch, timings=state.timings.with_model(state.n_learned))

    def _replaced(self, state: State, new: Any, costs: tuple[float, float], data: Snapshot, **details: Any) -> State:
        """Return the state with a new model, which leaves a change unless it is the same."""
        if self.problem.same(state.model, new):
            return state
        moved = self.problem.difference(state.model, new, data)
        event = ChangeEvent(state.n_learned, cost_before=costs[0], cost_after=costs[1], **moved, **details)
        changes, counts = (*state.changes, event)[-KEPT:], counted(state.change_counts, event)
        return replace(self._adopted(state, new, data), changes=changes, change_counts=counts)

    def refitted(self, state: State, kind: str, **details: Any) -> State:
        """Return the state with a model fitted now to all rows, independent of the current one."""
        if state.n_learned:
            state = self._aged(state, state.last_id)
        state = self._slid(state)
        data = self.snapshot(state)
        state = replace(state, sketch=state.sketch.prepared(data.history))
        if state.has_model and state.n_learned:
            data = data.of(state.sketch)
            before = self.problem.cost(state.model, data)
            new, seconds = _timed(self.problem.fit, data, None)
            state = replace(state, timings=state.timings.plus(new.n_rows, seconds))
            costs = before, self.problem.cost(new.model, data)
            state = self._replaced(state, new.model, costs, data, kind=kind, n_fit_rows=new.n_rows, **details)
            state = replace(self._with_new_benefit(state, new.n_rows, None), model=new.model)  # the same one as well
        elif state.n_learned:
            state = self._fitted_first(state, self.problem.fit)
        state = _refreshed(state, n_kept=0, last_fit=None)
        return self._scheduled(state, self.policy.first_check_after(state.n_learned))

    def _slid(self, state: State) -> State:
        """Return the state of the rows in the window alone."""
        if self.window is None or state.history is None:
            return state
        history, losses = state.history.last(self.window), _last(state.window_losses, self.window)
        sketch = state.sketch.empty()
        for rows in history.blocks():
            sketch = sketch.update(rows)
        loss, secondary = np.sum([part.sum(axis=1) for part in losses], axis=0).tolist() if losses else (0.0, 0.0)
        return replace(
            state,
            sketch=sketch,
            history=history,
            window_losses=losses,
            loss=loss,
            secondary_loss=secondary,
            late_loss=0.0,
            late_secondary_loss=0.0,
            unscored=state.unscored.within(history),
        )

    # -- what refits gain -----------------------------------------------------------------------------------

    def _with_new_benefit(self, state: State, n_fit_rows: int, former: Any | None) -> State:
        """Start to measure the gain of the current model over the previous one, if there was one."""
        if not (self.policy.measures_benefit or (self.problem.tries_changes and state.observers)):
            return state
        old, size = state.refresh.benefit, float(n_fit_rows)
        if former is state.model and old is not None:  # the same model came out: it gains nothing
            return _refreshed(state, benefit=replace(old.after_check(), at=state.n_learned))
        if old is None or former is None:
            return _refreshed(state, benefit=RefitBenefit(state.n_learned, size))
        return _refreshed(state, benefit=RefitBenefit(state.n_learned, size, former, old.size))

    def _with_benefit_of(self, state: State, rows: Rows, losses: FloatArray) -> State:
        """Add the losses of rows, and for a while their losses under the previous model."""
        benefit = state.refresh.benefit
        if not state.has_model or benefit is None:
            return state
        if benefit.former is None:
            return _refreshed(state, benefit=benefit.with_rows(losses, rows.weights))
        some = rows[: TRIAL_ROWS - benefit.gains.rows]
        former = self.problem.losses(benefit.former, some.points, some.targets)[0]
        benefit = benefit.with_trial(former, losses[: len(some)], some.weights).with_rows(losses, rows.weights)
        state = _with_trial(state, benefit)
        return _refreshed(state, benefit=benefit if benefit.gains.rows < TRIAL_ROWS else replace(benefit, former=None))

    # -- two states, fewer rows, and results ----------------------------------------------------------------

    def merged(self, state: State, other: State) -> State:
        """Return the state of the rows of both; the model is that of the first, until a refit."""
        if state.decay is not None and other.decay is not None:
            state = self._aged(state, other.decay.reference)
            assert state.decay is not None
            other = self._aged(other, state.decay.reference)
        histories = [each.history for each in (state, other) if each.history is not None]
        losses = (*state.window_losses, *other.window_losses)
        return replace(
            state,
            sketch=state.sketch.merge(other.sketch),
            refresh=replace(state.refresh, next_check=max(state.refresh.next_check, other.refresh.next_check)),
            n_learned=state.n_learned + other.n_learned,
            last_id=max((one.last_id for one in (state, other) if one.n_learned), default=-1),
            ids=united(state.ids, other.ids),
            history=histories[0].merged(histories[1]) if len(histories) == 2 else next(iter(histories), None),
            window_losses=_by_blocks(losses, histories) if losses else (),
            loss=state.loss + other.loss,
            secondary_loss=state.secondary_loss + other.secondary_loss,
            late_loss=state.late_loss + other.late_loss,
            late_secondary_loss=state.late_secondary_loss + other.late_secondary_loss,
            unscored=state.unscored.merge(other.unscored),
            observers=tuple(a.merge(b) for a, b in zip(state.observers, other.observers, strict=True)),
        )

    def check_forgettable(self, state: State, ids: Any) -> IntArray:
        """Return the ids as an array if rows can be forgotten, and these are theirs."""
        if self.new_history is None:
            parameter = getattr(self.empty, "history_parameter", "keep_history=True")
            raise ValueError(f"forget needs the history: create with {parameter}.")
        history = self.new_history() if state.history is None else state.history
        if self.window is None:
            return check_ids(ids, history.ids())
        return check_ids(ids, history.last(self.window).ids(), "are not in the window")

    def emptied(self, state: State) -> State:
        """Return the state before the first row, except that the ids have been seen."""
        return replace(self.new(state.history and state.history.emptied()), last_id=state.last_id, ids=state.ids)

    def unscored(self, state: State) -> State:
        """Return the state of rows that were not scored: no loss, no changes, and no order to monitor."""
        return replace(
            state,
            refresh=replace(state.refresh, last_coreset=None),
            warm_up=None,
            loss=math.nan,
            secondary_loss=math.nan,
            late_loss=0.0,
            late_secondary_loss=0.0,
            unscored=Unscored(),
            observers=tuple(each.emptied(state.n_learned) for each in self.observers),
            changes=(),
            change_counts=(),
        )

    def regret(self, state: State, data: Snapshot) -> Regret:
        """Return loss and hindsight optimum of the rows, given a snapshot of them."""
        return regret_of(self.problem, state, data)


def _refreshed(state: State, **changes: Any) -> State:
    return replace(state, refresh=replace(state.refresh, **changes))


def _timed(fit: Fit, data: Snapshot, current: Any) -> tuple[FitResult, float]:
    """Return a model fitted now, and the seconds that it took."""
    start = time.perf_counter()
    return fit(data, current), time.perf_counter() - start


def _losses(
    problem: Any, model: Any, warm_up: WarmUp | None, rows: Rows
) -> tuple[FloatArray, FloatArray, WarmUp | None]:
    """Return loss and secondary loss of each row, and the warm-up that has seen them; None says there is a model."""
    if warm_up is None:
        losses, secondary = problem.losses(model, rows.points, rows.targets)
    else:
        (losses, secondary), warm_up = warm_up.score(rows.points, rows.targets, rows.weights)
    return losses, secondary, warm_up


def _with_late(state: State, reported: Scores, own: Scores, weights: FloatArray) -> State:
    """Return the state with the difference between the losses of earlier answers and of the current model added."""
    more = [weights @ _finite_difference(*pair) for pair in zip(reported, own, strict=True)]
    return replace(
        state,
        late_loss=state.late_loss + float(more[0]),
        late_secondary_loss=state.late_secondary_loss + float(more[1]),
    )


def _finite_difference(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the difference, 0 where the second is infinite: so is the sum that it is added to."""
    return np.where(np.isfinite(other), one - np.where(np.isfinite(other), other, 0.0), 0.0)


def _with_coreset(state: State, data: Snapshot) -> tuple[State, bool]:
    """Return the state with its current coreset stored, and whether that has changed."""
    old, new = state.refresh.last_coreset, (data.coreset.ids, data.coreset.weights)
    return _refreshed(state, last_coreset=new), old is None or not all(map(np.array_equal, old, new))


def _with_trial(state: State, benefit: RefitBenefit) -> State:
    """Return the state whose last change knows what both models have cost the rows after it, seen by neither."""
    if not state.changes or state.changes[-1].at != benefit.at or not benefit.gains.weight > 0:
        return state
    new = benefit.magnitude / benefit.gains.weight
    old = new + benefit.gains.mean
    if not 0 <= old < math.inf:  # logarithms of densities have no shares
        return state
    event = replace(state.changes[-1], trial=(benefit.gains.rows, old, new))
    return replace(state, changes=(*state.changes[:-1], event))


def _last(losses: tuple[FloatArray, ...], n: int) -> tuple[FloatArray, ...]:
    """Return the losses (2, m) of the last n rows, in the same parts."""
    kept: list[FloatArray] = []
    for part in reversed(losses):
        if n <= 0:
            break
        kept.append(part[:, -n:])
        n -= part.shape[1]
    return tuple(reversed(kept))


def _by_blocks(losses: tuple[FloatArray, ...], histories: list[History]) -> tuple[FloatArray, ...]:
    """Return the losses (2, m) of the rows of several histories by blocks of ids, in ascending ids."""
    ids = np.concatenate([history.ids() for history in histories])
    order = np.argsort(ids, kind="stable")
    cuts = np.flatnonzero(np.diff(ids[order] // histories[0].block)) + 1
    joined = np.concatenate(losses, axis=1)
    return tuple(joined[:, places] for places in np.split(order, cuts))
