"""A stream of rows in chunks of any size, and what is learned from them.

Rows are cut into segments at the row counts of checks and at the ends of blocks of ids, never where a caller's chunk
ends, so that models, changes and losses are the same for any chunking. Between cuts rows are only buffered. Learning,
merging and forgetting return another stream and leave this one as it is, so that an error leaves everything as it was.
Only :meth:`Stream.append_one` writes to its own buffer, one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from threading import RLock
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.answers import Answered
from batch2online.history import History, HistoryPlace
from batch2online.metrics import Performance
from batch2online.numerics.memory import check_available
from batch2online.numerics.threads import one_thread
from batch2online.problem import Problem, check_problem
from batch2online.refresh import Policy
from batch2online.results import ChangeEvent, Regret, regret_of
from batch2online.rows import (
    LARGEST_ID,
    Batch,
    Intervals,
    RowBuffer,
    Rows,
    check_disjoint,
    check_ids_left,
    check_width,
    extended,
    united,
)
from batch2online.schema import at_least, at_most, require, require_equal, storable
from batch2online.sketches.antitone import AntitoneSketch
from batch2online.sketches.base import Coreset, Snapshot, check_mergeable, check_same, with_settings
from batch2online.sketches.builder import CoresetBuilder
from batch2online.state import Events, StreamState
from batch2online.warm_up import WarmUp

if TYPE_CHECKING:
    from batch2online.drift.order_monitor import OrderVerdict

_NO_HISTORY = "Keep no history, or one on disk where an estimator offers it (history=)."
_SMALLER = "Give a smaller coreset_size, or use fewer columns."


@storable
@dataclass(frozen=True, eq=False)
class Stream:
    """The rows of a stream, and what was learned from them. All streams derived from one share its lock.

    Attributes
    ----------
    learner : Learner
        What was learned from the rows up to the end of the last segment.
    buffer : RowBuffer
        Rows since then.
    buffer_id : int
        Id of the first buffered row; of the next row if none is buffered.
    id_ranges : list of (int, int)
        Ids of all rows up to the last cut, also of those forgotten since, as half-open intervals.
    history : History or None
        All rows up to the last cut, where they are kept; a window keeps its own rows.
    room : int
        How many rows make the next cut; 0 while that is not known.
    lock : RLock
        Held while the next stream is put in the place of this one.
    log : tuple of ChangeEvent or None
        Changes of the model since the log was emptied, all of them; None where they are not logged.
    answered : Answered or None
        Earlier answers for buffered rows with late targets, if there are any.
    columns : Codec or None
        How tables become rows of features; None if rows are numbers as they come.
    """

    learner: Any
    buffer: RowBuffer
    buffer_id: Annotated[int, at_least(0), at_most(LARGEST_ID + 1)] = 0
    id_ranges: Intervals = field(default_factory=list)
    history: Any = None
    room: int = 0
    lock: RLock = field(default_factory=RLock)
    log: Events | None = None
    answered: Answered | None = None
    columns: Any = None
    plan: ClassVar[Any] = None
    """What predicts single rows by the current model, and reads them, once it is known; another stream has none."""

    _cache: dict[str, tuple[int, Any]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        # append_one writes to these: no other stream may share them
        object.__setattr__(self, "buffer", self.buffer.copy())
        object.__setattr__(self, "columns", None if self.columns is None else self.columns.own())

    def validate(self) -> None:
        """Require a learner, and a buffer as wide as its rows, with fewer rows than make the next cut."""
        state, buffer = getattr(self.learner, "current", None), self.buffer
        is_learner = isinstance(state, StreamState) and not isinstance(self.learner, Stream)
        require(is_learner, f"learner: found a {type(self.learner).__name__}")
        require(self.ordered, "learner: found one of rows without order")
        shape, settings = (buffer.width, buffer.columns - buffer.width), self.sketch.settings
        require_equal("shape and block of the buffer", (shape, buffer.block), (settings.shape, settings.block))
        check_width([buffer.rows(0)], *shape)
        most = self.rows_to_cut()
        require(len(buffer) < most, f"buffer: found {len(buffer)} rows, expected less than {most}")
        ends = list(chain.from_iterable(self.id_ranges))
        is_ascending = all(one < other for one, other in pairwise(ends)) and min(ends, default=0) >= 0
        require(is_ascending, f"id_ranges: found {self.id_ranges[:5]}, not ascending")
        last, seen = max(ends, default=0), sum(stop - start for start, stop in self.id_ranges)
        require(last <= self.buffer_id, f"id_ranges: found id {last}, expected at most {self.buffer_id}")
        if self.answered is not None:
            ids = self.answered.ids
            is_buffered = len(ids) and self.buffer_id <= ids[0] and ids[-1] < self.next_id
            require(is_buffered, f"answered: found ids {ids[:5]}, expected those of buffered rows")
        n_rows = self.sketch.totals.n_rows
        require(n_rows <= seen, f"n_rows: found {n_rows}, expected at most {seen} ids")
        require(self.learner.current.last_id < self.buffer_id, f"last_id: expected less than {self.buffer_id}")
        self._validate_history()

    def _validate_history(self) -> None:
        """Require a history of the rows of the sketch."""
        history, settings = self.history, self.sketch.settings
        if history is None:
            return
        require(isinstance(history, History | HistoryPlace), f"history: found a {type(history).__name__}")
        shape = (history.block, history.width, history.n_targets)
        require_equal("shape of the history", shape, (settings.block, *settings.shape))
        n_rows = history.rows if isinstance(history, HistoryPlace) else len(history)
        require_equal("rows of the history", n_rows, self.sketch.totals.n_rows)
        if not isinstance(history, HistoryPlace):
            check_width(history, *settings.shape)
            last = max((int(rows.ids[-1]) for rows in history), default=-1)
            require(last < self.buffer_id, f"history: found id {last}, expected less than {self.buffer_id}")

    def held_rows(self) -> Iterator[Rows]:
        """Iterate over all rows that are held: buffered, candidates, a history or window, those of fitted models."""
        return (rows for rows in _rows_in((self.learner, self), set()) if rows.points.shape[1] == self.width)

    @classmethod
    def new(cls, problem: Problem, coreset: CoresetBuilder, policy: Policy, width: int, n_targets: int) -> Stream:
        """Return a stream before the first row.

        Parameters
        ----------
        problem, coreset, policy
            What a model is and how to fit one; an empty builder, whose settings the sketch of the rows gets; when to
            refit.
        width, n_targets : int
            Columns of the rows, and of the targets.
        """
        check_problem(problem)
        if not isinstance(coreset, CoresetBuilder):
            found = type(coreset).__name__
            raise TypeError(f"{type(problem).__name__} is fitted on a coreset of batch2online.coresets, got {found}.")
        sketch = coreset.new_sketch(int(width), int(n_targets))
        state, block = StreamState.new(problem, sketch, policy, coreset.decay), sketch.settings.block
        history = coreset.new_history(block, *state.shape)
        return cls(state, RowBuffer(*state.shape, block), coreset.next_id, history=history)

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
    def sketch(self) -> Any:
        """The sketch of the rows up to the last cut."""
        return self.learner.current.sketch

    @property
    def has_model(self) -> bool:
        """Whether a first model was fitted; that of rows without order is fitted when it is asked for."""
        state = self.learner.current
        return bool(state.has_model) if state.ordered else self.n_seen > 0

    @property
    def flat_targets(self) -> bool:
        """Whether targets come as (n,)."""
        return bool(self.learner.current.sketch.settings.flat_targets)

    def with_flat_targets(self, flat: bool) -> Stream:
        """Return a new stream of targets that come as (n,), or as (n, n_targets)."""
        return self.map(lambda state: replace(state, sketch=with_settings(state.sketch, flat_targets=flat)))

    def map(self, change: Callable[[StreamState], StreamState]) -> Stream:
        """Return the stream with each state of its learner changed."""
        return replace(self, learner=self.learner.map(change))

    @property
    def width(self) -> int:
        """Columns of the rows."""
        return self.buffer.width

    @property
    def n_targets(self) -> int:
        """Columns of the targets."""
        return self.buffer.columns - self.buffer.width

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
        return self.buffer_id + len(self.buffer)

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
        twin = object.__new__(type(self))  # small calls are most of the time of small chunks: `replace` takes longer
        twin.__dict__.update(self.__dict__, buffer=self.buffer.append(points, targets, weights), _cache={})
        return twin

    def append(
        self, batches: Iterable[Batch], problem: Problem | None = None, answers: FloatArray | None = None
    ) -> Stream:
        """Return the stream after these validated rows of positive weight, and with this problem where one is given.

        ``answers`` (2, n) are the losses of earlier answers for all of these rows, if their targets have come late.
        """
        new = self if problem is None else self.map(lambda state: replace(state, problem=problem))
        if answers is not None and answers.size:
            ids = self.next_id + np.arange(answers.shape[1])
            new = replace(new, answered=(new.answered or Answered()).plus(ids, answers))
        with one_thread(self.width):
            for batch in batches:
                check_ids_left(new.next_id, len(batch[0]))
                while len(batch[0]):
                    rows, buffer, batch = new.buffer.fill(batch, new.rows_to_cut(), new.buffer_id)
                    new = replace(new, buffer=buffer) if rows is None else new._after(rows, buffer)
        return replace(new, room=new.rows_to_cut())

    def _after(self, rows: Rows, buffer: RowBuffer) -> Stream:
        """Return the stream after a segment of rows, and with this buffer."""
        history, stop = None if self.history is None else self.history.append(rows), int(rows.ids[-1]) + 1
        learner, info = self.learner.step(rows, history, self.answered)
        return replace(
            self,
            learner=learner,
            buffer=buffer,
            buffer_id=stop,
            id_ranges=extended(self.id_ranges, self.buffer_id, stop),
            history=history,
            log=self._logged(info.events),
            answered=None if self.answered is None else self.answered.since(stop) or None,
        )

    def _logged(self, events: Iterable[ChangeEvent]) -> Events | None:
        return None if self.log is None else (*self.log, *events)

    def append_one(self, values: Sequence[float], target: tuple[float, ...]) -> bool:
        """Add a validated row to the buffer in place if no check is due; return whether that was done."""
        if self.columns is None or self.columns.is_settled:
            return self.buffer.append_one(values, target, self.room)
        return bool(self.columns.append_one(values, target, partial(self.buffer.append_one, values, target, self.room)))

    def rows_to_cut(self) -> int:
        """Return the number of rows, including buffered ones, at which the next segment ends.

        It is the next check, the end of a block of ids, so many rows that weights under decay stay within bounds, or
        the last id.
        """
        state, start = self.learner.current, self.buffer_id
        block = state.sketch.settings.block
        to_end = min(block - start % block, LARGEST_ID + 1 - start)
        if state.decay is not None:
            to_end = min(to_end, state.decay.rows_to_cut(start))
        return int(min(self.learner.rows_to_cut(), to_end))

    @one_thread()
    def flushed(self) -> Stream:
        """Return the stream with no buffered rows."""
        if not len(self.buffer):
            return self
        new = self._after(self.buffer.rows(self.buffer_id), self.buffer.cleared())
        return replace(new, room=new.rows_to_cut())

    @one_thread()
    def refit(self, kind: str, **details: Any) -> Stream:
        """Return the stream with a model fitted on all rows seen, whatever the current one costs."""
        if not self.ordered:
            return self.whole()
        new = self.flushed()
        learner, events = new.learner.refit(new.history, kind, **details)
        new = replace(new, learner=learner, log=new._logged(events))
        return replace(new, room=new.rows_to_cut())

    @one_thread()
    def merge(self, other: Stream) -> Stream:
        """Return a stream that has also seen what another one has, with a model fitted on all of it.

        Of several half-lives, the current one is that of the stream with the larger ids, and so is what they have cost
        lately. A window holds the last rows of both. Of rows without order nothing is fitted.
        """
        new, theirs = self.flushed(), other.view() if self.ordered else other.flushed()
        check_mergeable(new.sketch, theirs.sketch)
        check_same("keep_history", new.history is not None, theirs.history is not None)
        check_disjoint(new.id_ranges, theirs.id_ranges)
        history = None if new.history is None else new.history.merged(theirs.history)
        new = replace(
            new,
            learner=new.learner.merge(theirs.learner, history),
            buffer_id=max(new.buffer_id, theirs.buffer_id),
            id_ranges=united(new.id_ranges, theirs.id_ranges),
            history=history,
        )
        return new.refit("merged", rows=theirs.n_learned) if self.ordered else new

    def forget(self, ids: Any) -> Stream:
        """Return the stream as if the rows with these ids had never arrived.

        The other rows are learned again in the order of their ids, so models, changes and losses are theirs alone. Of
        a window, these are the rows in it: what has left it before does not come back.
        """
        old = self.view()
        unwanted, learner = old.learner.check_forgettable(ids, old.history), old.learner.emptied()
        history, events = None if old.history is None else old.history.emptied(), list[ChangeEvent]()
        with one_thread(self.width):
            for rows in old.learner.kept_rows(old.history):
                rest = rows[~np.isin(rows.ids, unwanted)]
                while len(rest):
                    some = rest[: int(min(learner.rows_to_cut(), len(rest)))]
                    history = None if history is None else history.append(some)
                    learner, info = learner.step(some, history)
                    events += info.events
                    rest = rest[len(some) :]
        new = replace(old, learner=learner, history=history, log=self._logged(events))
        return new.refit("forgotten", rows=len(np.unique(unwanted)))

    def tidy(self) -> None:
        """Remove from disk what merging or forgetting has left behind."""
        if self.history is not None:
            self.history.tidy()

    # -- rows without order ---------------------------------------------------------------------------

    def unordered(self, origin: int) -> Stream:
        """Return the stream as a shard, whose ids begin at ``origin`` and whose rows have no order."""
        self.check_all_rows_count("A shard")
        return replace(self.map(lambda state: state.unordered(self.buffer_id, origin)), room=0)

    def check_all_rows_count(self, what: str) -> None:
        """Raise if the stream has a window, or if its half-life is selected automatically."""
        if not isinstance(self.learner, StreamState):
            kind = "a window" if self.learner.within == "the window" else 'half_life="auto"'
            raise ValueError(f"{what} is for estimators of all rows or of one half-life, not for {kind}.")

    def compact(self) -> Stream:
        """Return the same in which no row is buffered, and none is kept that current scores rule out."""
        new = self.flushed()._thinned()
        if new.history is not None or isinstance(new.sketch, AntitoneSketch):
            return new
        return new.map(lambda state: replace(state, sketch=state.sketch.prepared()))

    def _thinned(self) -> Stream:
        sketch = self.sketch
        if not isinstance(sketch, AntitoneSketch):
            return self
        return replace(self, learner=replace(self.learner, sketch=sketch.thinned()))

    @one_thread()
    def whole(self, rows: Any = None) -> Stream:
        """Return the stream as files hold it: of a shard, the ordinary one that it stands for, with a model.

        ``rows`` returns sums over all rows while the model is fitted, where they are kept elsewhere.
        """
        whole: Stream = self if self.ordered else self.cached("whole", lambda: self._ordinary(rows))
        return whole

    def _ordinary(self, rows: Any) -> Stream:
        new = self.flushed()
        model = self.problem.initial_model(None, self.width, self.n_targets)
        new = new.map(lambda state: replace(state, origin=None, model=model).without_scores())
        if rows is None:
            return new.refit("merged")
        return replace(new, learner=new.learner.refit(rows, "merged")[0])

    # -- reading --------------------------------------------------------------------------------------

    @one_thread()
    def view(self) -> Stream:
        """Return the stream in which no row is buffered, for reading: nothing of it reaches a disk."""
        if not self.ordered:
            return self.whole()
        view: Stream = self.cached("view", self._flushed_view) if len(self.buffer) else self
        return view

    def _flushed_view(self) -> Stream:
        history = None if self.history is None else self.history.for_reading()
        return replace(self, history=history, log=None).flushed()

    def cached(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the cache of results for the rows seen so far."""
        known = self._cache.get(name)
        if known is None or known[0] != self.n_seen:
            known = self.n_seen, make()
            self._cache[name] = known
        return known[1]

    @property
    def model(self) -> Any:
        """The model; before the first one, the simplest that all rows seen give, the buffered ones included."""
        state = self.learner.current if self.ordered else self.current
        if state.has_model or not len(self.buffer):
            return state.model
        return state.problem.initial_model(self._warm_up().prediction, *state.shape)

    def _warm_up(self) -> WarmUp:
        """Return the warm-up after all rows seen, the buffered ones included."""
        state = self.current
        waiting, known = state.weighted(self.buffer.rows(self.buffer_id)), state.warm_up or state.problem.warm_up()
        following: WarmUp = known.score(waiting.points, waiting.targets, waiting.weights)[1]
        return following

    @property
    def answerer(self) -> Any:
        """What answers now: the current model, or the warm-up before the first one."""
        state = self.current
        if state.has_model:
            return state.model
        return self._warm_up() if len(self.buffer) else state.warm_up or state.problem.warm_up()

    def check_answerer(self, answerer: Any) -> None:
        """Raise ValueError unless this, out of a file, can have answered."""
        state = self.current
        if isinstance(answerer, WarmUp):
            is_right = answerer.fits(*state.shape) and answerer.same_settings(state.problem.warm_up())
            require(is_right, f"answer: found a {type(answerer).__name__} that does not fit")
        else:
            state.validate_model(answerer)

    @one_thread()
    def coreset(self) -> Coreset:
        """Return the coreset of all rows seen."""
        return self.snapshot().coreset

    def snapshot(self) -> Snapshot:
        """Return what a problem reads of all rows seen."""
        view = self.view()
        snapshot: Snapshot = self.cached("snapshot", lambda: view.learner.snapshot(view.history))
        return snapshot

    @one_thread()
    def regret(self) -> Regret:
        """Return the loss and the hindsight optimum on all rows seen."""
        regret: Regret = self.cached("regret", lambda: regret_of(self.view().current, self.snapshot()))
        return regret

    def performance(self) -> Performance:
        """Return what the rows have cost, each predicted before it was learned."""
        found: Performance = self.cached("performance", lambda: Performance(self.view()))
        return found

    def order(self) -> OrderVerdict:
        """Return whether the rows seen look as if they came in random order."""
        verdict: OrderVerdict = self.cached("order", lambda: self.view()._order())
        return verdict

    def _order(self) -> OrderVerdict:
        assert self.current.monitor is not None
        return replace(self.current.monitor.verdict(), within=self.learner.within)

    # -- storing and copying --------------------------------------------------------------------------

    def check_rows_fit(self, n: int) -> None:
        """Refuse so many further rows if those that would be kept of them take more memory than there is."""
        keeps_all, totals = self.history is not None and self.history.is_in_memory, self.sketch.totals
        some = n if keeps_all else min(n, max(0.0, 2 * self.sketch.settings.size - totals.n_rows))
        what = f"{'The history' if keeps_all else 'A coreset'} of {some:,.0f} more rows of {self.width:,} columns"
        check_available(8 * some * (self.width + self.n_targets + 4), what, _NO_HISTORY if keeps_all else _SMALLER)

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds."""
        late = () if self.answered is None else ("answered",)
        table = () if self.columns is None else ("columns",)
        names = ("learner", "buffer", "buffer_id", "id_ranges", "history", *late, *table)
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Stream:
        """Return the stream that :meth:`stored_fields` describes."""
        return cls(**fields)

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies hold: of a shard, no row that current scores rule out."""
        return (self if self.ordered else self._thinned()).stored_fields()

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
