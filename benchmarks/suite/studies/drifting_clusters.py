"""Clusters that move: half-lives and windows beside learners that forget by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from river import cluster
from sklearn.cluster import KMeans, MiniBatchKMeans

from batch2online import OnlineClustering, datasets
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study, followed_cell

K = 5
CHUNK = 250
MOST_ROWS = 20_000
"""DenStream sees no more of a stream: it takes some milliseconds a row."""

TEXT = (
    f"k-means, k = {K}, squared distances. Each row is assigned before it is learned, chunks of {CHUNK}, the first "
    "four not scored: loss over that of the best *single* centers of all rows in hindsight (`KMeans(n_init=10)`), "
    f"changes of the model in brackets. DenStream saw the first {MOST_ROWS:,} rows, with a radius of half the root of "
    "the mean squared distance to the best centers; k-means merges its clusters into k. Flights in time are 8 "
    "columns in their original order. Our learners store only the coreset."
)


class OurCenters:
    def __init__(self, **settings: Any) -> None:
        self.model = OnlineClustering(K, history="coreset", random_state=0, **settings)

    def learn(self, X: Any) -> None:
        self.model.partial_fit(X)

    def losses(self, X: Any) -> Any:
        return nearest(X, self.model.cluster_centers_)

    @property
    def changes(self) -> int:
        return int(self.model.n_changes_)


class MiniBatches:
    def __init__(self) -> None:
        self.model, self.changes = MiniBatchKMeans(K, random_state=0, n_init=10), 0

    def learn(self, X: Any) -> None:
        self.model.partial_fit(X)
        self.changes += 1

    def losses(self, X: Any) -> Any:
        return nearest(X, self.model.cluster_centers_)


class Refitted:
    """Centers of the last rows alone, found anew after every thousand."""

    def __init__(self, window: int) -> None:
        self.window, self.changes, self.rows = window, 0, 0
        self.kept: list[Any] = []

    def learn(self, X: Any) -> None:
        self.kept = [*self.kept, X][-(self.window // CHUNK) :]
        self.rows += len(X)
        if self.rows % 1_000 == 0 or not self.changes:
            self.model = KMeans(K, n_init=3, random_state=0).fit(np.concatenate(self.kept))
            self.changes += 1

    def losses(self, X: Any) -> Any:
        return nearest(X, self.model.cluster_centers_)


class RowByRow:
    """A clustering of River; it starts from no rows."""

    def __init__(self, model: Any) -> None:
        self.model, self.changes = model, 0

    def learn(self, X: Any) -> None:
        for row in X.tolist():
            self.model.learn_one(dict(enumerate(row)))
            self.changes += 1

    def losses(self, X: Any) -> Any:
        centers = np.array([list(center.values()) for center in self.model.centers.values()])
        return nearest(X, centers)


class Dense(RowByRow):
    """DenStream gives any number of clusters; k-means puts them together to as many as all others have."""

    def losses(self, X: Any) -> Any:
        self.model.predict_one(dict(enumerate(X[0].tolist())))
        now = self.model.timestamp
        found = [(micro.calc_center(now), micro.calc_weight(now)) for micro in self.model.clusters.values()]
        centers = np.array([[center[j] for j in range(X.shape[1])] for center, _ in found])
        if len(centers) > K:
            weights = [weight for _, weight in found]
            centers = KMeans(K, n_init=3, random_state=0).fit(centers, sample_weight=weights).cluster_centers_
        return nearest(X, centers)


def nearest(X: Any, centers: Any) -> Any:
    return np.square(X[:, None] - centers[None]).sum(axis=2).min(axis=1)


def learners(radius: float) -> dict[str, Callable[[], Any]]:
    return {
        "ours, all rows": OurCenters,
        "ours, half-life 1,000": lambda: OurCenters(half_life=1_000),
        "ours, half-life 5,000": lambda: OurCenters(half_life=5_000),
        "ours, half-life 20,000": lambda: OurCenters(half_life=20_000),
        "ours, auto": lambda: OurCenters(half_life="auto"),
        "ours, window 10,000": lambda: OurCenters(window=10_000),
        "KMeans refitted to 10,000 rows": lambda: Refitted(10_000),
        "scikit-learn MiniBatchKMeans": MiniBatches,
        "River KMeans, halflife 0.5": lambda: RowByRow(cluster.KMeans(K, halflife=0.5, seed=0)),
        "River KMeans, halflife 0.05": lambda: RowByRow(cluster.KMeans(K, halflife=0.05, seed=0)),
        "River DenStream": lambda: Dense(cluster.DenStream(decaying_factor=0.001, epsilon=radius, mu=5, beta=0.5)),
    }


def moving(n: int, speed: float, jumps: int = 1, seed: int = 7) -> Any:
    """Five clusters whose centers wander, or are drawn anew so many times."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(jumps, K, 4))[np.arange(n) * jumps // n] * 4
    centers = centers + speed * np.cumsum(rng.normal(size=(n, K, 4)), axis=0)
    return centers[np.arange(n), rng.integers(K, size=n)] + rng.normal(size=(n, 4))


def streams(form: Form) -> dict[str, Any]:
    n = form.choose(tiny=1_500, quick=10_000, full=60_000)
    found = {
        "wandering": moving(n, 0.02),
        "abrupt, four times": moving(n, 0.0, jumps=4),
        "calm": moving(n, 0.0),
    }
    if form.name != "tiny":
        found["flights, in time"] = datasets.load_rows("flights")[:150_000]
    return found


def measure(form: Form) -> Iterator[Study]:
    found = {name: of_stream(name, X) for name, X in streams(form).items()}
    yield table(found)


def of_stream(stream: str, X: Any) -> dict[str, Any]:
    """Loss over that of the best single centers, changes and rows a second of each learner."""
    hindsight = nearest(X, KMeans(K, n_init=10, random_state=0).fit(X).cluster_centers_)
    found = {}
    for name, make in learners(0.5 * float(np.sqrt(hindsight.mean()))).items():
        rows = X[:MOST_ROWS] if "DenStream" in name else X
        total, changes, rate = followed(make(), rows)
        ratio = total / hindsight[4 * CHUNK : len(rows)].sum()
        found[name] = (ratio, changes, rate)
        print(stream, name, f"{ratio:.4f} ({changes}) {rate:,.0f}", flush=True)
    return found


def table(found: dict[str, dict[str, Any]]) -> Study:
    """What was measured on each stream, as a table."""
    names = dict.fromkeys(name for results in found.values() for name in results)
    records = []
    for name in names:
        rates = [results[name][2] for results in found.values()]
        cells = {stream: followed_cell(*results[name][:2]) for stream, results in found.items()}
        records.append({"model": name, **cells, "rows/s": round(float(np.median(rates)))})
    return Study("Drifting streams: clusters", TEXT, ["model", *found, "rows/s"], records)


def followed(model: Any, X: Any) -> tuple[float, int, float]:
    total, seconds = 0.0, 0.0
    for start in range(0, len(X), CHUNK):
        rows = X[start : start + CHUNK]
        if start >= 4 * CHUNK:
            total += float(model.losses(rows).sum())
        begun = time.process_time()
        model.learn(rows)
        seconds += time.process_time() - begun
    return total, model.changes, len(X) / seconds
