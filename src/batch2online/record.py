"""Record of prequential losses: sums over all rows, the losses of the last rows, and the largest losses.

Each row counts with its given weight, without decay or window: these are the averages of ``metrics_``. Loss and optimum
of ``regret_`` are other sums, with the weights that models are fitted with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.observer import Observer, Scored
from batch2online.problem import Totals, totals_of
from batch2online.quality import Baseline, Windows
from batch2online.rows import Intervals, Rows, all_ones, united
from batch2online.schema import replace, shape, storable

RECENT, FEWEST_RECENT = 1_000, 100
"""Number of last rows that are averaged, and its minimum where a half-life or a window is shorter."""

LARGEST = 10
"""Number of largest losses that are stored."""

MANY = 100
"""A handful is at most one row in this many."""


class Handful(NamedTuple):
    """A few rows with more than half of the loss: their number, share and ids, the largest loss first."""

    rows: int
    share: float
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Averages:
    """Sums of prequential losses of some rows, and the loss of the mean of their targets (``total``, NaN if unknown).

    Losses up to ``resolution`` are rounding.
    """

    rows: int
    weight: float
    loss: float
    secondary_loss: float
    total: float = math.nan
    resolution: float = 0.0

    @property
    def mean_loss(self) -> float:
        """Mean loss of a row."""
        return self.loss / self.weight

    @property
    def mean_secondary_loss(self) -> float:
        """Mean secondary loss of a row."""
        return self.secondary_loss / self.weight


@storable
@dataclass(frozen=True)
class Spread:
    """Weight, mean and sum of squared distances to the mean of weighted values, updated without cancellation.

    >>> one = Spread().plus(np.array([[1.0], [3.0]]), np.ones(2)).plus(np.array([[1e9]]), np.ones(1))
    >>> one.weight, Spread().plus(np.array([[1.0], [3.0]]), np.ones(2)).total(around_zero=True)
    (3.0, 10.0)
    """

    weight: float = 0.0
    mean: Annotated[FloatArray, shape("k")] | None = None
    squares: float = 0.0

    def plus(self, values: FloatArray, weights: FloatArray) -> Spread:
        """Return the spread with these values (n, k) as well."""
        if all_ones(weights) and len(values):
            return self._plus_ones(values)
        weight = float(weights.sum())
        mean = weights @ values / weight
        away = values - mean
        return self.merge(Spread(weight, mean, float(weights @ np.einsum("ij,ij->i", away, away))))

    def _plus_ones(self, values: FloatArray) -> Spread:
        """Return the spread with further values of weight one, from sums of differences to the first of them.

        The spread of n values is at least a share 1 - 1 / n of the squared distance of any to the mean, so that
        subtracting the latter n times loses no more than the digits of n.
        """
        n = float(len(values))
        away = values - values[0]
        shift = np.add.reduce(away, axis=None if away.shape[1] == 1 else 0) / n  # much faster without an axis
        squares = float(np.vdot(away, away) - n * np.vdot(shift, shift))
        return self.merge(Spread(n, values[0] + shift, max(0.0, squares)))

    def merge(self, other: Spread) -> Spread:
        """Return the spread of the values of both."""
        if self.mean is None or other.mean is None:
            return other if self.mean is None else self
        weight, away = self.weight + other.weight, other.mean - self.mean
        between = float(away @ away) * self.weight * (other.weight / weight)
        return Spread(weight, self.mean + away * (other.weight / weight), self.squares + other.squares + between)

    def total(self, around_zero: bool) -> float:
        """Return the sum of squared distances to the mean, or to zero."""
        if self.mean is None:
            return math.nan
        return self.squares + self.weight * float(self.mean @ self.mean) if around_zero else self.squares


@storable
@dataclass(frozen=True)
class Record(Observer):
    """Sums over all rows that were scored.

    Attributes
    ----------
    span : int
        Number of last rows that are stored.
    rows, weight, loss, secondary_loss : int, float, float, float
        Sums over all rows.
    least : float
        Lower bound of all losses.
    largest, largest_ids : arrays (n,)
        The largest weighted losses in descending order, the earlier row first of equal ones, and their ids.
    recent, recent_ids : arrays (3, m) and (m,)
        Weights, weighted losses and weighted secondary losses of the last rows, and their ids.
    spread : Spread or None
        Spread of the targets, or of the rows if last rows are stored, where the problem has a spread.
    windows : Windows
        The same sums over consecutive windows of rows, and those of the baseline.
    baseline : Baseline or None
        The simplest prediction from earlier rows, where the problem has one.
    """

    span: int = 0
    rows: int = 0
    weight: float = 0.0
    loss: float = 0.0
    secondary_loss: float = 0.0
    least: float = math.inf
    largest: Annotated[FloatArray, shape("n")] = field(default_factory=lambda: np.empty(0))
    largest_ids: Annotated[IntArray, shape("n")] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    recent: Annotated[FloatArray, shape(3, "m")] = field(default_factory=lambda: np.empty((3, 0)))
    recent_ids: Annotated[IntArray, shape("m")] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    spread: Spread | None = None
    windows: Windows = field(default_factory=Windows)
    baseline: Baseline | None = None

    def after(self, scored: Scored) -> Record:
        """Return the record after these rows; those without a loss are left out."""
        if not scored.is_known:
            return self
        return self.plus(scored.rows, scored.totals, self._further_fields(scored))

    def emptied(self, skipped: int = 0) -> Record:
        return Record(self.span)

    def plus(self, rows: Rows, totals: Totals, further: dict[str, Any] | None = None) -> Record:
        """Return the record with these rows, whose weighted losses have these totals, and with further fields."""
        fields: dict[str, Any] = further or {}
        if totals.largest > self._threshold:
            losses = totals.losses()
            found = np.flatnonzero(losses > self._threshold)
            largest, ids = _largest((self.largest, losses[found]), (self.largest_ids, rows.ids[found]))
            fields = fields | {"largest": largest, "largest_ids": ids}
        return replace(
            self,
            rows=self.rows + len(rows),
            weight=self.weight + (len(rows) if all_ones(rows.weights) else float(rows.weights.sum())),
            loss=self.loss + totals.loss,
            secondary_loss=self.secondary_loss + totals.second,
            least=min(self.least, totals.least),
            **fields,
        )

    @property
    def _threshold(self) -> float:
        """A loss is among the largest if it is above this."""
        return float(self.largest[-1]) if len(self.largest) == LARGEST else 0.0

    def _further_fields(self, scored: Scored) -> dict[str, Any]:
        """Return windows, baseline, spread and last rows after these rows."""
        problem, rows, own, secondary = scored.problem, scored.rows, scored.losses, scored.secondary
        fields = self._last_rows(rows, own, secondary) if self.span else {}
        values = problem.spread_of(rows) if self.span or rows.targets.shape[1] else None
        if values is not None:
            fields["spread"] = (self.spread or Spread()).plus(values, rows.weights)
        baseline, every = self.baseline or problem.baseline(), [own, secondary]
        if baseline is not None:
            beside, fields["baseline"] = baseline.plus(rows, problem.class_scores(scored.model, rows, (own, secondary)))
            every += beside
        if not all_ones(rows.weights):
            every = [values * rows.weights for values in every]
        fields["windows"] = self.windows.plus(rows.weights, every)
        return fields

    def _last_rows(self, rows: Rows, losses: FloatArray, secondary: FloatArray) -> dict[str, Any]:
        some, n = slice(-self.span, None), len(rows)
        both = np.empty((3, min(n, self.span)))
        both[0], both[1], both[2] = rows.weights[some], losses[some], secondary[some]
        both[1:] *= both[0]
        kept = slice(max(0, len(self.recent_ids) + both.shape[1] - self.span), None)
        recent = np.concatenate([self.recent[:, kept], both], axis=1)
        return {"recent": recent, "recent_ids": np.concatenate([self.recent_ids[kept], rows.ids[some]])}

    def merge(self, other: Record) -> Record:
        """Return the record of the rows of both; the last ones are those of the largest ids."""
        largest, largest_ids = _largest((self.largest, other.largest), (self.largest_ids, other.largest_ids))
        ids = np.concatenate([self.recent_ids, other.recent_ids])
        last = np.argsort(ids, kind="stable")[len(ids) - min(len(ids), self.span) :]
        spreads = [each.spread for each in (self, other) if each.spread is not None]
        baselines = [each.baseline for each in (self, other) if each.baseline is not None]
        return Record(
            span=self.span,
            rows=self.rows + other.rows,
            weight=self.weight + other.weight,
            loss=self.loss + other.loss,
            secondary_loss=self.secondary_loss + other.secondary_loss,
            least=min(self.least, other.least),
            largest=largest,
            largest_ids=largest_ids,
            recent=np.concatenate([self.recent, other.recent], axis=1)[:, last],
            recent_ids=ids[last],
            spread=spreads[0].merge(spreads[1]) if len(spreads) == 2 else next(iter(spreads), None),
            windows=self.windows.merge(other.windows),
            baseline=baselines[0].merge(baselines[1]) if len(baselines) == 2 else next(iter(baselines), None),
        )

    def averages(self, total: float = math.nan, resolution: float = 0.0) -> Averages | None:
        """Return the sums over all rows; None before the first one is scored."""
        if not self.weight > 0:
            return None
        return Averages(self.rows, self.weight, self.loss, self.secondary_loss, total, resolution)

    def of_windows(self) -> list[tuple[Averages, Averages | None]]:
        """Return the sums of each window of rows, and those of the baseline, None where there is none."""
        has_baseline = self.baseline is not None
        found = []
        for rows, weight, *losses in self.windows.sums.T.tolist():
            own, beside = (Averages(int(rows), weight, *pair) for pair in (losses[:2], losses[2:]))
            found.append((own, beside if has_baseline else None))
        return found

    def of_baseline(self) -> Averages | None:
        """Return the sums of the baseline over all rows; None where there is none."""
        if self.baseline is None or not self.windows.sums.size:
            return None
        rows, weight, _, _, loss, secondary = self.windows.sums.sum(axis=1).tolist()
        return Averages(int(rows), weight, loss, secondary)

    def of_recent(self) -> Averages | None:
        """Return the sums over the last rows; None if they are not stored, or are all rows."""
        if not 0 < self.span < self.rows:
            return None
        weight, loss, secondary = self.recent.sum(axis=1).tolist()
        return Averages(len(self.recent_ids), weight, loss, secondary)

    def handful(self, resolution: float = 0.0) -> Handful | None:
        """Return the smallest set of rows with more than half of the loss, if these are few among many.

        None if losses are rounding, or negative as those of densities can be: then there are no shares.
        """
        if not resolution < self.loss < math.inf or self.least < 0:
            return None
        shares = np.cumsum(self.largest) / self.loss
        rows = int(np.searchsorted(shares, 0.5, side="right")) + 1
        if rows > len(shares) or rows * MANY > self.rows:
            return None
        return Handful(rows, min(1.0, float(shares[rows - 1])), tuple(self.largest_ids[:rows].tolist()))


def _largest(losses: tuple[FloatArray, ...], ids: tuple[IntArray, ...]) -> tuple[FloatArray, IntArray]:
    """Return the largest of several losses in descending order, and their ids."""
    each, of = np.concatenate(losses), np.concatenate(ids)
    order = np.lexsort((of, -each))[:LARGEST]
    return each[order], of[order]


def weighted_totals(losses: FloatArray, second: FloatArray, weights: FloatArray) -> Totals:
    """Return the weighted totals of losses and secondary losses."""
    if all_ones(weights):
        return totals_of(losses, second)
    with np.errstate(over="ignore"):
        return totals_of(losses * weights, second * weights)


@storable
@dataclass(frozen=True)
class Unscored:
    """Rows that were not scored: their number, decayed weight, and half-open intervals of their ids.

    >>> rows = Rows(np.empty((3, 0)), np.empty((3, 0)), np.ones(3), np.arange(5, 8))
    >>> Unscored().plus(rows).scored(np.array([4, 5, 7, 8])).tolist()
    [True, False, False, True]
    """

    rows: int = 0
    weight: float = 0.0
    intervals: list[tuple[int, int]] = field(default_factory=list)

    def plus(self, rows: Rows) -> Unscored:
        """Return the unscored rows with these, whose weights are decayed."""
        interval: Intervals = [(int(rows.ids[0]), int(rows.ids[-1]) + 1)] if len(rows) else []
        return self.merge(Unscored(len(rows), float(rows.weights.sum()), interval))

    def merge(self, other: Unscored) -> Unscored:
        """Return the unscored rows of both."""
        return Unscored(self.rows + other.rows, self.weight + other.weight, united(self.intervals, other.intervals))

    def scaled(self, factor: float) -> Unscored:
        """Return the unscored rows for weights multiplied by a factor."""
        return replace(self, weight=self.weight * factor)

    def within(self, parts: Iterable[Rows]) -> Unscored:
        """Return the unscored ones of these rows."""
        found = [part[~self.scored(part.ids)] for part in parts] if self.rows else []
        return Unscored(sum(map(len, found)), float(sum(rows.weights.sum() for rows in found)), self.intervals)

    @property
    def excluded(self) -> tuple[Callable[[IntArray], BoolArray], ...]:
        """Further arguments of ``Problem.hindsight`` that leave these rows out, if there are any."""
        return (self.scored,) if self.rows else ()

    def scored(self, ids: IntArray) -> BoolArray:
        """Return which of these rows were scored."""
        is_scored = np.ones(len(ids), dtype=bool)
        for start, stop in self.intervals:
            is_scored &= (ids < start) | (ids >= stop)
        return is_scored
