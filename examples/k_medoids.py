"""A custom clustering problem: k-medoids of a stream, with stable labels and a handful of changes."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.base import ClusterMixin

from batch2online.coresets import Clustering
from batch2online.extend import (
    Evidence,
    Fit,
    FloatArray,
    Hindsight,
    Method,
    OnlineEstimator,
    Stream,
    WarmUp,
    storable,
)
from batch2online.refresh import Adaptive, Policy
from batch2online.schema import shape

MAX_CANDIDATES = 1000
"""Rows of the coreset among which medoids are searched; their cost is always that of the whole coreset."""


@storable
@dataclass(frozen=True)
class FirstRow(WarmUp):
    """Scores rows before the first model by their distance to the first row: unlike a mean, it is a row."""

    row: Annotated[FloatArray, shape("d")] | None = None

    def score(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> Any:
        if not len(points):
            return (np.zeros(0), np.zeros(0)), self
        row = points[0].copy() if self.row is None else self.row
        loss = cdist(points, row[None])[:, 0]
        return (loss, loss), replace(self, row=row)

    @property
    def prediction(self) -> FloatArray | None:
        return self.row

    def fits(self, width: int, n_targets: int) -> bool:
        return self.row is None or self.row.shape == (width,)


@storable
@dataclass(frozen=True)
class KMedoidsProblem(Method):
    """The loss of a row is its Euclidean distance to the nearest of k medoids, which are rows; a model is (k, d)."""

    k: int

    def first_check(self, width: int, n_targets: int) -> int:
        return 5 * self.k

    def warm_up(self) -> FirstRow:
        return FirstRow()

    def initial_model(self, prediction: FloatArray | None, width: int, n_targets: int) -> FloatArray:
        return np.tile(np.zeros(width) if prediction is None else prediction, (self.k, 1))

    def losses(self, model: FloatArray, points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        loss = cdist(points, model).min(axis=1)
        return loss, loss

    def fit(self, data: Evidence, current: FloatArray | None) -> Fit:
        medoids = self._solve(data)
        if current is not None:
            medoids = medoids[self._continuing(current, medoids, data)]
        return Fit(medoids, n_rows=len(data.coreset))

    def cost(self, model: FloatArray, data: Evidence) -> float:
        return float(data.coreset.weights @ cdist(data.coreset.points, model).min(axis=1))

    def optimum(self, data: Evidence, model: FloatArray) -> float:
        if data.totals.n_rows == 0:
            return 0.0
        return min(self._full_cost(option, data) for option in (model, self._solve(data)))

    def hindsight(self, data: Evidence, model: FloatArray) -> Hindsight:
        return super().hindsight(data, model) if data.history is None else Hindsight(self.optimum(data, model))

    def degrees_of_freedom(self, model: FloatArray, data: Evidence) -> float:
        return float(self.k)

    def difference(self, old: FloatArray, new: FloatArray, data: Evidence) -> dict[str, Any]:
        weights, total = data.coreset.weights, float(data.coreset.weights.sum())
        moved = weights[labels_of(data.coreset.points, old) != labels_of(data.coreset.points, new)].sum()
        magnitude = float(np.linalg.norm(new - old, axis=1).max())
        return {"magnitude": magnitude, "churn": float(moved) / total if total else 0.0}

    def same(self, old: FloatArray, new: FloatArray) -> bool:
        return np.array_equal(old, new)

    def _solve(self, data: Evidence) -> FloatArray:
        coreset = data.coreset
        if not len(coreset):  # a tiny coreset may hold no row by chance; seeds are rows
            return np.resize(data.sketch.seeds(data.history), (self.k, coreset.points.shape[1]))
        if "medoids" not in data.cache:
            data.cache["medoids"] = k_medoids(coreset.points, coreset.weights, self.k, data.seed)
        return np.array(data.cache["medoids"])

    def _continuing(self, old: FloatArray, new: FloatArray, data: Evidence) -> Any:
        """Return for each old label the new medoid that shares most of its rows; the nearest if none is shared."""
        pairs = labels_of(data.coreset.points, old) * self.k + labels_of(data.coreset.points, new)
        shared = np.bincount(pairs, data.coreset.weights, self.k**2).reshape(self.k, self.k)
        away = cdist(old, new)
        gain = shared / (shared.sum() or 1.0) - 1e-9 * away / (away.max() or 1.0)
        return linear_sum_assignment(gain, maximize=True)[1]

    def _full_cost(self, model: FloatArray, data: Evidence) -> float:
        """Return the cost on all rows if they are kept, on the coreset otherwise."""
        if data.history is None:
            return self.cost(model, data)
        return sum(float(rows.weights @ cdist(rows.points, model).min(axis=1)) for rows in data.history)


def labels_of(points: FloatArray, medoids: FloatArray) -> Any:
    """Return the position of the nearest medoid of each point."""
    return cdist(points, medoids).argmin(axis=1)


def k_medoids(points: FloatArray, weights: FloatArray, k: int, seed: int) -> FloatArray:
    """Return k of the points, with a low weighted sum of distances: PAM, greedy at first and then by swaps."""
    candidates = points
    if len(points) > MAX_CANDIDATES:
        some = np.random.default_rng(seed).choice(len(points), MAX_CANDIDATES, replace=False, p=weights / weights.sum())
        candidates = points[np.sort(some)]
    away = cdist(candidates, points)
    chosen = [int((away @ weights).argmin())]
    nearest = away[chosen[0]]
    while len(chosen) < k:
        chosen.append(int((np.minimum(away, nearest) @ weights).argmin()))
        nearest = np.minimum(nearest, away[chosen[-1]])
    best, place, tried = float(nearest @ weights), 0, 0
    while tried < k:  # until no medoid can be swapped for a candidate at a gain
        others = away[chosen[:place] + chosen[place + 1 :]].min(axis=0, initial=np.inf)
        costs = np.minimum(away, others) @ weights
        swap = int(costs.argmin())
        if costs[swap] < best * (1 - 1e-9):
            chosen[place], best, tried = swap, float(costs[swap]), 0
        tried, place = tried + 1, (place + 1) % k
    return np.array(candidates[chosen])


class OnlineKMedoids(ClusterMixin, OnlineEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """k-medoids of a stream: centers are rows that were seen, and labels are those of the nearest one.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of medoids.
    history : "memory", "coreset" or the path of a folder
        Where rows are kept. With "coreset" memory is bounded; nothing can be forgotten, and merging is approximate.
    epsilon, coreset_size, refresh, keep_history, first_id, random_state
        As for ``OnlineClustering``.

    Attributes
    ----------
    cluster_centers_ : (n_clusters, n_features), the medoids; they repeat while fewer rows are distinct
    labels_ : labels of the rows of the last ``fit``
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        history: str | os.PathLike[str] = "memory",
        epsilon: float = 0.05,
        coreset_size: int | None = None,
        refresh: Policy | None = None,
        keep_history: bool = False,
        first_id: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.history = history
        self.epsilon = epsilon
        self.coreset_size = coreset_size
        self.refresh = refresh
        self.keep_history = keep_history
        self.first_id = first_id
        self.random_state = random_state

    def _new_stream(self, n_targets: int) -> Stream:
        k = self.n_clusters
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise ValueError(f"n_clusters must be a positive integer, got {k!r}.")
        coreset = Clustering(k, 1.0, history=self.history, **self._sampling())
        policy = Adaptive(growth=1.5, floor=0.02) if self.refresh is None else self.refresh
        return Stream.new(KMedoidsProblem(int(k)), coreset, policy, self.n_features_in_, n_targets)

    def _finish_fit(self, X: Any) -> None:
        self.labels_ = self.predict(X)

    @property
    def cluster_centers_(self) -> FloatArray:
        """The medoids, (n_clusters, n_features); the position is the label."""
        return np.array(self._check_fitted().model)

    def predict(self, X: Any) -> Any:
        """Return the label of the nearest medoid of each row."""
        medoids = self._check_fitted().model
        return labels_of(self._checked_rows(X), medoids)


if __name__ == "__main__":
    from batch2online.checks import check_estimator

    check_estimator(OnlineKMedoids(3))
    bounded = OnlineKMedoids(3, history="coreset")
    check_estimator(bounded, merges_exactly=False, lacks={"forget": "needs the history"}, history={})
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50_000, 2)) + 10 * rng.integers(3, size=(50_000, 1))
    model = OnlineKMedoids(3, random_state=0)
    for start in range(0, len(rows), 1000):
        model.partial_fit(rows[start : start + 1000])
    are_rows = (rows[:, None] == model.cluster_centers_).all(axis=2).any(axis=0)
    print(f"medoids {model.cluster_centers_.round(2).tolist()}, rows of the stream: {are_rows.tolist()}")
    print(
        f"loss {model.regret_.ratio:.4f} times that of hindsight, {model.n_changes_} changes in {model.n_seen_:,} rows"
    )
