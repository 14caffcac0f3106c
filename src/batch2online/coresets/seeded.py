"""Sensitivity scores of clustering, given seeds; and what history-free clustering coresets do with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.core import randomness
from batch2online.core.registry import storable
from batch2online.core.rows import Rows, all_ones, ones
from batch2online.core.sampling import kept, probabilities
from batch2online.coresets import scores
from batch2online.coresets.antitone import SAFETY, Antitone, Candidates, Statistics
from batch2online.linalg.distances import membership, nearest, power


@storable
@dataclass(frozen=True)
class SeedStatistics(Statistics):
    r"""Cost and cluster masses of the rows seen under fixed seeds.

    The score of a row is :math:`w (|x - c|^z / cost + 1 / W_c) / (1 + k)`, c its nearest seed and W_c the weight of
    all rows nearest to c: it falls as rows are added. Without any seeds every score is infinite.
    """

    seeds: FloatArray
    k: int
    z: float
    cost: float
    masses: FloatArray

    @classmethod
    def empty(cls, seeds: FloatArray, k: int, z: float) -> Self:
        return cls(seeds, k, z, 0.0, np.zeros(len(seeds)))

    def add(self, rows: Rows) -> tuple[Self, FloatArray]:
        if len(self.seeds) == 0:
            return self, np.full(len(rows), np.inf)
        labels, losses = self._assigned(rows)
        weighted = not all_ones(rows.weights)
        masses = np.bincount(labels, rows.weights if weighted else None, len(self.seeds))
        cost = float(rows.weights @ losses if weighted else losses.sum())
        new = replace(self, cost=self.cost + cost, masses=self.masses + masses)
        return new, new._scores(losses, labels, rows.weights if weighted else None)

    def scores(self, rows: Rows) -> FloatArray:
        if len(self.seeds) == 0:
            return np.full(len(rows), np.inf)
        labels, losses = self._assigned(rows)
        return self._scores(losses, labels, None if all_ones(rows.weights) else rows.weights)

    bounds = scores

    def _assigned(self, rows: Rows) -> tuple[IntArray, FloatArray]:
        """The nearest seed of each row, and the distance to it to the power z."""
        labels, squared = nearest(rows.points, self.seeds)
        return labels, power(squared, self.z)

    def _scores(self, losses: FloatArray, labels: Any, weights: FloatArray | None) -> FloatArray:
        share = 1 / (1 + self.k)
        with np.errstate(divide="ignore"):  # seeds that nothing was nearest to
            of_seeds = share / self.masses
        result = losses * (share / self.cost if self.cost else 0.0)
        result += np.take(of_seeds, labels, mode="clip")
        return np.asarray(result if weights is None else result * weights)

    def merged(self, other: Self) -> Self:
        return replace(self, cost=self.cost + other.cost, masses=self.masses + other.masses)


class Seeded(Antitone):
    """Rows kept by their scores under given seeds, which do not move."""

    def __init__(self, seeds: Rows, k: int, z: float, **settings: Any) -> None:
        super().__init__(**settings)
        self.seeds, self.k, self.z = seeds, k, z

    def _new_statistics(self, width: int, n_targets: int) -> tuple[Statistics, float, int]:
        return SeedStatistics.empty(self.seeds.points, self.k, self.z), 1, self.k

    def _settings(self) -> dict[str, object]:
        return super()._settings() | {"k": self.k, "z": self.z}


@storable
@dataclass(frozen=True)
class AssignedStatistics(SeedStatistics):
    """The same, of rows reduced to three columns: the loss under the seeds, the nearest seed, the position."""

    def _assigned(self, rows: Rows) -> tuple[IntArray, FloatArray]:
        return rows.points[:, 1].astype(np.int64), rows.points[:, 0]

    def with_block(self, rows: Rows) -> tuple[Self, BoolArray, FloatArray]:
        """The statistics with rows in full; which seed is nearest to each of these (k, n), and their losses."""
        is_nearest, squared = membership(rows.points, rows.lengths, self.seeds)
        losses = power(squared, self.z)
        weighted = not all_ones(rows.weights)
        masses = [rows.weights[own].sum() if weighted else np.count_nonzero(own) for own in is_nearest]
        cost = float(rows.weights @ losses if weighted else losses.sum())
        return replace(self, cost=self.cost + cost, masses=self.masses + masses), is_nearest, losses

    def bounds_of(self, losses: FloatArray, weights: FloatArray) -> FloatArray:
        """Upper bounds of the scores of rows with these losses, whichever seeds are nearest to them."""
        share = 1 / (1 + self.k)
        least = self.masses.min(where=self.masses > 0, initial=np.inf)
        return np.asarray(weights * (losses * (share / self.cost if self.cost else 0.0) + share / least))

    def exceeding(self, level: float, rows: Rows, is_nearest: BoolArray, losses: FloatArray) -> BoolArray:
        """Mark every row whose score exceeds ``level``; some rows with a lower score may be marked as well.

        A score exceeds the level where the loss exceeds a threshold that depends on the cluster. Small clusters are
        compared with their own threshold. The large ones share the lowest of theirs, which saves a pass over the rows
        for each of them; the caller looks at the scores of marked rows anyway.
        """
        if self.cost == 0 or not all_ones(rows.weights):
            return self._scores(losses, is_nearest.argmax(axis=0), rows.weights) > level
        share = 1 / (1 + self.k)
        with np.errstate(divide="ignore"):  # seeds that nothing was nearest to
            bounds = (level - share / self.masses) * (self.cost / share)
        is_large = self.masses >= 2 * share / level
        found = losses > (bounds[is_large].min() if is_large.any() else np.inf)
        for seed in np.flatnonzero(~is_large & (self.masses > 0)):
            found |= is_nearest[seed] & (losses > bounds[seed])
        return np.asarray(found)


@storable
class FixedSeeds(Seeded):
    """The coreset of a history for the seeds of its race. Of a row it keeps the loss, the seed and the position."""

    def _new_statistics(self, width: int, n_targets: int) -> tuple[Statistics, float, int]:
        return AssignedStatistics.empty(self.seeds.points, self.k, self.z), 1, self.k

    def take_block(self, rows: Rows, position: int) -> None:
        """Add a block of the history, the first row of which is at this position there."""
        self.n_rows += len(rows)
        self.statistics, is_nearest, losses = self.statistics.with_block(rows)
        words = self._words(rows.ids)
        few = np.arange(len(rows))
        if self.n_rows > self.expected_size:
            low = words <= randomness.word_below(self._usual)
            low |= self.statistics.exceeding(self._usual / (self.constant * SAFETY), rows, is_nearest, losses)
            few = np.flatnonzero(low)
            bounds = self.statistics.bounds_of(losses[few], rows.weights[few])
            few = few[kept(randomness.inclusion_uniforms(words[few]), bounds * (self.constant * SAFETY))]
        labels = np.arange(len(is_nearest), dtype=np.float32) @ np.take(is_nearest, few, axis=1).astype(np.float32)
        columns = np.column_stack([losses[few], labels, position + few])
        candidates = Candidates(
            Rows(columns, np.empty((len(few), 0)), rows.weights[few], rows.ids[few]), words[few], ones(len(few))
        )
        scores = self.statistics.scores(candidates.rows)
        self._add_candidates(candidates.within(probabilities(scores, self.constant * SAFETY)))


@storable
class MovingSeeds(Seeded):
    """A coreset in bounded memory: seeds are drawn anew from the rows that are kept, whenever these are thinned.

    The inclusion probability of a row is the least it ever had. Costs and masses are estimated from the kept rows.
    """

    def _thin(self) -> None:
        self._reseed(_limited(self.statistics, self._candidates(), self.constant))

    def _merge(self, other: Any) -> None:
        sides = [self._with_tail(), other._with_tail()]
        joined = Candidates.joined([_limited(known, rows, self.constant) for known, rows in sides])
        self.tail = []
        self._reseed(joined[np.argsort(joined.rows.ids, kind="stable")])

    def _reseed(self, candidates: Candidates) -> None:
        """Draw seeds from the candidates, each of which stands for 1 / limit rows, and thin them by the new scores."""
        weighted = replace(candidates.rows, weights=candidates.rows.weights / candidates.limits)
        chosen = scores.clustering_seeds(
            weighted.points, self.k, self.z, self.seed, weights=weighted.weights, ids=weighted.ids
        )
        self.seeds = weighted[chosen]
        empty = SeedStatistics.empty(self.seeds.points, self.k, self.z)
        self.statistics = empty.add(weighted)[0]
        self.parts, self.n_unthinned = [_limited(self.statistics, candidates, self.constant)], 0


def _limited(statistics: SeedStatistics, candidates: Candidates, constant: float) -> Candidates:
    """The candidates that present scores keep, whose inclusion probability never exceeds the present one again."""
    q = np.minimum(candidates.limits, constant * statistics.scores(candidates.rows))
    return replace(candidates, limits=q).within(q)
