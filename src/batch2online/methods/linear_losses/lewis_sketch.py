"""Online Lewis weights: the coreset of Lp regression, without a history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.least_squares.moments import Moments
from batch2online.rows import Rows, check_ascending, check_width
from batch2online.schema import at_least, at_most, require_equal, storable, stores
from batch2online.sketches.antitone import AntitoneSketch, Statistics
from batch2online.sketches.base import RowSource, SketchSettings
from batch2online.sketches.builder import CoresetBuilder
from batch2online.sketches.candidates import Candidates, copied, scaled_rows

_TURNS, _ACCURACY = 60, 1e-4
"""Turns of the fixed-point iteration at most, and the largest change of a logarithm at which it ends."""

_LEAST = 1e-12
"""Least weight of a row: weights may be too large, and powers of them must be representable."""


@storable
@dataclass(frozen=True)
class LewisStatistics(Statistics):
    r"""Moments :math:`Q = \sum_i \omega_i^{1 - 2/p} a_i a_i^T` of the rows, each with its weight at arrival.

    The score of a row is :math:`(a^T Q^{-1} a)^{p/2}`, which falls as rows are added.
    """

    moments: Moments
    p: Annotated[float, at_least(1), at_most(4)]

    def add(self, rows: Rows) -> tuple[Self, FloatArray]:
        """Return statistics with the rows of a block, and their weights: the solution of the fixed-point equation."""
        own, turn = np.ones(len(rows)), 0
        while True:
            new = replace(self, moments=self.moments.add(self._weighted(rows, own)))
            next_own, turn = np.maximum(new.scores(rows), _LEAST), turn + 1
            if turn >= _TURNS or np.abs(np.log(next_own / own)).max(initial=0.0) <= _ACCURACY:
                break
            own = np.sqrt(own * next_own) if self.p > 3 else next_own  # steps of p = 4 do not shrink the error
        largest = float((next_own / own).max(initial=1.0))
        if largest > 1:  # weights must be no less than scores: scaled by this factor they are
            own = own * largest ** (max(1.0, 2 / self.p))
            new = replace(self, moments=self.moments.add(self._weighted(rows, own)))
        return new, own

    def merged(self, other: Self) -> Self:
        return replace(self, moments=self.moments.merged(other.moments))

    def scaled(self, factor: float) -> Self:
        return replace(self, moments=self.moments.scaled(factor ** (2 / self.p)))

    def scores(self, rows: Rows) -> FloatArray:
        return np.asarray(self.moments.scores(self._weighted(rows, np.ones(len(rows)))) ** (self.p / 2))

    bounds = scores

    def _weighted(self, rows: Rows, own: FloatArray) -> Rows:
        """Return rows as they count in the moments: a row of weight u is one of length ``u^(1/p)``."""
        return replace(rows, weights=np.asarray(rows.weights ** (2 / self.p) * own ** (1 - 2 / self.p)))


@storable
@stores(statistics=LewisStatistics, p=Annotated[float, at_least(1), at_most(4)], intercept=bool, open=Rows)
class LewisSketch(AntitoneSketch):
    """Moments of the complete blocks of ids, candidates of these, and all rows of the open block.

    Weights at arrival depend on the rows of the block, so a block is added as a whole: results depend neither on
    chunks nor on when models are refitted.
    """

    def __init__(self, settings: SketchSettings, p: float, intercept: bool) -> None:
        self.p, self.intercept = p, intercept
        self.open = Rows.empty(*settings.shape)
        super().__init__(settings)

    @property
    def depends_on_order(self) -> bool:
        return True

    def validate(self) -> None:
        """Require moments of the columns of the rows, and an open block after all others."""
        (width, n_targets), moments = self.settings.shape, self.statistics.moments
        expected = (width, n_targets, self.intercept, self.p)
        require_equal("moments", (moments.width, moments.n_targets, moments.intercept, self.statistics.p), expected)
        check_ascending([*(part.rows for part in self.parts), self.open])
        check_width([self.open], width, n_targets)
        require_equal("rows", moments.rows + len(self.open), self.totals.n_rows)

    def _new_statistics(self) -> tuple[Statistics, float, int]:
        width, n_targets = self.settings.shape
        columns = width + n_targets + self.intercept
        empty = LewisStatistics(Moments.empty(width, n_targets, self.intercept), self.p)
        return empty, max(1.0, 2 / self.p) * columns, columns

    def _begin(self) -> None:
        super()._begin()
        self.open = Rows.empty(*self.settings.shape)

    def _add(self, rows: Rows, gradient_norms: FloatArray | None) -> None:
        block = self.settings.block
        if len(self.open) and int(self.open.ids[0]) // block != int(rows.ids[0]) // block:
            self._seal()
        self.open = Rows.concatenate([self.open, copied(rows)]) if len(self.open) else copied(rows)

    def _seal(self) -> None:
        """Add the open block."""
        if not len(self.open):
            return
        rows, self.open = self.open, self.open[:0]
        self.statistics, weights = self.statistics.add(rows)
        words, few = self._chosen(self._words(rows.ids), weights)
        self._add_candidates(Candidates(rows[few], words, np.ones(len(few))))

    def _sealed(self) -> Self:
        if not len(self.open):
            return self
        new = self._copy()
        new._seal()
        return new

    def _merge(self, other: Any) -> None:
        self._seal()
        super()._merge(other._sealed())

    def _scale(self, factor: float) -> None:
        super()._scale(factor)
        self.open = scaled_rows(self.open, factor)

    def _scored(self, history: RowSource | None) -> tuple[Candidates, FloatArray]:
        return super(LewisSketch, self._sealed())._scored(history)

    def scores(self, rows: Rows) -> FloatArray:
        return super(LewisSketch, self._sealed()).scores(rows)

    def _parameters(self) -> dict[str, object]:
        return {"p": self.p, "intercept": self.intercept}


@storable
@stores(p=Annotated[float, at_least(1), at_most(4)], intercept=bool)
class LewisWeights(CoresetBuilder):
    r"""Rows are kept for Lp regression, :math:`\sum_i |a_i x - b_i|^p`, by online Lewis weights, without a history.

    At arrival a row of ``[1 | a | b]`` gets the weight :math:`\omega = (a^T Q^{-1} a)^{p/2}`, with the moments
    :math:`Q = \sum \omega^{1 - 2/p} a a^T` of the rows so far and of those of its block of ids. Its score is
    :math:`(a^T Q^{-1} a)^{p/2}` with Q of all rows: it never rises. For p up to 2 it bounds the row's share in the loss
    of any model; for p above 2 up to a common factor. In random order scores sum to about 2/p times the number of
    columns.

    Departs from Woodruff & Yasuda (SODA 2023), who fix the inclusion probability of a row when it comes: here it falls
    as rows are added, so the coreset has bounded size. The coreset depends on the order of rows.

    Parameters
    ----------
    p : float, default 1.0
        Power of the residuals, from 1 to 4.
    intercept : bool, default False
        Count a constant column.
    epsilon, coreset_size, random_state, first_id, keep_history
        As for every coreset.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_t(2, size=(20_000, 3))
    >>> y = X[:, 0] + rng.standard_t(2, size=20_000)
    >>> coreset = LewisWeights(1.0, coreset_size=500, random_state=0).add(X, y).coreset()
    >>> bool(abs(coreset.weights @ np.abs(coreset.points[:, 1]) / np.abs(X[:, 1]).sum() - 1) < 0.2)
    True
    """

    def __init__(self, p: float = 1.0, *, intercept: bool = False, **settings: Any) -> None:
        if not isinstance(p, int | float | np.number) or isinstance(p, bool) or not 1 <= p <= 4:
            raise ValueError(f"p must be between 1 and 4, got {p!r}.")
        super().__init__(**settings)
        self.p = float(p)
        self.intercept = bool(intercept)

    def _statistics_size(self, width: int, n_targets: int) -> float:
        return 16.0 * (width + n_targets + self.intercept) ** 2

    def _new_sketch(self, settings: SketchSettings) -> LewisSketch:
        return LewisSketch(settings, self.p, self.intercept)
