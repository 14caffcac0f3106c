"""Coresets of rows of any kind: all of them, or a uniform sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.engine.builder import CoresetBuilder
from batch2online.rows import Rows
from batch2online.schema import storable, stores
from batch2online.sketches.antitone import AntitoneSketch, Statistics
from batch2online.sketches.base import SketchSettings
from batch2online.sketches.summed import Summed
from batch2online.theory.bounds import leverage_sensitivity


@storable
@dataclass(frozen=True)
class Nothing(Statistics):
    """Statistics of a sketch that keeps everything: none."""

    def add(self, rows: Rows) -> tuple[Nothing, FloatArray]:
        return self, np.ones(len(rows))

    def scaled(self, factor: float) -> Nothing:
        return self

    def merged(self, other: Nothing) -> Nothing:
        return self

    def scores(self, rows: Rows) -> FloatArray:
        return np.ones(len(rows))

    bounds = scores


@storable
@stores(statistics=Nothing)
class EverythingSketch(AntitoneSketch):
    """All rows."""

    takes_any_rows: ClassVar[bool] = True

    def _new_statistics(self) -> tuple[Statistics, float, int]:
        return Nothing(), math.inf, 1


@storable
@stores()
class Everything(CoresetBuilder):
    """All rows are kept: what any coreset is compared with.

    >>> Everything().add([[1.0], [2.0]]).coreset().weights.tolist()
    [1.0, 1.0]
    """

    def _new_sketch(self, settings: SketchSettings) -> EverythingSketch:
        return EverythingSketch(settings)


@storable
@dataclass(frozen=True)
class TotalWeight(Statistics):
    """The score of a row is its share of the total weight; 1/t where all weigh the same."""

    total: float

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
@stores(statistics=Summed)
class UniformSketch(AntitoneSketch):
    """The weight of all rows, and candidates of equal score."""

    takes_any_rows: ClassVar[bool] = True
    _patience = 0.5  # scores are at hand

    def _new_statistics(self) -> tuple[Statistics, float, int]:
        return Summed(TotalWeight(0.0)), 1, 1

    def sensitivity(self, n: int) -> float:
        settings = self.settings
        return leverage_sensitivity(n, self.constant, settings.size / self.constant, settings.epsilon)


@storable
@stores()
class Uniform(CoresetBuilder):
    """Every row is kept with probability ``min(1, size / t)``: a reservoir without state.

    >>> import numpy as np
    >>> coreset = Uniform(coreset_size=100, random_state=0).add(np.arange(10_000.0)[:, None]).coreset()
    >>> len(coreset), round(coreset.weights.sum())
    (85, 8479)
    """

    def _new_sketch(self, settings: SketchSettings) -> UniformSketch:
        return UniformSketch(settings)
