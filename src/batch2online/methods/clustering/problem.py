"""(k, z)-clustering as an online problem: k-means for z = 2, k-median for z = 1."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray, IntArray
from batch2online.decay import DecayedHistory
from batch2online.history import History
from batch2online.methods.clustering import solver
from batch2online.methods.clustering.lloyd import NEARLY_CONVERGED, WeightedPoints, refined_by_parts
from batch2online.methods.clustering.sketch import Clustering, RowsElsewhere
from batch2online.numerics.distances import Sums, nearest, nearest_squared, power, squared_distances, sums_of_clusters
from batch2online.numerics.matching import cluster_changes, matched, shared_weight
from batch2online.problem import (
    Contender,
    Hindsight,
    Problem,
    certain_weight,
    held_out_bound,
    resolution,
    sampling_error,
)
from batch2online.rows import Rows, all_ones
from batch2online.schema import at_least, finite, require_equal, shape, storable
from batch2online.sketches.base import Coreset
from batch2online.theory.bounds import DependsOn
from batch2online.warm_up import MeanSoFar

Assignment = tuple[IntArray, FloatArray]
"""The nearest center of each point, and the squared distance to it."""


class _Known(NamedTuple):
    coreset: weakref.ref[Coreset]
    found: dict[bytes, Assignment]
    labels: dict[bytes, IntArray]


class Assignments:
    """Cache of labels and squared distances of the points of the last coreset, by centers.

    A refresh needs those of the same centers several times: for their cost, their cluster ids and the change. A copy,
    also one made by pickling, is empty. Threads can share it: each uses the entry that it found or made.
    """

    def __init__(self) -> None:
        self._known: _Known | None = None

    def of(self, coreset: Coreset, centers: FloatArray) -> Assignment:
        """Return the assignment of the coreset's points to these centers (k, d)."""
        found, key = self._of(coreset).found, centers.tobytes()
        if key not in found:
            found[key] = nearest(coreset.points, centers)
        return found[key]

    def labels(self, coreset: Coreset, centers: FloatArray) -> IntArray:
        """Return the labels alone, computed or set by :meth:`know`."""
        told = self._of(coreset).labels.get(centers.tobytes())
        return self.of(coreset, centers)[0] if told is None else told

    def know(self, coreset: Coreset, centers: FloatArray, labels: IntArray) -> None:
        """Set the labels that a solver has found."""
        self._of(coreset).labels[centers.tobytes()] = labels

    def _of(self, coreset: Coreset) -> _Known:
        known = self._known
        if known is None or known.coreset() is not coreset:
            known = self._known = _Known(weakref.ref(coreset), {}, {})
        return known

    def __reduce__(self) -> tuple[type[Assignments], tuple[()]]:
        return Assignments, ()


_STEPS_ON_ALL = 10
"""Maximum number of steps of centers on all rows for the optimum in hindsight."""


@storable
@dataclass(frozen=True)
class Centers:
    """The rows of ``points`` (k, d) are the centers."""

    points: Annotated[FloatArray, shape("k", "d"), finite]


@storable
@dataclass(frozen=True)
class ClusteringProblem(Problem):
    """(k, z)-clustering: minimise distances of rows to the nearest of k centers, to the power z.

    With ``warm_start`` the current centers are one of the starts of the solver. Models are then closer to each other.
    In the guarantee of the refresh policies sensitivities are then doubled, and those of all refreshes so far add up:
    B ln^2 n instead of B ln n (Theorem 4 of ``docs/theory.md``).
    """

    needs: ClassVar[type] = Clustering
    k: Annotated[int, at_least(1)]
    z: Annotated[float, at_least(1), finite] = 2.0
    warm_start: bool = True
    exact: bool = False

    @property
    def secondary_name(self) -> str:
        return "distance"

    @property
    def tells_costs(self) -> bool:
        return self.z == 2

    def refit_cost(self, keeps_history: bool) -> Literal["moments", "low", "high"]:
        return "high" if keeps_history else "low"

    @property
    def models_depend_on(self) -> DependsOn:
        if self.exact:
            return DependsOn.ALL_ROWS
        return DependsOn.CURRENT_MODEL if self.warm_start else DependsOn.CORESET

    @cached_property
    def _assignments(self) -> Assignments:
        return Assignments()

    def first_refresh(self, width: int, n_targets: int) -> int:
        return 1

    def warm_up(self) -> MeanSoFar:
        return MeanSoFar(of_targets=False, power=float(self.z))

    def initial(self, answer: FloatArray | None, width: int, n_targets: int) -> Centers:
        """Return k centers on the mean row."""
        mean = np.zeros(width) if answer is None else answer
        return Centers(mean[None].repeat(self.k, axis=0))

    def losses(self, model: Centers, points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        squared = nearest_squared(points, model.points)
        return power(squared, self.z), np.sqrt(squared)

    def validate_model(self, model: Any, construction: Any) -> None:
        """Require k centers of the width."""
        require_equal("types", (type(model), type(construction)), (Centers, Clustering))
        require_equal("k and z", (construction.k, construction.z), (self.k, self.z))
        require_equal("shape of centers", model.points.shape, (self.k, construction.shape[0]))

    def solve(self, construction: Clustering, current: Centers | None) -> Centers:
        centers: Centers = self.contender(construction, current).model
        return centers

    def contender(self, construction: Clustering, current: Centers | None) -> Contender:
        """Return new centers; where sums of all rows have led to them, costs are those of all rows."""
        coreset = construction.coreset()
        known = None if current is None else current.points
        if len(coreset) == 0:  # a tiny coreset, of which chance has kept no row
            return Contender(Centers(np.resize(construction.seeds, (self.k, coreset.points.shape[1]))))
        start = known if self.warm_start else None
        all_rows = construction.elsewhere or construction.past
        history = all_rows if self.exact and len(coreset) < construction.n_rows else None
        sums_of = None if history is None else partial(_sums_of_all, history)
        problem = (coreset.points, coreset.weights, self.k, self.z, construction.seed, start)
        found = solver.solved(*problem, sums_of=sums_of)
        if known is None:
            return Contender(Centers(found.centers))
        if found.current_labels is not None:
            self._assignments.know(coreset, known, found.current_labels)
        centers = self._with_ids_of(known, found.centers, found.labels, coreset)
        return Contender(Centers(centers), found.costs, found.ess_ratio)

    def cost(self, model: Centers, construction: Clustering) -> float:
        """Return the cost on the coreset."""
        coreset = construction.coreset()
        return float(coreset.weights @ power(self._assignments.of(coreset, model.points)[1], self.z))

    def lower_bound(self, construction: Clustering) -> float:
        """Nothing better than zero is known."""
        return 0.0

    def optimum(self, construction: Clustering, model: Centers) -> float:
        """Return the cost of the best known solution: the model, or one fitted now; on all rows if they are kept."""
        return self._best(construction, model)[0]

    def _best(self, construction: Clustering, model: Centers) -> tuple[float, Centers]:
        if construction.n_rows == 0:
            return 0.0, model
        options = [self.solve(construction, model), model]
        best = min(((self.full_cost(option, construction), option) for option in options), key=lambda known: known[0])
        if construction.past is None or len(construction.coreset()) == construction.n_rows:
            return best
        settled = Centers(_settled_on_all(construction.past, best[1].points, self.z))
        return min(best, (self.full_cost(settled, construction), settled), key=lambda known: known[0])

    def full_cost(self, model: Centers, construction: Clustering) -> float:
        """Return the cost on all rows if they are kept, on the coreset otherwise."""
        if construction.past is None:
            return self.cost(model, construction)
        return sum(solver.cost(rows.points, rows.weights, model.points, self.z) for rows in construction.past)

    def hindsight(self, construction: Clustering, model: Centers) -> Hindsight:
        """Return the best known cost beside that of the mean row; without a history both are those of the coreset."""
        optimum, best = self._best(construction, model)
        coreset = construction.coreset()
        weight, mean = float(coreset.weights.sum()), np.zeros(coreset.points.shape[1])
        if weight:
            first = coreset.points[0]  # sums of rows far from zero lose digits
            mean = first + coreset.weights @ (coreset.points - first) / weight
        total = self.full_cost(Centers(mean[None]), construction)
        error, shortfall = 0.0, 0.0
        if construction.past is None:
            losses = power(self._assignments.of(coreset, best.points)[1], self.z)
            error = sampling_error(coreset.weights, losses, certain=certain_weight(construction))
            shortfall = self._shortfall(construction, coreset, optimum) if error else 0.0
        rounding = resolution(total, weight, float(np.abs(mean).max(initial=0.0)), self.z)
        return Hindsight(optimum, error, shortfall, total, rounding, secondary=optimum if self.z == 1 else None)

    def _shortfall(self, construction: Clustering, coreset: Coreset, optimum: float) -> float:
        """Return how far the optimum of all rows may be above that of the coreset, to which centers are fitted.

        Centers fitted to one half of the coreset are scored on the other half.
        """
        words = sampling.words(construction.seed, sampling.SOLVER, coreset.ids, page=1)
        is_fitted = words < np.uint64(2**63)
        if is_fitted.all() or not is_fitted.any():
            return math.inf
        some = coreset.points[is_fitted], coreset.weights[is_fitted]
        losses = solver.losses(coreset.points, solver.solve(*some, self.k, self.z, construction.seed), self.z)
        most = held_out_bound(coreset.weights, losses, is_fitted, certain=certain_weight(construction))
        return max(0.0, most / optimum - 1)

    def degrees(self, model: Centers, construction: Clustering) -> float:
        """Return the number of centers: k d numbers, where the loss of a row has d."""
        return float(self.k)

    def difference(self, old: Centers, new: Centers, construction: Clustering) -> dict[str, Any]:
        """Return the change of each cluster; the magnitude is the largest distance that a center moved."""
        shared = self._shared(old.points, new.points, construction.coreset())
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
        self, old: FloatArray, new: FloatArray, new_labels: IntArray | None, coreset: Coreset
    ) -> FloatArray:
        """Return the new centers in the order of the old ones that they continue."""
        distances = np.sqrt(squared_distances(new, old))
        labels = self._labels(coreset, new) if new_labels is None else new_labels
        shared = shared_weight(self._labels(coreset, old), labels, coreset.weights, len(old))
        return np.asarray(new[matched(shared, distances)])

    def _shared(self, old: FloatArray, new: FloatArray, coreset: Coreset) -> FloatArray:
        return shared_weight(self._labels(coreset, old), self._labels(coreset, new), coreset.weights, len(old))

    def _labels(self, coreset: Coreset, centers: FloatArray) -> IntArray:
        return self._assignments.labels(coreset, centers)


def _settled_on_all(history: History | DecayedHistory, centers: FloatArray, z: float) -> FloatArray:
    """Return centers after steps on all rows."""
    origin = np.median(centers, axis=0)

    def parts() -> Iterator[WeightedPoints]:
        return (WeightedPoints(rows.points - origin, np.ascontiguousarray(rows.weights)) for rows in history.blocks())

    return refined_by_parts(parts, centers - origin, z, _STEPS_ON_ALL, NEARLY_CONVERGED) + origin


def _sums_of_all(history: History | DecayedHistory | RowsElsewhere, centers: FloatArray, origin: FloatArray) -> Sums:
    """Return the sums of the clusters of all rows for sets of centers (r, k, d), by blocks of ids.

    Centers and sums are relative to the origin.
    """
    sums = Sums(np.zeros(centers.shape), np.zeros(centers.shape[:2]), 0.0)
    if isinstance(history, History | DecayedHistory):
        return reduce(Sums.plus, block_sums(history.blocks(), centers, origin), sums)
    return reduce(Sums.plus, history.block_sums(centers, origin), sums)


def block_sums(blocks: Iterable[Rows], centers: FloatArray, origin: FloatArray) -> Iterator[Sums]:
    """Iterate over the sums of the clusters of each block, relative to an origin."""
    for rows in blocks:
        yield sums_of_clusters(rows.points, None if all_ones(rows.weights) else rows.weights, centers, origin)
