"""Ridge leverage scores: the coreset of low-rank approximation (the paper's section 7)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.from_sums import ridge_moments
from batch2online.methods.low_rank.moments import RidgeMoments
from batch2online.rows import Rows
from batch2online.schema import at_least, require_equal, storable, stores
from batch2online.sketches.antitone import Deferred, Statistics
from batch2online.sketches.exact_sums import ExactGram
from batch2online.theory.bounds import ridge_leverage_sensitivity


@storable
@stores(statistics=RidgeMoments | None, rank=Annotated[int, at_least(1)], intercept=bool)
class RidgeLeverage(Deferred):
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
        As for every construction.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 8)) * [9, 7, 1, 1, 1, 1, 1, 1]
    >>> coreset = RidgeLeverage(2, coreset_size=500, random_state=0).add(rows).coreset()
    >>> 300 < len(coreset) < 520
    True
    """

    advice = (
        "Use fewer columns, for example those of sklearn.random_projection.SparseRandomProjection; or "
        "BatchToOnline(TruncatedSVD(k), coreset=coresets.Uniform), which keeps rows alone."
    )

    def validate(self) -> None:
        """Require moments of the rows."""
        if self.shape is not None:
            moments = self.statistics
            found = (moments.width, moments.intercept, moments.rank, moments.rows)
            expected = (self.shape[0], self.intercept, self.rank, self.n_rows)
            require_equal("shape and rows of moments", found, expected)

    def __init__(self, rank: int, *, intercept: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        if not isinstance(rank, int | np.integer) or rank < 1:
            raise ValueError(f"rank must be a positive integer, got {rank!r}.")
        self.rank = int(rank)
        self.intercept = bool(intercept)

    def _new_statistics(self, width: int, n_targets: int) -> tuple[Statistics, float, int]:
        total, dimension = 2 * self.rank + self.intercept, self.rank + self.intercept
        return RidgeMoments.empty(width, self.rank, self.intercept), total, dimension

    def statistics_size(self, width: int, n_targets: int) -> float:
        return (6.0 if self.intercept else 4.0) * (width + self.intercept) ** 2

    def settle_on_schedule(self) -> None:
        """Take the spectrum of the first rows, while all are at hand, from these rows."""
        if self.n_rows <= self.expected_size:
            rows = self._candidates().rows
            if len(rows) == self.n_rows:
                self.statistics = self.statistics.of_all(rows)
        self.settle()

    @property
    def adds_up(self) -> bool:
        return True

    def _summed(self, rows: Rows) -> tuple[FloatArray, ...]:
        return (rows.points,)

    def _from_sums(self, sums: ExactGram) -> Statistics:
        return ridge_moments(self.statistics, sums)

    def sensitivity(self, n: int) -> float:
        if not self.constant:  # no rows yet
            return 1.0
        return ridge_leverage_sensitivity(n, self.constant, self.rank, self.epsilon, intercept=self.intercept)

    def _settings(self) -> dict[str, object]:
        return super()._settings() | {"rank": self.rank, "intercept": self.intercept}
