"""Algorithm 1 of the paper: a sketch of the rows, a batch solver, and a policy that decides when to refit.

:class:`StreamState` is all that was learned, at one moment; it never changes. :func:`step` takes it over one segment of
rows: they are scored by the current model, then the sketch learns them, and at the row counts of the policy
:func:`check` decides whether to refit, and whether the new model replaces the current one. Nothing here depends on any
particular problem.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, Self

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.answers import Answered
from batch2online.decay import ForwardDecay, weighted_history
from batch2online.history import History
from batch2online.problem import FitResult, Problem, check_losses, check_sketch
from batch2online.record import FEWEST_RECENT, RECENT, Record, Unscored, weighted_totals
from batch2online.refresh import Measured, Policy
from batch2online.refresh.measured import RefitBenefit
from batch2online.results import KEPT, ChangeEvent, Counts, Timings, counted
from batch2online.rows import Rows, check_ids, check_width
from batch2online.schema import Count, above, at_least, finite, replace, require, require_equal, storable
from batch2online.sketches.base import RowSource, Sketch, Snapshot
from batch2online.warm_up import WarmUp

if TYPE_CHECKING:
    from batch2online.drift.order_monitor import OrderMonitor

TRIAL_ROWS = 2_000
"""Rows on which a model that was replaced is scored beside its successor."""

Events = tuple[ChangeEvent, ...]
_Positive = Annotated[float, above(0)]
_NotNegative = Annotated[float, at_least(0)]


class Scores(NamedTuple):
    """Loss and secondary loss of each row of a segment, before it was learned."""

    losses: FloatArray
    secondary: FloatArray


class StepInfo(NamedTuple):
    """Result of a step: scores of its rows, None if rows have no order, and changes of the model."""

    scores: Scores | None = None
    events: Events = ()


@storable
@dataclass(frozen=True)
class FitStatistics:
    """The stream at the last refit, by which :func:`can_skip` judges the rows since.

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

    effective_rows: _Positive
    weight: Annotated[_Positive, finite]
    loss: _NotNegative
    cost: _NotNegative


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
        Whether rows were found not to come in random order, so that a policy that measures refits more often.
    """

    next_check: int
    n_kept: Count = 0
    last_fit: FitStatistics | None = None
    benefit: RefitBenefit | None = None
    last_coreset: tuple[Any, ...] | None = None
    in_time: bool = False


@storable
@dataclass(frozen=True)
class StreamState:
    """All that was learned from the rows of a stream, at one moment.

    Attributes
    ----------
    problem, policy, sketch
        What a model is and how to fit one; when to refit; sums and candidates of the rows learned.
    decay : ForwardDecay or None
        How rows lose weight with age.
    shape : (int, int)
        Columns of the rows, and of the targets.
    model, has_model
        The current model, and whether it was fitted; before that it is the simplest one that the rows give.
    n_learned, last_id : int
        Rows learned, and the largest id among them.
    warm_up : WarmUp or None
        What scores rows until the first model.
    loss, secondary_loss : float
        Sums over the rows, each scored before it was learned.
    late_loss, late_secondary_loss : float
        What rows with late targets cost more under the models that predicted them, see :class:`Answered`.
    unscored : Unscored
        Rows that nothing could score.
    record : Record or None
        Averages over all rows as they came; None for a candidate that is not the current one.
    monitor : OrderMonitor or None
        Whether rows come in random order; None for a candidate as well.
    changes, change_counts
        The newest changes of the model, at most ``KEPT``, and how many there were of each kind.
    timings : Timings
        Seconds of refits.
    max_step : int or None
        Rows between two checks, at most, where old rows lose weight.
    origin : int or None
        Of rows without order, the first id of the stream that they are part of; None where they come in an order.
    """

    problem: Any
    policy: Policy
    sketch: Sketch
    shape: tuple[int, int]
    refresh: RefreshState
    model: Any
    has_model: bool = False
    warm_up: WarmUp | None = None
    n_learned: int = 0
    last_id: int = -1
    decay: ForwardDecay | None = None
    loss: float = 0.0
    secondary_loss: float = 0.0
    late_loss: Annotated[float, finite] = 0.0
    late_secondary_loss: Annotated[float, finite] = 0.0
    unscored: Unscored = field(default_factory=Unscored)
    record: Record | None = None
    monitor: OrderMonitor | None = None
    changes: Events = ()
    change_counts: Counts = ()
    timings: Timings = field(default_factory=Timings)
    max_step: Annotated[int, at_least(1)] | None = None
    origin: Count | None = None

    def validate(self) -> None:
        """Require a sketch, a model, a record and a monitor of the rows learned."""
        sketch, refresh, n = self.sketch, self.refresh, self.n_learned
        require_equal("shape of the sketch", sketch.settings.shape, self.shape)
        require(sketch.totals.n_rows <= n, f"sketch: found {sketch.totals.n_rows} rows, expected at most {n}")
        is_to_come = self.policy.start is not None and refresh.next_check > n
        require(is_to_come, f"next_check: found {refresh.next_check}, expected more than {n}")
        require(refresh.n_kept <= n, f"n_kept: found {refresh.n_kept} refits of {n} rows")
        counts, held = dict(self.change_counts), dict(counted((), *self.changes))
        is_counted = all(count > 0 for count in counts.values()) and len(counts) == len(self.change_counts)
        is_held = all(held[kind] <= counts.get(kind, 0) for kind in held)
        require(is_counted and is_held, f"change_counts: found {self.change_counts} for changes {held}")
        require_equal("changes", len(self.changes), min(KEPT, sum(counts.values())))
        is_whole = self.max_step is None and self.decay is None
        require(refresh.last_fit is None or is_whole, "last_fit: found one where old rows lose weight")
        require(self.unscored.rows <= n, f"unscored: found {self.unscored.rows} rows, expected at most {n}")
        if (monitor := self.monitor) is not None:
            found = (monitor.width, monitor.n_targets, monitor.seen)
            require_equal("shape and rows of the monitor", found, (*self.shape, n))
        self.validate_model(self.model)
        self._validate_scores()

    def _validate_scores(self) -> None:
        """Require a record, a warm-up and a benefit of the rows learned."""
        record, warm_up, benefit, n = self.record, self.warm_up, self.refresh.benefit, self.n_learned
        require(record is None or record.rows <= n, f"record: found more than {n} rows")
        if record is not None and self.problem is not None:
            record.validate_for(self.problem, self.shape)
        if warm_up is not None:
            require(not self.has_model, "warm_up: found one beside a model")
            require(warm_up.fits(*self.shape), f"warm_up: found one that does not fit rows of shape {self.shape}")
            is_alike = self.problem is None or warm_up.same_settings(self.problem.warm_up())
            require(is_alike, f"warm_up: found {type(warm_up).__name__}, not that of the problem")
        if benefit is not None:
            require(self.has_model and benefit.at <= n, f"benefit: found a refit at row {benefit.at} of {n}")
            rows = max(benefit.gains.rows, benefit.first.rows)
            require(rows <= n, f"benefit: found sums of {rows} rows, expected at most {n}")
            if benefit.former is not None:
                self.validate_model(benefit.former)

    def validate_model(self, model: Any) -> None:
        """Raise ValueError unless a model is one of the problem; one that brings its rows has rows of this shape."""
        if self.problem is not None:
            self.problem.validate_model(model, self.sketch)
        elif model is None:
            require(not self.has_model or model is not self.model, "model: found none")
        if isinstance(rows := getattr(model, "rows", None), Rows):
            check_width([rows], *self.shape)

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds: seconds differ from run to run, and are stored beside the state."""
        absent = {"timings"} | ({"late_loss", "late_secondary_loss"} if not self._has_late else set())
        return {name: value for name, value in vars(self).items() if name not in absent}

    @property
    def _has_late(self) -> bool:
        return bool(self.late_loss or self.late_secondary_loss)

    @property
    def prequential_losses(self) -> tuple[float, float]:
        """Loss and secondary loss of all rows, each under the model that predicted it."""
        return self.loss + self.late_loss, self.secondary_loss + self.late_secondary_loss

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> StreamState:
        """Return the state that :meth:`stored_fields` describes."""
        return cls(**fields)

    @classmethod
    def new(cls, problem: Problem, sketch: Sketch, policy: Policy, decay: ForwardDecay | None = None) -> StreamState:
        """Return the state before the first row."""
        if not isinstance(policy, Policy):
            named = f": pass {policy.__name__}(...)" if isinstance(policy, type) else ""
            raise TypeError(f"refresh must be a policy of batch2online.refresh or None, got {policy!r}{named}.")
        check_sketch(problem, sketch)
        shape = sketch.settings.shape
        policy = policy.starting_at(problem.first_check(*shape)).with_few_rows(problem.enough_rows(*shape))
        assert policy.start is not None
        state = cls(
            problem,
            policy,
            sketch,
            shape,
            RefreshState(policy.start),
            problem.initial_model(None, *shape),
            decay=decay,
            max_step=None if decay is None else decay.longest_step,
        )
        return state.recording()

    @property
    def current(self) -> StreamState:
        """The state itself, which is the simplest learner."""
        return self

    @property
    def states(self) -> tuple[StreamState, ...]:
        """All states that learn the rows, the current one first."""
        return (self,)

    @property
    def ordered(self) -> bool:
        """Whether rows come in an order: otherwise none is scored, and a model is fitted when one is asked for."""
        return self.origin is None

    @property
    def half_life(self) -> float:
        """Rows after which a row has half the weight, infinite without decay."""
        return math.inf if self.decay is None else float(self.decay.half_life)

    @property
    def within(self) -> str | None:
        """The decay of the rows; None if all rows keep their weight."""
        return None if self.decay is None else "a half-life"

    @property
    def newest_weight(self) -> float:
        """Weight of the last row under decay, if it was given a weight of one."""
        return 1.0 if self.decay is None else float(self.decay.factors(np.array([self.last_id]))[0])

    def weighted(self, rows: Rows) -> Rows:
        """Return rows with the weights that they have under decay."""
        return rows if self.decay is None else self.decay.weighted(rows)

    def snapshot(self, history: History | None) -> Snapshot:
        """Return what a problem reads: the sketch, and all rows with their weights, where they are kept."""
        return Snapshot(self.sketch, weighted_history(history, self.decay))

    def recording(self, *spans: int) -> StreamState:
        """Return the state with an empty record, of the last rows as well where old ones lose weight."""
        if self.decay is not None:
            spans = (*spans, self.decay.half_life)
        return replace(self, record=Record(max(FEWEST_RECENT, min(RECENT, *spans)) if spans else 0))

    def map(self, change: Callable[[StreamState], StreamState]) -> StreamState:
        """Return the learner with each of its states changed."""
        return change(self)

    def rows_to_cut(self) -> float:
        """Return how many rows may come before the next check."""
        n = self.n_learned if self.origin is None else self.last_id + 1 - self.origin
        return self.refresh.next_check - n

    def step(
        self, rows: Rows, history: History | None, answered: Answered | None = None
    ) -> tuple[StreamState, StepInfo]:
        """Return the state after one segment of rows, see :func:`step`."""
        return step(self, rows, history, answered)

    def refit(self, history: History | None, kind: str, **details: Any) -> tuple[StreamState, Events]:
        """Return the state with a model fitted now, see :func:`refit`."""
        return refit(self, history, kind, **details)

    def merge(self, other: StreamState, history: History | None) -> StreamState:
        """Return the state of the rows of both, see :func:`merge`."""
        return merge(self, other)

    def emptied(self) -> StreamState:
        """Return the state before the first row, except that the ids have been seen."""
        assert self.policy.start is not None
        return replace(
            self,
            sketch=self.sketch.empty(),
            decay=None if self.decay is None else ForwardDecay(self.decay.half_life),
            refresh=RefreshState(int(self.policy.start)),
            model=self.problem.initial_model(None, *self.shape),
            has_model=False,
            n_learned=0,
            loss=0.0,
            secondary_loss=0.0,
            timings=Timings(),
        )._without_order(skipped=0)

    def unordered(self, first_id: int, origin: int) -> StreamState:
        """Return the state of a part of a stream, from this id on, in which nothing is scored or fitted."""
        state = replace(self, has_model=False, last_id=first_id - 1, origin=origin)
        return skip_checks(_refreshed(state, next_check=self.policy.decided_start()))

    def without_scores(self) -> StreamState:
        """Return the state of rows that were not scored: they have no loss, no changes, and no order to monitor."""
        return replace(self, loss=math.nan, secondary_loss=math.nan)._without_order(skipped=self.n_learned)

    def _without_order(self, skipped: int) -> StreamState:
        return replace(
            self,
            refresh=replace(self.refresh, last_coreset=None),
            warm_up=None,
            late_loss=0.0,
            late_secondary_loss=0.0,
            unscored=Unscored(),
            record=None if self.record is None else Record(self.record.span),
            monitor=None if self.monitor is None else self.monitor.new(*self.shape, skipped=skipped),
            changes=(),
            change_counts=(),
        )

    def kept_rows(self, history: History | None) -> Iterator[Rows]:
        """Iterate over the rows that can be learned again, in the order of their ids, a block at a time."""
        return iter(()) if history is None else history.blocks()

    def check_forgettable(self, ids: Any, history: History | None) -> IntArray:
        """Return the ids as an array if rows can be forgotten, and these are theirs."""
        if history is None:
            parameter = getattr(self.sketch, "history_parameter", "keep_history=True")
            raise ValueError(f"forget needs the history: create with {parameter}.")
        return check_ids(ids, history.ids())


class Learner(Protocol):
    """Receiver of the segments of a stream: a state, a window of rows, or candidates with several half-lives."""

    @property
    def current(self) -> StreamState:
        """The state that is read."""

    @property
    def states(self) -> tuple[StreamState, ...]:
        """All states that learn the rows, the current one first."""

    @property
    def within(self) -> str | None:
        """The decay of the rows; None if all rows keep their weight."""

    def map(self, change: Callable[[StreamState], StreamState]) -> Self:
        """Return the learner with each of its states changed."""

    def rows_to_cut(self) -> float:
        """Return how many rows may come before the next check or decision."""

    def snapshot(self, history: History | None) -> Snapshot:
        """Return what a problem reads of the current state."""

    def step(self, rows: Rows, history: History | None, answered: Answered | None = None) -> tuple[Self, StepInfo]:
        """Return the learner after one segment of rows, the last of the history, and what it has found.

        ``answered`` are earlier answers for rows with late targets.
        """

    def refit(self, history: History | None, kind: str, **details: Any) -> tuple[Self, Events]:
        """Return the learner with a model fitted now."""

    def merge(self, other: Any, history: History | None) -> Self:
        """Return the learner of the rows of both, which ``history`` holds where they are kept."""

    def emptied(self) -> Self:
        """Return the learner before the first row, except that the ids have been seen."""

    def kept_rows(self, history: History | None) -> Iterator[Rows]:
        """Iterate over the rows that can be learned again, in the order of their ids, a block at a time."""

    def check_forgettable(self, ids: Any, history: History | None) -> IntArray:
        """Return the ids as an array if rows can be forgotten, and these are theirs."""


# -- one segment of rows --------------------------------------------------------------------------------


def step(
    state: StreamState, rows: Rows, history: History | None = None, answered: Answered | None = None
) -> tuple[StreamState, StepInfo]:
    """Return the state after one segment: its rows are scored, then learned, and a check follows where one is due.

    ``history`` holds all rows, those of the segment included, where they are kept. ``answered`` are earlier answers for
    rows with late targets.
    """
    events: Events = ()
    state = advance_decay(state, int(rows.ids[0]))
    if not state.ordered:
        return skip_checks(learn(state, rows, None)), StepInfo()
    state, scores = score(state, rows, answered)
    state = learn(state, rows, scores)
    if state.n_learned == state.refresh.next_check:
        state, events = check(state, history)
    return state, StepInfo(scores, events)


def advance_decay(state: StreamState, at: int) -> StreamState:
    """Return the state with weights relative to rows near this id."""
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


def score(state: StreamState, rows: Rows, answered: Answered | None = None) -> tuple[StreamState, Scores]:
    """Return the state with the loss of rows that are not learned yet, and the loss of each under the current model.

    Earlier answers for some of these rows replace their losses in what is reported.
    """
    problem, weighted, monitor = state.problem, state.weighted(rows), state.monitor
    warm_up = None if state.has_model else state.warm_up or problem.warm_up()
    if monitor is not None:
        monitor = monitor.observe(problem.as_numbers(rows), state.sketch.settings.seed)
    with np.errstate(over="ignore"):
        losses, secondary, seen = _losses(problem, state.model, warm_up, weighted)
        totals = weighted_totals(losses, secondary, weighted.weights)
        if math.isnan(totals.least):
            check_losses(losses, rows.ids)
        unscored, record, reported = state.unscored, state.record, (losses, secondary)
        if warm_up is not None and not warm_up.scores:
            unscored = unscored.plus(weighted)
        else:
            if answered is not None:
                reported = answered.over(rows, losses, secondary)
                state = add_late(state, Scores(*reported), Scores(losses, secondary), weighted.weights)
            if record is not None:
                is_plain = weighted is rows and reported[0] is losses
                as_given = totals if is_plain else weighted_totals(*reported, rows.weights)
                further = record.further_fields(problem, state.model, rows, reported)
                record = record.plus(rows, as_given, further)
    state = replace(
        state,
        monitor=monitor,
        warm_up=seen,
        model=state.model if seen is None else problem.initial_model(seen.prediction, *state.shape),
        loss=state.loss + totals.loss,
        secondary_loss=state.secondary_loss + totals.second,
        unscored=unscored,
        record=record,
    )
    return track_benefit(state, rows, losses), Scores(losses, secondary)


def add_late(state: StreamState, reported: Scores, own: Scores, weights: FloatArray) -> StreamState:
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


def _losses(
    problem: Problem, model: Any, warm_up: WarmUp | None, rows: Rows
) -> tuple[FloatArray, FloatArray, WarmUp | None]:
    """Return loss and secondary loss of each row, and the warm-up that has seen them; None says there is a model."""
    if warm_up is None:
        losses, secondary = problem.losses(model, rows.points, rows.targets)
    else:
        (losses, secondary), warm_up = warm_up.score(rows.points, rows.targets, rows.weights)
    return losses, secondary, warm_up


def learn(state: StreamState, rows: Rows, scores: Scores | None) -> StreamState:
    """Return the state whose sketch has learned the rows."""
    norms = None
    if state.sketch.pilot == "gradients" and state.has_model and scores is not None:
        norms = state.problem.gradient_norms(scores.losses)
    last_id = max(state.last_id, int(rows.ids[-1]))
    sketch = state.sketch.update(state.weighted(rows), norms)
    return replace(state, sketch=sketch, n_learned=state.n_learned + len(rows), last_id=last_id)


def schedule(state: StreamState, at: int | None = None) -> StreamState:
    """Return the state with the row count of the next check.

    It is that of the policy, or sooner where old rows lose weight or rows do not come in random order.
    """
    n, policy = state.n_learned, state.policy
    if isinstance(policy, Measured) and not state.refresh.in_time and state.monitor is not None:
        monitor = state.monitor.with_bets()
        state = _refreshed(replace(state, monitor=monitor), in_time=monitor.alarm is not None)
    if isinstance(policy, Measured) and state.refresh.in_time:
        at = policy.in_time().next_check(n)
    elif at is None:
        at = policy.next_check(n, state.refresh.n_kept)
    if state.max_step is not None:
        at = min(at, n + state.max_step)
    return _refreshed(state, next_check=max(at, n + 1))


def skip_checks(state: StreamState) -> StreamState:
    """Return a part of a stream with the next row count at which the stream has a check, if each replaces the model.

    Rows are summed from check to check, so that a part that is cut at the same places has the same sums, bit for bit.
    """
    assert state.origin is not None
    at, n, longest = state.refresh.next_check, state.last_id + 1 - state.origin, state.max_step
    policy = state.policy
    if at <= n and policy.growth <= 1:
        last = max(policy.decided_start(), n // policy.rows * policy.rows)
        ahead = math.inf if longest is None else longest * (1 + (n - last) // longest)
        at = int(min(policy.next_check(n), last + ahead))
    while at <= n:
        step = policy.next_check(at) - at
        if longest is not None and step >= 2 * longest:  # all further ones are longer than this one's half
            step = longest * (1 + (n - at) // longest)
        elif longest is not None:
            step = min(step, longest)
        at += step
    return _refreshed(state, next_check=at)


def _refreshed(state: StreamState, **changes: Any) -> StreamState:
    return replace(state, refresh=replace(state.refresh, **changes))


# -- checks ---------------------------------------------------------------------------------------------


def check(state: StreamState, history: History | None) -> tuple[StreamState, Events]:
    """Return the state after the check that is due, with the row count of the next one, and the change, if any."""
    if state.has_model:
        state, events = decide(state, history)
        return schedule(state), events
    rows = state.snapshot(history).history
    state = replace(state, sketch=state.sketch.prepared(rows))
    return schedule(fit_first(state, rows, state.problem.fit_online)), ()


def decide(state: StreamState, history: History | None) -> tuple[StreamState, Events]:
    """Return the state with its model kept or replaced, and the change, if any.

    A check ends in one of five ways:

    1. it is skipped, since the losses since the last refit show that a refit cannot pay (:func:`can_skip`);
    2. the policy gives no reason to refit (:func:`find_trigger`);
    3. the current model is within tolerance of a lower bound of every model's cost: nothing is fitted;
    4. a model is fitted, and the current one is within tolerance of it: it is kept;
    5. the new model replaces the current one.
    """
    data = state.snapshot(history)
    if can_skip(state, data):
        return state, ()
    state = replace(state, sketch=state.sketch.prepared(data.history))
    data = data.of(state.sketch)
    state, trigger = find_trigger(state, data)
    if trigger is None:
        return state, ()
    problem, policy, n, model = state.problem, state.policy, state.n_learned, state.model
    degrees = problem.degrees_of_freedom(model, data) if policy.compares_costs else 0.0
    noise, policy = degrees / data.totals.effective_rows, policy.priced(n, degrees)
    tolerance = policy.cost_tolerance(data.seed, n, noise)
    before: float | None = None
    if tolerance and (bound := problem.lower_bound(data)) is not None:
        before = problem.cost(model, data)
        if before <= tolerance * bound:
            return state, ()
    new, seconds = timed_fit(data, model, problem.fit_online)
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
        return record_fit(state, before, new.ess_ratio), ()
    state = record_fit(_refreshed(state, n_kept=0), after, new.ess_ratio)
    details = {"kind": trigger, "tolerance": tolerance - 1 if tolerance else None, "n_fit_rows": new.n_rows}
    state, events = install(state, new.model, (before, after), data, **details)
    return start_benefit(state, new.n_rows, model), events


def can_skip(state: StreamState, data: Snapshot) -> bool:
    """Return whether the losses since the last refit show that a refit cannot pay.

    ``rise`` is the relative rise of the mean loss since then, beyond what overfitting and two standard errors explain;
    ``gain`` the relative gain that more rows give a refit if nothing has changed.
    """
    last, totals = state.refresh.last_fit, data.totals
    if last is None:
        return False
    mean, weight_since = last.cost / last.weight, totals.weight - last.weight
    if not (mean > 0 and weight_since > 0):  # as rounded: the rows since may weigh next to nothing
        return False
    growth, degrees = totals.weight / last.weight, state.problem.degrees_of_freedom(state.model, data)
    mean_since = (state.loss - last.loss) / weight_since
    # Effective rows of the fit are by loss, those of the totals by weight: their ratio is 1 + variance / mean^2.
    variance = max(0.0, totals.effective_rows / growth / last.effective_rows - 1)
    error = math.sqrt(variance / totals.effective_rows * growth**2 / (growth - 1))
    overfitting = 2 * degrees / last.effective_rows  # in-sample cost against loss on new rows
    rise = mean_since / mean - 1 - overfitting - 2 * error
    gain, noise = degrees / last.effective_rows * (1 - 1 / growth), degrees / totals.effective_rows
    return state.policy.can_skip(state.n_learned, gain, noise, rise, growth)


def record_fit(state: StreamState, cost: float, ess_ratio: float) -> StreamState:
    """Store the statistics that :func:`can_skip` needs, unless old rows are forgotten or losses are negative."""
    if not state.policy.skips_checks or state.max_step is not None:
        return state
    totals = state.sketch.totals
    if not (cost > 0 and state.loss >= 0):
        return _refreshed(state, last_fit=None)
    last = FitStatistics(totals.effective_rows * ess_ratio, totals.weight, state.loss, cost)
    return _refreshed(state, last_fit=last)


def find_trigger(state: StreamState, data: Snapshot) -> tuple[StreamState, str | None]:
    """Return why a check refits, None if it need not: the coreset is the same, or the expected benefit is too small."""
    if state.policy.on_coreset_change:
        state, changed = compare_coreset(state, data)
        if not changed:
            return state, None
    policy, benefit = state.policy, state.refresh.benefit
    if not isinstance(policy, Measured) or benefit is None:
        return state, "scheduled"
    size, policy = state.problem.n_fit_rows(data, state.model), policy.in_time() if state.refresh.in_time else policy
    trigger = policy.trigger(benefit, state.n_learned, size, state.max_step)
    return (state if trigger else _refreshed(state, benefit=benefit.after_check())), trigger


def compare_coreset(state: StreamState, data: Snapshot) -> tuple[StreamState, bool]:
    """Return the state with its current coreset stored, and whether that has changed."""
    old, new = state.refresh.last_coreset, (data.coreset.ids, data.coreset.weights)
    return _refreshed(state, last_coreset=new), old is None or not all(map(np.array_equal, old, new))


def timed_fit(
    data: Snapshot, current: Any | None, fit: Callable[[Snapshot, Any], FitResult]
) -> tuple[FitResult, float]:
    """Return a model fitted now, beside the current one or None, and the seconds that it took."""
    start = time.perf_counter()
    return fit(data, current), time.perf_counter() - start


def fit_first(state: StreamState, rows: RowSource | None, fit: Callable[[Snapshot, Any], FitResult]) -> StreamState:
    """Return the state with its first model, which is no change."""
    data = Snapshot(state.sketch, rows)
    new, seconds = timed_fit(data, None, fit)
    state = replace(state, timings=state.timings.plus(new.n_rows, seconds))
    state = adopt(state, new.model, state.problem.piloted(state.sketch, new.model, data))
    state = replace(state, has_model=True, warm_up=None)
    data = Snapshot(state.sketch, rows)
    if state.policy.skips_checks:
        state = record_fit(state, state.problem.cost(state.model, data), 1.0)
    state = start_benefit(state, new.n_rows, None)
    return compare_coreset(state, data)[0] if state.policy.on_coreset_change else state


def adopt(state: StreamState, model: Any, sketch: Any) -> StreamState:
    """Return the state with this model, and the sketch that scores the rows by it from here on, whatever the chunks."""
    return replace(state, model=model, sketch=sketch, timings=state.timings.with_model(state.n_learned))


def install(
    state: StreamState, new: Any, costs: tuple[float, float], data: Snapshot, **details: Any
) -> tuple[StreamState, Events]:
    """Return the state with a new model, and the change; none if the model is the same."""
    problem = state.problem
    if problem.same(state.model, new):
        return state, ()
    moved = problem.difference(state.model, new, data)
    event = ChangeEvent(state.n_learned, cost_before=costs[0], cost_after=costs[1], **moved, **details)
    state = adopt(state, new, problem.piloted(state.sketch, new, data))
    changes, counts = (*state.changes, event)[-KEPT:], counted(state.change_counts, event)
    return replace(state, changes=changes, change_counts=counts), (event,)


def refit(state: StreamState, history: History | None, kind: str, **details: Any) -> tuple[StreamState, Events]:
    """Return the state with a model fitted now, independent of the current one."""
    events: Events = ()
    if state.n_learned:
        state = advance_decay(state, state.last_id)
    data = state.snapshot(history)
    state = replace(state, sketch=state.sketch.prepared(data.history))
    if state.has_model and state.n_learned:
        data = state.snapshot(history)
        before = state.problem.cost(state.model, data)
        new, seconds = timed_fit(data, None, state.problem.fit)
        state = replace(state, timings=state.timings.plus(new.n_rows, seconds))
        costs = before, state.problem.cost(new.model, data)
        state, events = install(state, new.model, costs, data, kind=kind, n_fit_rows=new.n_rows, **details)
        state = replace(start_benefit(state, new.n_rows, None), model=new.model)  # where it is the same as well
    elif state.n_learned:
        state = fit_first(state, data.history, state.problem.fit)
    state = _refreshed(state, n_kept=0, last_fit=None)
    return schedule(state, state.policy.first_check_after(state.n_learned)), events


# -- what refits gain -----------------------------------------------------------------------------------


def start_benefit(state: StreamState, n_fit_rows: int, former: Any | None) -> StreamState:
    """Start to measure the gain of the current model over the previous one, if there was one."""
    is_reported = state.problem.tries_changes and state.record is not None
    if not (state.policy.measures_benefit or is_reported):
        return state
    old, size = state.refresh.benefit, float(n_fit_rows)
    if former is state.model and old is not None:  # the same model came out: it gains nothing
        return _refreshed(state, benefit=replace(old.after_check(), at=state.n_learned))
    if old is None or former is None:
        return _refreshed(state, benefit=RefitBenefit(state.n_learned, size))
    return _refreshed(state, benefit=RefitBenefit(state.n_learned, size, former, old.size))


def track_benefit(state: StreamState, rows: Rows, losses: FloatArray) -> StreamState:
    """Add the losses of rows, and for a while their losses under the previous model."""
    benefit = state.refresh.benefit
    if not state.has_model or benefit is None:
        return state
    if benefit.former is None:
        return _refreshed(state, benefit=benefit.with_rows(losses, rows.weights))
    some = rows[: TRIAL_ROWS - benefit.gains.rows]
    former = state.problem.losses(benefit.former, some.points, some.targets)[0]
    benefit = benefit.with_trial(former, losses[: len(some)], some.weights).with_rows(losses, rows.weights)
    state = with_trial(_refreshed(state, benefit=benefit))
    return state if benefit.gains.rows < TRIAL_ROWS else _refreshed(state, benefit=replace(benefit, former=None))


def with_trial(state: StreamState) -> StreamState:
    """Return the state whose last change knows what both models have cost the rows after it, seen by neither."""
    benefit = state.refresh.benefit
    if benefit is None or not state.changes or state.changes[-1].at != benefit.at or not benefit.gains.weight > 0:
        return state
    new = benefit.magnitude / benefit.gains.weight
    old = new + benefit.gains.mean
    if not 0 <= old < math.inf:  # logarithms of densities have no shares
        return state
    event = replace(state.changes[-1], trial=(benefit.gains.rows, old, new))
    return replace(state, changes=(*state.changes[:-1], event))


# -- two streams ----------------------------------------------------------------------------------------


def merge(state: StreamState, other: StreamState) -> StreamState:
    """Return the state of the rows of both; the model is that of the first, until a refit."""
    if state.decay is not None and other.decay is not None:
        state = advance_decay(state, other.decay.reference)
        assert state.decay is not None
        other = advance_decay(other, state.decay.reference)
    monitor, record = state.monitor, state.record
    return replace(
        state,
        sketch=state.sketch.merge(other.sketch),
        refresh=replace(state.refresh, next_check=max(state.refresh.next_check, other.refresh.next_check)),
        n_learned=state.n_learned + other.n_learned,
        last_id=max((one.last_id for one in (state, other) if one.n_learned), default=-1),
        loss=state.loss + other.loss,
        secondary_loss=state.secondary_loss + other.secondary_loss,
        late_loss=state.late_loss + other.late_loss,
        late_secondary_loss=state.late_secondary_loss + other.late_secondary_loss,
        unscored=state.unscored.merge(other.unscored),
        monitor=None if monitor is None or other.monitor is None else monitor.merge(other.monitor),
        record=None if record is None or other.record is None else record.merge(other.record),
    )
