"""Fewer rows than columns: kept as they are, since products with p x p matrices take far longer than the rows do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.least_squares.moments import CentredFactor, Moments
from batch2online.numerics.triangular import column_norms
from batch2online.rows import Rows
from batch2online.schema import storable
from batch2online.sketches.candidates import copied, scaled_rows


@storable
@dataclass(frozen=True)
class FewRows:
    """Second moments of fewer rows than ``[1 | a | b]`` has columns; :attr:`whole` computes the others when asked for.

    Attributes
    ----------
    width, n_targets, intercept : int, int, bool
        Columns of a and of b, and whether there is a constant column.
    held : Rows
        The rows.
    """

    width: int
    n_targets: int
    intercept: bool
    held: Rows

    @classmethod
    def none(cls, width: int, n_targets: int, intercept: bool) -> FewRows:
        return cls(width, n_targets, intercept, Rows.empty(width, n_targets))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.held)

    @property
    def n_columns(self) -> int:
        """Number of columns of [1 | a | b]."""
        return self.width + self.n_targets + self.intercept

    @property
    def n_inputs(self) -> int:
        """Number of columns of [1 | a]."""
        return self.width + self.intercept

    @cached_property
    def whole(self) -> Moments:
        """The moments of the rows."""
        return Moments.empty(self.width, self.n_targets, self.intercept).add(self.held)

    def add(self, rows: Rows) -> FewRows | Moments:
        """Return the moments with these rows added."""
        held = Rows.concatenate([self.held, rows] if self.rows else [rows])
        if len(held) >= self.n_columns:
            return replace(self, held=held).whole
        return replace(self, held=copied(held))

    def scaled(self, factor: float) -> FewRows:
        """Return the moments for weights multiplied by a power of 4, without rounding."""
        return replace(self, held=scaled_rows(self.held, factor))

    # -- what a check asks for ------------------------------------------------------------------------

    @cached_property
    def shift(self) -> FloatArray:
        """What is subtracted from the columns of m."""
        return self._empty.representative(self.held) if self.rows else self._empty.shift

    @cached_property
    def _empty(self) -> Moments:
        return Moments.empty(self.width, self.n_targets, self.intercept)

    @cached_property
    def shifted_factor(self) -> FloatArray:
        """The rows ``m - shift``: a factor of their Gram matrix, though not a triangular one."""
        return replace(self._empty, shift=self.shift).design(self.held)

    @cached_property
    def centred_factor(self) -> CentredFactor:
        """A factor of the rows around their means."""
        z, i, inputs = self.shifted_factor, int(self.intercept), self.n_inputs
        means = None
        if i and self.rows:
            means = z[:, 0] @ z / (z[:, 0] @ z[:, 0])
            z = z - z[:, :1] * means
            means = means + self.shift
        return CentredFactor(means, z[:, i:inputs], z[:, inputs:], np.zeros((0, self.n_targets)))

    @property
    def input_spreads(self) -> FloatArray:
        """Norms of the columns of a around their means."""
        return column_norms(self.centred_factor.inputs)
