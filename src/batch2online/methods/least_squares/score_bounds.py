"""What a check of the condition leaves behind: bounds that stay valid as rows are added."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from scipy.linalg import lapack

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.numerics.distances import scratch, squared_lengths
from batch2online.numerics.triangular import correlations, inverse
from batch2online.schema import at_least, finite, number, require, shape, storable

LOSS_OF_DIGITS = 1e9
"""Growth of a column since the last check, over the least eigenvalue then, beyond which QR steps in."""

DEPENDENT = 30.0
"""A column whose part of its own is at most this many times the regularisation all but depends on earlier columns."""


@storable
@dataclass(frozen=True)
class Reference:
    """What was known at the last check of the condition: bounds that stay valid as rows are added.

    The bound of a score is ``sum_j scales_j z_j^2 + |z directions|^2``, at least as large as the score among the rows
    of the check. A diagonal matrix above this quadratic form gives coarser bounds with fewer operations.

    Attributes
    ----------
    rows : int
        Rows seen at the check.
    limits : (p,) array
        While the diagonal of the Gram matrix is at most this, it has lost no digits that count.
    scales : (p,) array
        Weights of the squares of z in the bound.
    directions : (p, r) array
        Of the rest of the form: the inverse of a triangular factor.
    own : (p,) array
        True for a column that has a substantial part of its own, one that no combination of the columns before it
        explains. False where what is left of it is no more than rounding.
    """

    rows: Annotated[int, at_least(1)]
    limits: Annotated[FloatArray, shape("p"), number, at_least(0)]
    scales: Annotated[FloatArray, shape("p"), finite, at_least(0)]
    directions: Annotated[FloatArray, shape("p", "r"), finite]
    own: Annotated[BoolArray, shape("p")]

    def validate(self) -> None:
        p, r = self.directions.shape
        require(r <= p, f"directions: found {r}, expected at most {p}")

    def scaled(self, factor: float) -> Reference:
        """Return the same of rows with weights multiplied by a power of 4."""
        scales, directions = self.scales / factor, self.directions / factor**0.5
        return replace(self, limits=self.limits * factor, scales=scales, directions=directions)

    def bounds(self, z: FloatArray) -> FloatArray:
        """Upper bounds of the scores of rows in the coordinates z (n, p); somewhat larger ones if that is cheaper."""
        bound = squared_lengths(z @ self.directions)
        return np.asarray(bound + (z * z) @ self.scales if self.scales.any() else bound)

    def plain_bounds(self, points: FloatArray, others: FloatArray, inner: slice, outer: IntArray) -> FloatArray:
        """Return the same for rows in two parts, which are the columns ``inner`` and (transposed) ``outer`` of z."""
        white = points @ self.directions[inner]
        white += others.T @ self.directions[outer]
        bound = squared_lengths(white)
        if self.scales.any():
            bound += (points * points) @ self.scales[inner] + self.scales[outer] @ (others * others)
        return bound

    @cached_property
    def coarse_scales(self) -> FloatArray:
        """Weights c with ``sum_j c_j z_j^2`` at least the form without its last direction: sums of absolute values.

        They are taken in units where columns have norm one, in which the sum of all of them is least.
        """
        others = self.directions[:, :-1]
        form = others @ others.T
        form[np.diag_indices_from(form)] += self.scales
        return np.asarray(np.abs(form) @ self.norms * self._per_norm)

    @cached_property
    def usual_coarse_bound(self) -> float:
        """The mean of the coarse bounds of all rows at the check; zero where it is not known, in earlier files."""
        if self.directions.shape != 2 * self.norms.shape:
            return 0.0
        unit = inverse(self.directions * self.norms[:, None])
        largest = np.square(unit).sum() / len(unit)  # squared norm of the longest column: correlations have unit trace
        return (float(self.coarse_scales @ np.square(self.norms) * largest) + 1.0) / max(1, self.rows)

    @cached_property
    def norms(self) -> FloatArray:
        """Norms of the columns of all rows at the check."""
        return np.asarray(np.sqrt(self.limits / self.limits.max(initial=1e-300)))

    @property
    def _last(self) -> FloatArray:
        """The last direction; zero where there is none, as in files of earlier versions."""
        return self.directions[:, -1] if self.directions.shape[1] else np.zeros(len(self.directions))

    @property
    def _per_norm(self) -> FloatArray:
        return np.divide(1.0, self.norms, out=np.zeros_like(self.norms), where=self.norms > 0)

    def coarse_bounds(self, z: FloatArray) -> FloatArray:
        """Upper bounds of the scores of rows in the coordinates z (n, p), in O(p) a row.

        The last direction, that of the targets, is left as it is.
        """
        bound = np.multiply(z, z, out=scratch.room("squares", z.shape)) @ self.coarse_scales
        along = z @ self._last
        along *= along
        bound += along
        return np.asarray(bound)

    def plain_coarse_bounds(
        self, points: FloatArray, others: FloatArray, inner: slice, outer: IntArray, has_ones: bool
    ) -> FloatArray:
        """Return the same for rows in two parts, which are the columns ``inner`` and (transposed) ``outer`` of z.

        ``has_ones`` says that the first of the others is a column of ones.
        """
        scales, direction = self.coarse_scales, self._last
        bound = np.multiply(points, points, out=scratch.room("squares", points.shape)) @ scales[inner]
        along = points @ direction[inner]
        if has_ones:
            bound += scales[outer[0]]
            along += direction[outer[0]]
        for place, values in list(zip(outer, others, strict=True))[has_ones:]:
            if scales[place]:
                bound += values * values * scales[place]
            along += values * direction[place]
        along *= along
        bound += along
        return np.asarray(bound)


@dataclass(frozen=True)
class Condition:
    """How far the columns of rows are from depending on each other, in units where each has norm one."""

    norms: FloatArray
    inverse_factor: FloatArray  # of the correlations, (p, p)

    @classmethod
    def of(cls, gram: FloatArray) -> Condition:
        correlation, norms = correlations(gram)
        factor, info = lapack.dpotrf(correlation, clean=1)
        if info == 0:
            return cls(norms, inverse(factor))
        values, vectors = np.linalg.eigh(correlation)
        return cls(norms, vectors / np.sqrt(np.maximum(values, np.finfo(np.float64).tiny)))

    @cached_property
    def least(self) -> float:
        """Return a lower bound of the least eigenvalue: one for orthogonal columns, zero for dependent ones."""
        return float(1 / np.abs(self.inverse_factor @ self.inverse_factor.T).sum(axis=0).max())

    def reference(self, rows: int, own: BoolArray) -> Reference:
        """Return the bounds that follow for all rows that come after these."""
        norms = self.norms
        per_norm = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        return Reference(
            rows=rows,
            limits=LOSS_OF_DIGITS * self.least * norms**2,
            scales=np.zeros_like(norms),
            directions=per_norm[:, None] * self.inverse_factor,
            own=own,
        )
