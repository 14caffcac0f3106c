"""Average sensitivity of our coresets against the bound of the theory, and of plain batch algorithms.

    python benchmarks/sensitivity.py [--trials 300]

The probability that the output changes when a random row is deleted and the randomness of the others stays, and the
slope of its logarithm over log n with a 95 % interval. Coresets of 20 expected rows, epsilon = 0.5. Bounds:
(c S / n)(1 + K) for leverage, k / n + (c / n)(1 + K) for clustering, K = 2 + 1 / epsilon.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression

from batch2online import coresets, datasets, evaluate
from batch2online.theory import bounds

EPSILON, SIZE, CLUSTERS = 0.5, 20, 5
SIZES = (250, 1_000, 4_000, 16_000)


def show(name: str, decay: evaluate.Decay, bound: Callable[[int], float]) -> None:
    cells = [f"{e.mean:.3f} ({e.low:.3f}-{e.high:.3f}) / {bound(e.n):.3f}" for e in decay.estimates]
    cells += [""] * (len(SIZES) - len(cells))
    print(f"| {name} | {' | '.join(cells)} | {decay.slope:.2f} ({decay.low:.2f} to {decay.high:.2f}) |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300)
    trials = parser.parse_args().trials
    X, y = datasets.load_regression("diamonds")
    rows = datasets.load_rows("diamonds")
    settings: dict[str, Any] = {"epsilon": EPSILON, "coreset_size": SIZE}
    leverage, clusters = coresets.Leverage(**settings), coresets.Clustering(CLUSTERS, **settings)
    print(f"| algorithm | {' | '.join(f'n = {n:,}' for n in SIZES)} | slope |\n|{'---|' * (len(SIZES) + 2)}")
    decay = evaluate.sensitivity_decay(leverage, X, y, sizes=SIZES, trials=trials)
    show("leverage coreset", decay, lambda n: bounds.leverage_sensitivity(n, SIZE, 1.0, EPSILON))
    decay = evaluate.sensitivity_decay(clusters, rows, sizes=SIZES, trials=trials)
    show("clustering coreset", decay, lambda n: bounds.clustering_sensitivity(n, SIZE, CLUSTERS, EPSILON))
    few = {"sizes": SIZES[:3], "trials": max(10, trials // 10)}
    show("least squares", evaluate.sensitivity_decay(LinearRegression(), X, y, **few), lambda n: 1.0)
    show("KMeans, same seed", evaluate.sensitivity_decay(KMeans(CLUSTERS, n_init=1), rows, **few), lambda n: 1.0)
    moved = evaluate.sensitivity_decay(KMeans(CLUSTERS, n_init=1), rows, tolerance=0.05, **few)
    show("KMeans, moved by over 5 %", moved, lambda n: 1.0)
    small = np.random.default_rng(0).choice(len(rows), size=250, replace=False)
    lower = evaluate.average_sensitivity(KMeans(CLUSTERS, n_init=1), rows[small], method="classifier", trials=400)
    print(f"\nKMeans, n = 250, told apart by a classifier: at least {lower.low:.3f}, estimate {lower.mean:.3f}")


if __name__ == "__main__":
    main()
