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

from dataclasses import dataclass, fields
from typing import Annotated, Any, Self

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.decay import ForwardDecay
from batch2online.engine.engine import Engine
from batch2online.engine.state import State
from batch2online.history import History
from batch2online.record import RECENT, Record
from batch2online.rows import Rows
from batch2online.schema import replace, shape, storable

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
    waiting: Annotated[FloatArray, shape(2, "k", "m")]
    sums: Annotated[FloatArray, shape(3, "k")]
    rows: Annotated[FloatArray, shape(3)]
    spreads: Annotated[FloatArray, shape(2, "k", "k")]
    left: int = -1
    doubts: int = 0

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
        return self.in_order(order)

    def begun(self) -> HalfLifeScores:
        """Return the scores at the beginning of a block, with models that it has not noted."""
        return replace(self._emptied(), noted=(None,) * len(self.noted), left=-1)

    def _emptied(self) -> HalfLifeScores:
        return replace(self, waiting=self.waiting[..., :0])

    def in_order(self, order: IntArray) -> HalfLifeScores:
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


_OF_STREAM = ("observers", "changes", "change_counts", "timings", "others", "half_lives")
"""What is known of the whole stream, whatever the half-life: it stays in the current state."""


@dataclass(frozen=True)
class HalfLifeSelection(Engine):
    """An engine with several half-lives beside none: ``others`` of the current state are the other candidates."""

    candidates: tuple[int, ...] = ()

    @classmethod
    def of(cls, engine: Engine, candidates: tuple[int, ...]) -> Self:
        """Return the engine that selects between these half-lives, and none."""
        known = {each.name: getattr(engine, each.name) for each in fields(Engine)}
        return cls(**known | {"observers": (Record(RECENT), *engine.observers[1:])}, candidates=candidates)

    @property
    def n_states(self) -> int:  # type: ignore[override]
        """States of a stream: one of each half-life, and one without."""
        return 1 + len(self.candidates)

    @property
    def forgetting(self) -> str:
        """How old rows are forgotten, in words."""
        return "a half-life"

    def new(self, history: History | None = None) -> State:
        state = super().new(history)
        others = tuple(replace(state, decay=ForwardDecay(each), observers=()) for each in self.candidates)
        return replace(state, others=others, half_lives=HalfLifeScores.new(1 + len(others)))

    def rows_to_check(self, state: State) -> int:
        to_decision = ROWS_PER_DECISION - state.n_learned % ROWS_PER_DECISION
        return min(to_decision, *(each.refresh.next_check - each.n_learned for each in _all(state)))

    def step(self, state: State, rows: Rows) -> State:
        """Return the state after one segment; after so many rows another half-life may become the current one."""
        history = self._kept(state, rows)
        states, losses = [], []
        for each, noted in zip(_all(state), state.half_lives.noted, strict=True):
            new, scores = self._stepped(each, rows, history)
            assert scores is not None
            compared = scores.losses
            if noted is not None and not (each.has_model and noted is each.model):
                compared = self.problem.losses(noted, rows.points, rows.targets)[0]
            with np.errstate(over="ignore"):
                losses.append(np.stack([scores.losses, compared]) * rows.weights)
            states.append(new)
        if states[0].refresh.in_time:
            states = [replace(each, refresh=replace(each.refresh, in_time=True)) for each in states]
        scores = state.half_lives.after(np.stack(losses, axis=1))
        new = replace(states[0], others=tuple(states[1:]), half_lives=scores)
        return new if new.n_learned % ROWS_PER_DECISION else self._selected(new)

    def _selected(self, state: State) -> State:
        """Let another half-life become the current one if it has been better by enough: a change of the model."""
        states, scores = _all(state), state.half_lives.judged(state.n_learned)
        if state.n_learned % ROWS_PER_REFERENCE == 0:
            scores = scores.with_models(tuple(each.model if each.has_model else None for each in states))
        place, is_quick = scores.winner(half_lives_of(state), state.n_learned)
        if not place or not all(each.has_model for each in state.others):
            return replace(state, half_lives=scores)
        new = _led_by(replace(state, half_lives=scores.decided(is_quick)), place)
        data = self.snapshot(new)
        costs = self.problem.cost(state.model, data), self.problem.cost(new.model, data)
        rows = 0 if new.decay is None else new.decay.half_life
        return self._replaced(replace(new, model=state.model), new.model, costs, data, kind="half_life", rows=rows)

    def merged(self, state: State, other: State) -> State:
        """Return the state of the rows of both, with the half-life of the one with the larger ids."""
        later = state if state.last_id > other.last_id else other
        mine = _led_by(state, half_lives_of(state).tolist().index(later.half_life))
        theirs = _led_by(other, half_lives_of(other).tolist().index(later.half_life))
        known = {each.half_life: each for each in _all(theirs)}
        first, *others = (super(HalfLifeSelection, self).merged(each, known[each.half_life]) for each in _all(mine))
        others = [
            self.refitted(replace(each, history=first.history), "merged", rows=other.n_learned) for each in others
        ]
        scores = mine.half_lives
        if later is other:
            order = [half_lives_of(theirs).tolist().index(each) for each in half_lives_of(mine).tolist()]
            scores = theirs.half_lives.in_order(np.array(order))
        return replace(first, others=tuple(others), half_lives=scores.begun())


def _all(state: State) -> tuple[State, ...]:
    """Return the states of all candidates, the current one first."""
    return (state, *state.others)


def half_lives_of(state: State) -> FloatArray:
    """Return the half-lives of all candidates, the current one first."""
    return np.array([each.half_life for each in _all(state)])


def _led_by(state: State, place: int) -> State:
    """Return the state with the candidate at this place as the current one."""
    if not place:
        return state
    others: list[State] = list(state.others)
    new, others[place - 1] = others[place - 1], state
    of_stream = {name: getattr(state, name) for name in _OF_STREAM}
    of_candidate = {name: getattr(new, name) for name in _OF_STREAM}
    others[place - 1] = replace(state, **of_candidate)
    scores = state.half_lives.with_winner(place)
    return replace(new, **of_stream | {"others": tuple(others), "half_lives": scores}, history=state.history)
