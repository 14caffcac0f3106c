"""The clustering coreset of a history: scores under the seeds of its race, of rows that all stay at hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.core import randomness
from batch2online.core.registry import storable
from batch2online.core.rows import Rows, all_ones, ones
from batch2online.core.sampling import kept, probabilities
from batch2online.coresets.antitone import SAFETY, Statistics
from batch2online.coresets.candidates import Candidates
from batch2online.coresets.seed_scores import Seeded, SeedStatistics
from batch2online.linalg.distances import membership, power


@storable
@dataclass(frozen=True)
class AssignedStatistics(SeedStatistics):
    """The same, of rows reduced to three columns: the loss under the seeds, the nearest seed, the position."""

    def _assigned(self, rows: Rows) -> tuple[IntArray, FloatArray]:
        return rows.points[:, 1].astype(np.int64), rows.points[:, 0]

    def with_block(self, rows: Rows) -> tuple[Self, BoolArray, FloatArray]:
        """Return the statistics with rows in full; which seed is nearest to each of these (k, n), and their losses."""
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
