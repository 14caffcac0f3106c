"""Standardised columns: less a value of the column, divided by a power of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from batch2online._types import FloatArray
from batch2online.schema import shape, storable

_SOME = 64
"""Number of rows among whose values a shift is chosen."""


@storable
@dataclass(frozen=True)
class Standardizer:
    """The map of rows x to ``z = [1 | (x - shift) / scale]``; without an intercept there is no constant and no shift.

    Targets and predictors are relative to ``origin``, for losses that depend on their difference alone.
    """

    shift: Annotated[FloatArray, shape("d")]
    scale: Annotated[FloatArray, shape("d")]
    intercept: bool
    origin: float = 0.0

    @classmethod
    def of(cls, points: FloatArray, intercept: bool, targets: FloatArray | None = None) -> Standardizer:
        """Return the standardizer of these rows, at least one.

        The shift is a value near the mean, so constant columns become zero.

        The origin is the median of the targets if they are given and there is an intercept.
        """
        shift = np.zeros(points.shape[1])
        if intercept:
            some = points[:: max(1, len(points) // _SOME)]
            nearest = np.abs(some - points.mean(axis=0)).argmin(axis=0)
            shift = some[nearest, np.arange(points.shape[1])]
        spread = np.sqrt(np.square(points - shift).mean(axis=0))
        exponent = np.round(np.log2(np.where(spread > 0, spread, 1.0)))
        origin = 0.0 if targets is None or not intercept else float(np.sort(targets)[len(targets) // 2])
        return cls(shift, np.exp2(exponent), intercept, origin)

    @property
    def n_columns(self) -> int:
        """Number of columns of z."""
        return len(self.shift) + self.intercept

    def design(self, points: FloatArray) -> FloatArray:
        """Return the rows z (n, p) in column order, in which sums and products over rows are faster."""
        i = int(self.intercept)
        z = np.empty((self.n_columns, len(points)))
        z[:i] = 1.0
        np.subtract(points.T, self.shift[:, None], out=z[i:])
        z[i:] *= (1 / self.scale)[:, None]  # exact: a power of two
        return z.T

    def inner(self, coefficients: FloatArray, intercepts: FloatArray) -> FloatArray:
        """Return parameters (K, p) of z, given coefficients (K, d) and intercepts (K,) of x."""
        if not self.intercept:
            return np.asarray(coefficients * self.scale)
        constant = intercepts - self.origin + coefficients @ self.shift
        return np.column_stack([constant, coefficients * self.scale])

    def outer(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coefficients (K, d) and intercepts (K,) of x, given the parameters of z."""
        coefficients = theta[:, int(self.intercept) :] / self.scale
        if not self.intercept:
            return coefficients, np.zeros(len(theta))
        return coefficients, theta[:, 0] + self.origin - coefficients @ self.shift

    def penalties(self) -> FloatArray:
        """Return the factors (p,) from squared parameters of z to squared coefficients of x; 0 for the constant."""
        own = 1 / self.scale**2
        return np.concatenate([[0.0], own]) if self.intercept else own

    def to(self, other: Standardizer) -> FloatArray:
        """Return the matrix (p, p) that maps rows z to those of another standardizer, whatever the origins."""
        i = int(self.intercept)
        matrix = np.eye(self.n_columns)
        matrix[i:, i:] = np.diag(self.scale / other.scale)
        if self.intercept:
            matrix[1:, 0] = (self.shift - other.shift) / other.scale
        return matrix
