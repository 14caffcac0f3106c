"""Sensitivity sampling on D^z seeds: the coreset of (k,z)-clustering (the paper's section 6 and appendix C)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any, Protocol, Self

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.core import randomness
from batch2online.core.coreset import Coreset
from batch2online.core.history import History
from batch2online.core.registry import storable
from batch2online.core.rows import Rows
from batch2online.core.sampling import exponents, kept, weights_of
from batch2online.core.validation import LARGEST
from batch2online.coresets.antitone import SAFETY
from batch2online.coresets.bounded import MovingSeeds
from batch2online.coresets.construction import Construction
from batch2online.coresets.full_history import FixedSeeds
from batch2online.coresets.race import Race
from batch2online.coresets.seed_scores import Seeded
from batch2online.linalg.distances import Sums, nearest, power
from batch2online.persistence.disk_history import DiskHistory, scratch
from batch2online.theory import bounds, sizes

FIRST_STAGE = 4
"""With two stages, the first keeps this many times as many rows as the second."""


def largest_value(z: float) -> float:
    """Largest magnitude of a value such that distances to the power z, and their sums, are representable.

    For z above 2 there is room for a million rows of 64 columns, as far from each other as can be: in each of these two
    values are ``2 v`` apart, so a sum is at most ``2^20 (2 v 8)^z``.
    """
    return LARGEST if z <= 2 else 2.0 ** (1003 / z - 4)


class RowsElsewhere(Protocol):
    """Rows that stay where they are: only sums over them come."""

    def block_sums(self, centers: FloatArray, origin: FloatArray) -> Iterator[Sums]:
        """Return the sums of the clusters of these centers, relative to an origin, a block of ids at a time."""


@storable
class Clustering(Construction):
    r"""Rows are kept by their sensitivity :math:`(|x - c|^z / cost + 1 / n_c) / (1 + k)` under D^z seeds c.

    The seeds come from an exponential race (:mod:`batch2online.coresets.race`), so they and the coreset are a pure
    function of the rows and the seed. New rows can move the seeds, and then rows that were dropped may return: all
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
    epsilon, coreset_size, random_state, first_id
        As for every construction; the default size is ``10 (1 + k) / epsilon``.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 2)) + np.repeat([[0], [20]], 10_000, axis=0)
    >>> coreset = Clustering(2, coreset_size=300, random_state=0).add(rows).coreset()
    >>> low = coreset.points[:, 0] < 10
    >>> bool(abs(coreset.weights[low].sum() / 10_000 - 1) < 0.2)
    True
    """

    elsewhere: RowsElsewhere | None = None
    """All rows, where they are kept by somebody else while a model is solved."""

    def __init__(
        self,
        k: int,
        z: float = 2.0,
        *,
        stages: int = 1,
        history: str | os.PathLike[str] = "memory",
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
        super().__init__(keep_history=history != "coreset", **settings)
        self.k, self.z, self.stages = int(k), float(z), int(stages)
        self.history_place = os.fspath(history)
        self.race: Race
        self.sampler: Any
        self._start_over()

    @property
    def largest(self) -> float:
        """Distances to the power z must be representable."""
        return largest_value(self.z)

    @property
    def expected_rows(self) -> float:
        return self._size()

    def _begin(self, width: int, n_targets: int) -> None:
        self._start_over()
        if not self.keep_history:
            self.sampler = self._new_sampler(MovingSeeds, self._no_rows(), width)

    def _rescale(self, factor: float) -> None:
        self.race = self.race.scaled(factor)
        self.__dict__.pop("_cached", None)
        if self.sampler is not None:
            self.sampler.rescale(factor)

    def _start_over(self) -> None:
        self.race, self.sampler = Race(self.k, self.z, self.seed), None
        self.raced_rows = self.sampled_rows = 0
        self._cached: Any = None  # the number of rows and their coreset; void once other rows may reach that number

    def _new_sampler(self, kind: type[Seeded], seeds: Rows, width: int) -> Seeded:
        sampler = kind(seeds, self.k, self.z, epsilon=self.epsilon, coreset_size=self._size(), random_state=self.seed)
        sampler.begin(width, 0)
        sampler.block = self.block
        return sampler

    def _size(self) -> float:
        """Return the expected size of the (first) sample."""
        size: Any = self.coreset_size
        if size is None:
            size = sizes.clustering_size(self.k, self.epsilon)
        elif size == "theory":
            size = sizes.clustering_size_theory(self.k, self.z, self.epsilon)
        sizes.sampling_constant(size, 1, self.k, self.epsilon)
        return float(size * (FIRST_STAGE if self.stages == 2 else 1))

    def _absorb(self, rows: Rows) -> None:
        if not self.keep_history:
            self.sampler.take(rows)

    def settle(self) -> None:
        """Find the seeds of the rows seen, and the rows that they keep, unless any seeds keep them all."""
        self.thin()
        if not self._keeps_every_row:
            self._draw_seeds()

    def thin(self) -> None:
        """Draw seeds of shards that were joined, in bounded memory."""
        if not self.keep_history and self.sampler is not None:
            self.sampler.settle()

    @property
    def _keeps_every_row(self) -> bool:
        """Whether rows are so few that the coreset holds them all: their scores are at least ``1 / (n (1 + k))``."""
        count_once = self.decay is None and self.weight == self.n_rows and self.typical_weight == 1
        is_sampled_once = self.keep_history and self.stages == 1
        return is_sampled_once and count_once and self.n_rows * (1 + self.k) * SAFETY <= self._size()

    def _draw_seeds(self) -> None:
        past = self.past
        if past is None or self.raced_rows == self.n_rows:
            return
        self.race, chosen = self.race.updated(past).run(past)
        self.raced_rows = self.n_rows
        seeds = past.at(chosen)
        if self.sampler is None or not np.array_equal(seeds.ids, self.sampler.seeds.ids):
            self.sampler, self.sampled_rows = self._new_sampler(FixedSeeds, seeds, width=3), 0
        for rows in past.from_row(self.sampled_rows):
            self.sampler.take_block(rows, self.sampled_rows)
            self.sampled_rows += len(rows)

    @property
    def seeds(self) -> FloatArray:
        """The D^z seeds of the rows seen, in the order in which they were drawn."""
        self._check_started()
        twin = self.caught_up().copy()
        twin.thin()
        twin._draw_seeds()
        return np.array(twin.sampler.seeds.points if twin.sampler is not None else twin._no_rows().points)

    def _coreset(self) -> Coreset:
        """Return the coreset; a refresh asks for it several times, so the last one is remembered."""
        cached = self.__dict__.get("_cached")  # absent after a checkpoint was read
        if cached is None or cached[0] != self.n_rows:
            cached = self._cached = (self.n_rows, self._new_coreset())
        coreset: Coreset = cached[1]
        return coreset

    def _new_coreset(self) -> Coreset:
        twin = self.copy()
        twin.settle()
        if twin.sampler is None or self._keeps_every_row:
            every = self._no_rows() if self.history is None else self.history.everything()
            return Coreset(every.points, None, np.ones(len(every)), every.ids)
        rows, weights = twin.sampler.sample()
        if twin.history is not None:
            rows = twin.history.at(rows.points[:, 2].astype(np.int64))
        if self.stages == 2:
            rows, weights = self._second_stage(rows, weights, twin.sampler.seeds)
        return Coreset(rows.points, None, weights, rows.ids)

    def _no_rows(self) -> Rows:
        assert self.shape is not None
        return Rows.empty(*self.shape)

    def _second_stage(self, rows: Rows, weights: FloatArray, seeds: Rows) -> tuple[Rows, FloatArray]:
        """Of the first sample, rows in proportion to their cost; the seeds stand for what is missing."""
        if len(seeds) == 0:
            return rows, weights
        labels, squared = nearest(rows.points, seeds.points)
        losses = weights * power(squared, self.z)
        q = np.minimum(1.0, self._size() / FIRST_STAGE * losses / (losses.sum() or 1.0))
        words = randomness.words_of(self.seed, randomness.SECOND_STAGE, rows.ids)
        keep = kept(randomness.inclusion_uniforms(words), q)
        exponent = exponents(q[keep], randomness.rounding_uniforms(words[keep]), self.epsilon)
        second = weights[keep] * weights_of(exponent, self.epsilon)
        missing = np.bincount(labels, weights, len(seeds)) - np.bincount(labels[keep], second, len(seeds))
        joined = Rows.concatenate([rows[keep], seeds])  # seeds cost nothing, so none of them is in the sample
        order = np.argsort(joined.ids, kind="stable")
        return joined[order], np.concatenate([second, np.maximum(missing, 0.0)])[order]

    def _merge(self, other: Clustering) -> None:
        if self.keep_history:
            self._start_over()
        else:
            self._cached = None
            self.sampler.join(other.sampler)

    def check_forgettable(self, ids: Any, known: IntArray) -> IntArray:
        """Return the ids as an array if the rows can be forgotten."""
        if not self.keep_history:
            raise ValueError('forget needs the history: create with history="memory" or the path of a folder.')
        return super().check_forgettable(ids, known)

    def _new_history(self, width: int, n_targets: int) -> History:
        if self.history_place == "memory":
            return History(self.block, width, n_targets)
        return DiskHistory(self.block, width, n_targets, scratch(self.history_place))

    def copy(self) -> Self:
        twin = super().copy()
        twin.sampler = None if self.sampler is None else self.sampler.copy()
        return twin

    def sensitivity(self, n: int) -> float:
        """Proved for one stage and the full history; 1 otherwise."""
        if self.stages != 1 or not self.keep_history or not self.n_rows:
            return 1.0
        return bounds.clustering_sensitivity(n, self._size(), self.k, self.epsilon)

    def _settings(self) -> dict[str, object]:
        return super()._settings() | {"k": self.k, "z": self.z, "stages": self.stages}
