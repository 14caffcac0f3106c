"""Rows as columns ``m = [1 | a | b]``: a constant, the inputs, the targets.

All that depends on where a column stands is here. The constant column is there if ``intercept``. A ``shift`` is a
row of fixed numbers that is subtracted from every row m, zero for the constant column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.core.rows import Rows, all_ones
from batch2online.linalg.triangular import column_norms

_FIRST_ROWS = 1000


@dataclass(frozen=True)
class Columns:
    """How many columns of each kind there are, and what is subtracted from them."""

    width: int
    n_targets: int
    intercept: bool
    shift: FloatArray

    @property
    def n_inputs(self) -> int:
        """Columns of [1 | a]: the targets come after them."""
        return self.width + self.intercept

    @cached_property
    def inner(self) -> slice:
        """Where a stands in [1 | a | b]."""
        return slice(int(self.intercept), self.intercept + self.width)

    @cached_property
    def outer(self) -> IntArray:
        """Where 1 and b stand in [1 | a | b]."""
        return np.array([*range(self.intercept), *range(self.n_inputs, len(self.shift))], dtype=np.int64)

    def design(self, rows: Rows) -> FloatArray:
        """Return the rows ``m - shift``, each scaled by the square root of its weight."""
        i, d = self.intercept, self.width
        z = np.empty((len(rows), len(self.shift)))
        z[:, :i] = 1.0
        z[:, i : i + d] = rows.points
        z[:, i + d :] = rows.targets
        if self.shift.any():
            z -= self.shift
        if not all_ones(rows.weights):
            z *= np.sqrt(rows.weights)[:, None]
        return z

    def plain_columns(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Return the rows m without shift in two parts: a (n, d), not copied as it is wide, and [1 | b] transposed."""
        others = np.empty((self.intercept + self.n_targets, len(rows)))
        others[: self.intercept] = 1.0
        others[self.intercept :] = rows.targets.T
        if all_ones(rows.weights):
            return rows.points, others
        root = np.sqrt(rows.weights)
        return rows.points * root[:, None], others * root

    def plain_gram(self, points: FloatArray, others: FloatArray) -> FloatArray:
        """Return the Gram matrix of rows m that are given in two parts."""
        inner, outer = self.inner, self.outer
        gram = np.empty((len(self.shift), len(self.shift)))
        gram[inner, inner] = points.T @ points
        for position, column in zip(outer, others, strict=True):  # faster than one narrow product
            gram[position, inner] = gram[inner, position] = column @ points
            gram[position, outer] = others @ column
        return gram

    def representative(self, rows: Rows) -> FloatArray:
        """Return a shift: for each column the value nearest to the mean of the first rows.

        Being a value of the column, it turns a constant column into exact zeros.
        """
        if not self.intercept:
            return np.zeros(len(self.shift))
        values = np.concatenate([rows.points[:_FIRST_ROWS], rows.targets[:_FIRST_ROWS]], axis=1)
        nearest = np.abs(values - values.mean(axis=0)).argmin(axis=0)
        return np.concatenate([[0.0], values[nearest, np.arange(values.shape[1])]])

    def spreads(self, triangle: FloatArray) -> FloatArray:
        """Norms of the columns of [1 | a | b] around their means, from a triangular factor of the rows.

        What is below the row of the constant belongs to the rows less their mean.
        """
        if not self.intercept:
            return column_norms(triangle)
        return np.concatenate([np.abs(triangle[0, :1]), column_norms(triangle[1:, 1:])])
