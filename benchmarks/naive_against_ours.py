"""Algorithm 1 as printed against ours: quadratic time against linear.

    python benchmarks/naive_against_ours.py [--largest 8000] [--target 20000]

The naive side is Algorithm 5 of the paper with its errata: at every row, leverage scores of all rows so far, a fresh sketch
of as many rows as our coreset has, and least squares on it. Ours is ``OnlineRegression``, fed single rows (``learn_one``) and
chunks of 1,000. Times beyond ``--largest`` rows are extrapolated from the last measured doubling, and marked so.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from batch2online import OnlineRegression, datasets, reference

EPSILON = 0.1


def naive(A: np.ndarray, b: np.ndarray, m: int) -> tuple[float, float]:
    """Seconds and squared prequential loss."""
    started = time.perf_counter()
    _, losses = reference.online_regression(np.random.default_rng(0), A, b, EPSILON, m=m)
    return time.perf_counter() - started, float(losses.sum())


def row_by_row(X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    model = OnlineRegression(epsilon=EPSILON, random_state=0)
    rows, targets = X.tolist(), y.tolist()
    started = time.perf_counter()
    for row, target in zip(rows, targets, strict=True):
        model.learn_one(row, target)
    return time.perf_counter() - started, model.regret_.loss


def in_chunks(X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    model = OnlineRegression(epsilon=EPSILON, random_state=0)
    started = time.perf_counter()
    for start in range(0, len(X), 1_000):
        model.partial_fit(X[start : start + 1_000], y[start : start + 1_000])
    return time.perf_counter() - started, model.regret_.loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=8_000)
    parser.add_argument("--target", type=int, default=20_000)
    arguments = parser.parse_args()
    X, y = datasets.load_regression("diamonds")
    order = np.random.default_rng(0).permutation(len(X))
    X, y = np.ascontiguousarray(X[order]), y[order]
    in_chunks(X[:2_000], y[:2_000])  # the first call pays for imports
    sizes = [n for n in (1_000, 2_000, 4_000, 8_000, 16_000) if n <= arguments.largest]
    seconds = {}
    print(
        f"{'rows':>7} {'naive s':>9} {'rows':>9} {'chunks':>9} {'/rows':>9} {'/chunks':>9} {'loss naive':>11} {'ours':>9}"
    )
    for n in [*sizes, arguments.target]:
        singly, ours = min(row_by_row(X[:n], y[:n]) for _ in range(3))
        chunked, _ = min(in_chunks(X[:n], y[:n]) for _ in range(3))
        loss = math.nan
        if n in sizes:
            m = len(OnlineRegression(epsilon=EPSILON, random_state=0).partial_fit(X[:n], y[:n]).coreset_)
            seconds[n], loss = naive(np.column_stack([np.ones(n), X[:n]]), y[:n], m)
        else:
            last, before = sizes[-1], sizes[-2]
            exponent = math.log(seconds[last] / seconds[before]) / math.log(last / before)
            seconds[n] = seconds[last] * (n / last) ** exponent
        mark = "" if n in sizes else f"  (extrapolated with exponent {exponent:.2f})"
        print(
            f"{n:7} {seconds[n]:9.1f} {singly:9.4f} {chunked:9.4f} {seconds[n] / singly:9.0f} {seconds[n] / chunked:9.0f} "
            f"{loss:11.1f} {ours:9.1f}{mark}",
            flush=True,
        )


if __name__ == "__main__":
    main()
