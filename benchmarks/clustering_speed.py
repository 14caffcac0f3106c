"""Rows per second of online clustering, in one run with ``MiniBatchKMeans`` and a bare pass.

    python benchmarks/clustering_speed.py [--rows 3000000] [--repeats 3] [--sets flights mnist]

Chunks of 1,000, one thread, interleaved repetitions, medians of processor time. Both learners track their
prequential loss: ours does so itself, ``MiniBatchKMeans`` is asked for its distances to each chunk before it learns it
where ``tracked`` is said. A bare pass computes distances to k centers, ``X @ C.T`` in blocks of 10,000 rows, and their
argmin.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.cluster import MiniBatchKMeans

from batch2online import OnlineClustering, datasets

CHUNK = 1_000


def bare_pass(X: np.ndarray, k: int) -> None:
    centers = X[:k].copy()
    norms = np.square(centers).sum(axis=1)
    for start in range(0, len(X), 10 * CHUNK):
        distances = X[start : start + 10 * CHUNK] @ centers.T
        distances *= -2
        distances += norms
        distances.argmin(axis=1)


def ours(X: np.ndarray, k: int, **settings: object) -> None:
    model = OnlineClustering(k, random_state=0, **settings)
    for start in range(0, len(X), CHUNK):
        model.partial_fit(X[start : start + CHUNK])


def mini_batch(X: np.ndarray, k: int, tracked: bool = False) -> None:
    model, loss = MiniBatchKMeans(k, random_state=0, n_init=3), 0.0
    for start in range(0, len(X), CHUNK):
        rows = X[start : start + CHUNK]
        if tracked and start:
            loss -= model.score(rows)
        model.partial_fit(rows)


def timed(contestants: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            started = time.process_time()
            run()
            seconds[name].append(time.process_time() - started)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def compare(name: str, X: np.ndarray, k: int, repeats: int) -> None:
    seconds = timed(
        {
            "bare pass": lambda: bare_pass(X, k),
            "ours": lambda: ours(X, k),
            "ours, coreset only": lambda: ours(X, k, history="coreset"),
            "MiniBatchKMeans": lambda: mini_batch(X, k),
            "MiniBatchKMeans, tracked": lambda: mini_batch(X, k, tracked=True),
        },
        repeats,
    )
    for contestant, value in seconds.items():
        print(
            f"{name:10} k={k:<3} {contestant:25} {len(X) / value:12,.0f} rows/s "
            f"{value / seconds['bare pass']:7.2f} x the bare pass's time, "
            f"{seconds['MiniBatchKMeans'] / value:6.2f} x the rows/s of MiniBatchKMeans",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=["flights", "mnist"])
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    if arguments.rows:
        middles = rng.normal(size=(5, 8)) * 3
        X = middles[rng.integers(5, size=arguments.rows)] + rng.normal(size=(arguments.rows, 8))
        compare("gaussian", X, 5, arguments.repeats)
    for name in arguments.sets:
        X = datasets.load_rows(name)
        X = X[rng.permutation(len(X))]
        for k in (5, 10):
            compare(name, X, k, arguments.repeats)


if __name__ == "__main__":
    main()
