"""The clustering coreset in bounded memory: seeds are drawn from the rows that are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.registry import storable
from batch2online.coresets import scores
from batch2online.coresets.antitone import Candidates
from batch2online.coresets.seed_scores import Seeded, SeedStatistics


@storable
class MovingSeeds(Seeded):
    """A coreset in bounded memory: seeds are drawn anew from the rows that are kept, whenever these are thinned.

    The inclusion probability of a row is the least it ever had. Costs and masses are estimated from the kept rows.
    """

    def _thin(self) -> None:
        candidates = self._candidates()
        self._reseed(_limited(self.statistics, candidates, self.constant) if len(self.seeds) else candidates)

    def _merge(self, other: Any) -> None:
        sides = [(self.statistics, self._candidates()), (other.statistics, other._candidates())]
        joined = Candidates.joined([_limited(known, rows, self.constant) for known, rows in sides])
        self._reseed(joined[np.argsort(joined.rows.ids, kind="stable")])

    def _reseed(self, candidates: Candidates) -> None:
        """Draw seeds from the candidates, each of which stands for 1 / limit rows, and thin them by the new scores."""
        weighted = replace(candidates.rows, weights=candidates.rows.weights / candidates.limits)
        chosen = scores.clustering_seeds(
            weighted.points, self.k, self.z, self.seed, weights=weighted.weights, ids=weighted.ids
        )
        self.seeds = weighted[chosen]
        empty = SeedStatistics.empty(self.seeds.points, self.k, self.z)
        self.statistics, of_weighted = empty.add(weighted)
        of_rows = of_weighted * candidates.limits  # scores are in proportion to weights
        self.parts, self.n_unthinned = [_within(candidates, self.constant * of_rows)], 0


def _limited(statistics: SeedStatistics, candidates: Candidates, constant: float) -> Candidates:
    """Return the candidates that present scores keep."""
    return _within(candidates, constant * statistics.scores(candidates.rows))


def _within(candidates: Candidates, probabilities: FloatArray) -> Candidates:
    """Return those that are kept; their inclusion probability never rises above the present one."""
    q = np.minimum(candidates.limits, probabilities)
    return replace(candidates, limits=q).within(q)
