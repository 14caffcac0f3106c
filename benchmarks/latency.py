"""How long a call of ``learn_one`` takes: in a tight loop, and with rows that come at a rate, beside River.

``python -m benchmarks.latency`` measures every estimator on the same rows of 10 columns, and writes
``results/latency.json``; ``python -m benchmarks.suite --pages`` then draws the figure and writes the table of
docs/benchmarks.md. Options: ``--rows`` of the tight loop, ``--paced`` rows that come at ``--rate`` a second. Times are
those of the caller's clock and, in columns called "own", of its processor: a machine that does other work as well
delays the first, not the second. Learners take turns of 10,000 rows, so that they share what disturbs them.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from river import cluster, linear_model
from sklearn.linear_model import Ridge

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression
from benchmarks.suite import stored
from benchmarks.suite.study import Study

TURN = 10_000
COLUMNS = ("p50", "p99", "p99.9", "longest", "own longest")
"""Columns of the table: quantities of a summary, in milliseconds."""


OURS: dict[str, Callable[..., Any]] = {
    "regression": OnlineRegression,
    "classifier": OnlineClassifier,
    "clustering, k = 10": lambda **settings: OnlineClustering(10, **settings),
    "low rank": lambda **settings: OnlineLowRank(3, **settings),
    "half-life selection": lambda **settings: OnlineRegression(half_life="auto", **settings),
    "BatchToOnline(Ridge())": lambda **settings: BatchToOnline(Ridge(), **settings),
}
RIVER: dict[str, Callable[[], Any]] = {
    "regression": linear_model.LinearRegression,
    "classifier": linear_model.LogisticRegression,
    "clustering, k = 10": lambda: cluster.KMeans(10, seed=0),
}


def data(n: int, seed: int = 0) -> tuple[list[list[float]], list[float]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    X[:, :3] += 4 * rng.integers(0, 4, size=(n, 1)) * [1, -1, 0.5]
    y = X @ rng.normal(size=10) + rng.normal(size=n)
    return X.tolist(), y.tolist()


def learners(name: str) -> dict[str, Any]:
    """Return the learners of one problem."""
    return {"ours": OURS[name](random_state=0)} | ({"River": RIVER[name]()} if name in RIVER else {})


def rows_of(name: str, kind: str, X: list[list[float]], y: list[float]) -> Iterator[tuple[Any, Any]]:
    """Iterate over rows and targets in the form that a learner takes."""
    targets: Any = [value > 0 for value in y] if name == "classifier" else y
    has_targets = name not in ("clustering, k = 10", "low rank")
    names = [f"x{number}" for number in range(10)]
    for x, target in zip(X, targets if has_targets else [None] * len(X), strict=True):
        yield (dict(zip(names, x, strict=True)) if kind == "River" else x), target


def measure(name: str, n: int, rate: float | None) -> dict[str, dict[str, Any]]:
    """Return quantiles of the seconds of a call of each learner; rows come at this rate, or one after the other."""
    X, y = data(n)
    gc.collect()
    gc.freeze()  # the rows are many objects, and not the learner's
    made = learners(name)
    sources = {kind: rows_of(name, kind, X, y) for kind in made}
    wall = {kind: np.empty(n) for kind in made}
    own = {kind: np.empty(n) for kind in made}
    for start in range(0, n, TURN):
        for kind, model in made.items():
            learn, due = model.learn_one, time.perf_counter()
            for place in range(start, min(n, start + TURN)):
                x, target = next(sources[kind])
                given = (x,) if target is None else (x, target)
                if rate is not None:
                    due += 1 / rate
                    time.sleep(max(0.0, due - time.perf_counter()))
                before, worked = time.perf_counter(), time.thread_time()
                learn(*given)
                own[kind][place] = time.thread_time() - worked
                wall[kind][place] = time.perf_counter() - before
    return {kind: summary(wall[kind], own[kind]) for kind in made}


def summary(wall: np.ndarray, own: np.ndarray) -> dict[str, Any]:
    p50, p99, p999 = np.quantile(wall, [0.5, 0.99, 0.999])
    counts, edges = np.histogram(np.log10(np.maximum(wall, 1e-7)), bins=24, range=(-7, -1))
    return {
        "p50": p50,
        "p99": p99,
        "p99.9": p999,
        "longest": wall.max(),
        "longest after 5,000 rows": wall[5_000:].max(initial=0.0),
        "mean": wall.mean(),
        "own p99": np.quantile(own, 0.99),
        "own longest": own.max(),
        "own longest after 5,000 rows": own[5_000:].max(initial=0.0),
        "histogram": counts.tolist(),
        "histogram_log10_seconds": edges.tolist(),
    }


def show(name: str, how: str, found: dict[str, dict[str, Any]]) -> None:
    columns = ("p50", "p99", "p99.9", "longest", "own p99", "own longest", "own longest after 5,000 rows")
    for kind, row in found.items():
        numbers = "  ".join(f"{column} {1e3 * row[column]:.3f}" for column in columns)
        print(f"{name:24} {how:8} {kind:11} {numbers} ms", flush=True)


def study(found: dict[str, dict[str, dict[str, Any]]], counts: dict[str, Any]) -> Study:
    """Return the table and the curves of what was measured, by how rows come, by estimator and by learner."""
    measured = [
        (how, name, kind, row)
        for how, by_name in found.items()
        for name, by_kind in by_name.items()
        for kind, row in by_kind.items()
    ]
    records = [
        {"estimator": name, "rows come": how, "refits": kind} | {column: 1e3 * row[column] for column in COLUMNS}
        for how, name, kind, row in measured
    ]
    curves = [{"rows": how, "estimator": name, "refits": kind} | row for how, name, kind, row in measured]
    text = (
        f"Milliseconds of a call of `learn_one`, rows of 10 columns: {counts['tight']:,} in a tight loop, and "
        f"{counts['paced']:,} that come at {counts['paced_rows_per_second']:,.0f} a second. *Own* is the processor "
        "time of the caller's thread."
    )
    heads = ["estimator", "rows come", "refits", *COLUMNS]
    return Study("", text, heads, records, formats=dict.fromkeys(COLUMNS, ".3f"), curves=curves)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--paced", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=1_000.0)
    parser.add_argument("--only", nargs="*", default=list(OURS))
    parser.add_argument("--out", type=Path, default=stored.FOLDER)
    options = parser.parse_args()
    origin = stored.provenance(" ".join(["python -m benchmarks.latency", *sys.argv[1:]]))
    counts = {"tight": options.rows, "paced": options.paced, "paced_rows_per_second": options.rate}
    found: dict[str, dict[str, Any]] = {"tight": {}, "paced": {}}
    for name in options.only:
        for how, n, rate in (("tight", options.rows, None), ("paced", options.paced, options.rate)):
            if n:
                found[how][name] = measure(name, n, rate)
                show(name, how, found[how][name])
    options.out.mkdir(parents=True, exist_ok=True)
    stored.write(options.out, "latency", origin | {"tables": [study(found, counts).record()]})


if __name__ == "__main__":
    main()
