"""Models, the problems that they solve, and what is told of their changes."""

from __future__ import annotations

import math

from batch2online.engine.invariants.rows import is_finite
from batch2online.methods.clustering.problem import Centers, KZClustering
from batch2online.methods.least_squares.problem import LinearModel
from batch2online.methods.low_rank.problem import LowRank, Subspace
from batch2online.numerics.matching import ClusterChange
from batch2online.results import ChangeEvent
from batch2online.schema import check_of, require
from batch2online.warm_up import LabelsSoFar, MeanSoFar

KINDS = ("scheduled", "costlier", "fit", "merged", "forgotten", "half_life")


@check_of(LinearModel)
def check_linear_model(model: LinearModel) -> None:
    shape = model.intercepts.shape
    require(model.coefficients.ndim == 2 and shape == model.coefficients.shape[:1], "each target has an intercept.")
    require(is_finite(model.coefficients, model.intercepts), "coefficients are finite.")


@check_of(Centers)
def check_centers(model: Centers) -> None:
    require(model.points.ndim == 2 and is_finite(model.points), "centers are finite points.")


@check_of(Subspace)
def check_subspace(model: Subspace) -> None:
    shape = model.mean.shape
    require(model.components.ndim == 2 and shape == model.components.shape[1:], "a mean is as wide as the basis.")
    require(is_finite(model.components, model.mean), "a subspace is finite.")


@check_of(MeanSoFar)
def check_mean(mean: MeanSoFar) -> None:
    require(1 <= mean.power < math.inf and 0 <= mean.weight < math.inf, "a mean has a weight and a power.")
    require((mean.first is None) == (mean.sums is None) == (mean.weight == 0), "a mean is that of rows.")
    if mean.first is not None and mean.sums is not None:
        require(mean.first.ndim == 1 and mean.first.shape == mean.sums.shape, "means have one sum each.")
        require(is_finite(mean.first, mean.sums), "means are finite.")


@check_of(LabelsSoFar)
def check_labels(labels: LabelsSoFar) -> None:
    require((labels.codes is None) == (labels.weights is None), "labels have weights.")
    if labels.codes is not None and labels.weights is not None:
        require(labels.codes.ndim == 1 and labels.codes.shape == labels.weights.shape, "labels have one weight each.")
        require(is_finite(labels.codes, labels.weights) and (labels.weights > 0).all(), "weights are positive.")


@check_of(KZClustering)
def check_clustering(problem: KZClustering) -> None:
    require(problem.k >= 1 <= problem.z < math.inf, "k and z are at least 1.")


@check_of(LowRank)
def check_low_rank(problem: LowRank) -> None:
    require(problem.rank >= 1, "a rank is at least 1.")


@check_of(ClusterChange)
def check_cluster_change(change: ClusterChange) -> None:
    require(change.id >= 0, "ids of clusters are not negative.")


@check_of(ChangeEvent)
def check_change_event(event: ChangeEvent) -> None:
    require(event.at >= 0 and event.kind in KINDS, "a change has a time and a kind.")
    require(event.rows is not None or event.kind in ("scheduled", "costlier", "fit"), "rows were merged or forgotten.")
    require(event.rows is None or event.rows >= 0, "rows are not negative.")
    require(all(column >= 0 for column, _, _ in event.coefficients or ()), "columns are not negative.")
