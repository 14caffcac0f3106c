"""Ridge leverage scores: the coreset of low-rank approximation (the paper's section 7)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from batch2online.engine.builder import CoresetBuilder
from batch2online.methods.low_rank.moments import RidgeMoments
from batch2online.schema import storable, stores
from batch2online.sketches.antitone import AntitoneSketch, Statistics
from batch2online.sketches.base import RowSource, SketchSettings
from batch2online.sketches.summed import Summed
from batch2online.theory.bounds import ridge_leverage_sensitivity, ridge_running_minimum_sensitivity


@storable
@stores(statistics=Summed, rank=int, intercept=bool)
class RidgeLeverageSketch(AntitoneSketch):
    """Moments of the rows, and candidates by their ridge leverage; see :class:`RidgeLeverage`."""

    def __init__(self, settings: SketchSettings, rank: int, intercept: bool) -> None:
        self.rank, self.intercept = rank, intercept
        super().__init__(settings)

    def _new_statistics(self) -> tuple[Statistics, float, int]:
        total, dimension = 2 * self.rank + self.intercept, self.rank + self.intercept
        return Summed(RidgeMoments.empty(self.settings.shape[0], self.rank, self.intercept)), total, dimension

    def prepared(self, history: RowSource | None = None) -> Self:
        """Return the sketch with the spectrum of the rows, of the first ones from the rows themselves."""
        if not 0 < self.totals.n_rows <= self.settings.size:
            return super().prepared(history)
        new, rows = self.copy(), self.candidates().rows
        if len(rows) == self.totals.n_rows:
            new.statistics = self.statistics.with_total(self.moments.of_all(rows))
        return super(RidgeLeverageSketch, new).prepared(history)

    @property
    def moments(self) -> RidgeMoments:
        """Moments of all rows."""
        moments: RidgeMoments = self.statistics.total
        return moments

    def sensitivity(self, n: int) -> float:
        rank, epsilon, intercept = self.rank, self.settings.epsilon, self.intercept
        if self.depends_on_order:
            constant, checks = self.constant_at(n), self._n_checks(n)
            return ridge_running_minimum_sensitivity(n, constant, rank, epsilon, checks, intercept=intercept)
        return ridge_leverage_sensitivity(n, self.constant, rank, epsilon, intercept=intercept)

    def parameters(self) -> dict[str, object]:
        return {"rank": self.rank, "intercept": self.intercept}


@storable
@stores(rank=int, intercept=bool)
class RidgeLeverage(CoresetBuilder):
    r"""Rows are kept in proportion to :math:`a_i^T (A^T A + \lambda I)^{-1} a_i`, :math:`\lambda = |A - A_k|_F^2 / k`.

    Scores sum to at most ``2 * rank`` and never rise as rows are added (Cohen, Musco & Musco 2017). With ``intercept``
    the score is :math:`1/n` plus that of the row less the mean: it stays the same if all rows are moved or scaled.

    Parameters
    ----------
    rank : int
        The rank k of the approximation.
    intercept : bool, default False
        Score rows for approximation around the mean: a constant column, without a penalty. Scores then sum to at most
        ``2 * rank + 1``.
    epsilon, coreset_size, random_state, first_id, keep_history
        As for every coreset.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 8)) * [9, 7, 1, 1, 1, 1, 1, 1]
    >>> coreset = RidgeLeverage(2, coreset_size=500, random_state=0).add(rows).coreset()
    >>> 300 < len(coreset) < 520
    True
    """

    can_adapt = True
    advice = (
        "Use fewer columns, for example those of sklearn.random_projection.SparseRandomProjection; or "
        "BatchToOnline(TruncatedSVD(k), coreset=coresets.Uniform), which keeps rows alone."
    )

    def __init__(self, rank: int, *, intercept: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        if not isinstance(rank, int | np.integer) or rank < 1:
            raise ValueError(f"rank must be a positive integer, got {rank!r}.")
        self.rank = int(rank)
        self.intercept = bool(intercept)

    def _statistics_size(self, width: int, n_targets: int) -> float:
        return (6.0 if self.intercept else 4.0) * (width + self.intercept) ** 2

    def _new_sketch(self, settings: SketchSettings) -> RidgeLeverageSketch:
        return RidgeLeverageSketch(settings, self.rank, self.intercept)
