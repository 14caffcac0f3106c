"""Constructions whose scores never rise as rows are added: no history needed.

Such a construction keeps statistics of the rows seen and the rows that may still be in the coreset. Its scores are
*antitone*, so a row once dropped never returns and nothing else needs to be remembered.

A new construction supplies a :class:`Statistics` and one line in ``coresets/__init__.py``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray, IntArray, WordArray
from batch2online.rows import Rows, check_ascending, check_width, ones
from batch2online.sampling import exponents, kept, probabilities, weights_of
from batch2online.schema import Count, require, stores
from batch2online.sketches.base import Construction, Coreset
from batch2online.sketches.candidates import Candidates, copied
from batch2online.sketches.exact_sums import ExactGram
from batch2online.theory import sizes

SAFETY = 1 + 1e-6
"""Bounds are stretched by this factor, so that rounding never drops a point that an exact score keeps."""

_FEW = 1.5
"""So many times the expected size may be left after thinning by bounds alone, before scores are computed."""


_MANY = 4.0
"""Beyond so many times the expected size closer bounds come before scores, which for fewer rows takes longer."""

_MANY_PARTS = 16
"""In files a part takes more room than the few rows in it."""


class Statistics(Protocol):
    """What a construction knows of the rows seen. Immutable: adding returns a new object."""

    has_cheap_bounds: ClassVar[bool] = False  # cheaper than the scores themselves

    def add(self, rows: Rows) -> tuple[Self, FloatArray]:
        """Statistics with these rows, and cheap upper bounds of their scores, now and ever after."""

    def merged(self, other: Self) -> Self: ...

    def scaled(self, factor: float) -> Self:
        """Return the same of rows whose weights are all multiplied by a power of 4, exactly."""
        raise TypeError(f"{type(self).__name__} cannot be scaled, which half_life needs.")

    def settled(self) -> Self:
        """Return the same, before a refresh asks for much: a chance to compute once what is asked for often."""
        return self

    def sharpened(self) -> Self:
        """Return the same with bounds as close as they can be now, before they are asked for many rows."""
        return self

    def scores(self, rows: Rows) -> FloatArray:
        """Scores of rows that are among those added."""

    def bounds(self, rows: Rows) -> FloatArray:
        """Cheap upper bounds of these scores."""


@stores(
    statistics=Any,
    constant=float,
    expected_size=float,
    parts=list[Candidates],
    n_unthinned=Count,
    sums=ExactGram | None,
)
class Antitone(Construction):
    """Base of the constructions with antitone scores; parameters are those of :class:`Construction`."""

    _patience: ClassVar[float] = 2.0
    """So many times the expected size may candidates come in before all are thinned."""

    sums: ExactGram | None = None
    """Sums of all rows without rounding, where they were asked for before the first row."""

    _stores_targets: ClassVar[bool] = True
    """Whether the targets of candidates are those of their rows, and nothing besides."""

    _is_summing = False
    """Whether further rows are summed as well. If not, the first of them ends the sums."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.statistics: Any = None
        self.constant = 0.0
        self.expected_size = 0.0
        self.parts: list[Candidates] = []
        self.n_unthinned = 0

    def validate(self) -> None:
        """Require candidates that ascend and are as wide as the rows."""
        if self.shape is None:
            is_empty = self.statistics is None and not self.parts
            require(is_empty, f"shape: found none with {len(self.parts)} parts and statistics {self.statistics}")
            return
        is_positive = 0 < self.constant < math.inf and self.expected_size > 0
        require(is_positive, f"expected_size: found {self.expected_size}, with constant {self.constant}")
        require(self.parts, "parts: found none")
        parts, (width, n_targets) = [part.rows for part in self.parts], self.shape
        check_ascending(parts)
        check_width(parts, width, n_targets if self._stores_targets else None)
        found = {rows.targets.shape[1] for rows in parts if len(rows)}
        require(len(found) <= 1, f"targets: found {found} columns, expected the same in all parts")

    @abstractmethod
    def _new_statistics(self, width: int, n_targets: int) -> tuple[Statistics, float, int]:
        """Empty statistics for rows of this shape, a bound of the sum of scores, and the dimension of the problem."""

    def _begin(self, width: int, n_targets: int) -> None:
        self.statistics, total, dimension = self._new_statistics(width, n_targets)
        if not total:
            raise ValueError(f"{type(self).__name__} needs rows with at least one column.")
        self.constant = sizes.sampling_constant(self.coreset_size, total, dimension, self.epsilon)
        self.expected_size = self.constant * total
        self.parts = [Candidates(Rows.empty(width, n_targets), np.empty(0, dtype=np.uint64), np.empty(0))]
        self.n_unthinned = 0
        if self.sums is not None:
            self.sum_exactly()

    # -- the same bits whatever the order -------------------------------------------------------------

    def _summed(self, rows: Rows) -> tuple[FloatArray, ...] | None:
        """Return the columns whose second moments the statistics can be computed from; None if there are none."""
        return None

    def _from_sums(self, sums: ExactGram) -> Statistics:
        """Return the statistics as a function of exact sums; asked only of those that name columns to sum."""
        raise NotImplementedError(f"{type(self).__name__} has columns to sum and no statistics of the sums.")

    def _sum(self, rows: Rows) -> None:
        if self.sums is not None:
            parts = self._summed(rows) if self._is_summing else None
            self.sums = None if parts is None else self.sums.add(parts, rows.weights)

    def sum_exactly(self) -> None:
        assert self.shape is not None
        parts = self._summed(Rows.empty(*self.shape))
        self.sums = None if parts is None else ExactGram.empty(sum(part.shape[1] for part in parts) + 1)
        self._is_summing = True

    def sum_on(self) -> None:
        self._is_summing = True

    def thin(self) -> None:
        self._thin()

    def settle_exactly(self) -> None:
        if self.sums is None:
            return
        self.statistics, self._is_summing = self._from_sums(self.sums), False
        candidates = self._candidates()
        q = probabilities(self.statistics.scores(candidates.rows), self.constant * SAFETY)
        self.parts, self.n_unthinned = [candidates.within(q)], 0

    # -- inside ---------------------------------------------------------------------------------------

    def _coreset(self) -> Coreset:
        rows, weights = self.sample()
        targets = rows.targets[:, 0] if self.flat_targets else rows.targets
        return Coreset(rows.points, targets if rows.targets.shape[1] else None, weights, rows.ids)

    def sample(self) -> tuple[Rows, FloatArray]:
        """Return the rows that are in the coreset, and their weights there."""
        candidates, scores = self._scored()
        q = np.minimum(candidates.limits, self.constant * scores)
        keep = kept(sampling.inclusion_uniforms(candidates.words), q)
        rows, words = candidates.rows[keep], candidates.words[keep]
        exponent = exponents(q[keep], sampling.rounding_uniforms(words), self.epsilon)
        return rows, rows.weights * weights_of(exponent, self.epsilon)

    def _scored(self) -> tuple[Candidates, FloatArray]:
        """Return the rows that may be in the coreset, and their scores."""
        statistics, candidates = self.statistics, self._candidates()
        if len(candidates) > _MANY * self.expected_size:
            statistics = statistics.sharpened()
            candidates = self._not_ruled_out(statistics, candidates)
        return candidates, statistics.scores(candidates.rows)

    def scores_of_all(self) -> FloatArray:
        """Return the scores of all rows seen, by id; needs the history."""
        assert self.past is not None
        return self.statistics.scores(self.past.everything())  # type: ignore[no-any-return]

    def _merge(self, other: Any) -> None:
        if (self.sums is None) != (other.sums is None):  # what is lost must not depend on how the rest was summed
            self.settle_exactly()
            other = other.copy()
            other.settle_exactly()
        self.statistics = self.statistics.merged(other.statistics)
        self.sums = None if self.sums is None or other.sums is None else self.sums.merged(other.sums)
        joined = Candidates.joined([self._candidates(), other._candidates()])
        self.parts = [joined[np.argsort(joined.rows.ids, kind="stable")]]
        self._thin()

    def _rescale(self, factor: float) -> None:
        self.statistics = self.statistics.scaled(factor)
        self.sums = None if self.sums is None else self.sums.scaled(factor)
        self.parts = [part.scaled(factor) for part in self.parts]

    def settle(self) -> None:
        """Be ready for a refresh: what it will ask for is at hand."""
        self.statistics = self.statistics.settled()

    def copy(self) -> Self:
        """Return an independent copy: all parts are immutable but for the list of them."""
        twin = super().copy()
        twin.parts = list(self.parts)
        return twin

    def _absorb(self, rows: Rows) -> None:
        """Add one block: statistics, then the rows that may be in the coreset."""
        self._sum(rows)
        self.statistics, bounds = self.statistics.add(rows)
        words, few = self._chosen(self._words(rows.ids), bounds)
        self._add_candidates(Candidates(copied(rows) if len(few) == len(rows) else rows[few], words, ones(len(few))))

    def _add_candidates(self, candidates: Candidates) -> None:
        if len(self.parts) >= _MANY_PARTS:
            self.parts = [self._kept()]
        self.parts.append(candidates)
        self.n_unthinned += len(candidates)
        if self.n_unthinned > self._patience * self.expected_size:
            self._thin()

    def _chosen(self, words: WordArray, bounds: FloatArray) -> tuple[WordArray, IntArray]:
        """Return the words and places of new rows that upper bounds of their scores do not rule out."""
        if self.n_rows <= self.expected_size:
            return words, np.arange(len(words))
        return _within_mostly(words, bounds, self.constant * SAFETY, self._usual)

    def _words(self, ids: IntArray) -> WordArray:
        """Return the random words that rows of a block own."""
        first, last = int(ids[0]), int(ids[-1])
        span = range(first, last + 1) if last - first + 1 == len(ids) else ids
        return sampling.words(self.seed, sampling.SAMPLING, span)

    @property
    def _usual(self) -> float:
        """Few rows have larger inclusion probabilities."""
        rows = self.n_rows if self.decay is None else min(self.n_rows, self.effective_rows)
        return min(1.0, 4 * self.expected_size / rows)

    def _thin(self) -> None:
        """Drop candidates that present scores rule out, for good since scores never rise.

        Statistics stay as they are: they must not depend on when that happens.
        """
        statistics = self.statistics.sharpened()
        candidates = self._not_ruled_out(statistics, self._kept())
        if len(candidates) > _FEW * self.expected_size:
            q = probabilities(statistics.scores(candidates.rows), self.constant * SAFETY)
            candidates = candidates.within(q)
        self.parts, self.n_unthinned = [candidates], 0

    def _not_ruled_out(self, statistics: Statistics, candidates: Candidates) -> Candidates:
        """Without those that cheap bounds rule out, so that fewer scores are computed."""
        if not statistics.has_cheap_bounds:
            return candidates
        return candidates.within(statistics.bounds(candidates.rows) * (self.constant * SAFETY))

    def _candidates(self) -> Candidates:
        """All candidates in one piece; reading them leaves everything as it is."""
        return self._kept()

    def _kept(self) -> Candidates:
        return self.parts[0] if len(self.parts) == 1 else Candidates.joined(self.parts)


def _within_mostly(words: WordArray, scores: FloatArray, constant: float, usual: float) -> tuple[WordArray, IntArray]:
    """Return the words and places of rows that probabilities of ``constant * scores`` keep.

    Where few of these exceed ``usual``, only rows with a word below it or with a larger probability are looked at.
    """
    low = words <= sampling.word_below(usual)
    low |= scores > usual / constant
    chosen = np.flatnonzero(low)
    few = words[chosen]
    with np.errstate(over="ignore"):
        keep = np.flatnonzero(kept(sampling.inclusion_uniforms(few), constant * scores[chosen]))
    return few[keep], chosen[keep]


_USEFUL = 0.5
"""Share of the rows that coarse bounds leave, at most, for them to come before closer ones."""

_MANY_WAITING = 1 / 16
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
        if len(few) <= _MANY_WAITING * self.expected_size:
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
