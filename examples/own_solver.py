"""A solver of your own for ``OnlineClustering``: k-means with a proven factor in place of a heuristic.

The theorems ask for a (1 + epsilon)-approximate solver. In one column k-means can be solved exactly: clusters are
intervals, and dynamic programming finds the best ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from batch2online import OnlineClustering, refresh, theory
from batch2online.extend import FloatArray, storable


@storable  # a file may then hold it; a function works as well, but cannot be saved
@dataclass(frozen=True)
class Intervals:
    """Optimal k-means of one column."""

    def __call__(
        self, points: FloatArray, weights: FloatArray, k: int, z: float, rng: np.random.Generator
    ) -> FloatArray:
        order = np.argsort(points[:, 0], kind="stable")
        x, w = points[order, 0] - points.mean(), weights[order]
        sums = np.concatenate([np.zeros((3, 1)), np.cumsum([w, w * x, w * x * x], axis=1)], axis=1)
        mass, first, second = sums[:, None, :] - sums[:, :, None]  # of the points i to j - 1
        with np.errstate(invalid="ignore", divide="ignore"):
            cost = np.where(mass > 0, second - first**2 / mass, np.inf)
        best, starts = cost[0], []
        for _ in range(k - 1):  # one more interval, which starts at i
            options = best[:, None] + cost
            starts.append(options.argmin(axis=0))
            best = options.min(axis=0)
        stop, ends = len(x), [len(x)]
        for start in reversed(starts):
            stop = int(start[stop])
            ends.append(stop)
        cuts = [0, *reversed(ends)]
        means = [np.average(x[a:b], weights=w[a:b]) for a, b in pairwise(cuts)]
        return np.asarray(np.array(means)[:, None] + points.mean())


def run(n: int = 20_000) -> tuple[OnlineClustering, OnlineClustering, FloatArray]:
    """Return a model of exact solves on the coreset, one of scikit-learn's ``KMeans``, and the rows."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, 1)) + 4.0 * rng.integers(4, size=(n, 1))
    settings: dict[str, Any] = {
        "coreset_size": 150,
        "epsilon": 0.5,
        "refresh": refresh.Geometric(1.5),
        "random_state": 0,
    }
    models = [OnlineClustering(4, solver=solver, **settings) for solver in (Intervals(), KMeans(n_init=3))]
    for start in range(0, n, 1_000):
        for model in models:
            model.partial_fit(rows[start : start + 1_000])
    return models[0], models[1], rows


if __name__ == "__main__":
    exact, scikit, rows = run()
    for name, model in (("exact", exact), ("KMeans", scikit)):
        print(f"{name:6} centers {np.sort(model.cluster_centers_.ravel()).round(2)}")
    print(f"loss {exact.regret_.ratio:.4f} times that of hindsight, with KMeans {scikit.regret_.ratio:.4f}")
    print(theory.certificate(exact, loss_bound=100.0))
