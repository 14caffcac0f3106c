"""Speed of online regression against its physical limit and its peers, one thread, one run.

    OPENBLAS_NUM_THREADS=1 python benchmarks/regression_speed.py [--rows 1000000] [--repeats 3]

The limit is ``X.T @ X`` on the same chunks. Repetitions are interleaved and the best of each is compared.
Ours tracks the prequential loss; SGDRegressor and River do not.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.linear_model import SGDRegressor

from batch2online import OnlineRegression

CHUNK = 10_000


def stream(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    return X, X @ rng.normal(size=columns) + rng.normal(size=rows)


def bare(X: np.ndarray, y: np.ndarray) -> None:
    for start in range(0, len(X), CHUNK):
        X[start : start + CHUNK].T @ X[start : start + CHUNK]


def ours(chunk: int) -> Callable[[np.ndarray, np.ndarray], None]:
    def run(X: np.ndarray, y: np.ndarray) -> None:
        model = OnlineRegression(random_state=0)
        for start in range(0, len(X), chunk):
            model.partial_fit(X[start : start + chunk], y[start : start + chunk])
        model.regret_  # noqa: B018  # the loss is part of the work

    return run


def sgd(X: np.ndarray, y: np.ndarray) -> None:
    model = SGDRegressor()
    for start in range(0, len(X), CHUNK):
        model.partial_fit(X[start : start + CHUNK], y[start : start + CHUNK])


def measured(runs: dict[str, Callable[[np.ndarray, np.ndarray], None]], X: np.ndarray, y: np.ndarray, repeats: int):
    """Best nanoseconds a row of each run, repetitions interleaved."""
    best = dict.fromkeys(runs, np.inf)
    for _ in range(repeats):
        for name, run in runs.items():
            started = time.perf_counter()
            run(X, y)
            best[name] = min(best[name], (time.perf_counter() - started) / len(X) * 1e9)
    return best


def chunked(rows: int, repeats: int) -> None:
    for columns in (20, 100):
        X, y = stream(rows, columns)
        best = measured({"X.T @ X": bare, "ours": ours(CHUNK), "ours, chunks of 100": ours(100)}, X, y, repeats)
        best |= measured({"SGDRegressor": sgd}, X[: rows // 4], y[: rows // 4], 1)
        for name, nanoseconds in best.items():
            ratio = nanoseconds / best["X.T @ X"]
            print(f"d={columns:<4} {name:22} {nanoseconds:9.1f} ns/row {ratio:7.2f} x limit", flush=True)
        print(f"d={columns:<4} ours / SGDRegressor rows/s: {best['SGDRegressor'] / best['ours']:.1f}")
        print(f"d={columns:<4} chunks of 100 / of 10,000:  {best['ours, chunks of 100'] / best['ours']:.2f}")


def one_by_one(rows: int = 100_000, columns: int = 20) -> None:
    from river.linear_model import LinearRegression

    X, y = stream(rows, columns)
    names = [f"x{j}" for j in range(columns)]
    dicts = [dict(zip(names, row.tolist(), strict=True)) for row in X]
    targets = y.tolist()
    rates = {}
    for name, model in (("ours", OnlineRegression(random_state=0)), ("River", LinearRegression())):
        model.learn_one(dicts[0], targets[0])
        started = time.perf_counter()
        for x, target in zip(dicts[1:], targets[1:], strict=True):
            model.learn_one(x, target)
        rates[name] = (rows - 1) / (time.perf_counter() - started)
        print(f"learn_one with dicts, d={columns}: {name:6} {rates[name]:10,.0f} rows/s", flush=True)
    print(f"learn_one ours / River: {rates['ours'] / rates['River']:.1f}")


def state_size(columns: int = 20, largest: int = 10_000_000) -> None:
    rng = np.random.default_rng(1)
    coefficients = rng.normal(size=columns)
    model = OnlineRegression(random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.b2o"
        for seen in range(CHUNK, largest + 1, CHUNK):
            X = rng.normal(size=(CHUNK, columns))
            model.partial_fit(X, X @ coefficients + rng.normal(size=CHUNK))
            if seen in (100_000, 1_000_000, 10_000_000):
                model.save(path)
                print(f"state after {seen:>10,} rows: {path.stat().st_size / 1e6:.2f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--largest", type=int, default=10_000_000)
    arguments = parser.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        print("note: set OPENBLAS_NUM_THREADS=1 for figures that compare")
    chunked(arguments.rows, arguments.repeats)
    one_by_one()
    state_size(largest=arguments.largest)


if __name__ == "__main__":
    main()
