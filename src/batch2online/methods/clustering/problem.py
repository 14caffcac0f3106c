"""(k, z)-clustering as an online problem: k-means for z = 2, k-median for z = 1."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from batch2online import sampling
from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.history import History
from batch2online.methods.clustering import solver
from batch2online.methods.clustering.judge import Judge
from batch2online.methods.clustering.lloyd import NEARLY_CONVERGED, WeightedPoints, refined_by_parts
from batch2online.methods.clustering.own_solver import Solver, solved_by
from batch2online.methods.clustering.sketch import ClusteringSketch
from batch2online.metrics import Metrics, clustering_quality, silhouette
from batch2online.numerics.distances import Sums, nearest, nearest_squared, power, squared_distances, sums_of_clusters
from batch2online.numerics.matching import cluster_changes, matched, shared_weight
from batch2online.problem import (
    FitResult,
    Hindsight,
    Problem,
    certain_weight,
    held_out_bound,
    resolution,
    sampling_error,
)
from batch2online.record import Averages
from batch2online.rows import Rows, all_ones
from batch2online.schema import shape, storable
from batch2online.sketches.base import Coreset, Snapshot
from batch2online.theory.bounds import DependsOn
from batch2online.warm_up import MeanSoFar

_STEPS_ON_ALL = 10
"""Maximum number of steps of centers on all rows for the optimum in hindsight."""

_JUDGED_PER_CENTER = 10
"""Points of the coreset for each center that are needed to judge out of sample; with fewer, the cost decides."""

_ROWS_PER_CENTER = 50
"""So many rows for each center halve the price of their labels: few rows have labels, and many are still to come."""


_SEEDINGS = 5
"""Number of seedings whose mean the loss is compared with."""


@storable
@dataclass(frozen=True)
class Centers:
    """The rows of ``points`` (k, d) are the centers."""

    points: Annotated[FloatArray, shape("k", "d")]


@storable
@dataclass(frozen=True)
class ClusteringProblem(Problem):
    """(k, z)-clustering: minimise distances of rows to the nearest of k centers, to the power z.

    With ``warm_start`` the solver starts from the current centers, and others replace them if they gain more than
    ``churn_price`` times the share of labels that change. Successive models are then closer to each other.
    In the guarantee of the refresh policies sensitivities are then doubled, and those of all refreshes so far add up: B
    ln^2 n instead of B ln n (Theorem 4 of ``docs/proofs.md``).

    A ``solver`` of the user's own finds the centers of the coreset, without a warm start.
    """

    sketch_type: ClassVar[type] = ClusteringSketch
    accuracy_scale: ClassVar[float] = 10.0
    k: int
    z: float = 2.0
    warm_start: bool = True
    exact: bool = False
    churn_price: float = 0.05
    solver: Solver | None = None

    @property
    def secondary_name(self) -> str:
        return "distance"

    def refit_cost(self, keeps_history: bool) -> Literal["moments", "low", "high"]:
        return "high" if keeps_history else "low"

    @property
    def depends_on(self) -> DependsOn:
        if self.exact:
            return DependsOn.ALL_ROWS
        return DependsOn.CURRENT_MODEL if self.warm_start else DependsOn.CORESET

    @property
    def best_model(self) -> str:
        return "clustering known"

    def quality(self, rows: Averages) -> Metrics:
        return clustering_quality(rows)

    def further_metrics(self, data: Snapshot, model: Centers) -> Metrics:
        if "silhouette" not in data.cache:
            data.cache["silhouette"] = silhouette(data.history, model.points)
        return dict(data.cache["silhouette"])

    def gain_over_seeds(self, data: Snapshot, model: Centers) -> float | None:
        if self.z != 2 or not len(data.coreset):
            return None
        cost = self.seeding(data)[1]
        return 1 - self.cost(model, data) / cost if cost > 0 else None

    def seeding(self, data: Snapshot) -> tuple[float, float]:
        """Return mean distance and cost of the rows of the coreset for seeds of k-means++ alone, as scikit-learn's."""
        from sklearn.cluster import kmeans_plusplus  # a third of a second that a first report needs

        if "seeding" not in data.cache:
            coreset = data.coreset
            origin = coreset.points.mean(axis=0)  # scikit-learn's distances come from products
            points, weights = coreset.points - origin, coreset.weights
            found = []
            for draw in range(_SEEDINGS):
                seeds = kmeans_plusplus(points, min(self.k, len(points)), sample_weight=weights, random_state=draw)[0]
                squared = nearest_squared(points, seeds)
                found.append((np.sqrt(squared) @ weights / weights.sum(), power(squared, self.z) @ weights))
            data.cache["seeding"] = tuple(np.mean(found, axis=0).tolist())
        distance, cost = data.cache["seeding"]
        return distance, cost

    def first_check(self, width: int, n_targets: int) -> int:
        return 1

    def warm_up(self) -> MeanSoFar:
        return MeanSoFar(of_targets=False, power=float(self.z))

    def initial_model(self, prediction: FloatArray | None, width: int, n_targets: int) -> Centers:
        """Return k centers on the mean row."""
        mean = np.zeros(width) if prediction is None else prediction
        return Centers(mean[None].repeat(self.k, axis=0))

    def losses(self, model: Centers, points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        squared = nearest_squared(points, model.points)
        return power(squared, self.z), np.sqrt(squared)

    def fit(self, data: Snapshot, current: Centers | None) -> FitResult:
        """Return new centers.

        With all rows kept (``exact``) and a warm start, the last steps take sums of all rows, and costs are those of
        all rows, but for rows that the last step would relabel; otherwise they are measured on the coreset.
        """
        return self._fit(data, current, self._price(data) if self.warm_start else None)

    def _price(self, data: Snapshot) -> float:
        """Return the share of the cost that a change of all labels must gain."""
        n = data.totals.effective_rows
        return self.churn_price * n / (n + _ROWS_PER_CENTER * self.k)

    def _fit(self, data: Snapshot, current: Centers | None, price: float | None) -> FitResult:
        """Return new centers; the current ones if no others gain enough for the labels that they change."""
        coreset, known = data.coreset, None if current is None else current.points
        if len(coreset) == 0:  # it is meant to be tiny, and chance kept no row
            seeds = data.sketch.seeds(data.history)
            return self.fit_result(Centers(np.resize(seeds, (self.k, coreset.points.shape[1]))), data)
        if self.solver is not None:
            own = solved_by(self.solver, coreset.points, coreset.weights, self.k, self.z, data.seed)
            centers = own if known is None else self._with_ids_of(known, own, None, data)[0]
            return self.fit_result(Centers(centers), data)
        start = known if self.warm_start else None
        is_sample = self.exact and len(coreset) < data.totals.n_rows
        sums_of = partial(_sums_of_all, data.history) if is_sample and data.history is not None else None
        problem = (coreset.points, coreset.weights, self.k, self.z, data.seed, start)
        judge = None if price is None or len(coreset) < _JUDGED_PER_CENTER * self.k else Judge(price)
        found = solver.solved(*problem, sums_of=sums_of, judge=judge)
        if known is None:
            return self.fit_result(Centers(found.centers), data)
        if found.current_labels is not None:
            data.cache["labels", known.tobytes()] = found.current_labels
        centers, labels = self._with_ids_of(known, found.centers, found.labels, data)
        costs = found.costs
        if price and not self._is_worth(price, known, centers, labels, costs, data):
            centers, costs = known, None if costs is None else (costs[0], costs[0])
        result = self.fit_result(Centers(centers), data)
        return result._replace(costs=costs, ess_ratio=found.ess_ratio)

    def _is_worth(
        self,
        price: float,
        old: FloatArray,
        new: FloatArray,
        new_labels: IntArray,
        costs: tuple[float, float] | None,
        data: Snapshot,
    ) -> bool:
        """Return whether new centers gain at least the price times the share of labels that they change."""
        before, after = costs or (self.cost(Centers(old), data), self.cost(Centers(new), data))
        shared = shared_weight(_labels(data, old), new_labels, data.coreset.weights, self.k)
        return bool(before - after >= price * before * (1 - shared.trace() / (shared.sum() or 1.0)))

    def cost(self, model: Centers, data: Snapshot) -> float:
        """Return the cost on the coreset."""
        return float(data.coreset.weights @ power(_assignment(data, model.points)[1], self.z))

    def lower_bound(self, data: Snapshot) -> float | None:
        """Return zero, the best bound known; None where the solver prices the current centers anyway."""
        return None if self.z == 2 and self.solver is None else 0.0

    def optimum(self, data: Snapshot, model: Centers) -> float:
        """Return the cost of the best solution known: the model's, or one found now; on all rows if they are kept."""
        return self._best(data, model)[0]

    def _best(self, data: Snapshot, model: Centers) -> tuple[float, Centers]:
        if data.totals.n_rows == 0:
            return 0.0, model
        options = [self._fit(data, model, None).model, model]
        best = min(((self.full_cost(option, data), option) for option in options), key=lambda known: known[0])
        if data.history is None or len(data.coreset) == data.totals.n_rows:
            return best
        settled = Centers(_settled_on_all(data.history, best[1].points, self.z))
        return min(best, (self.full_cost(settled, data), settled), key=lambda known: known[0])

    def full_cost(self, model: Centers, data: Snapshot) -> float:
        """Return the cost on all rows if they are kept, on the coreset otherwise."""
        if data.history is None:
            return self.cost(model, data)
        return sum(solver.cost(rows.points, rows.weights, model.points, self.z) for rows in data.history)

    def hindsight(self, data: Snapshot, model: Centers) -> Hindsight:
        """Return the best cost known beside that of the mean row; without a history both are those of the coreset."""
        optimum, best = self._best(data, model)
        coreset = data.coreset
        weight, mean = float(coreset.weights.sum()), np.zeros(coreset.points.shape[1])
        if weight:
            first = coreset.points[0]  # sums of rows far from zero lose digits
            mean = first + coreset.weights @ (coreset.points - first) / weight
        total = self.full_cost(Centers(mean[None]), data)
        error, shortfall = 0.0, 0.0
        if data.history is None:
            losses = power(_assignment(data, best.points)[1], self.z)
            error = sampling_error(coreset.weights, losses, certain=certain_weight(data))
            shortfall = self._shortfall(data, coreset, optimum) if error else 0.0
        rounding = resolution(total, weight, float(np.abs(mean).max(initial=0.0)), self.z)
        return Hindsight(optimum, error, shortfall, total, rounding, secondary=optimum if self.z == 1 else None)

    def _shortfall(self, data: Snapshot, coreset: Coreset, optimum: float) -> float:
        """Return how far the optimum of all rows may be above that of the coreset, to which centers are fitted.

        Centers fitted to one half of the coreset are scored on the other half.
        """
        is_fitted = _halves(data, page=1)
        if is_fitted.all() or not is_fitted.any():
            return math.inf
        some = coreset.points[is_fitted], coreset.weights[is_fitted]
        losses = solver.losses(coreset.points, solver.solve(*some, self.k, self.z, data.seed), self.z)
        most = held_out_bound(coreset.weights, losses, is_fitted, certain=certain_weight(data))
        return max(0.0, most / optimum - 1)

    def degrees_of_freedom(self, model: Centers, data: Snapshot) -> float:
        """Return the number of centers: k d numbers, where the loss of a row has d."""
        return float(self.k)

    def difference(self, old: Centers, new: Centers, data: Snapshot) -> dict[str, Any]:
        """Return the change of each cluster; the magnitude is the largest distance that a center moved."""
        shared = shared_weight(_labels(data, old.points), _labels(data, new.points), data.coreset.weights, self.k)
        moved = np.sqrt(np.square(old.points - new.points).sum(axis=1))
        total = float(shared.sum())
        return {
            "magnitude": float(moved.max()),
            "matching": cluster_changes(shared, moved),
            "churn": max(0.0, 1 - float(shared.trace()) / total) if total else 0.0,
        }

    def same(self, old: Centers, new: Centers) -> bool:
        return np.array_equal(old.points, new.points)

    def _with_ids_of(
        self, old: FloatArray, new: FloatArray, new_labels: IntArray | None, data: Snapshot
    ) -> tuple[FloatArray, IntArray]:
        """Return the new centers, each at the position of the old one whose id it takes over, and their labels."""
        distances = np.sqrt(squared_distances(new, old))
        labels = _labels(data, new) if new_labels is None else new_labels
        order = matched(shared_weight(_labels(data, old), labels, data.coreset.weights, len(old)), distances)
        return np.asarray(new[order]), np.argsort(order)[labels]


def _halves(data: Snapshot, page: int) -> BoolArray:
    """Return for each point of the coreset whether it is in the first half, by random draws of the rows."""
    return np.asarray(sampling.words(data.seed, sampling.SOLVER, data.coreset.ids, page) < np.uint64(2**63))


def _assignment(data: Snapshot, centers: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return labels and squared distances of the points of the coreset, computed once for each set of centers."""
    key = "assignment", centers.tobytes()
    if key not in data.cache:
        data.cache[key] = nearest(data.coreset.points, centers)
    found: tuple[IntArray, FloatArray] = data.cache[key]
    return found


def _labels(data: Snapshot, centers: FloatArray) -> IntArray:
    """Return the nearest centers alone, as the solver has returned them or as they are computed."""
    known: IntArray | None = data.cache.get(("labels", centers.tobytes()))
    return _assignment(data, centers)[0] if known is None else known


def _settled_on_all(history: History, centers: FloatArray, z: float) -> FloatArray:
    """Return centers after steps on all rows."""
    origin = np.median(centers, axis=0)

    def parts() -> Iterator[WeightedPoints]:
        return (WeightedPoints(rows.points - origin, np.ascontiguousarray(rows.weights)) for rows in history.blocks())

    return refined_by_parts(parts, centers - origin, z, _STEPS_ON_ALL, NEARLY_CONVERGED) + origin


def _sums_of_all(history: Any, centers: FloatArray, origin: FloatArray) -> Sums:
    """Return the sums of the clusters of all rows for sets of centers (r, k, d), the same wherever rows were cut.

    Centers and sums are relative to the origin. Rows on a cluster return their sums, a history its rows.
    """
    sums = Sums(np.zeros(centers.shape), np.zeros(centers.shape[:2]), 0.0)
    of_blocks = history.block_sums if hasattr(history, "block_sums") else partial(block_sums, history.blocks())
    return reduce(Sums.plus, of_blocks(centers, origin), sums)


def block_sums(blocks: Iterable[Rows], centers: FloatArray, origin: FloatArray) -> Iterator[Sums]:
    """Iterate over the sums of the clusters of each block, relative to an origin."""
    for rows in blocks:
        yield sums_of_clusters(rows.points, None if all_ones(rows.weights) else rows.weights, centers, origin)
