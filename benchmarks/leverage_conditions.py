"""What the condition number of rows costs: time of ``coresets.Leverage`` by the coordinates that the data choose.

OPENBLAS_NUM_THREADS=1 python benchmarks/leverage_conditions.py
"""

from __future__ import annotations

import time

import numpy as np

from batch2online.coresets import Leverage

ROWS, COLUMNS, CHUNK, REPEATS = 300_000, 20, 10_000, 3


def learned(X: np.ndarray) -> Leverage:
    construction = Leverage(intercept=True, coreset_size=1000, random_state=0)
    for start in range(0, len(X), CHUNK):
        construction.add(X[start : start + CHUNK])
    return construction


def main() -> None:
    rng = np.random.default_rng(0)
    gaussian = rng.normal(size=(ROWS, COLUMNS))
    basis, _ = np.linalg.qr(rng.normal(size=(COLUMNS, COLUMNS)))
    first = None
    for condition in (1e0, 1e4, 1e7):
        X = np.ascontiguousarray(gaussian * np.geomspace(1, 1 / condition, COLUMNS) @ basis.T)
        best = np.inf
        for _ in range(REPEATS):
            started = time.perf_counter()
            moments = learned(X).statistics.moments
            best = min(best, (time.perf_counter() - started) / ROWS * 1e9)
        first = first or best
        kind = "plain" if moments.is_plain else "whitened or QR"
        print(f"condition {condition:.0e}: {best:6.0f} ns/row, {best / first:.1f} times the first ({kind})")


if __name__ == "__main__":
    main()
