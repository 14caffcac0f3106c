"""The reference model of the order monitor, which scores rows, and the sampling plan of watched blocks.

All of the first blocks of 64 rows are watched, then fewer and fewer, one in sixteen in the end. Positions are fixed in
advance: a choice that does not depend on the rows leaves their order random. Fewer blocks cost less; the delay of an
alarm grows with the thinning, up to a limit.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from batch2online._types import ByteArray, FloatArray, IntArray
from batch2online.drift.betting import BINS, BLOCK
from batch2online.rows import Rows
from batch2online.schema import shape, storable

THINNINGS = (2**15, 2**16, 2**18, 2**20)
"""Row numbers from which on half as many blocks are watched as before."""


class WatchedBlocks:
    """The watched ones of n rows from number ``first`` on: one block in ``every``, at multiples of it.

    The rows lie between two thinnings. In lines as long as the distance between watched blocks, the watched rows come
    first.
    """

    def __init__(self, first: int, n: int, every: int | None = None) -> None:
        self.first, self.n = first, n
        self.every = 1 << sum(at <= first for at in THINNINGS) if every is None else every
        self._length = BLOCK * self.every
        line, self._start = divmod(first, self._length)
        self._first_line, self._lines = line, -(-(self._start + n) // self._length)
        last = min(BLOCK, self._start + n - (self._lines - 1) * self._length)
        self._span = slice(min(BLOCK, self._start), (self._lines - 1) * BLOCK + last)

    def __len__(self) -> int:
        return int(self._span.stop - self._span.start)

    @cached_property
    def places(self) -> IntArray:
        """Places of the watched rows among the n rows."""
        lines = np.arange(-self._start, self._lines * self._length - self._start, self._length)
        return np.asarray(np.add.outer(lines, np.arange(BLOCK)).reshape(-1)[self._span])

    def of_values(self, values: Any) -> Any:
        """Return the watched ones of rows, or of numbers that belong to them."""
        return values if self.every == 1 else values.take(self.places, axis=0)

    def of_rows(self, points: FloatArray, columns: IntArray | None) -> FloatArray:
        """Return these columns, or all, of the watched rows."""
        if columns is None or self.every == 1:
            return np.asarray(self.of_values(points if columns is None else points[:, columns]))
        return np.asarray(points[self.places[:, None], columns])

    def blocks(self) -> IntArray:
        """Return the row numbers at which the watched blocks of these rows begin."""
        first = self._first_line + (self._span.start == BLOCK and self.every > 1)  # none of the first line is watched
        return np.asarray(np.arange(first, self._first_line + self._lines) * self._length)


def n_watched(rows: int) -> int:
    """Return the number of watched rows among the first ``rows``.

    >>> n_watched(1000), n_watched(10**6)
    (1000, 190592)
    """
    cuts = [0, *(at for at in THINNINGS if at < rows), rows]
    return sum(len(WatchedBlocks(start, stop - start)) for start, stop in itertools.pairwise(cuts) if stop > start)


SUPERVISED = ("loss", "residual", "prediction", "target")
UNSUPERVISED = ("distance", "first coordinate", "second coordinate", "third coordinate")

COLUMNS = 64
"""Maximum number of columns that a reference model uses: those of largest variance."""

GRID = 4096
_OUTER = 8
"""Bins on either side for values outside the range of the first rows."""

_SHRINKAGE = 0.01


def names_of(width: int, n_targets: int) -> tuple[str, ...]:
    """Return the names of the scores of rows of this shape."""
    return SUPERVISED if n_targets else UNSUPERVISED[: 1 + min(3, width)]


@storable
@dataclass(frozen=True)
class ReferenceModel:
    """A frozen model that scores rows: linear functions of a row, and a monotone map of each score to bins.

    Parameters
    ----------
    columns : array of int, or None
        The columns used; None for all.
    mean, scale : arrays (columns,)
        Of these columns.
    directions : array (columns, m)
        Coefficients of the prediction, or of the leading coordinates.
    targets : array (n_targets,)
        Coefficients of the targets; the model predicts their weighted sum.
    middles, ranges : arrays (K,)
        Of the scores of the first rows.
    tables : bytes (K, GRID)
        The bin of each cell of a grid over all numbers.
    offset : float
        Mean of the predicted sum.
    """

    columns: Annotated[IntArray, shape("d")] | None
    mean: Annotated[FloatArray, shape("d")]
    scale: Annotated[FloatArray, shape("d")]
    directions: Annotated[FloatArray, shape("d", "m")]
    targets: Annotated[FloatArray, shape("t")]
    middles: Annotated[FloatArray, shape("k")]
    ranges: Annotated[FloatArray, shape("k")]
    tables: Annotated[ByteArray, shape("k", GRID)]
    offset: float = 0.0

    @classmethod
    def of(cls, rows: Rows) -> ReferenceModel:
        """Return the reference model of these rows."""
        with np.errstate(all="ignore"):
            columns = _most_varied(rows.points)
            points = rows.points if columns is None else rows.points[:, columns]
            mean, scale, targets = points.mean(axis=0), _scales(points), 1 / _scales(rows.targets)
            target = rows.targets @ targets if len(targets) else None
            directions = _directions((points - mean) / scale, target) / scale[:, None]
            nothing = np.empty(0)
            offset = 0.0 if target is None else float(np.nan_to_num(target.mean()))
            new = cls(columns, mean, scale, directions, targets, nothing, nothing, np.empty(0, dtype=np.uint8), offset)
            middles, ranges, tables = _quantiser(new.scores(new.values(rows.points, rows.targets)))
        return replace(new, middles=middles, ranges=ranges, tables=tables)

    def values(self, points: FloatArray, targets: FloatArray, watched: WatchedBlocks | None = None) -> FloatArray:
        """Return values (m, n) of the watched rows, or of all, from which scores follow, in single precision.

        These are predictions and targets, or the scores themselves.
        """
        watched = WatchedBlocks(0, len(points), every=1) if watched is None else watched
        if len(self.targets):
            predictions = watched.of_values(points) @ self._direction(points.shape[1])
            targets = watched.of_values(targets)
            one = targets[:, 0] * self.targets[0] if len(self.targets) == 1 else targets @ self.targets
            return np.array([predictions - self._middle, one - self.offset], dtype=np.float32)
        away = watched.of_rows(points, self.columns) - self.mean
        along = away @ self.directions
        away *= away
        return np.array([away @ self.scale**-2.0, *along.T], dtype=np.float32)

    def _direction(self, width: int) -> FloatArray:
        """Return the coefficients of the prediction for all columns, which is faster than to select columns of rows."""
        if self.columns is None:
            return self._coefficients
        wide = np.zeros(width)
        wide[self.columns] = self._coefficients
        return wide

    @cached_property
    def _coefficients(self) -> FloatArray:
        return np.ascontiguousarray(self.directions[:, 0])

    @cached_property
    def _middle(self) -> float:
        return float(self.mean @ self._coefficients)

    def scores(self, values: FloatArray) -> FloatArray:
        """Return the scores (K, n) of rows with these values."""
        if not len(self.targets):
            return values
        residual = values[1] - values[0]
        return np.stack([np.abs(residual), residual, *values])

    def bins(self, values: FloatArray) -> ByteArray:
        """Return the bins of the scores of rows with these values, (K, n)."""
        with np.errstate(all="ignore"):
            cells = _cells(self.scores(values), self.middles, self.ranges)
        cells += GRID * np.arange(len(cells))[:, None]
        return np.asarray(self.tables.reshape(-1).take(cells))


def _most_varied(points: FloatArray) -> IntArray | None:
    """Return the columns of largest variance, in ascending order; None for all."""
    if points.shape[1] <= COLUMNS:
        return None
    return np.sort(np.argsort(-np.nan_to_num(points.var(axis=0)), kind="stable")[:COLUMNS])


def _scales(values: FloatArray) -> FloatArray:
    """Return standard deviations; for constant columns their magnitude, or one."""
    spread, size = values.std(axis=0), np.abs(values).max(axis=0, initial=0.0)
    return np.where(spread > 1e-9 * size, spread, np.where(size > 0, size, 1.0))


def _directions(z: FloatArray, target: FloatArray | None) -> FloatArray:
    """Return coefficients of least squares, or leading eigenvectors where there is no target, as columns."""
    gram = np.nan_to_num(z.T @ z)
    if target is None:
        return np.asarray(np.linalg.eigh(gram)[1][:, ::-1][:, :3])
    shrunk = gram + np.eye(len(gram)) * (_SHRINKAGE * len(z))
    return np.linalg.solve(shrunk, np.nan_to_num(z.T @ (target - target.mean())))[:, None]


def _quantiser(scores: FloatArray) -> tuple[FloatArray, FloatArray, ByteArray]:
    """Return middle and half range of each score, and a table of bins: quantiles within, equal cells beyond."""
    scores = np.nan_to_num(scores)
    low, high = scores.min(axis=1), scores.max(axis=1)
    middles, ranges = low / 2 + high / 2, high / 2 - low / 2
    ranges = np.where(ranges > 0, ranges, np.maximum(np.abs(middles), 1.0))
    cells = _cells(scores, middles, ranges)
    return middles.astype(np.float64), ranges.astype(np.float64), np.stack([_table(own) for own in cells])


def _table(cells: IntArray) -> ByteArray:
    """Return the bin of each cell of the grid, given the cells of the first rows."""
    inner, first, last = BINS - 2 * _OUTER, int(cells.min()), int(cells.max())
    grid = np.arange(GRID)
    up_to = np.cumsum(np.bincount(cells, minlength=GRID))
    within = _OUTER + up_to * inner // (len(cells) + 1)
    below = grid * _OUTER // max(1, first)
    above = BINS - 1 - (GRID - 1 - grid) * _OUTER // max(1, GRID - 1 - last)
    bins = np.where(grid < first, below, np.where(grid > last, above, within))
    return bins.astype(np.uint8)


def _cells(scores: FloatArray, middles: FloatArray, ranges: FloatArray) -> IntArray:
    """Return the grid cells of scores, mapped by ``t / (1 + |t|)``; half of the grid covers the usual ranges."""
    t = scores - middles[:, None].astype(scores.dtype)
    t /= ranges[:, None].astype(scores.dtype)
    divisor = np.abs(t)
    divisor += 1
    t /= divisor
    t += 1
    t *= GRID / 2
    return np.fmax(np.fmin(t, GRID - 1, out=t), 0, out=t).astype(np.intp)
