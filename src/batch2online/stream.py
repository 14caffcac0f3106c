"""Algorithm 1 of the paper: a sketch of the rows, a batch solver, and a policy that says when to refit.

:class:`StreamState` is all that was learned, at one moment; it never changes. :func:`step` takes it over one segment of
rows: their loss under the current model is noted, then the sketch learns them, and at the row counts that the policy
names :func:`check` refits and decides whether the new model replaces the current one. Nothing here knows of any
particular problem.

:class:`Stream` adds what comes in between: rows are cut into segments at these counts and at the ends of blocks of ids,
never where a caller's chunk ends, so that models, changes and losses are the same for any chunking. Between cuts rows
only wait in a buffer. What learns, merges or forgets returns another stream and leaves this one as it is, so an error
anywhere leaves everything as it was. Only :meth:`Stream.append_one` writes to its own buffer, one row at a time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, Self

import numpy as np

from batch2online._types import FloatArray
from batch2online.history import History
from batch2online.numerics.threads import one_thread
from batch2online.problem import Contender, Problem, check_joined, check_losses
from batch2online.record import FEWEST_RECENT, RECENT, Averages, Handful, Record, Unscored, weighted_totals
from batch2online.refresh import Measured, Policy
from batch2online.refresh.measured import RefitBenefit
from batch2online.results import KEPT, ChangeEvent, Counts, Regret, Timings, counted, regret_of
from batch2online.rows import RowBuffer, Rows, check_width
from batch2online.schema import Count, above, at_least, finite, require, require_equal, storable
from batch2online.sketches.base import Construction, Coreset
from batch2online.validation import LARGEST_ID
from batch2online.warm_up import WarmUp

if TYPE_CHECKING:
    from batch2online.drift.order_monitor import OrderMonitor, OrderVerdict

TRIAL_ROWS = 2_000
"""Rows on which a model that was replaced is scored beside its successor."""

MIN_BENEFIT = 0.01
"""Share of the loss that a coreset of twice the size must be expected to gain."""

Given = tuple[FloatArray, FloatArray, FloatArray]
"""Points, targets and weights of validated rows."""

Events = tuple[ChangeEvent, ...]
_Positive = Annotated[float, above(0)]
_NotNegative = Annotated[float, at_least(0)]


class Scores(NamedTuple):
    """Loss and secondary loss of each row of a segment, before it was learned."""

    losses: FloatArray
    secondary: FloatArray


class StepInfo(NamedTuple):
    """What a step has found: scores of its rows, None where rows have no order, and changes of the model."""

    scores: Scores | None = None
    events: Events = ()


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
    last_fit : (rows, weight, loss, cost) or None
        At the last refit: rows of equal loss that say as much as those so far, their weight and loss, and the cost of
        the model; None where no check may be skipped.
    benefit : RefitBenefit or None
        What the current model gains over the one before.
    last_coreset : (ids, weights) or None
        The coreset at the last check, for policies that compare it.
    budget : float or None
        Seconds of refits for a million rows, at most.
    """

    next_check: int
    n_kept: Count = 0
    last_fit: tuple[_Positive, Annotated[_Positive, finite], _NotNegative, _NotNegative] | None = None
    benefit: RefitBenefit | None = None
    last_coreset: tuple[Any, ...] | None = None
    budget: float | None = None


@storable
@dataclass(frozen=True)
class StreamState:
    """All that was learned from the rows of a stream, at one moment.

    Attributes
    ----------
    problem, policy, sketch
        What a model is and how to fit one; when to refit; sums and candidates of the rows learned.
    shape : (int, int)
        Columns of the rows, and of the targets.
    model, has_model
        The current model, and whether it was fitted; before that it is the simplest one that the rows give.
    warm_up : WarmUp or None
        What scores rows until the first model.
    loss, secondary_loss : float
        Sums over the rows, each scored before it was learned.
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
    ordered : bool
        Whether rows come in an order: otherwise none is scored, and a model is fitted when one is asked for.
    """

    problem: Any
    policy: Policy
    sketch: Construction
    shape: tuple[int, int]
    refresh: RefreshState
    model: Any
    has_model: bool = False
    warm_up: WarmUp | None = None
    n_learned: int = 0
    loss: float = 0.0
    secondary_loss: float = 0.0
    unscored: Unscored = field(default_factory=Unscored)
    record: Record | None = None
    monitor: OrderMonitor | None = None
    changes: Events = ()
    change_counts: Counts = ()
    timings: Timings = field(default_factory=Timings)
    max_step: Annotated[int, at_least(1)] | None = None
    ordered: bool = True

    def validate(self) -> None:
        """Require a sketch, a model, a record and a monitor of the rows learned."""
        sketch, refresh, n = self.sketch, self.refresh, self.n_learned
        require_equal("shape of the sketch", sketch.shape, self.shape)
        require_equal("rows in the buffer of the sketch", len(sketch.buffer), 0)
        require(sketch.n_rows <= n, f"sketch: found {sketch.n_rows} rows, expected at most {n}")
        is_to_come = self.policy.start is not None and refresh.next_check > n
        require(is_to_come, f"next_check: found {refresh.next_check}, expected more than {n}")
        require(refresh.n_kept <= n, f"n_kept: found {refresh.n_kept} refits of {n} rows")
        counts, held = dict(self.change_counts), dict(counted((), *self.changes))
        is_counted = all(count > 0 for count in counts.values()) and len(counts) == len(self.change_counts)
        is_held = all(held[kind] <= counts.get(kind, 0) for kind in held)
        require(is_counted and is_held, f"change_counts: found {self.change_counts} for changes {held}")
        require_equal("changes", len(self.changes), min(KEPT, sum(counts.values())))
        is_whole = self.max_step is None and sketch.decay is None
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
        if record is not None and record.spread is not None and record.spread.mean is not None:
            values = None if self.problem is None else self.problem.spread_of(Rows.empty(*self.shape))
            is_alike = values is not None and values.shape[1:] == record.spread.mean.shape
            require(is_alike, f"spread: found a mean of shape {record.spread.mean.shape}")
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
        """Raise ValueError unless a model is one of the problem; that of a wrapped estimator is given by its rows."""
        if self.problem is not None:
            self.problem.validate_model(model, self.sketch)
        elif model is None:
            require(not self.has_model or model is not self.model, "model: found none")
        else:
            require_equal("type of the model", type(model), Rows)
            require(len(model), "model: found one without rows")
            check_width([model], *self.shape)

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds: seconds differ from run to run, and are stored beside the state."""
        return {name: value for name, value in vars(self).items() if name != "timings"}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> StreamState:
        """Return the state that :meth:`stored_fields` describes."""
        return cls(**fields)

    @classmethod
    def new(cls, problem: Problem, sketch: Construction, policy: Policy, width: int, n_targets: int) -> StreamState:
        """Return the state before the first row."""
        if not isinstance(policy, Policy):
            named = f": pass {policy.__name__}(...)" if isinstance(policy, type) else ""
            raise TypeError(f"refresh must be a policy of batch2online.refresh or None, got {policy!r}{named}.")
        check_joined(problem, sketch)
        shape = int(width), int(n_targets)
        policy = policy.starting_at(problem.first_refresh(*shape))
        assert policy.start is not None
        max_step = None if sketch.decay is None else sketch.decay.longest_step
        state = cls(
            problem, policy, sketch, shape, RefreshState(policy.start), problem.initial(None, *shape), max_step=max_step
        )
        return state.recording()

    @property
    def current(self) -> StreamState:
        """Itself: it is the simplest learner."""
        return self

    @property
    def states(self) -> tuple[StreamState, ...]:
        """All states that learn the rows, the current one first."""
        return (self,)

    @property
    def half_life(self) -> float:
        """Rows after which a row has half the weight, infinite without decay."""
        return math.inf if self.sketch.decay is None else float(self.sketch.decay.half_life)

    @property
    def within(self) -> str | None:
        """What rows lose their weight in, None where all count for ever."""
        return None if self.sketch.decay is None else "a half-life"

    def recording(self, *spans: int) -> StreamState:
        """Return the state with an empty record, of the last rows as well where old ones lose weight."""
        if self.sketch.decay is not None:
            spans = (*spans, self.sketch.decay.half_life)
        return replace(self, record=Record(max(FEWEST_RECENT, min(RECENT, *spans)) if spans else 0))

    def map(self, change: Callable[[StreamState], StreamState]) -> StreamState:
        """Return the learner with each of its states changed."""
        return change(self)

    def rows_to_cut(self) -> float:
        """Return how many rows may come before the next check."""
        return self.refresh.next_check - self.n_learned if self.ordered else math.inf

    def step(self, rows: Rows) -> tuple[StreamState, StepInfo]:
        """Return the state after one segment of rows, see :func:`step`."""
        return step(self, rows)

    def refit(self, kind: str, **details: Any) -> tuple[StreamState, Events]:
        """Return the state with a model fitted now, see :func:`refit`."""
        return refit(self, kind, **details)

    def merge(self, other: StreamState) -> StreamState:
        """Return the state of the rows of both, see :func:`merge`."""
        return merge(self, other)

    def emptied(self) -> StreamState:
        """Return the state before the first row, except that the ids have been seen."""
        assert self.policy.start is not None
        return replace(
            self,
            sketch=self.sketch.emptied(),
            refresh=RefreshState(int(self.policy.start), budget=self.refresh.budget),
            model=self.problem.initial(None, *self.shape),
            has_model=False,
            n_learned=0,
            loss=0.0,
            secondary_loss=0.0,
            timings=Timings(),
        )._without_order(skipped=0)

    def as_set(self) -> StreamState:
        """Return the state of rows that came as a set: they have no loss, no changes, and no order to monitor."""
        return replace(self, loss=math.nan, secondary_loss=math.nan)._without_order(skipped=self.n_learned)

    def _without_order(self, skipped: int) -> StreamState:
        return replace(
            self,
            refresh=replace(self.refresh, last_coreset=None),
            warm_up=None,
            unscored=Unscored(),
            record=None if self.record is None else Record(self.record.span),
            monitor=None if self.monitor is None else self.monitor.new(*self.shape, skipped=skipped),
            changes=(),
            change_counts=(),
        )

    def kept_rows(self) -> Iterator[Rows]:
        """Iterate over the rows that can be learned again, in the order of their ids, a block at a time."""
        return iter(()) if self.sketch.history is None else self.sketch.history.blocks()

    def check_forgettable(self, ids: Any) -> Any:
        """Return the ids as an array if rows can be forgotten, and these are theirs."""
        history = self.sketch.history
        return self.sketch.check_forgettable(ids, np.empty(0, np.int64) if history is None else history.ids())


class Learner(Protocol):
    """What a stream hands its segments to: a state, a window of rows, or candidates with several half-lives."""

    @property
    def current(self) -> StreamState:
        """The state that is read."""

    @property
    def states(self) -> tuple[StreamState, ...]:
        """All states that learn the rows, the current one first."""

    @property
    def within(self) -> str | None:
        """What rows lose their weight in, None where all count for ever."""

    def map(self, change: Callable[[StreamState], StreamState]) -> Self:
        """Return the learner with each of its states changed."""

    def rows_to_cut(self) -> float:
        """Return how many rows may come before the next check or decision."""

    def step(self, rows: Rows) -> tuple[Self, StepInfo]:
        """Return the learner after one segment of rows, and what it has found."""

    def refit(self, kind: str, **details: Any) -> tuple[Self, Events]:
        """Return the learner with a model fitted now."""

    def merge(self, other: Any) -> Self:
        """Return the learner of the rows of both."""

    def emptied(self) -> Self:
        """Return the learner before the first row, except that the ids have been seen."""

    def kept_rows(self) -> Iterator[Rows]:
        """Iterate over the rows that can be learned again, in the order of their ids, a block at a time."""

    def check_forgettable(self, ids: Any) -> Any:
        """Return the ids as an array if rows can be forgotten, and these are theirs."""


# -- one segment of rows --------------------------------------------------------------------------------


def step(state: StreamState, rows: Rows) -> tuple[StreamState, StepInfo]:
    """Return the state after one segment: its rows are scored, then learned, and a check follows where one is due."""
    events: Events = ()
    state = advance_decay(state, int(rows.ids[0]))
    if not state.ordered:
        return learn(state, rows, None), StepInfo()
    state, scores = score(state, rows)
    state = learn(state, rows, scores)
    if state.n_learned == state.refresh.next_check:
        state, events = check(state)
        state = schedule(state)
    return state, StepInfo(scores, events)


def advance_decay(state: StreamState, at: int) -> StreamState:
    """Return the state with weights relative to rows near this id."""
    if state.sketch.decay is None:
        return state
    sketch = state.sketch.copy()
    factor = sketch.advance(at)
    if factor == 1:
        return replace(state, sketch=sketch)
    return replace(
        state,
        sketch=sketch,
        loss=state.loss * factor,
        secondary_loss=state.secondary_loss * factor,
        unscored=state.unscored.scaled(factor),
        warm_up=None if state.warm_up is None else state.warm_up.scaled(factor),
    )


def score(state: StreamState, rows: Rows) -> tuple[StreamState, Scores]:
    """Return the state with the loss of rows that are not learned yet, and the loss of each."""
    problem, weighted, monitor = state.problem, state.sketch.weighted(rows), state.monitor
    warm_up = None if state.has_model else state.warm_up or problem.warm_up()
    if monitor is not None:
        monitor = monitor.observe(problem.numbers(rows), state.sketch.seed)
    with np.errstate(over="ignore"):
        losses, secondary, seen = _losses(problem, state.model, warm_up, weighted)
        totals = weighted_totals(losses, secondary, weighted.weights)
        unscored, record = state.unscored, state.record
        if warm_up is not None and not warm_up.scores:
            unscored = unscored.plus(weighted)
        elif record is not None:
            as_given = totals if weighted is rows else weighted_totals(losses, secondary, rows.weights)
            last = record.with_last(rows, losses, secondary, problem.spread_of(rows)) if record.span else None
            record = record.plus(rows, as_given, last)
    state = replace(
        state,
        monitor=monitor,
        warm_up=seen,
        model=state.model if seen is None else problem.initial(seen.prediction, *state.shape),
        loss=state.loss + totals.loss,
        secondary_loss=state.secondary_loss + totals.second,
        unscored=unscored,
        record=record,
    )
    return track_benefit(state, rows, losses), Scores(losses, secondary)


def _losses(
    problem: Problem, model: Any, warm_up: WarmUp | None, rows: Rows
) -> tuple[FloatArray, FloatArray, WarmUp | None]:
    """Return loss and secondary loss of each row, and the warm-up that has seen them; None says there is a model."""
    if warm_up is None:
        losses, secondary = problem.losses(model, rows.points, rows.targets)
    else:
        (losses, secondary), warm_up = warm_up.score(rows.points, rows.targets, rows.weights)
        losses, secondary = problem.bounded(losses, secondary)
    check_losses(losses, rows.ids)
    return losses, secondary, warm_up


def learn(state: StreamState, rows: Rows, scores: Scores | None) -> StreamState:
    """Return the state whose sketch has learned the rows."""
    sketch = state.sketch.copy()
    if sketch.wants_sizes and scores is not None:
        sketch.expect(state.problem.sizes(scores.losses) if state.has_model else None)
    sketch.absorb(rows)
    return replace(state, sketch=sketch, n_learned=state.n_learned + len(rows))


def schedule(state: StreamState, at: int | None = None) -> StreamState:
    """Return the state with the row count of the next check: the policy's, or sooner where old rows lose weight."""
    at = state.policy.next_check(state.n_learned, state.refresh.n_kept) if at is None else at
    at = at if state.max_step is None else min(at, state.n_learned + state.max_step)
    return _refreshed(state, next_check=at)


def _refreshed(state: StreamState, **changes: Any) -> StreamState:
    return replace(state, refresh=replace(state.refresh, **changes))


# -- checks ---------------------------------------------------------------------------------------------


def check(state: StreamState) -> tuple[StreamState, Events]:
    """Refit where that can matter; keep the current model while its cost is within tolerance of the new one's."""
    if can_skip(state):
        return state, ()
    sketch = state.sketch.copy()
    sketch.settle_on_schedule()
    state = replace(state, sketch=sketch)
    if not state.has_model:
        return fit_first(state), ()
    state, trigger = find_trigger(state)
    if trigger is None:
        return state, ()
    problem, policy, sketch = state.problem, state.policy, state.sketch
    before = 0.0 if problem.tells_costs else problem.cost(state.model, sketch)
    noise = problem.degrees(state.model, sketch) / sketch.effective_rows
    tolerance = policy.cost_tolerance(sketch.seed, state.n_learned, noise)
    if tolerance and not problem.tells_costs and before <= tolerance * problem.lower_bound(sketch):
        return state, ()
    state, new = timed_fit(state, state.model)
    before, after = new.costs or (before or problem.cost(state.model, sketch), problem.cost(new.model, sketch))
    if policy.max_noise_factor > 1 and before > tolerance * after:
        noise *= min(policy.max_noise_factor, problem.unevenness(new.model, sketch))
        tolerance = policy.cost_tolerance(sketch.seed, state.n_learned, noise)
    if tolerance and before <= tolerance * after:
        # Where costs are exact a check takes next to nothing, so that it need not become rare.
        state = _refreshed(state, n_kept=state.refresh.n_kept + (not problem.costs_are_exact))
        return record_fit(state, before, new.evenness), ()
    former, state = state.model, _refreshed(state, n_kept=0)
    details = {"kind": trigger, "tolerance": tolerance - 1 if tolerance else None}
    state, events = install(state, new.model, before, after, **details)
    return start_benefit(record_fit(state, after, new.evenness), former), events


def can_skip(state: StreamState) -> bool:
    """Whether a check can be left out, by what rows have cost since the last fit."""
    known, sketch = state.refresh.last_fit, state.sketch
    if known is None:
        return False
    rows, weight, loss, cost = known
    mean, more = cost / weight, sketch.weight - weight
    if not (mean > 0 and more > 0):  # as rounded: rows since may weigh next to nothing
        return False
    growth, degrees = sketch.weight / weight, state.problem.degrees(state.model, sketch)
    recent = (state.loss - loss) / more
    variance = max(0.0, sketch.effective_rows / growth / rows - 1)  # of losses, over their squared mean
    error = math.sqrt(variance / sketch.effective_rows * growth**2 / (growth - 1))
    rise = recent / mean - 1 - 2 * degrees / rows - 2 * error
    gain, noise = degrees / rows * (1 - 1 / growth), degrees / sketch.effective_rows
    return state.policy.can_skip(state.n_learned, gain, noise, rise, growth)


def record_fit(state: StreamState, cost: float, ess_ratio: float) -> StreamState:
    """Note what a later check needs to know to be skipped, where all rows count for ever.

    Few rows with most of the loss say less than their number; nothing follows from negative losses.
    """
    if not state.policy.floor > 0 or state.max_step is not None:
        return state
    known = state.sketch.effective_rows * ess_ratio, state.sketch.weight, state.loss, cost
    return _refreshed(state, last_fit=known if cost > 0 and state.loss >= 0 else None)


def find_trigger(state: StreamState) -> tuple[StreamState, str | None]:
    """Return why a check refits, None if it need not: the coreset is the same, or the expected benefit is too small."""
    if state.policy.on_coreset_change:
        state, changed = compare_coreset(state)
        if not changed:
            return state, None
    budget, sketch = state.refresh.budget, state.sketch
    if budget is not None and not state.timings.affords(state.n_learned, len(sketch.coreset()), budget):
        return state, None
    state = grow(state)
    policy, benefit = state.policy, state.refresh.benefit
    if not isinstance(policy, Measured) or benefit is None:
        return state, "scheduled"
    trigger = policy.trigger(benefit, state.n_learned, len(state.sketch.coreset()), state.max_step)
    return (state if trigger else _refreshed(state, benefit=benefit.after_check())), trigger


def compare_coreset(state: StreamState) -> tuple[StreamState, bool]:
    """Return the state that knows its coreset, and whether that has changed."""
    coreset, old = state.sketch.coreset(), state.refresh.last_coreset
    new = coreset.ids, coreset.weights
    return _refreshed(state, last_coreset=new), old is None or not all(map(np.array_equal, old, new))


def timed_fit(state: StreamState, current: Any | None) -> tuple[StreamState, Contender]:
    """Return a model fitted now, beside the current one or None, and the state that has noted the seconds."""
    problem, start = state.problem, time.perf_counter()
    fit = problem.contender if current is not None else lambda sketch, _: Contender(problem.solve(sketch, None))
    new = fit(state.sketch, current)
    seconds = time.perf_counter() - start
    timings = state.timings.plus(problem.solved_rows(new.model, state.sketch), seconds)
    return replace(state, timings=timings), new


def fit_first(state: StreamState) -> StreamState:
    """Return the state with its first model, which is no change."""
    state, new = timed_fit(state, None)
    state = replace(adopt(state, new.model), has_model=True, warm_up=None)
    if state.policy.floor > 0:
        state = record_fit(state, state.problem.cost(state.model, state.sketch), 1.0)
    state = start_benefit(state, None)
    return compare_coreset(state)[0] if state.policy.on_coreset_change else state


def adopt(state: StreamState, model: Any) -> StreamState:
    """Return the state with this model; the sketch hears of it at the same row, whatever the chunks."""
    sketch = state.sketch.copy()
    sketch.adopt(model)
    if sketch.wants_sizes:
        sketch.measure(partial(state.problem.sizes_on, model))
    return replace(state, model=model, sketch=sketch, timings=state.timings.with_model(state.n_learned))


def install(state: StreamState, new: Any, before: float, after: float, **details: Any) -> tuple[StreamState, Events]:
    """Return the state with a new model, and the change; none if the model is the same."""
    if state.problem.same(state.model, new):
        return state, ()
    event = ChangeEvent(
        state.n_learned,
        cost_before=before,
        cost_after=after,
        n_fit_rows=state.timings.last[0] if details["kind"] != "half_life" else None,
        **state.problem.difference(state.model, new, state.sketch),
        **details,
    )
    state = adopt(state, new)
    changes, counts = (*state.changes, event)[-KEPT:], counted(state.change_counts, event)
    return replace(state, changes=changes, change_counts=counts), (event,)


def refit(state: StreamState, kind: str, **details: Any) -> tuple[StreamState, Events]:
    """Return the state with a model fitted now with no regard to the current one: nothing of it is left in the new."""
    events: Events = ()
    if state.n_learned:
        state = advance_decay(state, state.sketch.next_id - 1)
    sketch = state.sketch.copy()
    sketch.settle_exactly()
    sketch.settle()
    state = replace(state, sketch=sketch)
    if state.has_model and state.n_learned:
        before = state.problem.cost(state.model, sketch)
        state, new = timed_fit(state, None)
        state, events = install(state, new.model, before, state.problem.cost(new.model, sketch), kind=kind, **details)
        state = replace(start_benefit(state, None), model=new.model)  # where it is the same but for rounding as well
    elif state.n_learned:
        state = fit_first(state)
    state = _refreshed(state, n_kept=0, last_fit=None)
    return schedule(state, state.policy.first_check_after(state.n_learned)), events


# -- what refits gain -----------------------------------------------------------------------------------


def start_benefit(state: StreamState, former: Any | None) -> StreamState:
    """Begin to measure what the current model gains over the one before, if there was one."""
    if not (state.policy.measures_benefit or state.sketch.can_grow):
        return state
    old, size = state.refresh.benefit, float(state.problem.solved_rows(state.model, state.sketch))
    if former is state.model and old is not None:  # the same model came out: it gains nothing
        return _refreshed(state, benefit=replace(old.after_check(), at=state.n_learned))
    if old is None or former is None:
        return _refreshed(state, benefit=RefitBenefit(state.n_learned, size))
    return _refreshed(state, benefit=RefitBenefit(state.n_learned, size, former, old.size))


def track_benefit(state: StreamState, rows: Rows, losses: FloatArray) -> StreamState:
    """Note what rows cost, and for a while what they would have cost under the model before."""
    benefit = state.refresh.benefit
    if not state.has_model or benefit is None:
        return state
    if benefit.former is None:
        return _refreshed(state, benefit=benefit.with_rows(losses, rows.weights))
    some = rows[: TRIAL_ROWS - benefit.gains.rows]
    former = state.problem.losses(benefit.former, some.points, some.targets)[0]
    benefit = benefit.with_trial(former, losses[: len(some)], some.weights).with_rows(losses, rows.weights)
    state = _refreshed(state, benefit=benefit)
    if benefit.gains.rows < TRIAL_ROWS:
        return state
    return _refreshed(grow(state), benefit=replace(benefit, former=None))


def grow(state: StreamState) -> StreamState:
    """Double the size of the coreset, before it is full or after, if a model of more rows would gain enough."""
    benefit, sketch = state.refresh.benefit, state.sketch
    if benefit is None or not sketch.can_grow:
        return state
    size = sketch.expected_size
    gain = benefit.expected_benefit(2 * size, -1.0) - benefit.expected_benefit(size, -1.0)
    if not (sketch.n_rows > size / 2 and gain >= MIN_BENEFIT):
        return state
    sketch = sketch.copy()
    sketch.grow()
    return replace(state, sketch=sketch)


# -- two streams ----------------------------------------------------------------------------------------


def merge(state: StreamState, other: StreamState) -> StreamState:
    """Return the state of the rows of both; the model is that of the first, until a refit."""
    if state.sketch.decay is not None and other.sketch.decay is not None:
        state = advance_decay(state, other.sketch.decay.reference)
        assert state.sketch.decay is not None
        other = advance_decay(other, state.sketch.decay.reference)
    sketch, monitor, record = state.sketch.copy(), state.monitor, state.record
    sketch.join(other.sketch)
    return replace(
        state,
        sketch=sketch,
        n_learned=state.n_learned + other.n_learned,
        loss=state.loss + other.loss,
        secondary_loss=state.secondary_loss + other.secondary_loss,
        unscored=state.unscored.merge(other.unscored),
        monitor=None if monitor is None or other.monitor is None else monitor.merge(other.monitor),
        record=None if record is None or other.record is None else record.merge(other.record),
    )


# -- the stream -----------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True, eq=False)
class Stream:
    """Rows that come, and what was learned of them. All streams that come from one share its lock.

    Attributes
    ----------
    learner : Learner
        What was learned of the rows up to the last cut.
    buffer : RowBuffer
        Rows since then.
    room : int
        How many rows make the next cut; 0 while that is not known.
    lock : RLock
        Held while the next stream is put in the place of this one.
    log : tuple of ChangeEvent or None
        Changes of the model since the log was emptied, all of them; None where they are not logged.
    """

    learner: Any
    buffer: RowBuffer
    room: int = 0
    lock: RLock = field(default_factory=RLock)
    log: Events | None = None
    _cache: dict[str, tuple[int, Any]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "buffer", self.buffer.copy())  # append_one writes to it: no other stream may share it

    def validate(self) -> None:
        """Require a learner, and a buffer as wide as its rows, with fewer rows than make the next cut."""
        state, buffer = getattr(self.learner, "current", None), self.buffer
        is_learner = isinstance(state, StreamState) and not isinstance(self.learner, Stream)
        require(is_learner, f"learner: found a {type(self.learner).__name__}")
        require(self.ordered, "learner: found one of rows without order")
        sketch, shape = self.construction, (buffer.width, buffer.columns - buffer.width)
        require_equal("shape and block of the buffer", (shape, buffer.block), (sketch.shape, sketch.block))
        check_width([buffer.rows(0)], *shape, sketch.largest)
        most = self.rows_to_cut()
        require(len(buffer) < most, f"buffer: found {len(buffer)} rows, expected less than {most}")

    def held_rows(self) -> Iterator[Rows]:
        """Iterate over all rows that are held: buffered, candidates, a history or window, those of fitted models."""
        return (rows for rows in _rows_in(self, set()) if rows.points.shape[1] == self.width)

    @classmethod
    def new(
        cls,
        problem: Problem,
        construction: Construction,
        policy: Policy,
        width: int,
        n_targets: int,
        flat_targets: bool = False,
    ) -> Stream:
        """Return a stream that joins a problem, an empty construction and a policy.

        Parameters
        ----------
        problem, construction, policy
            What a model is and how to fit one; where rows go; when to refit.
        width, n_targets : int
            Columns of the rows, and of the targets.
        flat_targets : bool
            Whether targets come as (n,).
        """
        state = StreamState.new(problem, construction, policy, width, n_targets)
        construction.begin(*state.shape, flat_targets)
        return cls(state, construction.buffer)

    # -- what was learned so far ----------------------------------------------------------------------

    @property
    def current(self) -> StreamState:
        """What was learned up to the last cut; of rows without order, with a model fitted now."""
        state: StreamState = self.learner.current
        return state if state.ordered else self.whole().learner.current

    @property
    def problem(self) -> Any:
        """The problem."""
        return self.learner.current.problem

    @property
    def construction(self) -> Any:
        """The sketch of the rows up to the last cut."""
        return self.learner.current.sketch

    @property
    def model(self) -> Any:
        """The model as of the last cut."""
        return self.current.model

    @property
    def is_solved(self) -> bool:
        """Whether a first model was fitted; that of rows without order is fitted when it is asked for."""
        state = self.learner.current
        return bool(state.has_model) if state.ordered else self.n_seen > 0

    @property
    def width(self) -> int:
        """Columns of the rows."""
        return int(self.learner.current.shape[0])

    @property
    def n_targets(self) -> int:
        """Columns of the targets."""
        return int(self.learner.current.shape[1])

    @property
    def n_learned(self) -> int:
        """Rows up to the last cut."""
        return int(self.learner.current.n_learned)

    @property
    def n_seen(self) -> int:
        """Rows learned, and rows buffered."""
        return self.n_learned + len(self.buffer)

    @property
    def next_id(self) -> int:
        """The id that the next row gets."""
        return int(self.construction.next_id) + len(self.buffer)

    @property
    def n_changes(self) -> int:
        """How often the model has changed."""
        return sum(count for _, count in self.current.change_counts)

    @property
    def ordered(self) -> bool:
        """Whether rows come in an order; otherwise the stream is a shard."""
        return bool(self.learner.current.ordered)

    # -- learning -------------------------------------------------------------------------------------

    def append_rows(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> Stream:
        """Return the stream after validated rows of one call; those that make no cut only wait."""
        if len(self.buffer) + len(points) >= self.room:
            return self.append([(points, targets, weights)])
        return replace(self, buffer=self.buffer.append(points, targets, weights))

    def append(self, pieces: Iterable[Given], problem: Problem | None = None) -> Stream:
        """Return the stream after these validated rows of positive weight, and with this problem where one is given."""
        learner, buffer, events = self.learner, self.buffer, list[ChangeEvent]()
        if problem is not None:
            learner = learner.map(lambda state: replace(state, problem=problem))
        with one_thread(self.width):
            for piece in pieces:
                _check_ids_left(learner.current.sketch.next_id + len(buffer), len(piece[0]))
                learner, buffer = self._fed(learner, buffer, piece, events)
        return replace(self, learner=learner, buffer=buffer, room=_rows_to_cut(learner), log=self._logged(events))

    def _fed(
        self, learner: Learner, buffer: RowBuffer, given: Given, events: list[ChangeEvent]
    ) -> tuple[Learner, RowBuffer]:
        """Return the learner after all cuts that these rows make, and the rows that stay buffered; add to events."""
        start, n = 0, len(given[0])
        while start < n:
            waiting, room = len(buffer), _rows_to_cut(learner)
            piece = slice(start, min(start + room - waiting, n))
            points, targets, weights = (array[piece] for array in given)
            first_id, is_cut, start = learner.current.sketch.next_id, waiting + piece.stop - start == room, piece.stop
            if is_cut and not waiting:
                rows = Rows(points, targets, weights, np.arange(first_id, first_id + len(points)))
            else:
                buffer = buffer.append(points, targets, weights)
                if not is_cut:
                    continue
                rows, buffer = buffer.rows(first_id), buffer.cleared()
            learner, info = learner.step(rows)
            events += info.events
        return learner, buffer

    def _logged(self, events: Iterable[ChangeEvent]) -> Events | None:
        return None if self.log is None else (*self.log, *events)

    def append_one(self, values: Sequence[float], target: tuple[float, ...]) -> bool:
        """Add a validated row to the buffer itself if it only has to wait there; whether that was done."""
        return self.buffer.append_one(values, target, self.room)

    def rows_to_cut(self) -> int:
        """Return how many rows, those that wait among them, make the next cut."""
        return _rows_to_cut(self.learner)

    @one_thread()
    def flushed(self) -> Stream:
        """Return the stream in which no row waits."""
        if not len(self.buffer):
            return self
        rows = self.buffer.rows(self.construction.next_id)
        learner, info = self.learner.step(rows)
        buffer, log = self.buffer.cleared(), self._logged(info.events)
        return replace(self, learner=learner, buffer=buffer, room=_rows_to_cut(learner), log=log)

    @one_thread()
    def refit(self, kind: str, **details: Any) -> Stream:
        """Return the stream with a model fitted on all rows seen, whatever the current one costs."""
        if not self.ordered:
            return self.whole()
        new = self.flushed()
        learner, events = new.learner.refit(kind, **details)
        return replace(new, learner=learner, room=_rows_to_cut(learner), log=new._logged(events))

    @one_thread()
    def merge(self, other: Stream) -> Stream:
        """Return a stream that has also seen what another one has, with a model fitted on all of it.

        Of several half-lives, the current one is that of the stream with the larger ids, and so is what they have cost
        lately. A window holds the last rows of both. Of rows without order nothing is fitted.
        """
        new = self.flushed()
        theirs = (other.view() if self.ordered else other.flushed()).learner
        new = replace(new, learner=new.learner.merge(theirs))
        return new.refit("merged", rows=theirs.current.n_learned) if self.ordered else new

    def forget(self, ids: Any) -> Stream:
        """Return what would be had the rows with these ids never come.

        The other rows are learned again in the order of their ids, so models, changes and losses are theirs alone. Of
        a window, these are the rows in it: what has left it before does not come back.
        """
        old = self.view().learner
        unwanted, learner, events = old.check_forgettable(ids), old.emptied(), list[ChangeEvent]()
        with one_thread(self.width):
            for rows in old.kept_rows():
                rest = rows[~np.isin(rows.ids, unwanted)]
                while len(rest):
                    some = rest[: int(min(learner.rows_to_cut(), len(rest)))]
                    learner, info = learner.step(some)
                    events += info.events
                    rest = rest[len(some) :]
        new = replace(self, learner=learner, buffer=self.buffer.cleared(), log=self._logged(events))
        return new.refit("forgotten", rows=len(np.unique(unwanted)))

    # -- rows without order ---------------------------------------------------------------------------

    def unordered(self) -> Stream:
        """Return the shard of a stream: of a new one, or of one that goes on without order."""
        self.check_all_rows_count("A shard")
        sketch = self.construction.copy()
        if self.n_seen:
            sketch.sum_on()
        else:
            sketch.sum_exactly()
        state = self.learner.current
        return replace(self, learner=replace(state, sketch=sketch, ordered=False, has_model=False), room=0)

    def check_all_rows_count(self, what: str) -> None:
        """Refuse a stream in which old rows go, or whose half-life is selected."""
        if not isinstance(self.learner, StreamState):
            kind = "a window" if self.learner.within == "the window" else 'half_life="auto"'
            raise ValueError(f"{what} is for estimators of all rows or of one half-life, not for {kind}.")

    def as_set(self) -> Stream:
        """Return the stream of rows that came as a set: they have no loss, no changes, and no order to monitor."""
        return replace(self, learner=self.learner.map(StreamState.as_set))

    def compact(self) -> Stream:
        """Return the same in which no row waits, and no row is kept that current scores rule out."""
        new = self.flushed()
        sketch = new.construction.copy()
        sketch.thin()
        return replace(new, learner=replace(new.learner, sketch=sketch))

    @one_thread()
    def whole(self) -> Stream:
        """Return the stream as files hold it: of a shard, the ordinary one that it stands for, with a model."""
        whole: Stream = self if self.ordered else self._cached("whole", self._ordinary)
        return whole

    def _ordinary(self) -> Stream:
        state = self.flushed().learner
        model = state.problem.initial(None, *state.shape)
        new = replace(self, learner=replace(state, ordered=True, model=model), buffer=self.buffer.cleared())
        return new.as_set().refit("merged")

    # -- reading --------------------------------------------------------------------------------------

    @one_thread()
    def view(self) -> Stream:
        """Return the stream in which no row waits, to look at: nothing of it reaches a disk."""
        if not self.ordered:
            return self.whole()
        view: Stream = self._cached("view", self._flushed_view) if len(self.buffer) else self
        return view

    def _flushed_view(self) -> Stream:
        learner = self.learner.map(lambda state: replace(state, sketch=state.sketch.for_reading()))
        return replace(self, learner=learner, log=None).flushed()

    def _cached(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what is made once for the rows seen so far."""
        known = self._cache.get(name)
        if known is None or known[0] != self.n_seen:
            known = self.n_seen, make()
            self._cache[name] = known
        return known[1]

    @property
    def present_model(self) -> Any:
        """The model; before the first one, the simplest that all rows seen give, those that wait included."""
        state, buffer = self.current, self.buffer
        if state.has_model or not len(buffer):
            return state.model
        waiting = state.sketch.weighted(buffer.rows(state.sketch.next_id))
        known = state.warm_up or state.problem.warm_up()
        answer = known.score(waiting.points, waiting.targets, waiting.weights)[1].prediction
        return state.problem.initial(answer, *state.shape)

    @one_thread()
    def coreset(self) -> Coreset:
        """Return the coreset of all rows seen."""
        coreset: Coreset = self.view().construction.coreset()
        return coreset

    @one_thread()
    def regret(self) -> Regret:
        """Return the loss and the hindsight optimum on all rows seen."""
        regret: Regret = self._cached("regret", lambda: regret_of(self.view().current))
        return regret

    def averages(self) -> Averages | None:
        """Return what all rows scored have cost, each with the weight that it was given; None where there are none."""
        record, regret, sketch = self._record(), self.regret(), self.construction
        if record is None:
            return None
        if not record.span:
            return record.averages(regret.total, regret.resolution)
        total = math.nan
        if record.spread is not None:
            total = record.spread.total(around_zero=not getattr(sketch, "intercept", True))
        share = record.weight / regret.weight if regret.weight > 0 else 1.0
        return record.averages(total, regret.resolution * share)

    def recent_averages(self) -> Averages | None:
        """Return the same of the last rows, where old ones lose weight."""
        record = self._record()
        return None if record is None else record.of_recent()

    def handful(self) -> Handful | None:
        """Return the few rows that hold most of the loss, if there are such."""
        averages, record = self.averages(), self._record()
        return None if averages is None or record is None else record.handful(averages.resolution)

    def _record(self) -> Record | None:
        return None if self.regret().reason else self.view().current.record

    def order(self) -> OrderVerdict:
        """Return whether the rows seen look as if they came in random order."""
        now = self.view()
        assert now.current.monitor is not None
        return replace(now.current.monitor.verdict(), within=now.learner.within)

    # -- storing and copying --------------------------------------------------------------------------

    def with_history(self, history: Any) -> Stream:
        """Return the same stream with its history in another place, or with what stands for it in a file."""
        current, sketch = self.learner.current, self.construction.copy()
        sketch.history = history
        new = replace(current, sketch=sketch)
        return replace(self, learner=self.learner.map(lambda state: new if state is current else state))

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds."""
        return {"learner": self.learner, "buffer": self.buffer}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Stream:
        """Return the stream that :meth:`stored_fields` describes."""
        return cls(fields["learner"], fields["buffer"])

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies hold: of a shard whose sums are exact, no row that current scores rule out."""
        own = self.compact() if not self.ordered and self.construction.adds_up else self
        return {"learner": own.learner, "buffer": own.buffer}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(type(self)(**state)))


def _rows_in(value: Any, seen: set[int]) -> Iterator[Rows]:
    """Search every part of this package, so that none is left out when parts are added."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Rows):
        yield value
    elif isinstance(value, RowBuffer):
        yield value.rows(0)
    elif isinstance(value, History):
        yield from value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _rows_in(item, seen)
    elif type(value).__module__.startswith("batch2online.") and hasattr(value, "__dict__"):
        for name, item in vars(value).items():
            if name != "monitor":  # it holds numbers, not rows as they came
                yield from _rows_in(item, seen)


def _rows_to_cut(learner: Learner) -> int:
    """Return how many rows make the next cut: up to a check, the end of a block of ids, or the last id."""
    sketch = learner.current.sketch
    return int(min(learner.rows_to_cut(), sketch.rows_to_block_end(), LARGEST_ID + 1 - sketch.next_id))


def _check_ids_left(next_id: int, n: int) -> None:
    """Refuse rows that would need ids beyond the largest one."""
    if next_id + n - 1 > LARGEST_ID:
        raise ValueError(f"ids beyond {LARGEST_ID} are not possible: first_id is too large for these rows.")
