"""A model of the last rows alone: they are kept, and their sketch is computed anew at every check.

Nothing is ever subtracted, so no digits are lost however long the stream is, and the sketch at a check is, bit for
bit, one that has seen these rows alone. Checks come every quarter of a window at least, every sixteenth where a
refit is cheap; between two of them rows are added. So a row is added about five times, or seventeen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.answers import Answered
from batch2online.history import History
from batch2online.rows import Rows, all_ones, check_ascending, check_ids, check_width
from batch2online.schema import at_least, require, require_equal, storable
from batch2online.sketches.base import Snapshot
from batch2online.state import Events, StepInfo, StreamState, check, learn, merge, refit, score

CHECKS_PER_WINDOW, CHECKS_PER_WINDOW_MOMENTS = 4, 16
"""Refresh checks per window, at least; the latter for models that are fitted from moments."""


@storable
@dataclass(frozen=True)
class Window:
    """The last rows, and what each of them has cost when it came.

    ``losses`` holds arrays (2, n): the loss of rows, and the problem's second number.
    """

    size: Annotated[int, at_least(1)]
    parts: tuple[Rows, ...] = ()
    losses: tuple[FloatArray, ...] = ()
    checks: Annotated[int, at_least(1)] = CHECKS_PER_WINDOW

    def validate(self) -> None:
        check_ascending(self.parts)
        shapes = [(2, len(part)) for part in self.parts]
        require_equal("shapes of losses", [losses.shape for losses in self.losses], shapes)

    @classmethod
    def of(cls, size: object) -> Window | None:
        """Return an empty window of this size, or None for None; raise ValueError unless it is a number of rows."""
        if size is None:
            return None
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"window must be a positive number of rows or None, got {size!r}.")
        return cls(int(size))

    def after(self, rows: Rows, losses: FloatArray) -> Window:
        """Return the window with these rows as well."""
        own = Rows(rows.points.copy(), rows.targets.copy(), np.array(rows.weights), rows.ids.copy())
        return replace(self, parts=(*self.parts, own), losses=(*self.losses, losses))

    def trimmed(self) -> Window:
        """Return the window with no more rows than it is to hold."""
        excess = sum(map(len, self.parts)) - self.size
        parts, losses = list(self.parts), list(self.losses)
        while excess > 0:
            dropped = min(excess, len(parts[0]))
            parts[0], losses[0] = parts[0][dropped:], losses[0][:, dropped:]
            excess -= dropped
            if not len(parts[0]):
                del parts[0], losses[0]
        return replace(self, parts=tuple(parts), losses=tuple(losses))

    def emptied(self) -> Window:
        """Return a window of the same size without rows."""
        return replace(self, parts=(), losses=())

    def blocks(self, block: int) -> Iterator[Rows]:
        """Iterate over the rows a block of ids at a time, wherever they were cut as they came."""
        for part in self.parts:
            assert part.ids[0] // block == part.ids[-1] // block
        for _, group in groupby(self.parts, key=lambda rows: int(rows.ids[0]) // block):
            yield Rows.concatenate(list(group))

    def history(self, block: int) -> History | None:
        """Return the rows as a history; None if there are none."""
        if not self.parts:
            return None
        rows = self.parts[0]
        history = History(block, rows.points.shape[1], rows.targets.shape[1])
        return history.of(self.blocks(block))

    def joined(self, other: Window, block: int) -> Window:
        """Return the window of the last rows of both, by their ids, cut at blocks of ids."""
        if not self.parts or not other.parts:
            return self if self.parts else other
        rows = Rows.concatenate([*self.parts, *other.parts])
        losses = np.concatenate([*self.losses, *other.losses], axis=1)
        order = np.argsort(rows.ids, kind="stable")
        rows, losses = rows[order], losses[:, order]
        cuts = np.flatnonzero(np.diff(rows.ids // block)) + 1
        places = np.split(np.arange(len(rows)), cuts)
        parts = tuple(rows[p] for p in places)
        return replace(self, parts=parts, losses=tuple(losses[:, p] for p in places)).trimmed()

    def check_forgettable(self, ids: Any) -> IntArray:
        """Return the ids as an array if they are those of rows in the window."""
        known = [part.ids for part in self.trimmed().parts]
        return check_ids(ids, np.concatenate([np.empty(0, dtype=np.int64), *known]), "are not in the window")

    @property
    def total(self) -> FloatArray:
        """The loss of all rows, and the second number."""
        return np.sum([part.sum(axis=1) for part in self.losses], axis=0) if self.losses else np.zeros(2)

    @property
    def longest_step(self) -> int:
        """Largest number of rows between two checks."""
        return max(1, self.size // self.checks)


@storable
@dataclass(frozen=True)
class SlidingWindow:
    """A learner of the rows in a window.

    With ``keeps_history`` these rows are what a sketch or a problem may read again.
    """

    current: StreamState
    window: Window
    keeps_history: bool = False

    def validate(self) -> None:
        """Require a state of the rows in the window."""
        state, window = self.current, self.window
        require_equal("max_step", state.max_step, window.longest_step)
        require(state.decay is None, "decay: found one beside a window")
        require_equal("rows of the window", sum(map(len, window.parts)), state.sketch.totals.n_rows)
        check_width(window.parts, *state.shape)

    @classmethod
    def of(cls, state: StreamState, window: Window, keeps_history: bool) -> SlidingWindow:
        """Return the learner before the first row."""
        return cls(replace(state, max_step=window.longest_step).recording(window.size), window, keeps_history)

    @property
    def states(self) -> tuple[StreamState, ...]:
        """The one state that learns the rows."""
        return (self.current,)

    @property
    def within(self) -> str:
        """The decay of the rows."""
        return "the window"

    def map(self, change: Callable[[StreamState], StreamState]) -> SlidingWindow:
        """Return the learner with its state changed."""
        return replace(self, current=change(self.current))

    def rows_to_cut(self) -> float:
        """Return how many rows may come before the next check."""
        return self.current.rows_to_cut()

    @property
    def _history(self) -> History | None:
        return self.window.history(self.current.sketch.settings.block) if self.keeps_history else None

    def snapshot(self, history: History | None) -> Snapshot:
        """Return what a problem reads: the sketch and the rows that it is of."""
        return self.current.snapshot(self._history)

    def step(
        self, rows: Rows, history: History | None, answered: Answered | None = None
    ) -> tuple[SlidingWindow, StepInfo]:
        """Return the learner after one segment; at a check it goes over to a sketch of the rows in the window."""
        state, scores = score(self.current, rows, answered)
        losses, events = np.stack(scores if answered is None else answered.over(rows, *scores)), Events()
        window = self.window.after(rows, losses if all_ones(rows.weights) else losses * rows.weights)
        new = replace(self, current=learn(state, rows, scores), window=window)
        if new.rows_to_cut() == 0:
            new = new._slid()
            state, events = check(new.current, new._history)
            new = replace(new, current=state)
        return new, StepInfo(scores, events)

    def _slid(self) -> SlidingWindow:
        """Return the learner of the rows in the window alone."""
        window, state = self.window.trimmed(), self.current
        sketch = state.sketch.empty()
        for rows in window.blocks(sketch.settings.block):
            sketch = sketch.update(rows)
        loss, secondary = map(float, window.total)
        unscored = state.unscored.within(window.parts)
        state = replace(
            state,
            sketch=sketch,
            loss=loss,
            secondary_loss=secondary,
            late_loss=0.0,
            late_secondary_loss=0.0,
            unscored=unscored,
        )
        return replace(self, current=state, window=window)

    def refit(self, history: History | None, kind: str, **details: Any) -> tuple[SlidingWindow, Events]:
        """Return the learner with a model fitted now on the rows in the window."""
        new = self._slid()
        state, events = refit(new.current, new._history, kind, **details)
        return replace(new, current=state), events

    def merge(self, other: SlidingWindow, history: History | None) -> SlidingWindow:
        """Return the learner of the last rows of both."""
        state = merge(self.current, other.current)
        return replace(self, current=state, window=self.window.joined(other.window, state.sketch.settings.block))

    def emptied(self) -> SlidingWindow:
        """Return the learner before the first row, except that the ids have been seen."""
        return replace(self, current=self.current.emptied(), window=self.window.emptied())

    def kept_rows(self, history: History | None) -> Iterator[Rows]:
        """Iterate over the rows in the window, a block of ids at a time."""
        return self.window.blocks(self.current.sketch.settings.block)

    def check_forgettable(self, ids: Any, history: History | None) -> IntArray:
        """Return the ids as an array if they are those of rows in the window."""
        return self.window.check_forgettable(ids)
