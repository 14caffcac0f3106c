"""Sensitivity scores of clustering, given seeds."""

from __future__ import annotations

import copy
import math
import os
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from batch2online import sampling
from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.engine.builder import CoresetBuilder
from batch2online.history import History
from batch2online.methods.clustering.race import STAGES, Race, coarse_words, first_of
from batch2online.numerics.distances import membership, nearest, power, squared_distances
from batch2online.rows import Rows, all_ones, ones
from batch2online.sampling import exponents, kept, probabilities, weights_of
from batch2online.schema import shape, storable, stores
from batch2online.sketches.antitone import SAFETY, AntitoneSketch, Statistics
from batch2online.sketches.base import Coreset, RowSource, Sketch, SketchSettings, SketchTotals
from batch2online.sketches.candidates import Candidates
from batch2online.storage.disk_history import DiskHistory, scratch
from batch2online.theory import bounds, sizes
from batch2online.validation import LARGEST


@storable
@dataclass(frozen=True)
class SeedStatistics(Statistics):
    r"""Cost and cluster masses of the rows seen under fixed seeds.

    The score of a row is :math:`w (|x - c|^z / cost + 1 / W_c) / (1 + k)`, c its nearest seed and W_c the weight of
    all rows nearest to c: it falls as rows are added. Without any seeds every score is infinite.
    """

    seeds: Annotated[FloatArray, shape("n", "d")]
    k: int
    z: float
    cost: float
    masses: Annotated[FloatArray, shape("n")]

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
        return new, new.scores_of(losses, labels, rows.weights if weighted else None)

    def scores(self, rows: Rows) -> FloatArray:
        if len(self.seeds) == 0:
            return np.full(len(rows), np.inf)
        labels, losses = self._assigned(rows)
        return self.scores_of(losses, labels, None if all_ones(rows.weights) else rows.weights)

    bounds = scores

    def _assigned(self, rows: Rows) -> tuple[IntArray, FloatArray]:
        """Return the nearest seed of each row, and the distance to it to the power z."""
        labels, squared = nearest(rows.points, self.seeds)
        return labels, power(squared, self.z)

    def scores_of(self, losses: FloatArray, labels: IntArray, weights: FloatArray | None) -> FloatArray:
        share = 1 / (1 + self.k)
        with np.errstate(divide="ignore"):  # seeds that nothing was nearest to
            of_seeds = share / self.masses
        result = losses * (share / self.cost if self.cost else 0.0)
        result += np.take(of_seeds, labels, mode="clip")
        return np.asarray(result if weights is None else result * weights)

    def scaled(self, factor: float) -> Self:
        return replace(self, cost=self.cost * factor, masses=self.masses * factor)

    def merged(self, other: Self) -> Self:
        return replace(self, cost=self.cost + other.cost, masses=self.masses + other.masses)


@stores(seeds=Rows, k=int, z=float)
class SeededSketch(AntitoneSketch):
    """Rows kept by their scores under given seeds, which do not move."""

    _stores_targets = False

    def __init__(self, settings: SketchSettings, seeds: Rows, k: int, z: float) -> None:
        self.seeds, self.k, self.z = seeds, k, z
        super().__init__(settings)

    def _new_statistics(self) -> tuple[Statistics, float, int]:
        return SeedStatistics.empty(self.seeds.points, self.k, self.z), 1, self.k

    def constant_at(self, rows: float) -> float:
        return sizes.adaptive_clustering_size(self.k, rows, self.settings.epsilon)

    def parameters(self) -> dict[str, object]:
        return {"k": self.k, "z": self.z}


_TOGETHER = 10
"""So many times the expected size may rows of joined shards be before seeds are drawn of them."""


@storable
@stores(statistics=SeedStatistics)
class MovingSeeds(SeededSketch):
    """A coreset in bounded memory: seeds are drawn anew from the rows that are kept, whenever these are thinned.

    The inclusion probability of a row is the least it ever had. Costs and masses are estimated from the kept rows.
    Of shards that are joined seeds are drawn once, when they are asked for, and not for each of them.
    """

    _is_joined = False
    """Whether rows of several shards wait for seeds of them all. A file holds none such."""

    def thin(self) -> None:
        candidates = self.candidates()
        self.reseed(_limited(self.statistics, candidates, self.constant) if len(self.seeds) else candidates)

    def check_probabilities(self) -> None:
        """Lower the inclusion probabilities, under the seeds so far and under new ones."""
        limited = _limited(self.statistics, self.candidates(), self.current_constant)
        self._await_next_check(self.totals.effective_rows)
        self.reseed(limited)

    def _merge(self, other: Any) -> None:
        sides = [(side.statistics, side.candidates(), side.current_constant) for side in (self, other)]
        joined = Candidates.joined([_limited(*side) for side in sides])
        if self.last_check is not None:
            last, totals = max(self.last_check, other.last_check, key=lambda one: one.block), self.totals
            self.last_check = replace(last, rows=max(self.last_check.rows, other.last_check.rows))
            self._await_next_check(totals.merge(other.totals).effective_rows)
        joined = joined[np.argsort(joined.rows.ids, kind="stable")]
        self.seeds = self.seeds[:0]
        self.statistics = SeedStatistics.empty(self.seeds.points, self.k, self.z)
        self.parts, self.n_unthinned, self._is_joined = (joined,), len(joined), True
        if len(joined) > _TOGETHER * self.settings.size:
            self.reseed(joined)

    def prepared(self, history: RowSource | None = None) -> Self:
        """Return the sketch with seeds of shards that were merged."""
        if not self._is_joined:
            return self
        new = self.copy()
        new.reseed(self.candidates())
        return new

    def reseed(self, candidates: Candidates) -> None:
        """Draw seeds from the candidates, each of which stands for 1 / limit rows, and thin them by the new scores."""
        weighted = replace(candidates.rows, weights=candidates.rows.weights / candidates.limits)
        self.seeds = weighted[drawn_seeds(weighted, self.k, self.z, self.settings.seed)]
        empty = SeedStatistics.empty(self.seeds.points, self.k, self.z)
        self.statistics, of_weighted = empty.add(weighted)
        of_rows = of_weighted * candidates.limits  # scores are in proportion to weights
        self.parts, self.n_unthinned = (_within(candidates, self.current_constant * of_rows),), 0
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


@storable
@stores(statistics=AssignedStatistics)
class FixedSeeds(SeededSketch):
    """The coreset of a history for the seeds of its race. Of a row it keeps the loss, the seed and the position."""

    def _new_statistics(self) -> tuple[Statistics, float, int]:
        return AssignedStatistics.empty(self.seeds.points, self.k, self.z), 1, self.k

    def with_block(self, rows: Rows, position: int) -> Self:
        """Return the sketch with a block of the history, the first row of which is at this position there."""
        new = self.copy()
        new.totals = self.totals.merge(SketchTotals.of(rows))
        new.add_block(rows, position)
        return new

    def add_block(self, rows: Rows, position: int) -> None:
        self.statistics, is_nearest, losses = self.statistics.with_block(rows)
        words = self._words(rows.ids)
        few = np.arange(len(rows))
        if self.totals.n_rows > self.settings.size:
            bounds = self.statistics.bounds_of(losses, rows.weights)
            few = np.flatnonzero(kept(sampling.inclusion_uniforms(words), bounds * (self.constant * SAFETY)))
        labels = np.arange(len(is_nearest), dtype=np.float32) @ np.take(is_nearest, few, axis=1).astype(np.float32)
        columns = np.column_stack([losses[few], labels, position + few])
        candidates = Candidates(
            Rows(columns, np.empty((len(few), 0)), rows.weights[few], rows.ids[few]), words[few], ones(len(few))
        )
        scores = self.statistics.scores(candidates.rows)
        self._add_candidates(candidates.within(probabilities(scores, self.constant * SAFETY)))


_ROOM = 2
"""The sampler of an adaptive coreset keeps the rows that are needed until there are so many times as many."""

FIRST_STAGE = 4
"""With two stages, the first keeps this many times as many rows as the second."""


def largest_value(z: float) -> float:
    """Largest magnitude of a value such that distances to the power z, and their sums, are representable.

    For z above 2 there is room for a million rows of 64 columns, as far from each other as can be: in each of these two
    values are ``2 v`` apart, so a sum is at most ``2^20 (2 v 8)^z``.
    """
    return LARGEST if z <= 2 else 2.0 ** (1003 / z - 4)


@storable
@stores(
    k=int,
    z=float,
    stages=int,
    reads_history=bool,
    race=Race,
    sampler=SeededSketch | None,
    sampled_rows=int,
)
class ClusteringSketch(Sketch):
    """Seeds of the rows and the rows that they keep; see :class:`Clustering`.

    With ``reads_history`` both are computed from a history when they are needed, see :meth:`prepared`. Otherwise the
    sketch is a sampler of bounded memory.
    """

    history_parameter: ClassVar[str] = 'history="memory" or the path of a folder'

    def __init__(self, settings: SketchSettings, k: int, z: float, stages: int, reads_history: bool) -> None:
        self.k, self.z, self.stages, self.reads_history = k, z, stages, reads_history
        self.race: Race
        self.sampler: Any
        super().__init__(settings)

    def _begin(self) -> None:
        self.race, self.sampler = Race(self.k, self.z, self.settings.seed), None
        self.sampled_rows = 0
        if not self.reads_history:
            self.sampler = self._new_sampler(MovingSeeds, self._no_rows(), self.settings.shape[0])

    def _new_sampler(self, kind: type[SeededSketch], seeds: Rows, width: int) -> SeededSketch:
        own = self.settings
        size = "auto" if own.is_adaptive and kind is MovingSeeds else self._size_at(_ROOM * self.totals.effective_rows)
        return kind(SketchSettings(own.epsilon, size, own.seed, (width, 0)), seeds, self.k, self.z)

    def _size_at(self, rows: float) -> float:
        """Return the expected size after so many rows."""
        own = self.settings
        return sizes.adaptive_clustering_size(self.k, rows, own.epsilon) if own.is_adaptive else own.size

    @property
    def _current_size(self) -> float:
        return self._size_at(self.totals.effective_rows)

    def _no_rows(self) -> Rows:
        return Rows.empty(*self.settings.shape)

    def _add(self, rows: Rows, gradient_norms: FloatArray | None) -> None:
        if not self.reads_history:
            self.sampler = self.sampler.update(rows)

    def _merge(self, other: ClusteringSketch) -> None:
        if self.reads_history:
            self._begin()
        else:
            self.sampler = self.sampler.merge(other.sampler)

    def _scale(self, factor: float) -> None:
        self.race = self.race.scaled(factor)
        if self.sampler is not None:
            self.sampler = self.sampler.scale(factor)

    @property
    def _redraws(self) -> bool:
        """Whether the coreset is drawn anew from the history, of a size that grows with the rows."""
        return self.settings.is_adaptive and self.reads_history

    @property
    def _keeps_every_row(self) -> bool:
        """Whether rows are so few that the coreset holds them all: their scores are at least ``1 / (n (1 + k))``."""
        is_sampled_once = self.reads_history and self.stages == 1
        is_small = self.totals.n_rows * (1 + self.k) * SAFETY <= self._current_size
        return is_sampled_once and self.totals.all_weigh_one and is_small

    def prepared(self, history: RowSource | None = None) -> Self:
        """Return the sketch with the seeds of the rows and the rows that they keep, unless any seeds keep them all."""
        return self if self._keeps_every_row else self._with_seeds(history)

    def _with_seeds(self, history: RowSource | None) -> Self:
        if self.race.rows == self.totals.n_rows and self.reads_history:
            return self
        new = self.copy()
        if not self.reads_history:
            new.sampler = self.sampler.prepared()
            return new
        assert history is not None
        new.race = self.race.updated(history)
        seeds = history.at(new.race.run(history))
        is_kept = self.sampler is not None and self._current_size <= self.sampler.settings.size
        if not is_kept or not np.array_equal(seeds.ids, self.sampler.seeds.ids):
            new.sampler, new.sampled_rows = self._new_sampler(FixedSeeds, seeds, width=3), 0
        for rows in history.from_row(new.sampled_rows):
            new.sampler = new.sampler.with_block(rows, new.sampled_rows)
            new.sampled_rows += len(rows)
        return new

    def seeds(self, history: RowSource | None = None) -> FloatArray:
        """Return the D^z seeds of the rows seen, in the order in which they were drawn."""
        sampler = self._with_seeds(history).sampler
        return np.array(self._no_rows().points if sampler is None else sampler.seeds.points)

    def coreset(self, history: RowSource | None = None) -> Coreset:
        new = self.prepared(history)
        if new.sampler is None or self._keeps_every_row:
            every = self._no_rows() if history is None else history.everything()
            return Coreset(every.points, None, np.ones(len(every)), every.ids)
        sampler = new.sampler.with_size(self._current_size) if self._redraws else new.sampler
        rows, weights = sampler.sample()
        if self.reads_history:
            assert history is not None
            rows = history.at(rows.points[:, 2].astype(np.int64))
        if self.stages == 2:
            rows, weights = self._second_stage(rows, weights, new.sampler.seeds)
        return Coreset(rows.points, None, weights, rows.ids)

    def _second_stage(self, rows: Rows, weights: FloatArray, seeds: Rows) -> tuple[Rows, FloatArray]:
        """Of the first sample, rows in proportion to their cost; the seeds stand for what is missing."""
        if len(seeds) == 0:
            return rows, weights
        labels, squared = nearest(rows.points, seeds.points)
        losses = weights * power(squared, self.z)
        q = np.minimum(1.0, self.settings.size / FIRST_STAGE * losses / (losses.sum() or 1.0))
        words = sampling.words_of(self.settings.seed, sampling.SECOND_STAGE, rows.ids)
        keep = kept(sampling.inclusion_uniforms(words), q)
        exponent = exponents(q[keep], sampling.rounding_uniforms(words[keep]), self.settings.epsilon)
        second = weights[keep] * weights_of(exponent, self.settings.epsilon)
        missing = np.bincount(labels, weights, len(seeds)) - np.bincount(labels[keep], second, len(seeds))
        joined = Rows.concatenate([rows[keep], seeds])  # seeds cost nothing, so none of them is in the sample
        order = np.argsort(joined.ids, kind="stable")
        return joined[order], np.concatenate([second, np.maximum(missing, 0.0)])[order]

    def sensitivity(self, n: int) -> float:
        """Return the bound that is proved for one stage and the full history; 1 otherwise."""
        if self.stages != 1 or not self.reads_history or not self.totals.n_rows:
            return 1.0
        return bounds.clustering_sensitivity(n, self._size_at(n), self.k, self.settings.epsilon)

    def parameters(self) -> dict[str, object]:
        return {"k": self.k, "z": self.z, "stages": self.stages}


@storable
@stores(
    k=int,
    z=float,
    stages=int,
    history_place=str,
)
class Clustering(CoresetBuilder):
    r"""Rows are kept by their sensitivity :math:`(|x - c|^z / cost + 1 / n_c) / (1 + k)` under D^z seeds c.

    The seeds come from an exponential race (:mod:`batch2online.methods.clustering.race`), so they and the coreset are a
    pure function of the rows and the seed. New rows can move the seeds, and then rows that were dropped may return: all
    rows are kept, in memory or in a folder.

    ``history="coreset"`` keeps no more than the coreset itself. Seeds are then drawn from the rows that are kept, by
    their weights, and a row's inclusion probability is the least it ever had. Memory is bounded; the result is still
    the same for any chunking, but it is not the one of the full history, and nothing can be forgotten. ``merge`` is
    bounded as well: it draws seeds from the rows that both have kept. Its result is not equal to that of one stream,
    and with three or more it depends on the order of merging.

    Parameters
    ----------
    k : int
        Number of clusters.
    z : float, default 2.0
        Power of the distance, at least 1: 2 for k-means, 1 for k-median.
    stages : {1, 2}
        One stage of sampling, or the paper's two (Algorithm 7): a larger sample first, from it one in proportion to
        the cost, and the seeds themselves with the weight that is missing. Weights of the second stage carry those of
        the first, which the paper omits, and seeds never weigh less than nothing.
    history : "memory", "coreset" or the path of a folder
        Where the rows are kept.
    keep_history : bool, default False
        Rows are kept unless ``history="coreset"``, which True refuses.
    epsilon, coreset_size, random_state, first_id
        As for every coreset; the default size is ``10 (1 + k) / epsilon``. ``epsilon="auto"``, with one stage, has the
        size ``(1 + k) max(100, sqrt(n))``: the coreset is drawn anew from the rows kept. With ``history="coreset"``,
        inclusion probabilities never rise again.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 2)) + np.repeat([[0], [20]], 10_000, axis=0)
    >>> coreset = Clustering(2, coreset_size=300, random_state=0).add(rows).coreset()
    >>> low = coreset.points[:, 0] < 10
    >>> bool(abs(coreset.weights[low].sum() / 10_000 - 1) < 0.2)
    True
    """

    can_adapt = True
    _history_parameter = ClusteringSketch.history_parameter

    def __init__(
        self,
        k: int,
        z: float = 2.0,
        *,
        stages: int = 1,
        history: str | os.PathLike[str] = "memory",
        keep_history: bool = False,
        **settings: Any,
    ) -> None:
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be a positive integer, got {k!r}.")
        if not isinstance(z, int | float | np.number) or not 1 <= z < math.inf:
            raise ValueError(f"z must be a finite number of at least 1, got {z!r}.")
        if stages not in (1, 2):
            raise ValueError(f"stages must be 1 or 2, got {stages!r}.")
        if not isinstance(history, str | os.PathLike):
            raise ValueError(f'history must be "memory", "coreset" or the path of a folder, got {history!r}.')
        if keep_history and history == "coreset":
            raise ValueError('keep_history=True contradicts history="coreset", which keeps no rows.')
        super().__init__(keep_history=history != "coreset", **settings)
        if self.coreset_size == "auto" and stages == 2:
            raise ValueError('epsilon="auto" needs stages=1, got 2.')
        self.k, self.z, self.stages = int(k), float(z), int(stages)
        self.history_place = os.fspath(history)

    @property
    def largest(self) -> float:
        """Distances to the power z must be representable."""
        return largest_value(self.z)

    def bounded(self) -> Clustering:
        """Return a copy that keeps no more than the coreset."""
        bounded = copy.copy(self)
        bounded.keep_history, bounded.history_place = False, "coreset"
        return bounded

    def _new_sketch(self, settings: SketchSettings) -> ClusteringSketch:
        return ClusteringSketch(replace(settings, size=self._size()), self.k, self.z, self.stages, self.keep_history)

    def _size(self) -> float:
        """Return the expected size of the (first) sample."""
        size: Any = self.coreset_size
        if size is None:
            size = sizes.clustering_size(self.k, self.epsilon)
        elif size == "auto":
            size = sizes.adaptive_clustering_size(self.k, 0, self.epsilon)
        elif size == "theory":
            size = sizes.clustering_size_theory(self.k, self.z, self.epsilon, self.epsilon / sizes.HORIZON)
        sizes.sampling_constant(size, 1, self.k, self.epsilon)
        return float(size * (FIRST_STAGE if self.stages == 2 else 1))

    @property
    def keeps_on_disk(self) -> bool:
        return self.history_place not in ("memory", "coreset")

    def new_history(self, block: int, width: int, n_targets: int) -> History:
        if not self.keeps_on_disk:
            return History(block, width, n_targets)
        return DiskHistory(block, width, n_targets, scratch(self.history_place))

    @property
    def seeds(self) -> FloatArray:
        """The D^z seeds of the rows added, in the order in which they were drawn."""
        data = self._started().snapshot()
        seeds: FloatArray = data.sketch.seeds(data.history)
        return seeds
