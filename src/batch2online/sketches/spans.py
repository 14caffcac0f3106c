"""Statistics of fixed spans of ids, merged along a fixed tree: equal bits for any order of merging.

Sums of floating-point numbers depend on the order of summation. Here rows are summed span by span: the last span is
open, the earlier ones are finished, and finished neighbours (level, 2i) and (level, 2i + 1) merge into (level + 1, i).
Which spans are merged therefore depends on the ids of the rows alone, and shards that were cut at spans merge to the
same statistics as one stream, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import Annotated, Any, Protocol, Self

from batch2online._types import FloatArray
from batch2online.rows import Rows, all_ones
from batch2online.schema import Count, Weight, at_most, require, require_equal, storable
from batch2online.sketches.antitone import Statistics

SPAN_IDS = 250_000
"""Ids of a span. Every size of a block divides it, so that no segment of rows is in two spans."""

_NEGLIGIBLE = 2.0**-300
"""Share of the weight below which the rows of a span are dropped: decay has left nothing of them."""


class SpannedStatistics(Statistics, Protocol):
    """Statistics that know how to begin anew."""

    def emptied(self) -> Self:
        """Return the statistics of no rows."""


@storable
@dataclass(frozen=True)
class Span:
    """The rows with ids from ``index * 2**level`` spans on, ``2**level`` spans of them: their weight and statistics."""

    level: Annotated[Count, at_most(63)]
    index: Count
    weight: Weight
    statistics: Any

    @property
    def start(self) -> int:
        """The number of the first span of ids."""
        return self.index << self.level

    @property
    def stop(self) -> int:
        """The number of the span of ids after the last one."""
        return (self.index + 1) << self.level

    def scaled(self, factor: float) -> Span:
        """Return the same of rows whose weights are all multiplied by a power of 4."""
        return replace(self, weight=self.weight * factor, statistics=self.statistics.scaled(factor))

    def finished(self) -> Span:
        """Return the same with bounds from a check now, whenever that happens."""
        return replace(self, statistics=self.statistics.sharpened())

    def merged(self, other: Span) -> Span:
        """Return the statistics of both, of which this one is the earlier; those of negligible weight are left out."""
        level = max(self.level, other.level)
        weight, index = self.weight + other.weight, min(self.start, other.start) >> level
        if min(self.weight, other.weight) <= _NEGLIGIBLE * weight:
            return Span(level, index, weight, (self if self.weight > other.weight else other).statistics)
        return Span(level, index, weight, self.statistics.merged(other.statistics))

    def parent(self) -> Span:
        """Return the same as part of a span of twice the ids."""
        return replace(self, level=self.level + 1, index=self.index // 2)


@storable
@dataclass(frozen=True)
class Spans(Statistics):
    """Statistics of all rows: those of finished spans, in the order of ids, and of the open one, which is the last."""

    spans: tuple[Span, ...]

    @classmethod
    def of(cls, empty: SpannedStatistics) -> Spans:
        """Return the statistics of no rows."""
        return cls((Span(0, 0, 0.0, empty),))

    def validate(self) -> None:
        """Require spans in the order of ids, of statistics of one kind."""
        require(self.spans, "spans: found none")
        require_equal("level of the open span", self.spans[-1].level, 0)
        for one, other in pairwise(self.spans):
            found = f"spans: found {other.start} after {one.start} to {one.stop}"
            require(one.stop <= other.start, f"{found}, expected no two of the same ids")
        kinds = {type(span.statistics).__name__ for span in self.spans}
        require(len(kinds) == 1, f"spans: found statistics of {kinds}, expected one kind")

    @property
    def open(self) -> Any:
        """The statistics of the open span."""
        return self.spans[-1].statistics

    @property
    def weight(self) -> float:
        """Weight of all rows."""
        return sum(span.weight for span in self.spans)

    @cached_property
    def total(self) -> Any:
        """The statistics of all rows: those of the spans, merged in the order of ids."""
        return self.open if len(self.spans) == 1 else reduce(Span.merged, self.spans).statistics

    def with_total(self, total: Any) -> Spans:
        """Return the same with what else is known of all rows; what is added to later are the spans alone."""
        if total is self.total:
            return self
        new = replace(self)
        vars(new)["total"] = total
        return new

    # -- rows -------------------------------------------------------------------------------------------

    def grown(self, rows: Rows) -> Spans:
        last, index = self.spans[-1], int(rows.ids[0]) // SPAN_IDS
        is_open = last.weight > 0 and (last.level, last.index) == (0, index)
        statistics = (last.statistics if is_open else last.statistics.emptied()).grown(rows)
        weight = float(len(rows)) if all_ones(rows.weights) else float(rows.weights.sum())
        span = Span(0, index, weight + (last.weight if is_open else 0.0), statistics)
        new = Spans((*self.spans[:-1], span)) if is_open else Spans(_joined(self.spans, (span,)))
        vars(new)["_bounding"] = self._newest_total
        return new

    def add(self, rows: Rows) -> tuple[Spans, FloatArray]:
        new = self.grown(rows)
        return new, new.bounds(rows)

    def merged(self, other: Spans) -> Spans:
        return Spans(_joined(self.spans, other.spans))

    def scaled(self, factor: float) -> Spans:
        """Scale all weights; bounds of the open span that rest on rows of less weight now would soon be too wide."""
        *earlier, last = (span.scaled(factor) for span in self.spans)
        least = _NEGLIGIBLE * self.weight * factor
        return Spans((*(span for span in earlier if span.weight > least), last.finished()))

    # -- scores -----------------------------------------------------------------------------------------

    def settled(self) -> Spans:
        return self.with_total(self.total.settled())

    def sharpened(self) -> Any:
        return self.total.sharpened()

    def scores(self, rows: Rows) -> FloatArray:
        scores: FloatArray = self.total.scores(rows)
        return scores

    @property
    def has_cheap_bounds(self) -> bool:  # type: ignore[override]
        return bool(self.open.has_cheap_bounds)

    @property
    def has_coarse_bounds(self) -> bool:  # type: ignore[override]
        return bool(self.open.has_coarse_bounds)

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
        total = vars(self).get("total", self.open)
        return vars(self).get("_bounding") if total is self.open else (self.weight, total)

    def __getstate__(self) -> dict[str, Any]:
        return {"spans": self.spans}


def _joined(one: tuple[Span, ...], other: tuple[Span, ...]) -> tuple[Span, ...]:
    """Return the spans of both in the order of ids: all but the last are finished, and neighbours are merged."""
    ordered = sorted((span for span in one + other if span.weight > 0), key=lambda span: (span.start, -span.level))
    together: list[Span] = []
    for span in ordered:
        if together and span.start < together[-1].stop:  # shards that were cut within a span
            together[-1] = together[-1].merged(span)
        else:
            together.append(span)
    *earlier, last = together or [one[-1]]
    finished: list[Span] = []
    for span in (each.finished() for each in earlier):
        finished.append(span)
        while len(finished) > 1 and _are_siblings(*finished[-2:]):
            second = finished.pop()
            finished[-1] = finished[-1].merged(second).parent()
    return (*finished, last)


def _are_siblings(one: Span, other: Span) -> bool:
    return one.level == other.level and one.index + 1 == other.index and one.index % 2 == 0


def check_rows(found: int, n_rows: int) -> None:
    """Raise ValueError unless spans have so many rows, or fewer where decay has left nothing of some."""
    is_right = (found > 0) == (n_rows > 0) and found <= n_rows
    require(is_right, f"rows of moments: found {found}, expected {n_rows}")
