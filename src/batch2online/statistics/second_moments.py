"""Moments of rows around their mean or around zero: the cost of any subspace, and the variance along it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.statistics.ridge import RidgeMoments

CANCELLATION = 1e-6
"""Residuals below this share of the total are computed from differences instead of squares."""


@dataclass(frozen=True)
class SecondMoments:
    """Moments around the mean (or around zero): a Gram matrix or, where it would be too coarse, its factor."""

    gram: Any  # array or None
    factor: Any  # array or None
    mean: FloatArray
    weight: float

    def residual(self, components: FloatArray) -> float:
        """Squared distance of all rows to the span of the components."""
        if self.gram is not None:
            total = float(self.gram.trace())
            rest = total - float(np.einsum("ij,ij->", components @ self.gram, components))
            if rest > CANCELLATION * total:
                return rest
        return float(np.square(self._left_over(components)).sum())

    def _left_over(self, components: FloatArray) -> FloatArray:
        factor = self.factor
        if factor is None:
            assert self.gram is not None
            values, vectors = np.linalg.eigh(self.gram)
            factor = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        return np.asarray(factor - factor @ components.T @ components)

    def along(self, components: FloatArray) -> FloatArray:
        """Squared length of all rows along each component."""
        if self.gram is not None:
            return np.asarray(np.einsum("ij,ij->i", components @ self.gram, components))
        return np.asarray(np.square(self.factor @ components.T).sum(axis=0))

    @property
    def total(self) -> float:
        if self.factor is not None:
            return float(np.square(self.factor).sum())
        assert self.gram is not None
        return float(self.gram.trace())


def second_moments(moments: RidgeMoments) -> SecondMoments:
    """Return the moments around the mean if there is a constant column, around zero otherwise."""
    gram, factor = moments.gram, moments.factor
    if moments.rows == 0:
        return SecondMoments(np.zeros((moments.width, moments.width)), None, np.zeros(moments.width), 0.0)
    if not moments.intercept:
        return SecondMoments(gram, factor, np.zeros(moments.width), moments.weight)
    if factor is not None:  # the constant column comes first: what is below it is centred
        return SecondMoments(None, factor[1:, 1:], factor[0, 1:] / factor[0, 0], float(factor[0, 0] ** 2))
    assert gram is not None
    weight, sums = float(gram[0, 0]), gram[0, 1:]
    return SecondMoments(gram[1:, 1:] - np.outer(sums, sums) / weight, None, sums / weight, weight)
