"""Algorithm 1 as printed against ours: quadratic time against linear.

    python benchmarks/naive_against_ours.py [--largest 8000] [--target 20000]

The naive side is Algorithm 5 of the paper with its errata: at every row, leverage scores of all rows so far, a fresh
sketch of as many rows as our coreset has, and least squares on it. Ours is ``OnlineRegression``, fed single rows
(``learn_one``) and chunks of 1,000. Processor seconds on diamonds in random order; loss is from row 1,000 on. Beyond
``--largest`` rows the naive side is timed at every 100th step only, and its time is 100 times that.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from batch2online import OnlineRegression, datasets, reference

EPSILON, FIRST, STRIDE, REPEATS = 0.1, 1_000, 100, 3


def naive(X: np.ndarray, y: np.ndarray, m: int, stride: int = 1) -> tuple[float, float]:
    """Seconds, and squared loss from row FIRST on, both times the stride."""
    steps = np.arange(stride, len(X) + 1, stride)
    A = np.column_stack([np.ones(len(X)), X])
    started = time.process_time()
    _, losses = reference.online_regression(np.random.default_rng(0), A, y, EPSILON, m=m, steps=steps)
    return stride * (time.process_time() - started), stride * float(losses[steps > FIRST].sum())


def row_by_row(X: np.ndarray, y: np.ndarray) -> float:
    model = OnlineRegression(epsilon=EPSILON, random_state=0)
    rows, targets = X.tolist(), y.tolist()
    started = time.process_time()
    for row, target in zip(rows, targets, strict=True):
        model.learn_one(row, target)
    return time.process_time() - started


def in_chunks(X: np.ndarray, y: np.ndarray) -> float:
    model = OnlineRegression(epsilon=EPSILON, random_state=0)
    started = time.process_time()
    for start in range(0, len(X), 1_000):
        model.partial_fit(X[start : start + 1_000], y[start : start + 1_000])
    return time.process_time() - started


def our_model(X: np.ndarray, y: np.ndarray) -> OnlineRegression:
    return OnlineRegression(epsilon=EPSILON, random_state=0).partial_fit(X, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=8_000)
    parser.add_argument("--target", type=int, default=20_000)
    arguments = parser.parse_args()
    X, y = datasets.load_regression("diamonds")
    order = np.random.default_rng(0).permutation(len(X))
    X, y = np.ascontiguousarray(X[order]), y[order]
    before = our_model(X[:FIRST], y[:FIRST]).regret_.loss
    print("   rows | seconds: naive      rows    chunks | naive/rows naive/chunks | loss: naive   ours")
    for n in [*(FIRST * 2**k for k in range(5) if FIRST * 2**k <= arguments.largest), arguments.target]:
        rows, targets = X[:n], y[:n]
        singly = min(row_by_row(rows, targets) for _ in range(REPEATS))
        chunked = min(in_chunks(rows, targets) for _ in range(REPEATS))
        model = our_model(rows, targets)
        stride = 1 if n <= arguments.largest else STRIDE
        seconds, loss = naive(rows, targets, len(model.coreset_), stride)
        note = f"  every {stride}th step" if stride > 1 else ""
        print(
            f"{n:7} | {seconds:14.1f} {singly:9.4f} {chunked:9.4f} | {seconds / singly:10.0f} {seconds / chunked:12.0f}"
            f" | {loss:11.1f} {model.regret_.loss - before:6.1f}{note}",
            flush=True,
        )


if __name__ == "__main__":
    main()
