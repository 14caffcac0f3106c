"""Constructions whose rows are chosen many at a time, when it is cheapest.

What a score is depends on statistics of all rows alone, and scores never rise. So it makes no difference to the coreset
when rows are looked at, as long as no row is let go that its score at that time would keep. Statistics grow with every
segment of rows; short segments wait until they are half a block together, and are then chosen from at once.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

from batch2online._types import FloatArray, IntArray, WordArray
from batch2online.rows import Rows, ones
from batch2online.sampling import probabilities
from batch2online.sketches.antitone import SAFETY, Antitone, Statistics
from batch2online.sketches.candidates import Candidates, copied

_USEFUL = 0.5
"""Share of the rows that coarse bounds leave, at most, for them to come before closer ones."""

_MANY = 1 / 16
"""Share of the expected size beyond which rows that coarse bounds leave are looked at more closely at once, not when
candidates are thinned."""


class GrowingStatistics(Statistics, Protocol):
    """Statistics that grow without a look at the scores of the rows that come."""

    def grown(self, rows: Rows) -> Self:
        """Return the statistics with these rows."""

    def coarse_bounds(self, rows: Rows) -> FloatArray:
        """Upper bounds of ``bounds``, in a few operations a column, of rows that are among those added."""

    @property
    def usual_coarse_bound(self) -> float:
        """About the mean of these."""


class Deferred(Antitone):
    """Base of the constructions by leverage; parameters are those of :class:`Construction`."""

    _fresh: tuple[Candidates, ...] = ()
    """Rows that were not chosen from yet. A file holds none."""

    def _begin(self, width: int, n_targets: int) -> None:
        super()._begin(width, n_targets)
        self._fresh = ()

    def _absorb(self, rows: Rows) -> None:
        """Add one segment: statistics, then the rows that may be in the coreset, now or with others."""
        self._sum(rows)
        self.statistics = self.statistics.grown(rows)
        if 4 * len(rows) >= self.block:
            self._choose()
            self._add_candidates(self._chosen_of(rows))
            return
        self._fresh = (*self._fresh, Candidates(copied(rows), self._words(rows.ids), ones(len(rows))))
        if 2 * sum(map(len, self._fresh)) >= self.block:
            self._choose()

    def _choose(self) -> None:
        """Choose from the rows that wait for it."""
        if self._fresh:
            fresh, self._fresh = Candidates.joined(list(self._fresh)), ()
            self._add_candidates(self._not_ruled_out_at_sight(fresh))

    def _chosen_of(self, rows: Rows) -> Candidates:
        """Return those of new rows that may be in the coreset, in arrays of their own."""
        words = self._words(rows.ids)
        if self.n_rows <= self.expected_size:
            return Candidates(copied(rows), words, ones(len(rows)))
        few_words, few = self._at_sight(rows, words)
        return Candidates(rows[few], few_words, ones(len(few)))

    def _not_ruled_out_at_sight(self, fresh: Candidates) -> Candidates:
        return fresh if self.n_rows <= self.expected_size else fresh[self._at_sight(fresh.rows, fresh.words)[1]]

    def _at_sight(self, rows: Rows, words: WordArray) -> tuple[WordArray, IntArray]:
        """Return the words and places of rows that bounds do not rule out: coarse ones, then closer ones."""
        statistics = self.statistics
        if self.constant * statistics.usual_coarse_bound > _USEFUL:
            return self._chosen(words, statistics.bounds(rows))
        few_words, few = self._chosen(words, statistics.coarse_bounds(rows))
        if len(few) <= _MANY * self.expected_size:
            return few_words, few
        fewer_words, fewer = self._chosen(few_words, statistics.bounds(rows[few]))
        return fewer_words, few[fewer]

    def _candidates(self) -> Candidates:
        known = super()._candidates()
        if not self._fresh:
            return known
        return Candidates.joined([known, self._not_ruled_out_at_sight(Candidates.joined(list(self._fresh)))])

    def thin(self) -> None:
        self._choose()
        super().thin()

    def settle_exactly(self) -> None:
        self._choose()
        super().settle_exactly()

    def _merge(self, other: Any) -> None:
        self._choose()
        super()._merge(other)

    def _rescale(self, factor: float) -> None:
        """Scale all weights; bounds that rest on rows of less weight now would soon rule nothing out."""
        self._choose()
        super()._rescale(factor)
        self.statistics = self.statistics.sharpened()

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds: the candidates that present scores leave, whenever others were chosen."""
        chosen = object.__new__(type(self))
        vars(chosen).update(vars(self), parts=list(self.parts))
        chosen._choose()
        if chosen.parts:
            candidates = chosen._kept()
            if self.n_rows > self.expected_size:
                q = probabilities(self.statistics.scores(candidates.rows), self.constant * SAFETY)
                candidates = candidates.within(q)
            chosen.parts, chosen.n_unthinned = [candidates], 0
        return {name: value for name, value in vars(chosen).items() if not name.startswith("_")}
