"""Coresets for any supervised model: rows count by how much they pull at the model in force.

Scores are fixed when a row comes, by models of earlier rows (:mod:`batch2online.sketches.pilot_scores`), and inclusion
probabilities only fall. So weights are unbiased, whatever the models were: the score of a row does not depend on its
own random word. The coreset is a pure function of the sequence and the seed, not of the set of rows. Shards that
are merged were scored by their own models: weights stay unbiased, but the coreset is not that of one stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray
from batch2online.rows import Rows, ones
from batch2online.schema import Count, Weight, above, require, require_equal, storable, stores
from batch2online.sketches.antitone import Antitone, Statistics
from batch2online.sketches.base import Coreset
from batch2online.sketches.candidates import Candidates
from batch2online.sketches.pilot_scores import Gauge

_LARGEST = 1e100
"""Gradients are no larger than this, so that sums of them are numbers."""


@storable
@dataclass(frozen=True)
class FixedScores(Statistics):
    """The score that a row was given when it came, its last target, over the weight of all rows.

    Up to ``size`` rows all are kept. The score is not a share of all scores: those of later rows come from models that
    depend on what was kept, and then a row would have a part in its own probability.
    """

    total: Weight
    rows: Count
    size: Annotated[float, above(0)]

    def add(self, rows: Rows) -> tuple[FixedScores, FloatArray]:
        new = FixedScores(self.total + float(rows.weights.sum()), self.rows + len(rows), self.size)
        return new, new.scores(rows)

    def scaled(self, factor: float) -> FixedScores:
        return FixedScores(self.total * factor, self.rows, self.size)

    def merged(self, other: FixedScores) -> FixedScores:
        return FixedScores(self.total + other.total, self.rows + other.rows, min(self.size, other.size))

    def scores(self, rows: Rows) -> FloatArray:
        if self.rows <= self.size:
            return np.full(len(rows), np.inf)
        return np.asarray(rows.weights * rows.targets[:, -1] / self.total)

    bounds = scores


@storable
@stores(
    statistics=FixedScores | None, labels=bool, leverage=bool, gauge=Gauge | None, largest_size=int | None, growths=int
)
class PilotSampling(Antitone):
    """Rows are kept by how much they pull at the model in force, how far out they lie, and all alike.

    Parameters
    ----------
    labels : bool, default False
        Whether targets are codes of classes: each class then has an indicator in the leverage.
    leverage : bool, default True
        Whether rows are numbers whose leverage counts; rows of more than 300 columns are scored without it.
    largest_size : int or None
        Up to this many rows the coreset may grow where an engine finds that models gain by it; None is not at all.
    epsilon, coreset_size, random_state, first_id, keep_history, half_life
        As for every construction. All rows are kept while they are no more than the size.

    Notes
    -----
    An engine tells the construction how large the gradients of rows are (:meth:`expect`), and of each model that comes
    into force (:meth:`measure`). Without one all rows score the same.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(5_000, 3))
    >>> coreset = PilotSampling(coreset_size=500, random_state=0).add(rows, rows[:, 0]).coreset()
    >>> 400 < len(coreset) < 600
    True
    """

    wants_sizes: ClassVar[bool] = True
    needs_no_order: ClassVar[bool] = False
    _sizes: FloatArray | None = None
    _patience = 0.5  # scores are at hand

    _stores_targets = False  # a score stands behind them

    def validate(self) -> None:
        """Require a positive score of each candidate beside its targets."""
        if self.shape is None:
            return
        (width, n_targets), statistics, gauge = self.shape, self.statistics, self.gauge
        require(self.growths >= 0, f"growths: found {self.growths}, expected at least 0")
        sizes = (self.n_rows, self.expected_size, self.expected_size)
        require_equal("rows and size of statistics", (statistics.rows, statistics.size, self.constant), sizes)
        require(n_targets == 1 or not self.labels, f"labels: found {n_targets} targets, expected 1")
        if gauge is not None:
            own = len(gauge.classes) if self.labels else n_targets
            require_equal("columns of the gauge", gauge.frame.n_columns, 1 + width + own)
            require(self.labels or not len(gauge.classes), f"classes: found {gauge.classes}, expected none")
        for part in self.parts:
            require_equal("targets of candidates", part.rows.targets.shape[1], n_targets + 1)
            require((part.rows.targets[:, -1] > 0).all(), "scores of candidates: found one that is not positive")
        held = sum(map(len, self.parts))
        require(not self.is_complete or held == self.n_rows, f"parts: found {held} rows, expected {self.n_rows}")

    def __init__(
        self, *, labels: bool = False, leverage: bool = True, largest_size: int | None = None, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.largest_size = None if largest_size is None else int(largest_size)
        self.growths = 0
        self.labels = bool(labels)
        self.leverage = bool(leverage)
        self.gauge: Gauge | None = None

    @property
    def takes_any_rows(self) -> bool:
        return not self.leverage

    @property
    def is_complete(self) -> bool:
        """Whether the coreset has held all rows ever since, each as it came."""
        return bool(self.n_rows <= self.expected_size and not self.growths)

    @property
    def can_grow(self) -> bool:
        return self.largest_size is not None and self.expected_size < self.largest_size

    def _new_statistics(self, width: int, n_targets: int) -> tuple[Statistics, float, int]:
        return FixedScores(0.0, 0, 0.0), 1.0, width + n_targets + 1

    def _begin(self, width: int, n_targets: int) -> None:
        super()._begin(width, n_targets)
        self.gauge, self._sizes, self.growths = None, None, 0
        self.parts = [Candidates(Rows.empty(width, n_targets + 1), np.empty(0, dtype=np.uint64), np.empty(0))]
        self.statistics = FixedScores(0.0, 0, self.expected_size)

    # -- rows come ------------------------------------------------------------------------------------

    def expect(self, sizes: FloatArray | None) -> None:
        """Hear how large the gradients of the next rows are under the model in force; None where there is none."""
        self._sizes = sizes

    def _absorb(self, rows: Rows) -> None:
        sizes, self._sizes = self._sizes, None
        scores = np.ones(len(rows))
        if self.gauge is not None and sizes is not None:
            scores, self.gauge = self.gauge.scored(rows, np.minimum(sizes, _LARGEST), labels=self.labels)
        super()._absorb(_with_scores(rows, scores))

    # -- models come into force ------------------------------------------------------------------------

    def measure(self, sizes_of: Callable[[Coreset], FloatArray]) -> None:
        """Score the rows that will come by a new model; as long as all rows are kept, those that have come as well.

        ``sizes_of`` gives the sizes of the gradients of rows under it.
        """
        rows, weights = self.sample()
        if not len(rows):
            return
        own, sizes = self._bare(rows), np.minimum(sizes_of(self._coreset_of(rows, weights)), _LARGEST)
        certain = 4 * self.statistics.total / self.expected_size
        self.gauge = Gauge.of(own, weights, sizes, labels=self.labels, leverage=self.leverage, certain=certain)
        if self.is_complete:  # nothing has been dropped yet, so nothing depends on former scores
            scores, _ = self.gauge.scored(own, sizes, labels=self.labels)
            words = self._candidates().words
            self.parts, self.n_unthinned = [Candidates(_with_scores(own, scores), words, ones(len(words)))], 0

    # -- the size ---------------------------------------------------------------------------------------

    def grow(self) -> None:
        """Double the size, up to the largest.

        The decision may rest on models of the coreset, so on which rows are in it, but on no more of their words: of
        a row that is in, the probability never rises above the present one, and its weight is rounded anew by another
        word. Given all that happened, the word of a row that is in is uniform below its probability; so weights stay
        unbiased. When the rows have grown as much as the size has, the coreset is as if it had always been as large.
        """
        if not self.is_complete:
            self.growths += 1
            self.parts, self.n_unthinned = [self._limited()], 0
        size = min(2 * self.expected_size, float(self.largest_size or 0))
        self.constant = self.expected_size = size
        self.statistics = replace(self.statistics, size=size)

    def _limited(self) -> Candidates:
        """Return the rows that are in the coreset, with their probabilities as limits, and words to round by anew."""
        candidates, scores = self._scored()
        q = np.minimum(candidates.limits, self.constant * scores)
        rest = replace(candidates, limits=q).within(q)
        fresh = sampling.words_of(self.seed, sampling.SAMPLING, rest.rows.ids, page=self.growths)
        return replace(rest, words=sampling.with_rounding(rest.words, fresh))

    # -- reading, merging -------------------------------------------------------------------------------

    def _bare(self, rows: Rows) -> Rows:
        """Return candidates without their scores."""
        return Rows(rows.points, rows.targets[:, :-1], rows.weights, rows.ids)

    def _coreset(self) -> Coreset:
        return self._coreset_of(*self.sample())

    def _coreset_of(self, rows: Rows, weights: FloatArray) -> Coreset:
        targets = rows.targets[:, :-1].copy()
        flat = targets[:, 0] if self.flat_targets else targets
        return Coreset(rows.points, flat if targets.shape[1] else None, weights, rows.ids)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_sizes"}

    def scores_of_all(self) -> FloatArray:
        """Refuse: scores belong to the time when a row came, and are kept for the rows of the coreset alone."""
        raise ValueError("PilotSampling knows the scores of the rows in the coreset alone.")

    def _merge(self, other: Any) -> None:
        self.constant = self.expected_size = min(self.constant, other.constant)
        self.growths = max(self.growths, other.growths)
        super()._merge(other)

    def _rescale(self, factor: float) -> None:
        super()._rescale(factor)
        self.gauge = None if self.gauge is None else self.gauge.scaled(factor)

    def _settings(self) -> dict[str, object]:
        return super()._settings() | {
            "labels": self.labels,
            "leverage": self.leverage,
            "largest_size": self.largest_size,
        }


def _with_scores(rows: Rows, scores: FloatArray) -> Rows:
    return Rows(rows.points, np.column_stack([rows.targets, scores]), rows.weights, rows.ids)
