"""What a check of the condition leaves behind: bounds that stay valid as rows are added."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.core.registry import storable
from batch2online.linalg.scratch import scratch
from batch2online.linalg.triangular import correlations

LOSS_OF_DIGITS = 1e7
"""Growth of a column since the last check, over the least eigenvalue then, beyond which QR steps in."""

TIGHT = 0.25
"""Eigenvalues of the correlations below this get a direction of their own in the cheap score bound."""

DEPENDENT = 30.0
"""A column whose part of its own is at most this many times the regularisation all but depends on earlier columns."""


@storable
@dataclass(frozen=True)
class Reference:
    """What was known at the last check of the condition: bounds that stay valid as rows are added.

    With correlations C = U diag(lam) U' in units where columns have norm one, and v = z in these units,
    v' C^-1 v <= sum_{j <= r} (1/lam_j - 1/lam_{r+1}) (u_j' v)^2 + |v|^2 / lam_{r+1}.

    Attributes
    ----------
    rows : int
        Rows seen at the check.
    limits : (p,) array
        While the diagonal of the Gram matrix is at most this, it has lost no digits that count.
    scales : (p,) array
        Weights of the squares of z in the bound.
    directions : (p, r) array
        The directions of small eigenvalues, scaled.
    own : (p,) array
        True for a column that has a substantial part of its own, one that no combination of the columns before it
        explains. False where what is left of it is no more than rounding.
    """

    rows: int
    limits: FloatArray
    scales: FloatArray
    directions: FloatArray
    own: BoolArray

    def scaled(self, factor: float) -> Reference:
        """Return the same of rows with weights multiplied by a power of 4."""
        scales, directions = self.scales / factor, self.directions / factor**0.5
        return replace(self, limits=self.limits * factor, scales=scales, directions=directions)

    def bounds(self, z: FloatArray) -> FloatArray:
        """Upper bounds of the scores of rows in the coordinates z (n, p)."""
        along = z @ self.directions
        return np.asarray((z * z) @ self.scales + np.einsum("ij,ij->i", along, along))

    def plain_bounds(self, points: FloatArray, others: FloatArray, inner: slice, outer: IntArray) -> FloatArray:
        """Return the same for rows in two parts, which are the columns ``inner`` and (transposed) ``outer`` of z."""
        scales = self.scales
        bound = np.multiply(points, points, out=scratch.room("squares", points.shape)) @ scales[inner]
        bound += scales[outer] @ (others * others)
        for direction in self.directions.T:
            along = points @ direction[inner]
            along += direction[outer] @ others
            along *= along
            bound += along
        return np.asarray(bound)


@dataclass(frozen=True)
class Condition:
    """The spectrum of a Gram matrix in units where its columns have norm one."""

    norms: FloatArray
    values: FloatArray
    vectors: FloatArray

    @classmethod
    def of(cls, gram: FloatArray) -> Condition:
        correlation, norms = correlations(gram)
        return cls(norms, *np.linalg.eigh(correlation))

    @property
    def least(self) -> float:
        """The least eigenvalue: one for orthogonal columns, zero for dependent ones."""
        return float(self.values[0])

    def reference(self, rows: int, own: BoolArray) -> Reference:
        """Return the bounds that follow for all rows that come after these."""
        norms, values, vectors = self.norms, self.values, self.vectors
        few = int((values < TIGHT).sum())
        floor = values[min(few, len(values) - 1)]
        per_norm = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        return Reference(
            rows=rows,
            limits=LOSS_OF_DIGITS * values[0] * norms**2,
            scales=per_norm**2 / floor,
            directions=per_norm[:, None] * vectors[:, :few] * np.sqrt(1 / values[:few] - 1 / floor),
            own=own,
        )
