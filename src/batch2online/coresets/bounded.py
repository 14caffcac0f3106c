"""The clustering coreset in bounded memory: seeds are drawn from the rows that are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.core.registry import storable
from batch2online.core.rows import Rows
from batch2online.coresets.candidates import Candidates
from batch2online.coresets.race_draws import STAGES, coarse_words, first_of
from batch2online.coresets.seed_scores import Seeded, SeedStatistics
from batch2online.linalg.distances import power, squared_distances

_TOGETHER = 10
"""So many times the expected size may rows of joined shards be before seeds are drawn of them."""


@storable
class MovingSeeds(Seeded):
    """A coreset in bounded memory: seeds are drawn anew from the rows that are kept, whenever these are thinned.

    The inclusion probability of a row is the least it ever had. Costs and masses are estimated from the kept rows.
    Of shards that are joined seeds are drawn once, when they are asked for, and not for each of them.
    """

    _is_joined = False
    """Whether rows of several shards wait for seeds of them all. A file holds none such."""

    def _thin(self) -> None:
        candidates = self._candidates()
        self._reseed(_limited(self.statistics, candidates, self.constant) if len(self.seeds) else candidates)

    def _merge(self, other: Any) -> None:
        sides = [(self.statistics, self._candidates()), (other.statistics, other._candidates())]
        joined = Candidates.joined([_limited(known, rows, self.constant) for known, rows in sides])
        joined = joined[np.argsort(joined.rows.ids, kind="stable")]
        self.seeds = self.seeds[:0]
        self.statistics = SeedStatistics.empty(self.seeds.points, self.k, self.z)
        self.parts, self.n_unthinned, self._is_joined = [joined], len(joined), True
        if len(joined) > _TOGETHER * self.expected_size:
            self._reseed(joined)

    def settle(self) -> None:
        """Draw seeds of shards that were joined."""
        if self._is_joined:
            self._reseed(self._candidates())

    def _reseed(self, candidates: Candidates) -> None:
        """Draw seeds from the candidates, each of which stands for 1 / limit rows, and thin them by the new scores."""
        weighted = replace(candidates.rows, weights=candidates.rows.weights / candidates.limits)
        self.seeds = weighted[drawn_seeds(weighted, self.k, self.z, self.seed)]
        empty = SeedStatistics.empty(self.seeds.points, self.k, self.z)
        self.statistics, of_weighted = empty.add(weighted)
        of_rows = of_weighted * candidates.limits  # scores are in proportion to weights
        self.parts, self.n_unthinned = [_within(candidates, self.constant * of_rows)], 0
        self._is_joined = False


def drawn_seeds(rows: Rows, k: int, z: float, seed: int) -> IntArray:
    """Positions of the D^z seeds of these rows, as ``scores.clustering_seeds`` gives them in more time."""
    chosen: list[int] = []
    scale, squared = rows.weights, np.full(len(rows), np.inf)
    for stage in range(k):
        if stage % STAGES == 0:
            coarse = coarse_words(seed, rows.ids, stage // STAGES)
        place = first_of(seed, rows.ids, stage, coarse, scale)
        if place < 0:
            break
        chosen.append(place)
        np.minimum(squared, squared_distances(rows.points, rows.points[place : place + 1])[0], out=squared)
        scale = rows.weights * power(squared, z)
    return np.array(chosen, dtype=np.int64)


def _limited(statistics: SeedStatistics, candidates: Candidates, constant: float) -> Candidates:
    """Return the candidates that present scores keep."""
    return _within(candidates, constant * statistics.scores(candidates.rows))


def _within(candidates: Candidates, probabilities: FloatArray) -> Candidates:
    """Return those that are kept; their inclusion probability never rises above the present one."""
    q = np.minimum(candidates.limits, probabilities)
    return replace(candidates, limits=q).within(q)
