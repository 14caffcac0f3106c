"""Sensitivity scores of clustering, given seeds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.core.registry import storable
from batch2online.core.rows import Rows, all_ones
from batch2online.coresets.antitone import Antitone, Statistics
from batch2online.linalg.distances import nearest, power


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
        """Return the nearest seed of each row, and the distance to it to the power z."""
        labels, squared = nearest(rows.points, self.seeds)
        return labels, power(squared, self.z)

    def _scores(self, losses: FloatArray, labels: Any, weights: FloatArray | None) -> FloatArray:
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


class Seeded(Antitone):
    """Rows kept by their scores under given seeds, which do not move."""

    def __init__(self, seeds: Rows, k: int, z: float, **settings: Any) -> None:
        super().__init__(**settings)
        self.seeds, self.k, self.z = seeds, k, z

    def _new_statistics(self, width: int, n_targets: int) -> tuple[Statistics, float, int]:
        return SeedStatistics.empty(self.seeds.points, self.k, self.z), 1, self.k

    def _settings(self) -> dict[str, object]:
        return super()._settings() | {"k": self.k, "z": self.z}
