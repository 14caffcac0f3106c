"""Sketches whose scores never rise as rows are added: no history needed.

Such a sketch keeps statistics of the rows seen and its candidates, the rows that may still be in the coreset. Scores
are *antitone*: a row once dropped never returns, and nothing else needs to be stored.

A new sketch implements a :class:`Statistics`, see "Extend" in the documentation.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray, IntArray, WordArray
from batch2online.rows import Rows, ones
from batch2online.sampling import exponents, kept, probabilities, weights_of
from batch2online.schema import storable, stores
from batch2online.sketches.base import Coreset, RowSource, Sketch, SketchSettings, with_settings
from batch2online.sketches.candidates import Candidates, copied
from batch2online.theory import sizes

SAFETY = 1 + 1e-6
"""Bounds are stretched by this factor, so that rounding never drops a point that an exact score keeps."""

_FEW = 1.5
"""So many times the expected size may be left after thinning by bounds alone, before scores are computed."""

_MANY = 4.0
"""Beyond so many times the expected size closer bounds come before scores, which for fewer rows takes longer."""

CHECK_GROWTH = 1.1
"""With ``epsilon="auto"``, inclusion probabilities are lowered for good where rows have multiplied by this."""

_MANY_PARTS = 16
"""Beyond so many parts, joining them at every check and storing them would take longer than the rows in them do."""

_USEFUL = 0.5
"""Share of the rows that coarse bounds leave, at most, for them to come before closer ones."""

_MANY_LEFT = 1 / 16
"""Share of the expected size beyond which closer bounds follow coarse ones at once, not when candidates are thinned."""


class Statistics(Protocol):
    """What a sketch knows of the rows seen. Immutable: adding returns a new object."""

    has_cheap_bounds: ClassVar[bool] = False
    """Whether ``bounds`` cost less than ``scores``."""

    has_coarse_bounds: ClassVar[bool] = False
    """Whether ``grown`` and ``coarse_bounds`` are implemented: candidates are then chosen from many rows at a time."""

    def add(self, rows: Rows) -> tuple[Self, FloatArray]:
        """Return statistics with these rows, and cheap upper bounds of their scores, valid from now on."""

    def merged(self, other: Self) -> Self:
        """Return the statistics of the rows of both."""

    def scaled(self, factor: float) -> Self:
        """Return the same of rows whose weights are all multiplied by a power of 4, exactly."""
        raise TypeError(f"{type(self).__name__} cannot be scaled, which half_life needs.")

    def settled(self) -> Self:
        """Return the same before a refit; override it to compute once what a refit needs several times."""
        return self

    def sharpened(self) -> Any:
        """Return the same with bounds as close as they can be now, before they are computed for many rows."""
        return self

    def scores(self, rows: Rows) -> FloatArray:
        """Return the scores of rows that are among those added."""

    def bounds(self, rows: Rows) -> FloatArray:
        """Return cheap upper bounds of these scores."""

    def grown(self, rows: Rows) -> Self:
        """Return the statistics with these rows, without any bounds."""
        return self.add(rows)[0]

    def coarse_bounds(self, rows: Rows) -> FloatArray:
        """Return upper bounds of ``bounds``, in a few operations a column, of rows that are among those added."""
        return self.bounds(rows)

    @property
    def usual_coarse_bound(self) -> float:
        """About the mean of coarse bounds."""
        return 0.0


@storable
@dataclass(frozen=True)
class LastCheck:
    """Where the inclusion probabilities of an adaptive sketch were lowered last.

    Attributes
    ----------
    rows : float
        Effective number of rows then; 0 before the first check.
    block : int
        The block of ids of the last row added, -1 before the first row.
    dimension : int
        Dimension of the problem, on which the constant depends.
    """

    rows: float
    block: int
    dimension: int


@stores(
    statistics=Any,
    constant=float,
    parts=tuple[Candidates, ...],
    n_unthinned=int,
    last_check=LastCheck | None,
)
class AntitoneSketch(Sketch):
    """Base of the sketches with antitone scores: statistics of the rows seen, and candidates for the coreset.

    A sketch is *adaptive* (``epsilon="auto"``) if its constant c grows with the number t of rows. The inclusion
    probability of a row is then the least value of ``c(t) * score(t)`` at the checks since it came and now, so that a
    row dropped at a check never returns. Checks come between two blocks of ids, where rows have multiplied by
    ``CHECK_GROWTH``: they depend on the ids alone. ``constant`` is that of the next check, by which rows are thinned
    until then.
    """

    _patience: ClassVar[float] = 2.0
    """So many times the expected size may candidates come in before all are thinned."""

    _stores_targets: ClassVar[bool] = True
    """Whether the targets of candidates are those of their rows, and nothing besides."""

    _fresh: tuple[Candidates, ...] = ()
    """Rows that candidates were not chosen from yet. A file holds none."""

    def __init__(self, settings: SketchSettings) -> None:
        self.statistics: Any = None
        self.constant = 0.0
        self.parts: tuple[Candidates, ...] = ()
        self.n_unthinned = 0
        self.last_check: LastCheck | None = None
        super().__init__(settings)

    @abstractmethod
    def _new_statistics(self) -> tuple[Statistics, float, int]:
        """Return empty statistics, a bound of the sum of scores, and the dimension of the problem."""

    def _begin(self) -> None:
        self.statistics, total, dimension = self._new_statistics()
        if not total:
            raise ValueError(f"{type(self).__name__} needs rows with at least one column.")
        settings = self.settings
        if settings.is_adaptive:
            self.last_check = LastCheck(0.0, -1, dimension)
            self.constant = self.constant_at(settings.block)
        else:
            self.constant = sizes.sampling_constant(settings.coreset_size, total, dimension, settings.epsilon)
        self.settings = replace(settings, size=self.constant * total)
        self.parts, self.n_unthinned, self._fresh = (no_candidates(*settings.shape),), 0, ()

    # -- a constant that grows --------------------------------------------------------------------------

    def constant_at(self, rows: float) -> float:
        """Return the constant of an adaptive sketch after so many rows; it never falls."""
        assert self.last_check is not None
        return sizes.adaptive_constant(self.last_check.dimension, rows, self.settings.epsilon)

    @property
    def depends_on_order(self) -> bool:
        return self.last_check is not None

    def _n_checks(self, rows: float) -> float:
        """Return a bound of the number of checks up to so many rows, that of a reading included."""
        return 2 + min(rows / self.settings.block, math.log(max(rows, 1.0)) / math.log(CHECK_GROWTH))

    @property
    def current_constant(self) -> float:
        """The constant of the inclusion probabilities now."""
        if self.last_check is None:
            return self.constant
        return min(self.constant, self.constant_at(max(self.last_check.rows, self.totals.effective_rows)))

    def update(self, rows: Rows, gradient_norms: FloatArray | None = None) -> Self:
        if self.last_check is None:
            return super().update(rows, gradient_norms)
        block, last, new = int(rows.ids[0]) // self.settings.block, self.last_check, self.copy()
        if block != last.block and self.totals.effective_rows >= CHECK_GROWTH * last.rows and self.totals.n_rows:
            new.check_probabilities()
        assert new.last_check is not None
        new.last_check = replace(new.last_check, block=block)
        return super(AntitoneSketch, new).update(rows, gradient_norms)

    def check_probabilities(self) -> None:
        """Lower the inclusion probabilities to current ones for good, and the constant to that of the next check."""
        self.choose()
        self.parts, self.n_unthinned = (self._lowered(self.kept()),), 0
        self._await_next_check(self.totals.effective_rows)

    def _lowered(self, candidates: Candidates) -> Candidates:
        """Return the candidates that current scores keep, with their inclusion probabilities as limits."""
        constant, scores = self.current_constant, self.statistics.scores
        few = candidates.within(np.minimum(candidates.limits, constant * scores(candidates.rows)))
        # Last digits of a score can depend on the rows that are scored together: those that stay are always the same.
        return replace(few, limits=np.minimum(few.limits, constant * scores(few.rows)))

    def _await_next_check(self, rows: float) -> None:
        """Set the constant to that of the next check; effective row counts rise by at most one with each row."""
        assert self.last_check is not None
        self.last_check = replace(self.last_check, rows=max(self.last_check.rows, rows))
        constant = self.constant_at(CHECK_GROWTH * self.last_check.rows + self.settings.block)
        self.settings = replace(self.settings, size=self.settings.size / self.constant * constant)
        self.constant = constant

    def _merge_adaptive(self, other: Any) -> None:
        """Merge: a check of each part, and one of both."""
        assert self.last_check is not None
        theirs = other.copy()
        for part in (self, theirs):
            part.check_probabilities()
        last = theirs.last_check
        self.last_check = replace(
            self.last_check, rows=max(self.last_check.rows, last.rows), block=max(self.last_check.block, last.block)
        )
        self.totals = self.totals.merge(theirs.totals)
        self._await_next_check(self.totals.effective_rows)
        self.statistics = self.statistics.merged(theirs.statistics)
        joined = Candidates.joined([self.kept(), theirs.kept()])
        self.parts = (self._lowered(joined[np.argsort(joined.rows.ids, kind="stable")]),)

    # -- rows -------------------------------------------------------------------------------------------

    def _add(self, rows: Rows, gradient_norms: FloatArray | None) -> None:
        """Add one segment: statistics, then the rows that may be in the coreset."""
        if not self.statistics.has_coarse_bounds:
            self.statistics, bounds = self.statistics.add(rows)
            words, few = self._chosen(self._words(rows.ids), bounds)
            own = copied(rows) if len(few) == len(rows) else rows[few]
            self._add_candidates(Candidates(own, words, ones(len(few))))
            return
        self.statistics, words = self.statistics.grown(rows), self._words(rows.ids)
        block = self.settings.block
        if 4 * len(rows) >= block:
            self.choose()
            self._add_candidates(self._chosen_of(rows, words))
            return
        self._fresh = (*self._fresh, Candidates(copied(rows), words, ones(len(rows))))
        if len(self._fresh) >= _MANY_PARTS or 8 * sum(map(len, self._fresh)) >= block:
            self.choose()

    def _words(self, ids: IntArray) -> WordArray:
        """Return the random draws of rows of a block."""
        first, last = int(ids[0]), int(ids[-1])
        span = range(first, last + 1) if last - first + 1 == len(ids) else ids
        return sampling.words(self.settings.seed, sampling.SAMPLING, span)

    def choose(self) -> None:
        """Choose candidates from the rows that were not chosen from yet."""
        if self._fresh:
            fresh, self._fresh = Candidates.joined(list(self._fresh)), ()
            self._add_candidates(self._not_ruled_out_coarsely(fresh))

    def _chosen_of(self, rows: Rows, words: WordArray) -> Candidates:
        """Return those of new rows that may be in the coreset, in arrays of their own."""
        if self._usual == 1:
            return Candidates(copied(rows), words, ones(len(rows)))
        few_words, few = self._chosen_coarsely(rows, words)
        return Candidates(rows[few], few_words, ones(len(few)))

    def _not_ruled_out_coarsely(self, fresh: Candidates) -> Candidates:
        if self._usual == 1:  # bounds would rule out few of them now, and thinning more of them later
            return fresh
        return fresh[self._chosen_coarsely(fresh.rows, fresh.words)[1]]

    def _chosen_coarsely(self, rows: Rows, words: WordArray) -> tuple[WordArray, IntArray]:
        """Return draws and places of rows that bounds do not rule out: coarse ones, then closer ones."""
        statistics = self.statistics
        if self.constant * statistics.usual_coarse_bound > _USEFUL:
            return self._chosen(words, statistics.bounds(rows))
        few_words, few = self._chosen(words, statistics.coarse_bounds(rows))
        if len(few) <= _MANY_LEFT * self.settings.size:
            return few_words, few
        fewer_words, fewer = self._chosen(few_words, statistics.bounds(rows[few]))
        return fewer_words, few[fewer]

    def _chosen(self, words: WordArray, bounds: FloatArray) -> tuple[WordArray, IntArray]:
        """Return draws and places of new rows that upper bounds of their scores do not rule out."""
        if self.totals.n_rows <= self.settings.size:
            return words, np.arange(len(words))
        return _within_mostly(words, bounds, self.constant * SAFETY, self._usual)

    @property
    def _usual(self) -> float:
        """Few rows have larger inclusion probabilities."""
        return min(1.0, 4 * self.settings.size / min(self.totals.n_rows, self.totals.effective_rows))

    def _add_candidates(self, candidates: Candidates) -> None:
        if len(self.parts) >= _MANY_PARTS:
            self.parts = _fewer(self.parts)
        self.parts = (*self.parts, candidates)
        self.n_unthinned += len(candidates)
        if self.n_unthinned > self._patience * self.settings.size:
            self.thin()

    def thin(self) -> None:
        """Drop candidates that current scores rule out, for good since scores never rise.

        Statistics stay as they are: they must not depend on when that happens.
        """
        statistics = self.statistics.sharpened()
        candidates = self._not_ruled_out(statistics, self.kept())
        if len(candidates) > _FEW * self.settings.size:
            candidates = candidates.within(probabilities(statistics.scores(candidates.rows), self.constant * SAFETY))
        self.parts, self.n_unthinned = (candidates,), 0

    def keep_by_scores(self, candidates: Candidates) -> None:
        """Keep the candidates that current scores keep, in one piece."""
        q = probabilities(self.statistics.scores(candidates.rows), self.constant * SAFETY)
        self.parts, self.n_unthinned = (candidates.within(q),), 0

    def _not_ruled_out(self, statistics: Statistics, candidates: Candidates) -> Candidates:
        """Without those that cheap bounds rule out, so that fewer scores are computed."""
        if not statistics.has_cheap_bounds:
            return candidates
        return candidates.within(statistics.bounds(candidates.rows) * (self.constant * SAFETY))

    def candidates(self) -> Candidates:
        """All candidates in one piece; reading them leaves everything as it is."""
        if not self._fresh:
            return self.kept()
        return Candidates.joined([self.kept(), self._not_ruled_out_coarsely(Candidates.joined(list(self._fresh)))])

    def kept(self) -> Candidates:
        """Candidates chosen so far, in one piece."""
        return self.parts[0] if len(self.parts) == 1 else Candidates.joined(list(self.parts))

    def _merge(self, other: Any) -> None:
        if self.last_check is not None:
            self._merge_adaptive(other)
            return
        self.choose()
        self.statistics = self.statistics.merged(other.statistics)
        joined = Candidates.joined([self.candidates(), other.candidates()])
        self.parts = (joined[np.argsort(joined.rows.ids, kind="stable")],)
        self.thin()

    def _scale(self, factor: float) -> None:
        self.choose()
        self.statistics = self.statistics.scaled(factor)
        self.parts = tuple(part.scaled(factor) for part in self.parts)

    def thinned(self) -> Self:
        """Return the same sketch without candidates that current scores rule out."""
        if not self.totals.n_rows:
            return self
        new = self.copy()
        new.choose()
        new.thin()
        return new

    # -- reading ----------------------------------------------------------------------------------------

    def prepared(self, history: RowSource | None = None) -> Self:
        settled = self.statistics.settled()
        if settled is self.statistics:
            return self
        new = self.copy()
        new.statistics = settled
        return new

    def coreset(self, history: RowSource | None = None) -> Coreset:
        return self._coreset_of(*self.sample(history))

    def _coreset_of(self, rows: Rows, weights: FloatArray) -> Coreset:
        """Return the coreset of these rows; what is stored behind their targets is left out."""
        n_targets, targets = self.settings.shape[1], rows.targets
        if targets.shape[1] != n_targets:
            targets = targets[:, :n_targets].copy()
        flat = targets[:, 0] if self.settings.flat_targets else targets
        return Coreset(rows.points, flat if n_targets else None, weights, rows.ids)

    def sample(self, history: RowSource | None = None) -> tuple[Rows, FloatArray]:
        """Return the rows that are in the coreset, and their weights there."""
        candidates, scores = self._scored(history)
        q = np.minimum(candidates.limits, self.current_constant * scores)
        keep = kept(sampling.inclusion_uniforms(candidates.words), q)
        rows, words, epsilon = candidates.rows[keep], candidates.words[keep], self.settings.epsilon
        exponent = exponents(q[keep], sampling.rounding_uniforms(words), epsilon)
        return rows, rows.weights * weights_of(exponent, epsilon)

    def _scored(self, history: RowSource | None) -> tuple[Candidates, FloatArray]:
        """Return the rows that may be in the coreset, and their scores."""
        statistics, candidates = self.statistics, self.candidates()
        if len(candidates) > _MANY * self.settings.size:
            statistics = statistics.sharpened()
            candidates = self._not_ruled_out(statistics, candidates)
        return candidates, statistics.scores(candidates.rows)

    def with_size(self, size: float) -> Self:
        new = with_settings(self, size=size)
        new.constant = self.constant * (size / self.settings.size)
        return new

    def scores(self, rows: Rows) -> FloatArray:
        """Return the scores of rows that are among those seen."""
        return self.statistics.scores(rows)  # type: ignore[no-any-return]

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds: the candidates that current scores leave, whenever others were chosen."""
        chosen = self.copy()
        if self.statistics.has_coarse_bounds:
            chosen.choose()
            chosen.parts, chosen.n_unthinned = (chosen.kept(),), 0
            if self.totals.n_rows > self.settings.size:
                chosen.keep_by_scores(chosen.kept())
        return {name: value for name, value in vars(chosen).items() if not name.startswith("_")}


def _fewer(parts: tuple[Candidates, ...]) -> tuple[Candidates, ...]:
    """Return parts of which the last are joined: each before them is larger than all after it, so few are copied."""
    first, total = len(parts) - 1, len(parts[-1])
    while first and len(parts[first - 1]) <= 2 * total:
        first -= 1
        total += len(parts[first])
    return (*parts[:first], Candidates.joined(list(parts[first:])))


def no_candidates(width: int, n_targets: int) -> Candidates:
    """Return candidates of rows of this shape, of which there are none."""
    return Candidates(Rows.empty(width, n_targets), np.empty(0, dtype=np.uint64), np.empty(0))


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
