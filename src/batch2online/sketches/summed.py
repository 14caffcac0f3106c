"""Sums over all rows, beside what a refit computes of them: rows are added to the sums alone.

So the sums do not depend on when a model is fitted or a coreset is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from batch2online._types import FloatArray
from batch2online.rows import Rows, all_ones
from batch2online.schema import storable
from batch2online.sketches.antitone import Statistics


@storable
@dataclass(frozen=True)
class Summed(Statistics):
    """Statistics of all rows, and their weight."""

    sums: Any
    weight: float = 0.0

    @cached_property
    def total(self) -> Any:
        """The statistics of all rows, with what is known of them besides."""
        return self.sums

    def with_total(self, total: Any) -> Summed:
        """Return the same with what else is known of all rows."""
        if total is self.total:
            return self
        new = replace(self)
        vars(new)["total"] = total
        return new

    # -- rows -------------------------------------------------------------------------------------------

    def grown(self, rows: Rows) -> Summed:
        weight = float(len(rows)) if all_ones(rows.weights) else float(rows.weights.sum())
        new = Summed(self.sums.grown(rows), weight + self.weight)
        vars(new)["_bounding"] = self._newest_total
        return new

    def add(self, rows: Rows) -> tuple[Summed, FloatArray]:
        new = self.grown(rows)
        return new, new.bounds(rows)

    def merged(self, other: Summed) -> Summed:
        if not (self.weight and other.weight):
            return self if self.weight else other
        return Summed(self.sums.merged(other.sums), self.weight + other.weight)

    def scaled(self, factor: float) -> Summed:
        """Scale all weights; bounds that rest on rows of less weight now would soon be too wide."""
        return Summed(self.sums.scaled(factor).sharpened(), self.weight * factor)

    # -- scores -----------------------------------------------------------------------------------------

    def settled(self) -> Summed:
        return self.with_total(self.total.settled())

    def sharpened(self) -> Any:
        return self.total.sharpened()

    def scores(self, rows: Rows) -> FloatArray:
        scores: FloatArray = self.total.scores(rows)
        return scores

    @property
    def has_cheap_bounds(self) -> bool:  # type: ignore[override]
        return bool(self.sums.has_cheap_bounds)

    @property
    def has_coarse_bounds(self) -> bool:  # type: ignore[override]
        return bool(self.sums.has_coarse_bounds)

    @property
    def usual_coarse_bound(self) -> float:
        return float(self.bounding.usual_coarse_bound)

    def bounds(self, rows: Rows) -> FloatArray:
        bounds: FloatArray = self.bounding.bounds(rows)
        return bounds

    def coarse_bounds(self, rows: Rows) -> FloatArray:
        bounds: FloatArray = self.bounding.coarse_bounds(rows)
        return bounds

    @cached_property
    def bounding(self) -> Any:
        """Statistics of half the rows by weight at least: scores never rise, so theirs are bounds for all rows."""
        known = vars(self).get("_bounding")
        if known is not None and 2 * known[0] > self.weight:
            return known[1]
        return self.total

    @property
    def _newest_total(self) -> tuple[float, Any] | None:
        """The statistics of all rows at the last time when they were needed, and their weight then."""
        total = vars(self).get("total", self.sums)
        return vars(self).get("_bounding") if total is self.sums else (self.weight, total)

    def __getstate__(self) -> dict[str, Any]:
        return {"sums": self.sums, "weight": self.weight}
