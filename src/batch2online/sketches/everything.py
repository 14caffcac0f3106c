"""The trivial coreset: every row, with its own weight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.rows import Rows
from batch2online.schema import require, storable, stores
from batch2online.sketches.antitone import AntitoneSketch, Statistics
from batch2online.sketches.base import SketchSettings
from batch2online.sketches.builder import CoresetBuilder


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

    def validate(self) -> None:
        held, n_rows = sum(map(len, self.parts)), self.totals.n_rows
        require(n_rows >= held, f"parts: found {held} rows, expected at most {n_rows}")

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
