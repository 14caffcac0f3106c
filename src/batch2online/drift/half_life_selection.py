"""Several half-lives side by side: the current one has the lowest recent loss, by a significant margin.

Each candidate is a state of its own that learns the same rows. Two sums of losses decay:

- a slow one, of what rows cost under the model that each candidate had when the block of ``ROWS_PER_REFERENCE`` rows
  began. This is the loss for a user who requests predictions a block at a time: a model that is good for the very next
  row alone has no advantage.
- a quick one, of what rows cost as they came, for changes that are large and sudden.

A candidate takes over when it leads by a share of the loss that is worth a change, and by a multiple of the root of the
sum of squares of differences, over groups of ``_GROUP`` rows. If a lead comes from a few rows, that ratio is small,
whatever the losses: a single extreme row decides nothing, and a stationary stream keeps all rows. Nor can an extreme
row block a decision: a loss counts as at most ``_MOST`` times the mean of its neighbours.

The quick sum only ever decides for a shorter half-life, by a lead over what rows cost *usually*: where rows change
suddenly all candidates cost many times that, and a share of it would be reached too late. Such a decision says that
the rows before are not like those to come, so the slow sum begins anew. When the next decision is made, the slow sum
tells whether it was right. If not (rows that are like each other for an hour only look like a change every hour), the
next one takes a lead ``_DOUBT`` times as large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.answers import Answered
from batch2online.decay import ForwardDecay
from batch2online.history import History
from batch2online.record import RECENT
from batch2online.rows import Rows
from batch2online.schema import at_least, at_most, number, require, require_equal, shape, storable
from batch2online.sketches.base import Snapshot
from batch2online.state import Events, StepInfo, StreamState, install, merge, refit, step

HALF_LIVES = {"moments": (600, 2_400, 9_600, 38_400), "low": (1_000, 5_000), "high": (5_000,), "any": (2_000, 10_000)}
"""Candidates beside no decay, by what a refit takes (:meth:`Problem.refit_cost`)."""

ROWS_PER_DECISION = 128
"""Rows between two decisions."""

ROWS_PER_REFERENCE = 256
"""Rows after which models are noted by which the next rows are judged."""

_GROUP = 8
"""Rows whose losses are summed before they are compared."""

_MOST = 100.0
"""A loss counts as no more than so many times the mean of the others."""

_UNCOUNTED = 512
"""First rows, which do not count: candidates differ by how often they refit, which says nothing of later rows."""

_FIRST = 1_024
"""Rows before the first decision."""

_FEWEST = 500
"""Rows that the slow sum decides by, at least; it decays a little."""

_QUICK, _SLOW = 500, 20_000
"""Rows after which a loss counts half."""

_DECAY = 2.0 ** (-ROWS_PER_DECISION / np.array([_QUICK, _SLOW, _SLOW]))
_WORTH_QUICK, _WORTH_SLOW = 0.05, 0.0025
_SURE_QUICK, _SURE_SLOW, _SURE_OF_LONGER = 2.0, 4.0, 1.0
_DOUBT, MOST_DOUBTS = 8.0, 2


@storable
@dataclass(frozen=True)
class HalfLifeScores:
    """Recent losses of the candidates; arrays hold the current half-life first.

    ``noted`` are the current models when the block began, None where there was none. ``waiting`` (2, k, m) are the
    losses of the last rows, as they came and under the models noted. ``sums`` (3, k) are the quick sum, a slow one of
    the same losses, and the slow one of losses under models noted; ``rows`` (3,) are how many rows count in each;
    ``spreads`` (2, k, k) are roots of sums of squares of differences in the first and in the last. ``left`` is the
    place of the half-life that the quick sum has decided against in the last decision, -1 if the slow one has made it;
    ``doubts`` is how many more of the quick sum's decisions were wrong than right, at least 0.
    """

    noted: tuple[Any, ...]
    waiting: Annotated[FloatArray, shape(2, "k", "m"), number]
    sums: Annotated[FloatArray, shape(3, "k"), number]
    rows: Annotated[FloatArray, shape(3), number]
    spreads: Annotated[FloatArray, shape(2, "k", "k")]
    left: Annotated[int, at_least(-1)] = -1
    doubts: Annotated[int, at_least(0), at_most(MOST_DOUBTS)] = 0

    def validate(self) -> None:
        _, k, m = self.waiting.shape
        require(len(self.noted) == k > self.left, f"noted and left: found {len(self.noted)} and {self.left}, k = {k}")
        require(m < ROWS_PER_DECISION, f"waiting: found {m} rows, expected less than {ROWS_PER_DECISION}")

    @classmethod
    def new(cls, k: int) -> HalfLifeScores:
        """Return the scores of so many candidates before the first row."""
        return cls((None,) * k, np.zeros((2, k, 0)), np.zeros((3, k)), np.zeros(3), np.zeros((2, k, k)))

    def after(self, losses: FloatArray) -> HalfLifeScores:
        """Return the scores after rows that have cost so much, (2, k, n)."""
        return replace(self, waiting=np.concatenate([self.waiting, losses], axis=2))

    def judged(self, n_learned: int) -> HalfLifeScores:
        """Return the scores with the losses of all buffered rows added to their sums."""
        n = self.waiting.shape[2]
        if not n or n_learned <= _UNCOUNTED:
            return self._emptied()
        with np.errstate(all="ignore"):
            groups = np.add.reduceat(_tamed(self.waiting), np.arange(0, n, _GROUP), axis=2)
            totals = groups.sum(axis=2)[[0, 0, 1]]
            spreads = np.hypot(_DECAY[::2, None, None] * self.spreads, _norms(groups[:, :, None] - groups[:, None]))
            sums, rows = _DECAY[:, None] * self.sums + totals, _DECAY * self.rows + n
        return replace(self._emptied(), sums=sums, rows=rows, spreads=spreads)

    def winner(self, half_lives: FloatArray, n_learned: int) -> tuple[int, bool]:
        """Return the position of the half-life to activate, 0 for the current one, and if the quick sum decided."""
        if n_learned < _FIRST:
            return 0, False
        with np.errstate(all="ignore"):
            lead = self.sums[:, :1] - self.sums
            sure = np.where(half_lives > half_lives[0], _SURE_OF_LONGER, _SURE_SLOW)
            slow = self._best(2, lead[2] / (sure * self.spreads[1, 0]), _WORTH_SLOW * self.sums[2, 0])
            slow = slow if self.rows[2] >= _FEWEST else (0, 0.0)
            usual = min(self.sums[0, 0], self.sums[1, 0] / self.rows[1] * self.rows[0])
            surplus = np.where(half_lives < half_lives[0], lead[0] / (_SURE_QUICK * self.spreads[0, 0]), 0.0)
            quick = self._best(0, surplus, _WORTH_QUICK * _DOUBT**self.doubts * usual)
        return (quick[0], True) if quick[1] > slow[1] else (slow[0], False)

    def _best(self, which: int, surplus: FloatArray, worth: Any) -> tuple[int, float]:
        """Return the position of the lowest cost in a sum, among those that lead by enough, and its surplus."""
        sums = self.sums[which]
        leads = (surplus > 1) & (sums[0] - sums > worth)
        place = int(np.where(leads, sums, np.inf).argmin()) if leads.any() else 0
        return place, float(surplus[place]) if place else 0.0

    def decided(self, is_quick: bool) -> HalfLifeScores:
        """Return the scores before one of its sums replaces the current half-life."""
        doubts = self.doubts
        if self.left >= 0:
            was_right = self.sums[2, self.left] > self.sums[2, 0]
            doubts = max(0, doubts - 1) if was_right else min(MOST_DOUBTS, doubts + 1)
        if not is_quick:
            return replace(self, left=-1, doubts=doubts)
        kept = np.array([1.0, 1.0, 0.0])
        sums, spreads = self.sums * kept[:, None], self.spreads * kept[1:, None, None]
        return replace(self, sums=sums, rows=self.rows * kept, spreads=spreads, left=0, doubts=doubts)

    def with_models(self, models: tuple[Any, ...]) -> HalfLifeScores:
        """Return the scores at the beginning of a block, with the current models."""
        return replace(self, noted=models)

    def with_winner(self, place: int) -> HalfLifeScores:
        """Return the scores after the candidate at this place has changed places with the current one."""
        order = np.arange(len(self.noted))
        order[[0, place]] = place, 0
        return self._permuted(order)

    def begun(self) -> HalfLifeScores:
        """Return the scores at the beginning of a block, with models that it has not noted."""
        return replace(self._emptied(), noted=(None,) * len(self.noted), left=-1)

    def _emptied(self) -> HalfLifeScores:
        return replace(self, waiting=self.waiting[..., :0])

    def _permuted(self, order: IntArray) -> HalfLifeScores:
        """Return the scores with candidates in another order."""
        return replace(
            self,
            noted=tuple(self.noted[i] for i in order),
            waiting=self.waiting[:, order],
            sums=self.sums[:, order],
            left=int(np.flatnonzero(order == self.left)[0]) if self.left >= 0 else -1,
            spreads=self.spreads[:, order][:, :, order],
        )


def _tamed(losses: FloatArray) -> FloatArray:
    """Return losses (2, k, m), those that are out of all proportion cut to a multiple of the mean of the others."""
    own = losses[0, 0]
    most = _MOST * (own.sum() - own.max()) / max(1, len(own) - 1)
    return np.minimum(losses, most) if 0 < most < np.inf else losses


def _norms(values: FloatArray) -> FloatArray:
    """Return roots of sums of squares along the last axis, whatever the magnitude of the values."""
    largest = np.abs(values).max(axis=-1)
    scale = np.where(largest > 0, largest, 1.0)
    return np.asarray(scale * np.sqrt(np.square(values / scale[..., None]).sum(axis=-1)))


@storable
@dataclass(frozen=True)
class HalfLifeSelection:
    """A learner with several half-lives: ``states`` holds the current candidate first."""

    states: tuple[StreamState, ...]
    scores: HalfLifeScores

    def validate(self) -> None:
        """Require candidates that have learned the same rows with different half-lives, and scores of each."""
        k = len(self.scores.noted)
        require(len(self.states) == k > 0, f"states: found {len(self.states)}, expected {k}")
        require_equal("half-lives", len(set(self.half_lives.tolist())), k)
        for state, reference in zip(self.states, self.scores.noted, strict=True):
            require(state.ordered, "states: found one of rows without order")
            require_equal("rows and settings of candidates", _learned_by(state), _learned_by(self.current))
            if reference is not None:
                state.validate_model(reference)

    @classmethod
    def of(cls, state: StreamState, half_lives: tuple[int, ...]) -> HalfLifeSelection:
        """Return the learner of this state and of one with each of these half-lives, before the first row."""
        states = state.recording(RECENT), *(_with_half_life(state, each) for each in half_lives)
        return cls(states, HalfLifeScores.new(len(states)))

    @property
    def current(self) -> StreamState:
        """The state with the current half-life."""
        return self.states[0]

    @property
    def half_lives(self) -> FloatArray:
        """The half-lives of all candidates."""
        return np.array([state.half_life for state in self.states])

    @property
    def within(self) -> str:
        """The decay of the rows."""
        return "a half-life"

    def map(self, change: Callable[[StreamState], StreamState]) -> HalfLifeSelection:
        """Return the learner with each of its states changed."""
        return replace(self, states=tuple(map(change, self.states)))

    def rows_to_cut(self) -> float:
        """Return how many rows may come before the next check of any candidate, or the next decision."""
        to_decision = ROWS_PER_DECISION - self.current.n_learned % ROWS_PER_DECISION
        return min(to_decision, *(state.rows_to_cut() for state in self.states))

    def snapshot(self, history: History | None) -> Snapshot:
        """Return what a problem reads of the current state."""
        return self.current.snapshot(history)

    def step(
        self, rows: Rows, history: History | None, answered: Answered | None = None
    ) -> tuple[HalfLifeSelection, StepInfo]:
        """Return the learner after one segment; after so many rows another half-life may become the current one."""
        former = [state.model if state.has_model else None for state in self.states]
        stepped = [step(state, rows, history, answered) for state in self.states]
        losses = [
            _compared(state, info, scored_by, reference, rows)
            for (state, info), scored_by, reference in zip(stepped, former, self.scores.noted, strict=True)
        ]
        in_time, info = stepped[0][0].refresh.in_time, stepped[0][1]
        states = tuple(
            state if state.refresh.in_time >= in_time else replace(state, refresh=replace(state.refresh, in_time=True))
            for state, _ in stepped
        )
        new = HalfLifeSelection(states, self.scores.after(np.stack(losses, axis=1)))
        if new.current.n_learned % ROWS_PER_DECISION:
            return new, info
        new, events = new._decided(history)
        return new, info._replace(events=info.events + events)

    def _decided(self, history: History | None) -> tuple[HalfLifeSelection, Events]:
        """Let another half-life become the current one if it has been better by enough: a change of the model."""
        n_learned, scores = self.current.n_learned, self.scores.judged(self.current.n_learned)
        if n_learned % ROWS_PER_REFERENCE == 0:
            scores = scores.with_models(tuple(state.model if state.has_model else None for state in self.states))
        new = replace(self, scores=scores)
        place, is_quick = scores.winner(self.half_lives, n_learned)
        if not place or not all(state.has_model for state in self.states[1:]):
            return new, ()
        old = self.current
        new = replace(new, scores=scores.decided(is_quick))._with_current(place)
        state, model = new.current, new.current.model
        data = state.snapshot(history)
        before, after = (state.problem.cost(each, data) for each in (old.model, model))
        rows = int(state.half_life) if state.half_life < math.inf else 0
        state, events = install(
            replace(state, model=old.model), model, (before, after), data, kind="half_life", rows=rows
        )
        return replace(new, states=(state, *new.states[1:])), events

    def _with_current(self, place: int) -> HalfLifeSelection:
        """Return the learner with the candidate at this place as the current one.

        What is known of the whole stream, whatever the half-life, stays in the first place.
        """
        if not place:
            return self
        states, old, new = list(self.states), self.states[0], self.states[place]
        states[0], states[place] = _in_place_of(new, old), _in_place_of(old, new)
        return HalfLifeSelection(tuple(states), self.scores.with_winner(place))

    def _in_order_of(self, half_lives: list[float]) -> HalfLifeSelection:
        """Return the learner with its candidates in this order."""
        new = self._with_current(self.half_lives.tolist().index(half_lives[0]))
        known = {state.half_life: place for place, state in enumerate(new.states)}
        order = [known[each] for each in half_lives]
        return HalfLifeSelection(tuple(new.states[i] for i in order), new.scores._permuted(np.array(order)))

    def refit(self, history: History | None, kind: str, **details: Any) -> tuple[HalfLifeSelection, Events]:
        """Return the learner with a model of the current half-life fitted now."""
        state, events = refit(self.current, history, kind, **details)
        return replace(self, states=(state, *self.states[1:])), events

    def merge(self, other: HalfLifeSelection, history: History | None) -> HalfLifeSelection:
        """Return the learner of the rows of both, with the half-life of the one with the larger ids."""
        later = self if self.current.last_id > other.current.last_id else other
        own = self._with_current(self.half_lives.tolist().index(later.current.half_life))
        theirs = other._in_order_of(own.half_lives.tolist())
        scores = (own if later is self else theirs).scores.begun()
        first, *others = map(merge, own.states, theirs.states)
        n = other.current.n_learned
        return HalfLifeSelection((first, *(refit(state, history, "merged", rows=n)[0] for state in others)), scores)

    def emptied(self) -> HalfLifeSelection:
        """Return the learner before the first row, with the longest half-life, except that the ids have been seen."""
        states = self._with_current(int(self.half_lives.argmax())).states
        return HalfLifeSelection(tuple(state.emptied() for state in states), HalfLifeScores.new(len(states)))

    def kept_rows(self, history: History | None) -> Iterator[Rows]:
        """Iterate over the rows that can be learned again, in the order of their ids, a block at a time."""
        return self.current.kept_rows(history)

    def check_forgettable(self, ids: Any, history: History | None) -> IntArray:
        """Return the ids as an array if rows can be forgotten, and these are theirs."""
        return self.current.check_forgettable(ids, history)


def _with_half_life(state: StreamState, half_life: int) -> StreamState:
    """Return a candidate like this state, which has learned nothing, with another half-life."""
    decay = ForwardDecay(half_life)
    return replace(state, decay=decay, max_step=decay.longest_step, record=None, monitor=None)


def _in_place_of(state: StreamState, other: StreamState) -> StreamState:
    """Return a state in the place of another one: with what is known of the whole stream there."""
    return replace(
        state,
        record=other.record,
        monitor=other.monitor,
        changes=other.changes,
        change_counts=other.change_counts,
        timings=other.timings,
    )


def _compared(state: StreamState, info: StepInfo, scored_by: Any, reference: Any, rows: Rows) -> FloatArray:
    """Return what the rows have cost, and what they cost under the reference model of a candidate, (2, n)."""
    assert info.scores is not None
    losses = under_reference = info.scores.losses
    if reference is not None and reference is not scored_by:
        under_reference = state.problem.losses(reference, rows.points, rows.targets)[0]
    with np.errstate(over="ignore"):
        return np.stack([losses, under_reference]) * rows.weights


def _learned_by(state: StreamState) -> tuple[Any, ...]:
    """Return what all candidates share."""
    sketch = state.sketch
    return state.n_learned, state.last_id, sketch.totals.n_rows, type(sketch), sketch.settings
