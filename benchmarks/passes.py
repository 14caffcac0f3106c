"""Where the time of a row goes in online regression between two refreshes: the passes over a block, one by one.

    OPENBLAS_NUM_THREADS=1 python benchmarks/passes.py [--columns 20 100] [--rows 300000]

Nanoseconds a row, least and median over many blocks, each of them cold in the cache.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from batch2online import OnlineRegression
from batch2online.core import randomness
from batch2online.core.rows import Rows, ones
from batch2online.core.validation import check_finite
from batch2online.refresh import Geometric

TURNS = 60
Pass = Callable[[np.ndarray, np.ndarray], object]


def passes(X: np.ndarray, y: np.ndarray) -> tuple[int, dict[str, Pass]]:
    """Rows of a block, and what is done with each block of a stream of these rows."""
    model = OnlineRegression(random_state=0, refresh=Geometric(start=10**9)).partial_fit(X, y)
    engine, construction = model._engine, model._engine.construction
    moments, block = construction.statistics.moments, construction.block
    assert moments.is_plain

    def rows(points: np.ndarray, targets: np.ndarray) -> Rows:
        return Rows(points, targets, ones(len(points)), np.arange(len(X), len(X) + len(points)))

    def bounds(points: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.asarray(moments.bounds(rows(points, targets)))

    some = bounds(X[:block], y[:block, None])
    return block, {
        "`X.T @ X`, the limit": lambda points, _: points.T @ points,
        "check of values": lambda points, _: check_finite(points, "X"),
        "losses under the model": lambda *pair: engine._add_losses(engine.model, *pair, ones(block)),
        "moments of [1, a, b]": lambda *pair: moments.plain_gram(*moments.plain_columns(rows(*pair))),
        "bounds of scores": bounds,
        "random words": lambda *_: randomness.words(0, randomness.SAMPLING, range(len(X), len(X) + block)),
        "choice of candidates": lambda *pair: construction._chosen(rows(*pair).ids, some),
        "all, `partial_fit`": lambda points, targets: model.partial_fit(points, targets[:, 0]),
    }


def timed(run: Pass, X: np.ndarray, y: np.ndarray, block: int) -> np.ndarray:
    """Nanoseconds a row of each turn."""
    found = []
    for turn in range(TURNS):
        start = turn * block % (len(X) - block + 1) // block * block
        points, targets = X[start : start + block], y[start : start + block, None]
        started = time.perf_counter()
        run(points, targets)
        found.append((time.perf_counter() - started) / block * 1e9)
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", nargs="*", type=int, default=[20, 100])
    parser.add_argument("--rows", type=int, default=300_000)
    arguments = parser.parse_args()
    for columns in arguments.columns:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(arguments.rows, columns))
        y = X @ np.cos(np.arange(columns)) + rng.normal(size=len(X))
        block, named = passes(X, y)
        print(f"\n{columns} columns, blocks of {block:,}\n\n| pass | least | median |\n|---|---|---|")
        for name, run in named.items():
            turns = timed(run, X, y, block)
            print(f"| {name} | {turns.min():.1f} | {np.median(turns):.1f} |", flush=True)


if __name__ == "__main__":
    main()
