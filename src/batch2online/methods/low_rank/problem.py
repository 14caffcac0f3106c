"""Low-rank approximation and PCA as an online problem.

A model is a subspace with an orthonormal basis and, if centred, a mean. The moments of all rows give the exact cost of
any model and the hindsight optimum at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.low_rank.moments import CANCELLATION, second_moments
from batch2online.methods.low_rank.sketch import RidgeLeverageSketch
from batch2online.methods.low_rank.solver import coreset_moments, leading_spectrum, leading_subspace
from batch2online.metrics import Metrics, low_rank_quality
from batch2online.numerics.distances import squared_lengths
from batch2online.problem import FitResult, Hindsight, Problem, noise_factor_of, resolution
from batch2online.record import Averages
from batch2online.rows import Rows
from batch2online.schema import shape, storable
from batch2online.sketches.base import Snapshot
from batch2online.theory.bounds import DependsOn
from batch2online.warm_up import MeanSoFar

ROUNDING = 1e-9
"""Angles between subspaces, in radians, that count as rounding."""


@storable
@dataclass(frozen=True)
class Subspace:
    """A subspace: the rows of ``components`` (k, d) are an orthonormal basis; ``mean`` (d,) is zero unless centred."""

    components: Annotated[FloatArray, shape("k", "d")]
    mean: Annotated[FloatArray, shape("d")]

    def coordinates(self, points: FloatArray) -> FloatArray:
        return np.asarray((points - self.mean) @ self.components.T)


@storable
@dataclass(frozen=True)
class LowRank(Problem):
    """Low-rank approximation: minimise squared distances of rows to a subspace of this rank.

    ``stable_basis`` rotates each new basis towards the old one within the subspace (orthogonal Procrustes); otherwise
    it is ordered by variance, with signs that follow the old basis.
    """

    sketch_type: ClassVar[type] = RidgeLeverageSketch
    costs_are_exact: ClassVar[bool] = True
    rank: int
    center: bool = False
    exact: bool = False
    stable_basis: bool = True

    @property
    def secondary_name(self) -> str:
        return "distance"

    @property
    def best_model(self) -> str:
        return "possible subspace"

    def quality(self, rows: Averages) -> Metrics:
        return low_rank_quality(rows)

    @property
    def depends_on(self) -> DependsOn:
        return DependsOn.ALL_ROWS if self.exact else DependsOn.CORESET

    def first_check(self, width: int, n_targets: int) -> int:
        return 2 * (self.rank + self.center)

    def warm_up(self) -> MeanSoFar:
        return MeanSoFar(of_targets=False)

    def initial_model(self, prediction: FloatArray | None, width: int, n_targets: int) -> Subspace:
        """Return coordinate axes, through the mean row if centred."""
        return Subspace(
            np.eye(self.rank, width), prediction if self.center and prediction is not None else np.zeros(width)
        )

    def losses(self, model: Subspace, points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        rows = points - model.mean if self.center else points
        return self._losses(model, rows, squared_lengths(rows))

    def spread_of(self, rows: Rows) -> FloatArray:
        """Return the points, or their lengths without centering."""
        return rows.points if self.center else np.sqrt(rows.lengths)[:, None]

    def _losses(self, model: Subspace, rows: FloatArray, lengths: FloatArray) -> tuple[FloatArray, FloatArray]:
        along = model.components @ rows.T  # faster than the transpose
        squared = lengths - np.einsum("ij,ij->j", along, along)
        if squared.sum() < CANCELLATION * lengths.sum():
            squared = np.square(rows - along.T @ model.components).sum(axis=1)
        squared = np.maximum(squared, 0.0)
        return squared, np.sqrt(squared)

    def fit(self, data: Snapshot, current: Subspace | None) -> FitResult:
        """Return the leading subspace of the coreset or of all rows; the current basis only decides its turn."""
        moments = data.sketch.moments
        if not self.exact:
            moments = coreset_moments(data.coreset, data.sketch.rank, data.sketch.intercept)
        components = leading_subspace(moments, self.rank)
        if current is not None:
            components = self._turned(components, current.components)
        return self.fit_result(Subspace(np.ascontiguousarray(components), second_moments(moments).mean), data)

    def _turned(self, new: FloatArray, old: FloatArray) -> FloatArray:
        overlap = old @ new.T
        if not self.stable_basis:
            return np.where(overlap.diagonal() < 0, -1.0, 1.0)[:, None] * new
        left, _, right = np.linalg.svd(overlap)
        return np.asarray(left @ right @ new)

    def cost(self, model: Subspace, data: Snapshot) -> float:
        """Return the exact squared loss of the model on all rows seen."""
        parts = second_moments(data.sketch.moments)
        offset = parts.mean - model.mean
        offset = offset - offset @ model.components.T @ model.components
        return parts.residual(model.components) + parts.weight * float(offset @ offset)

    def lower_bound(self, data: Snapshot) -> float:
        """Return the optimum: the sum of all but the leading squared singular values."""
        spectrum = leading_spectrum(data.sketch.moments, self.rank)
        return spectrum.rest * spectrum.scale**2

    def optimum(self, data: Snapshot, model: Subspace) -> float:
        """Return the lower bound, which is exact."""
        return self.lower_bound(data)

    def degrees_of_freedom(self, model: Subspace, data: Snapshot) -> float:
        """Return the rank, plus one for a mean: k (d - k) parameters, where the loss of a row has d - k terms."""
        return float(self.rank + self.center)

    def noise_factor(self, model: Subspace, data: Snapshot) -> float:
        rows, weights = data.sketch.sample()
        spectrum = leading_spectrum(data.sketch.moments, self.rank)
        points = rows.points - model.mean if self.center else rows.points
        along = points / spectrum.scale @ spectrum.vectors
        shares = np.divide(1.0, spectrum.values, out=np.zeros(len(spectrum.values)), where=spectrum.values > 0)
        leverages = (np.square(along) @ shares + self.center / data.totals.weight) * rows.weights
        losses, _ = self.losses(model, rows.points, rows.targets)
        mean_loss = self.lower_bound(data) / data.totals.effective_rows
        return noise_factor_of(leverages, losses, weights, self.degrees_of_freedom(model, data) * mean_loss)

    def hindsight(self, data: Snapshot, model: Subspace) -> Hindsight:
        """Return the optimum beside the cost of rank 0: the squared length of all rows, less their mean."""
        parts = second_moments(data.sketch.moments)
        offset = float(np.abs(parts.mean).max(initial=0.0))
        rounding = resolution(parts.total, parts.weight, offset)
        return Hindsight(self.optimum(data, model), total=parts.total, resolution=rounding)

    def difference(self, old: Subspace, new: Subspace, data: Snapshot) -> dict[str, Any]:
        """Return the largest principal angle between the two subspaces, in radians."""
        overlap = old.components @ new.components.T
        cosine = np.linalg.svd(overlap, compute_uv=False)[-1]
        sine = np.linalg.norm(new.components - overlap.T @ old.components, ord=2)
        angle = float(np.arctan2(sine, cosine))
        return {"magnitude": angle, "angle": angle}

    def same(self, old: Subspace, new: Subspace) -> bool:
        """Return whether the bases agree up to rounding and the means are the same."""
        turned = float(np.abs(old.components - new.components).max())
        return turned <= ROUNDING and np.array_equal(old.mean, new.mean)
