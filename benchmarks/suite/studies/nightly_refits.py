"""k-means on a long stream: ours beside refits on all rows at doublings and MiniBatchKMeans.

The refits are given what keeps their labels: either they start from the centers before, or the best of ten starts is
renumbered by the assignment under which most labels of the latest rows stay.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans, MiniBatchKMeans

from batch2online import OnlineClustering
from batch2online.evaluate.losses import changed, nearest
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study, loaded

IS_TIMED = True
K, PROBE = 5, 5_000
TEXT = (
    "k-means with 5 clusters on {rows:,} rows drawn from flights with repetition, in chunks of {chunk:,}, {seeds} "
    "seeds, one thread. *Loss*: each chunk under the model before it, from the second on, over that of "
    "`KMeans(n_init=10)` on the data set; *last model*: cost of the last model over the same. *Labels changed*: shares "
    "of 5,000 rows whose label differs from the one a chunk before, summed. Means over seeds, and the largest of them."
)
COLUMNS = [
    "learner",
    "loss",
    "largest",
    "last model",
    "labels changed a row",
    "most",
    "changes",
    "rows kept",
    "seconds",
]
FORMATS = {"labels changed a row": ".2f", "most": ".2f", "seconds": ".1f"}


class Refit:
    """``KMeans`` on all rows whenever they have doubled."""

    def __init__(self, seed: int, *, is_warm: bool) -> None:
        self.seed, self.is_warm, self.next = seed, is_warm, 1

    def learn(self, X: np.ndarray, start: int, stop: int) -> None:
        if stop >= self.next:
            self.next, old = 2 * stop, getattr(self, "centers", None)
            if self.is_warm and old is not None:
                self.centers = KMeans(K, init=old, n_init=1).fit(X[:stop]).cluster_centers_
            else:
                new = KMeans(K, n_init=10, random_state=self.seed).fit(X[:stop]).cluster_centers_
                self.centers = new if old is None else matched(old, new, X[start:stop])

    def kept(self, seen: int) -> int:
        return seen


class Ours:
    def __init__(self, seed: int, history: Any = None) -> None:
        settings = {} if history is None else {"history": history}
        self.model = OnlineClustering(K, random_state=seed, **settings)

    def learn(self, X: np.ndarray, start: int, stop: int) -> None:
        self.centers = self.model.partial_fit(X[start:stop]).cluster_centers_

    def kept(self, seen: int) -> int:
        return len(self.model.coreset_) if self.model.history == "coreset" else seen


class MiniBatch:
    def __init__(self, seed: int) -> None:
        self.model = MiniBatchKMeans(K, n_init=10, random_state=seed)

    def learn(self, X: np.ndarray, start: int, stop: int) -> None:
        self.centers = self.model.partial_fit(X[start:stop]).cluster_centers_.copy()

    def kept(self, seen: int) -> int:
        return 0


LEARNERS = {
    "batch2online": Ours,
    'batch2online, history="coreset"': lambda seed: Ours(seed, "coreset"),
    "KMeans at doublings, from the centers before": lambda seed: Refit(seed, is_warm=True),
    "KMeans at doublings, best of 10, labels matched": lambda seed: Refit(seed, is_warm=False),
    "MiniBatchKMeans": MiniBatch,
}


def matched(old: np.ndarray, new: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """New centers in the order in which most rows keep their label.

    >>> matched(np.array([[0.0], [1.0]]), np.array([[1.1], [0.1]]), np.array([[0.0], [1.0]]))
    array([[0.1],
           [1.1]])
    """
    both = np.zeros((len(old), len(new)))
    np.add.at(both, (nearest(old, rows), nearest(new, rows)), 1)
    return new[linear_sum_assignment(-both)[1]]


def measure(form: Form) -> Iterator[Study]:
    n, chunk = form.choose(tiny=(2_000, 100), quick=(1_280_000, 10_000), full=(5_120_000, 10_000))
    seeds, curves = form.seeds_of(3), []
    for _, (rows, _) in loaded(form.choose(tiny=("breast_cancer",), quick=("flights",), full=("flights",))):
        best = KMeans(K, n_init=10, random_state=0).fit(rows).cluster_centers_
        for seed in seeds:
            rng = np.random.default_rng(seed)
            X, probe = rows[rng.integers(len(rows), size=n)], rows[rng.integers(len(rows), size=PROBE)]
            for name, make in LEARNERS.items():
                found = curve(make(seed), X, probe, best, chunk)
                curves.append({"learner": name, "seed": seed, **found, "last model": cost_ratio(found, rows, best)})
                print(curves[-1]["learner"], {key: value for key, value in curves[-1].items() if key in COLUMNS})
                del curves[-1]["centers"]
    text = TEXT.format(rows=n, chunk=chunk, seeds=len(seeds))
    yield Study("", text, COLUMNS, [summary(name, curves) for name in LEARNERS], formats=FORMATS, curves=curves)


def curve(learner: Any, X: np.ndarray, probe: np.ndarray, best: np.ndarray, chunk: int) -> dict[str, Any]:
    """Loss over that of the best centers, labels changed, rows kept and seconds so far, at each doubling."""
    found: dict[str, Any] = {name: [] for name in ("rows", "loss", "labels", "kept", "seconds")}
    seconds = labels = loss = least = 0.0
    changes, old, mark = 0, None, 2 * chunk
    for start in range(0, len(X), chunk):
        stop = min(start + chunk, len(X))
        if old is not None:
            loss, least = loss + cost(old, X[start:stop]), least + cost(best, X[start:stop])
        began = time.process_time()
        learner.learn(X, start, stop)
        seconds += time.process_time() - began
        if old is not None:
            labels += float((nearest(learner.centers, probe) != nearest(old, probe)).mean())
            changes += changed(old, learner.centers)
        old = np.array(learner.centers)
        if stop >= mark or stop == len(X):
            mark *= 2
            for name, value in zip(found, (stop, loss / least, labels, learner.kept(stop), seconds), strict=True):
                found[name].append(value)
    return {**found, "changes": changes, "centers": old}


def cost(centers: np.ndarray, rows: np.ndarray) -> float:
    return float(np.square(rows - centers[nearest(centers, rows)]).sum())


def cost_ratio(found: dict[str, Any], rows: np.ndarray, best: np.ndarray) -> float:
    return cost(found["centers"], rows) / cost(best, rows)


def summary(name: str, curves: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds, and the largest loss and the most labels of them."""
    own = [one for one in curves if one["learner"] == name]
    losses, labels = [one["loss"][-1] for one in own], [one["labels"][-1] for one in own]
    return {
        "learner": name,
        "loss": float(np.mean(losses)),
        "largest": max(losses),
        "last model": float(np.mean([one["last model"] for one in own])),
        "labels changed a row": float(np.mean(labels)),
        "most": max(labels),
        "changes": round(float(np.mean([one["changes"] for one in own]))),
        "rows kept": max(one["kept"][-1] for one in own),
        "seconds": float(np.mean([one["seconds"][-1] for one in own])),
    }
