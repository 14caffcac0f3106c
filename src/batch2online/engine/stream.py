"""A stream of rows in chunks of any size, and what is learned from them.

Rows are cut into segments at the row counts of checks and at the ends of blocks of ids, never where a caller's chunk
ends, so that models, changes and losses are the same for any chunking. Between cuts rows are only buffered. Learning,
merging and forgetting return another stream and leave this one as it is, so that an error leaves everything as it was.
Only :meth:`Stream.append_one` writes to its own buffer, one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from typing import Any, ClassVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.answers import Answered
from batch2online.engine.engine import Engine
from batch2online.engine.state import Events, State
from batch2online.history import History
from batch2online.metrics import Performance
from batch2online.numerics.memory import check_available
from batch2online.numerics.threads import one_thread
from batch2online.problem import check_problem, check_sketch
from batch2online.record import FEWEST_RECENT, RECENT, Record
from batch2online.refresh import Policy
from batch2online.results import Regret
from batch2online.rows import Batch, RowBuffer, Rows, check_disjoint, check_ids_left, check_width
from batch2online.schema import require
from batch2online.sketches.antitone import AntitoneSketch
from batch2online.sketches.base import Coreset, Snapshot, check_mergeable, check_same
from batch2online.warm_up import WarmUp

_NO_HISTORY = "Keep no history, or one on disk where an estimator offers it (history=)."
_SMALLER = "Give a smaller coreset_size, or use fewer columns."


@dataclass(frozen=True, eq=False)
class Stream:
    """The rows of a stream, and what was learned from them. All streams derived from one share its lock.

    Attributes
    ----------
    engine : Engine
        The settings; no file holds them.
    state : State
        What was learned from the rows up to the end of the last segment; None of a stream that is to begin.
    buffer : RowBuffer
        Rows since then.
    buffer_id : int
        Id of the first buffered row; of the next row if none is buffered.
    room : int
        How many rows make the next cut; 0 while that is not known.
    lock : RLock
        Held while the next stream is put in the place of this one.
    log : tuple of ChangeEvent or None
        Changes of the model since the log was emptied, all of them; None where they are not logged.
    columns : Codec or None
        How tables become rows of features; None if rows are numbers as they come.
    """

    engine: Engine
    state: Any
    buffer: RowBuffer
    buffer_id: int = 0
    room: int = 0
    lock: RLock = field(default_factory=RLock)
    log: Events | None = None
    columns: Any = None
    plan: ClassVar[Any] = None
    """What predicts single rows by the current model, and reads them, once it is known; another stream has none."""

    _cache: dict[str, tuple[int, Any]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        # append_one writes to these: no other stream may share them
        object.__setattr__(self, "buffer", self.buffer.copy())
        object.__setattr__(self, "columns", None if self.columns is None else self.columns.own())

    @classmethod
    def new(cls, problem: Any, coreset: Any, policy: Policy | None, width: int, n_targets: int) -> Stream:
        """Return a stream that is to begin: its settings, see :meth:`begun`.

        Parameters
        ----------
        problem, coreset, policy
            What a model is and how to fit one; an empty builder, whose settings the sketch of the rows gets; when to
            refit. For a coreset alone, problem and policy are None.
        width, n_targets : int
            Columns of the rows, and of the targets.
        """
        if problem is not None:
            check_problem(problem)
            if not hasattr(coreset, "new_sketch"):
                found = type(coreset).__name__
                raise TypeError(
                    f"{type(problem).__name__} is fitted on a coreset of batch2online.coresets, got {found}."
                )
        sketch, shape = coreset.new_sketch(int(width), int(n_targets)), (int(width), int(n_targets))
        if problem is not None:
            policy = _decided(policy, problem, shape)
            check_sketch(problem, sketch)
        half_life = None if coreset.decay is None else coreset.decay.half_life
        span = 0 if half_life is None else max(FEWEST_RECENT, min(RECENT, half_life))
        observers = () if problem is None else (Record(span),)
        engine = Engine(
            problem,
            policy,  # type: ignore[arg-type]
            sketch,
            half_life,
            new_history=partial(coreset.new_history, sketch.settings.block, *shape) if coreset.keep_history else None,
            reads_rows=coreset.keep_history,
            rows_on_disk=coreset.keeps_on_disk,
            ordered=problem is not None,
            observers=observers,
        )
        return cls(engine, None, RowBuffer(*shape), coreset.first_id)

    # -- what was learned so far ----------------------------------------------------------------------

    @property
    def current(self) -> State:
        """What was learned up to the last cut; of rows without order, with a model fitted now."""
        state: State = self.state if self.ordered else self.whole().state
        return state

    @property
    def problem(self) -> Any:
        """The problem."""
        return self.engine.problem

    @property
    def sketch(self) -> Any:
        """The sketch of the rows up to the last cut."""
        return self.engine.empty if self.state is None else self.state.sketch

    @property
    def history(self) -> Any:
        """All rows up to the last cut, or those of the window, where they may be read again."""
        return self.state.history if self.engine.reads_rows and self.engine.window is None else None

    @property
    def has_model(self) -> bool:
        """Whether a first model was fitted; that of rows without order is fitted when it is asked for."""
        return self.state.has_model if self.ordered else self.n_seen > 0

    @property
    def flat_targets(self) -> bool:
        """Whether targets come as (n,)."""
        return bool(self.engine.empty.settings.flat_targets)

    @property
    def width(self) -> int:
        """Columns of the rows."""
        return self.buffer.width

    @property
    def n_targets(self) -> int:
        """Columns of the targets."""
        return self.buffer.n_targets

    @property
    def n_seen(self) -> int:
        """Rows learned, and rows buffered."""
        return int(self.state.n_learned) + len(self.buffer)

    @property
    def next_id(self) -> int:
        """The id that the next row gets."""
        return self.buffer_id + len(self.buffer)

    @property
    def ordered(self) -> bool:
        """Whether rows come in an order; otherwise the stream is a shard."""
        return self.engine.ordered

    def with_engine(self, **changes: Any) -> Stream:
        """Return the stream with other settings."""
        return replace(self, engine=replace(self.engine, **changes))

    def begun(self) -> Stream:
        """Return the stream before the first row."""
        return replace(self, state=self.engine.new())

    def with_history(self, history: Any) -> Stream:
        """Return the stream with its rows in another place."""
        return replace(self, state=self.state.with_history(history))

    def at(self, state: State, start: int | None = None) -> Stream:
        """Return the stream in another state, with nothing buffered."""
        start = self.buffer_id if start is None else start
        log = None if self.log is None else (*self.log, *_further_changes(self.state, state))
        room = self.engine.rows_to_cut(state, start)
        return replace(self, state=state, buffer=self.buffer.cleared(), buffer_id=start, room=room, log=log)

    # -- learning -------------------------------------------------------------------------------------

    def append(self, batches: Iterable[Batch], problem: Any | None = None, answers: FloatArray | None = None) -> Stream:
        """Return the stream after these validated rows of positive weight, and with this problem where one is given.

        Rows that make no cut are only buffered. ``answers`` (2, n) are the losses of earlier answers for all of these
        rows, if their targets have come late.
        """
        if problem is None and answers is None and type(batches) is list and len(batches) == 1:
            (batch,) = batches
            if len(self.buffer) + len(batch[0]) < self.room:
                twin = object.__new__(type(self))  # most of the time of small chunks: `replace` takes longer
                twin.__dict__.update(self.__dict__, buffer=self.buffer.append(*batch), _cache={})
                return twin
        new = replace(self) if problem is None else self.with_engine(problem=problem)
        if answers is not None and answers.size:
            known = (new.state.answered or Answered()).plus(new.next_id + np.arange(answers.shape[1]), answers)
            new = replace(new, state=new.state.each(lambda state: replace(state, answered=known)))
        with one_thread(self.width):
            for batch in batches:
                check_ids_left(new.next_id, len(batch[0]))
                while len(batch[0]):
                    rows, buffer, batch = new.buffer.fill(batch, new.rows_to_cut(), new.buffer_id)
                    new = replace(new, buffer=buffer) if rows is None else new.after(rows)
        return new if new.room else replace(new, room=new.rows_to_cut())

    def after(self, rows: Rows) -> Stream:
        """Return the stream after a segment of rows, with nothing buffered."""
        return self.at(self.engine.step(self.state, rows), int(rows.ids[-1]) + 1)

    def append_one(self, values: Any, target: tuple[float, ...]) -> bool:
        """Add a validated row to the buffer in place if no check is due; return whether that was done."""
        if self.columns is None or self.columns.is_settled:
            return self.buffer.append_one(values, target, self.room)
        return bool(self.columns.append_one(values, target, partial(self.buffer.append_one, values, target, self.room)))

    def rows_to_cut(self) -> int:
        """Return the number of rows, including buffered ones, at which the next segment ends."""
        return self.room or self.engine.rows_to_cut(self.state, self.buffer_id)

    @one_thread()
    def flushed(self) -> Stream:
        """Return the stream with no buffered rows."""
        return self.after(self.buffer.rows(self.buffer_id)) if len(self.buffer) else self

    @one_thread()
    def refit(self, kind: str, **details: Any) -> Stream:
        """Return the stream with a model fitted on all rows seen, whatever the current one costs."""
        if not self.ordered:
            return self.whole()
        new = self.flushed()
        return new.at(new.engine.refitted(new.state, kind, **details))

    @one_thread()
    def merge(self, other: Stream) -> Stream:
        """Return a stream that has also seen what another one has, with a model fitted on all of it.

        Of several half-lives, the current one is that of the stream with the larger ids, and so is what they have cost
        lately. A window holds the last rows of both. Of rows without order nothing is fitted.
        """
        new, theirs = self.flushed(), other.view() if self.ordered else other.flushed()
        check_mergeable(new.sketch, theirs.sketch)
        check_same("keep_history", new.engine.reads_rows, theirs.engine.reads_rows)
        check_disjoint(new.state.ids, theirs.state.ids)
        state = new.engine.merged(new.state, theirs.state)
        new = new.at(state, max(new.buffer_id, theirs.buffer_id))
        return new.refit("merged", rows=theirs.state.n_learned) if self.ordered else new

    def forget(self, ids: Any) -> Stream:
        """Return the stream as if the rows with these ids had never arrived.

        The other rows are learned again in the order of their ids, so models, changes and losses are theirs alone. Of
        a window, these are the rows in it: what has left it before does not come back.
        """
        old = self.view()
        unwanted = old.engine.check_forgettable(old.state, ids)
        new = replace(old, state=old.engine.emptied(old.state), log=self.log)
        with one_thread(self.width):
            for rows in old.state.history.blocks() if old.state.history is not None else ():
                rest = rows[~np.isin(rows.ids, unwanted)]
                while len(rest):
                    n = max(1, new.engine.rows_to_check(new.state)) if new.ordered else len(rest)
                    new, rest = new.at(new.engine.step(new.state, rest[:n])), rest[n:]
        return new.refit("forgotten", rows=len(np.unique(unwanted))) if new.ordered else new

    def tidy(self) -> None:
        """Remove from disk what merging or forgetting has left behind."""
        if self.state.history is not None:
            self.state.history.tidy()

    # -- rows without order ---------------------------------------------------------------------------

    def unordered(self) -> Stream:
        """Return the stream as a shard, whose rows have no order."""
        self.engine.check_all_rows_count("A shard")
        state = replace(self.state, has_model=False, last_id=self.buffer_id - 1)
        return replace(self.with_engine(ordered=False), state=state, room=0)

    @one_thread()
    def whole(self) -> Stream:
        """Return the stream as files hold it: of a shard, the ordinary one that it stands for, with a model."""
        if self.ordered or self.problem is None:
            return self
        whole: Stream = self.cached("whole", self._ordinary)
        return whole

    def _ordinary(self) -> Stream:
        new = self.flushed().with_engine(ordered=True)
        model = self.problem.initial_model(None, self.width, self.n_targets)
        return new.at(new.engine.unscored(replace(new.state, model=model))).refit("merged")

    def without_scores(self) -> Stream:
        """Return the stream as that of rows that were not scored."""
        return replace(self, state=self.state.each(self.engine.unscored))

    # -- reading --------------------------------------------------------------------------------------

    @one_thread()
    def view(self) -> Stream:
        """Return the stream in which no row is buffered, for reading: nothing of it reaches a disk."""
        if not self.ordered and self.problem is not None:
            return self.whole()
        view: Stream = self.cached("view", self._flushed_view) if len(self.buffer) else self
        return view

    def _flushed_view(self) -> Stream:
        history = None if self.state.history is None else self.state.history.for_reading()
        return replace(self.with_history(history), log=None).flushed()

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
        state = self.current
        if state.has_model or not len(self.buffer):
            return state.model
        return self.problem.initial_model(self._warm_up().prediction, *self.engine.shape)

    def _warm_up(self) -> WarmUp:
        """Return the warm-up after all rows seen, the buffered ones included."""
        state = self.current
        waiting, known = state.weighted(self.buffer.rows(self.buffer_id)), state.warm_up or self.problem.warm_up()
        following: WarmUp = known.score(waiting.points, waiting.targets, waiting.weights)[1]
        return following

    @property
    def answerer(self) -> Any:
        """What answers now: the current model, or the warm-up before the first one."""
        state = self.current
        if state.has_model:
            return state.model
        return self._warm_up() if len(self.buffer) else state.warm_up or self.problem.warm_up()

    @one_thread()
    def coreset(self) -> Coreset:
        """Return the coreset of all rows seen."""
        return self.snapshot().coreset

    def snapshot(self) -> Snapshot:
        """Return what a problem reads of all rows seen."""
        view = self.view()
        snapshot: Snapshot = self.cached("snapshot", lambda: view.engine.snapshot(view.state))
        return snapshot

    @one_thread()
    def regret(self) -> Regret:
        """Return the loss and the hindsight optimum on all rows seen."""
        regret: Regret = self.cached("regret", lambda: self.engine.regret(self.view().state, self.snapshot()))
        return regret

    def performance(self) -> Performance:
        """Return what the rows have cost, each predicted before it was learned."""
        found: Performance = self.cached("performance", lambda: Performance(self.view()))
        return found

    # -- storing and copying --------------------------------------------------------------------------

    def check_rows_fit(self, n: int) -> None:
        """Refuse so many further rows if those that would be kept of them take more memory than there is."""
        engine, totals = self.engine, self.sketch.totals
        keeps_all = engine.reads_rows and engine.window is None and not engine.rows_on_disk
        some = n if keeps_all else min(n, max(0.0, 2 * self.sketch.settings.size - totals.n_rows))
        what = f"{'The history' if keeps_all else 'A coreset'} of {some:,.0f} more rows of {self.width:,} columns"
        check_available(8 * some * (self.width + self.n_targets + 4), what, _NO_HISTORY if keeps_all else _SMALLER)

    def held_rows(self) -> Iterator[Rows]:
        """Iterate over all rows that are held: buffered, candidates, a history or window, those of fitted models."""
        return (rows for rows in _rows_in((self.state, self.buffer), set()) if rows.points.shape[1] == self.width)

    def stored(self) -> dict[str, Any]:
        """Return what a file holds: no settings, of which the parameters of an estimator make the engine again."""
        settings = self.sketch.settings
        return {
            "shape": settings.shape,
            "flat_targets": settings.flat_targets,
            "seed": settings.seed,
            "state": self.state,
            "buffer": self.buffer.rows(self.buffer_id),
            "buffer_id": self.buffer_id,
            "columns": self.columns,
        }

    def restored(self, content: dict[str, Any]) -> Stream:
        """Return this stream, which is to begin, in the state of a file; ValueError if that has other settings."""
        state, rows, engine = content["state"], content["buffer"], self.engine
        for each in (state, *state.others):
            check_mergeable(engine.empty, each.sketch)
            require(type(each.sketch) is type(engine.empty), f"sketch: found a {type(each.sketch).__name__}")
        n = 1 + len(state.others)
        require(n == engine.n_states, f"others: found {n} half-lives, expected {engine.n_states}")
        check_width([rows], *engine.shape)
        kinds = [type(each) for each in state.observers]
        require(kinds == [type(each) for each in engine.observers], f"observers: found {kinds}")
        kept = {name: content[name] for name in ("state", "buffer_id", "columns")}
        new = replace(self, buffer=RowBuffer.of(rows), **kept)
        if state.history is None and state.n_learned:  # a fit on a cluster keeps no rows, whatever the parameters
            new = new.with_engine(new_history=None, reads_rows=False)
        return replace(new, room=new.engine.rows_to_cut(state, new.buffer_id))

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies hold: of a shard, no row that current scores rule out."""
        new = self
        if not self.ordered and isinstance(self.sketch, AntitoneSketch):
            new = replace(self, state=replace(self.state, sketch=self.sketch.thinned()))
        return {name: getattr(new, name) for name in ("engine", "state", "buffer", "buffer_id", "columns")}

    def __setstate__(self, content: dict[str, Any]) -> None:
        vars(self).update(vars(type(self)(**content)))


def _decided(policy: Policy | None, problem: Any, shape: tuple[int, int]) -> Policy:
    """Return the policy with what it leaves to the problem."""
    if not isinstance(policy, Policy):
        named = f": pass {policy.__name__}(...)" if isinstance(policy, type) else ""
        raise TypeError(f"refresh must be a policy of batch2online.refresh or None, got {policy!r}{named}.")
    return policy.starting_at(problem.first_check(*shape)).with_few_rows(problem.enough_rows(*shape))


def _further_changes(old: State, new: State) -> Events:
    """Return the changes of a state that an earlier one does not have."""
    n = new.n_changes - old.n_changes
    return new.changes[len(new.changes) - n :] if n > 0 else ()


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
            if name != "observers":  # they hold numbers, not rows as they came
                yield from _rows_in(item, seen)
