"""Low-rank approximation and PCA as an online problem.

A model is a subspace with an orthonormal basis and, if centred, a mean. The moments of all rows are at hand,
so the exact cost of any model and the hindsight optimum are known at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.registry import storable
from batch2online.core.rows import Rows
from batch2online.coresets import RidgeLeverage
from batch2online.linalg.distances import squared_lengths
from batch2online.problems.problem import DependsOn, Problem
from batch2online.statistics.ridge import RidgeMoments, Spectrum, leading

_CANCELLATION = 1e-6
"""Residuals below this share of the total are computed from differences instead of squares."""


@storable
@dataclass(frozen=True)
class Subspace:
    """The rows of ``components`` (k, d) are an orthonormal basis; ``mean`` (d,) is zero unless centred."""

    components: FloatArray
    mean: FloatArray

    def coordinates(self, points: FloatArray) -> FloatArray:
        return np.asarray((points - self.mean) @ self.components.T)


@storable
@dataclass(frozen=True)
class LowRank(Problem):
    """The problem: squared distance of rows to a subspace of this rank.

    ``stable_basis`` turns each new basis towards the old one as far as the subspace allows (orthogonal
    Procrustes); otherwise it is ordered by variance, with signs that follow the old basis.
    """

    needs: ClassVar[type] = RidgeLeverage
    rank: int
    center: bool = False
    exact: bool = False
    stable_basis: bool = True

    @property
    def models_depend_on(self) -> DependsOn:
        return DependsOn.ALL_ROWS if self.exact else DependsOn.CORESET

    def first_refresh(self, width: int, n_targets: int) -> int:
        return 2 * (self.rank + self.center)

    def initial(self, first: FloatArray, n_targets: int) -> Subspace:
        return Subspace(np.eye(self.rank, len(first)), np.zeros(len(first)))

    def losses(self, model: Subspace, points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        rows = points - model.mean if self.center else points
        along = model.components @ rows.T  # faster than its transpose
        lengths = squared_lengths(rows)
        squared = lengths - np.einsum("ij,ij->j", along, along)
        if squared.sum() < _CANCELLATION * lengths.sum():
            squared = np.square(rows - along.T @ model.components).sum(axis=1)
        squared = np.maximum(squared, 0.0)
        return squared, np.sqrt(squared)

    def solve(self, construction: RidgeLeverage, current: Subspace | None) -> Subspace:
        """The leading subspace of the coreset or of all rows; the current basis decides only how it is turned."""
        moments = construction.statistics
        if not self.exact:
            moments = coreset_moments(construction)
        components = _signed(self.spectrum(moments).vectors.T)
        if current is not None:
            components = self._turned(components, current.components)
        return Subspace(np.ascontiguousarray(components), second_moments(moments).mean)

    def _turned(self, new: FloatArray, old: FloatArray) -> FloatArray:
        overlap = old @ new.T
        if not self.stable_basis:
            return np.where(overlap.diagonal() < 0, -1.0, 1.0)[:, None] * new
        left, _, right = np.linalg.svd(overlap)
        return np.asarray(left @ right @ new)

    def cost(self, model: Subspace, construction: RidgeLeverage) -> float:
        """Exact squared loss of the model on all rows seen."""
        parts = second_moments(construction.statistics)
        offset = parts.mean - model.mean
        offset = offset - offset @ model.components.T @ model.components
        return parts.residual(model.components) + parts.weight * float(offset @ offset)

    def lower_bound(self, construction: RidgeLeverage) -> float:
        """The optimum: the sum of all but the leading squared singular values."""
        spectrum = self.spectrum(construction.statistics)
        return spectrum.rest * spectrum.scale**2

    def optimum(self, construction: RidgeLeverage, model: Subspace) -> float:
        """The same: it is exact."""
        return self.lower_bound(construction)

    def spectrum(self, moments: RidgeMoments) -> Spectrum:
        """The leading part of the (centred) Gram matrix of all rows."""
        if moments.rows == 0:
            return Spectrum(np.zeros(self.rank), np.eye(moments.width, self.rank), 0.0, 1.0)
        if not self.center:
            return moments.spectrum
        parts = second_moments(moments)
        return leading(parts.gram, parts.factor, self.rank)

    def difference(self, old: Subspace, new: Subspace, construction: RidgeLeverage) -> dict[str, Any]:
        """The largest angle between the two subspaces, in radians."""
        overlap = old.components @ new.components.T
        cosine = np.linalg.svd(overlap, compute_uv=False)[-1]
        sine = np.linalg.norm(new.components - overlap.T @ old.components, ord=2)
        angle = float(np.arctan2(sine, cosine))
        return {"magnitude": angle, "angle": angle}

    def same(self, old: Subspace, new: Subspace) -> bool:
        return np.array_equal(old.components, new.components) and np.array_equal(old.mean, new.mean)


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
            if rest > _CANCELLATION * total:
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
    """The moments around the mean if there is a constant column, around zero otherwise."""
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


def coreset_moments(construction: RidgeLeverage) -> RidgeMoments:
    """Moments of the weighted coreset, a pure function of it."""
    coreset = construction.coreset()
    rows = Rows(coreset.points, np.empty((len(coreset), 0)), coreset.weights, coreset.ids)
    rank = construction.rank + construction.intercept
    if len(rows) == 0:  # all rows so far are zero
        return RidgeMoments.empty(coreset.points.shape[1], rank, construction.intercept)
    return RidgeMoments.of(rows, rank, construction.intercept)


def _signed(components: FloatArray) -> FloatArray:
    """Each component with its largest entry positive."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.where(components[np.arange(len(components)), largest] < 0, -1.0, 1.0)
    return np.asarray(components * signs[:, None])
