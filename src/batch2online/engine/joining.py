"""Shards that are put together, and rows that are taken out again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any, Self

import numpy as np

from batch2online.drift.order_monitor import Monitor
from batch2online.engine.contest import Contest
from batch2online.engine.following import Following
from batch2online.numerics.threads import one_thread
from batch2online.record import Record
from batch2online.rows import Rows


class Joining(Following):
    """The part of the engine that merges and forgets."""

    width: int
    monitor: Monitor | None
    copy: Callable[[], Self]
    caught_up: Callable[[], Any]
    _process: Callable[..., None]
    _advance: Callable[[int], None]
    _score: Callable[[Rows], None]
    _count: Callable[[int], None]
    _refresh: Callable[..., None]
    _start_over: Callable[[], None]
    _rows_to_look: Callable[[], float]

    @one_thread()
    def merged(self, other: Any) -> Self:
        """Return an engine that has also seen what another one has, with a model solved afresh on all of it.

        Of competing half-lives, the one in force is that of the shard with the larger ids, and so is what they have
        cost lately. A window holds the last rows of both.
        """
        theirs, new = other.caught_up().copy(), self.copy()
        new.construction.flush(new._process)
        new._agree_with(theirs)
        new._join(theirs)
        for rival, others in zip(new.rivals, theirs.rivals, strict=True):
            rival._join(others)
        assert new.monitor is not None
        assert theirs.monitor is not None
        new.monitor = new.monitor.joined(theirs.monitor)
        records = [each.record for each in (new, theirs) if each.record is not None]
        new.record = reduce(Record.joined, records) if records else None
        new._refresh("merged", rows=theirs.n_learned)
        return new

    def _agree_with(self, other: Self) -> None:
        """Put the half-life of the later shard in force in both, and all others in the same order."""
        if self.contest is None or other.contest is None:
            return
        later = self if self.construction.next_id > other.construction.next_id else other
        half_life = later.half_life
        for engine in (self, other):
            engine._bring_into_force(half_life)
        known = {rival.half_life: place for place, rival in enumerate(other.rivals)}
        order = [known[rival.half_life] for rival in self.rivals]
        other.contest = other.contest.in_order(order)
        assert later.contest is not None
        self.contest = replace(later.contest, rivals=self.rivals).begun()

    def _join(self, other: Self) -> None:
        """Take in what one half-life of another engine has seen, up to a model of it all."""
        if self.construction.decay is not None and other.construction.decay is not None:
            self._advance(other.construction.decay.reference)
            other._advance(self.construction.decay.reference)
        self.construction.join(other.construction)
        self.n_learned += other.n_learned
        self.loss += other.loss
        self.second_loss += other.second_loss
        self.unscored = self.unscored.joined(other.unscored)
        if self.window is not None and other.window is not None:
            self.window = self.window.joined(other.window, self.construction.block)
        if self.monitor is None:  # a rival
            self._refresh("merged", rows=other.n_learned)

    def forgotten(self, ids: Any) -> Self:
        """Return what would be had the rows with these ids never come.

        The other rows are learned again in the order of their ids, so models, changes and losses are theirs alone. Of
        a window, these are the rows in it: what has left it before does not come back.
        """
        old = self.caught_up()
        new: Self = old.copy()
        unwanted = old._forgettable(ids)
        new._empty()
        with one_thread(self.width):
            for rows in old._kept_rows():
                new._learn_again(rows[~np.isin(rows.ids, unwanted)])
        new._refresh("forgotten", rows=len(np.unique(unwanted)))
        return new

    def _forgettable(self, ids: Any) -> Any:
        if self.window is not None:
            return self.window.check_forgettable(ids)
        history = self.construction.history
        return self.construction.check_forgettable(
            ids, np.empty(0, dtype=np.int64) if history is None else history.ids()
        )

    def _kept_rows(self) -> Any:
        window, construction = self.window, self.construction
        if window is not None:
            return window.blocks(construction.block)
        return () if construction.history is None else construction.history.blocks()

    def _empty(self) -> None:
        """Be what an engine is before the first row, except that the ids have been seen."""
        self._bring_into_force(max(engine.half_life for engine in (self, *self.rivals)))
        self.construction = self.construction.emptied()
        self.window = None if self.window is None else self.window.emptied()
        for rival in self.rivals:
            rival._empty()
        self.contest = None if self.contest is None else Contest.of(list(self.rivals))
        watches = self.monitor is not None
        self._start_over()
        self.monitor = self.monitor if watches else None

    def _learn_again(self, rows: Rows) -> None:
        """Process rows that have their ids already, cut where a refresh is due."""
        while len(rows):
            first = rows[: int(self._rows_to_look())]
            for engine in (self, *self.rivals):
                engine._score(first)
                engine.construction.take(first)
                engine._count(len(first))
            if self.contest is not None:
                self._compete(first)
            rows = rows[len(first) :]
