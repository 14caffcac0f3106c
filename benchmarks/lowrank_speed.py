"""Speed of online low-rank approximation against its physical limit and IncrementalPCA, one thread, one run.

    OPENBLAS_NUM_THREADS=1 python benchmarks/lowrank_speed.py [--repeats 3]

The limit is ``X.T @ X`` on the same chunks of 1,000 rows. Repetitions are interleaved and the best of each is compared.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
from sklearn.decomposition import IncrementalPCA

from batch2online import OnlineLowRank, storage

CHUNK, RANK = 1_000, 10
SIZES = {16: 1_000_000, 100: 500_000, 784: 200_000}


def stream(rows: int, columns: int) -> np.ndarray:
    """Rows whose variances fall slowly, as those of real data do."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, columns)) / np.sqrt(1 + np.arange(columns))


def bare(X: np.ndarray) -> None:
    for start in range(0, len(X), CHUNK):
        X[start : start + CHUNK].T @ X[start : start + CHUNK]


def learner(make: Callable[[], object]) -> Callable[[np.ndarray], object]:
    def run(X: np.ndarray) -> object:
        model = make()
        for start in range(0, len(X), CHUNK):
            model.partial_fit(X[start : start + CHUNK])  # type: ignore[attr-defined]
        return model

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--columns", nargs="*", type=int, default=list(SIZES))
    arguments = parser.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        print("note: set OPENBLAS_NUM_THREADS=1 for figures that compare")
    runs = {
        "X.T @ X": bare,
        "ours": learner(lambda: OnlineLowRank(RANK, random_state=0)),
        'ours, solve="exact"': learner(lambda: OnlineLowRank(RANK, solve="exact", random_state=0)),
        "IncrementalPCA": learner(lambda: IncrementalPCA(RANK)),
    }
    for columns in arguments.columns:
        X = stream(SIZES[columns], columns)
        best = dict.fromkeys(runs, np.inf)
        for _ in range(arguments.repeats):
            for name, run in runs.items():
                rows = X[: len(X) // 10] if name == "IncrementalPCA" else X
                started = time.perf_counter()
                run(rows)
                best[name] = min(best[name], (time.perf_counter() - started) / len(rows) * 1e9)
        for name, nanoseconds in best.items():
            ratio = nanoseconds / best["X.T @ X"]
            print(f"d={columns:<4} {name:20} {nanoseconds:9.0f} ns/row {ratio:7.2f} x limit", flush=True)
        print(f"d={columns:<4} ours / IncrementalPCA rows/s: {best['IncrementalPCA'] / best['ours']:.1f}")
        for rows in (len(X) // 4, len(X)):
            model = runs["ours"](X[:rows])
            size = len(storage.serialise(model._state())) / 1e6  # type: ignore[union-attr]
            print(f"d={columns:<4} state after {rows:>9,} rows: {size:.2f} MB")


if __name__ == "__main__":
    main()
