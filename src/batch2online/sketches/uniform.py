"""Uniform sampling: every row counts for what it weighs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batch2online._types import FloatArray
from batch2online.rows import Rows
from batch2online.schema import Weight, require, storable, stores
from batch2online.sketches.antitone import Antitone, Statistics
from batch2online.sketches.exact_sums import ExactGram, exact_weight
from batch2online.theory.bounds import leverage_sensitivity


@storable
@dataclass(frozen=True)
class TotalWeight(Statistics):
    """The score of a row is its share of the total weight; 1/t where all weigh the same."""

    total: Weight

    def add(self, rows: Rows) -> tuple[TotalWeight, FloatArray]:
        new = TotalWeight(float(self.total + rows.weights.sum()))
        return new, new.scores(rows)

    def scaled(self, factor: float) -> TotalWeight:
        return TotalWeight(self.total * factor)

    def merged(self, other: TotalWeight) -> TotalWeight:
        return TotalWeight(self.total + other.total)

    def scores(self, rows: Rows) -> FloatArray:
        return np.asarray(rows.weights / self.total)

    bounds = scores


@storable
@stores(statistics=TotalWeight | None)
class Uniform(Antitone):
    """Every row is kept with probability ``min(1, size / t)``: a reservoir without state.

    >>> import numpy as np
    >>> coreset = Uniform(coreset_size=100, random_state=0).add(np.arange(10_000.0)[:, None]).coreset()
    >>> len(coreset), round(coreset.weights.sum())
    (85, 8479)
    """

    _patience = 0.5  # scores are at hand

    def validate(self) -> None:
        total = 0 if self.shape is None else self.statistics.total
        require((total > 0) == (self.n_rows > 0), f"statistics: found a weight of {total} for {self.n_rows} rows")

    @property
    def takes_any_rows(self) -> bool:
        return True

    def _new_statistics(self, width: int, n_targets: int) -> tuple[Statistics, float, int]:
        return TotalWeight(0.0), 1, 1

    @property
    def adds_up(self) -> bool:
        return True

    def _summed(self, rows: Rows) -> tuple[FloatArray, ...]:
        return (np.empty((len(rows), 0)),)

    def _from_sums(self, sums: ExactGram) -> Statistics:
        return TotalWeight(exact_weight(sums))

    def sensitivity(self, n: int) -> float:
        if not self.constant:  # no rows yet
            return 1.0
        return leverage_sensitivity(n, self.constant, self.expected_size / self.constant, self.epsilon)
