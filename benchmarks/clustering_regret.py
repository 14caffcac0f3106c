"""Prequential loss and model changes of online clustering on real data in random order.

    python benchmarks/clustering_regret.py [--seeds 5] [--first-seed 0] [--sets digits ...] [--clusters 3 5 10] [--z 2]

Loss is summed from row 1,000 on, relative to hindsight: ``KMeans(n_init=10)`` on all rows for z = 2, otherwise our own
solver on all rows with many restarts. Doubling refits on all rows whenever their number has doubled.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from batch2online import OnlineClustering, datasets
from batch2online.solvers import kz

CHUNK = 1_000
SETS = ["digits", "diamonds", "letter", "flights", "china_pixels", "mnist"]
SETTINGS: dict[str, dict[str, Any]] = {"default": {}, "coreset only": {"history": "coreset"}}


def batch(X: np.ndarray, k: int, z: float, seed: int, restarts: int) -> np.ndarray:
    if z == 2:
        return KMeans(k, n_init=restarts, random_state=seed).fit(X).cluster_centers_
    return kz.solve(X, np.ones(len(X)), k, z, seed, starts=restarts)


def cost(X: np.ndarray, centers: np.ndarray, z: float) -> float:
    return sum(kz.cost(X[i : i + 5_000], np.ones(len(X[i : i + 5_000])), centers, z) for i in range(0, len(X), 5_000))


def doubling_loss(X: np.ndarray, k: int, z: float, seed: int) -> float:
    loss, start = 0.0, CHUNK
    while start < len(X):
        centers = batch(X[:start], k, z, seed, 1 if z == 2 else 8)
        loss += cost(X[start : 2 * start], centers, z)
        start *= 2
    return loss


def online(
    X: np.ndarray, k: int, z: float, settings: dict[str, Any], seed: int
) -> tuple[float, float, int, int, float]:
    """Loss from row 1,000 on, cost of the final model, changes after row 1,000 and in all, rows per second."""
    model, before, elapsed = OnlineClustering(k, z=z, random_state=seed, **settings), 0.0, 0.0
    for start in range(0, len(X), CHUNK):
        started = time.perf_counter()
        model.partial_fit(X[start : start + CHUNK])
        elapsed += time.perf_counter() - started
        if start == 0:
            before = model._engine.caught_up().loss
    loss = model._engine.caught_up().loss - before
    late = sum(event.at > CHUNK for event in model.changes_)
    return loss, cost(X, model.cluster_centers_, z), late, model.n_changes_, len(X) / elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--clusters", nargs="*", type=int, default=[3, 5, 10])
    parser.add_argument("--z", type=float, default=2.0)
    arguments = parser.parse_args()
    z = arguments.z
    print(
        f"{'data':13} {'k':>3} {'setting':13} {'median':>7} {'worst':>7} {'doubling':>8} {'final':>7} {'worst':>7} "
        f"{'late':>8} {'all':>4} {'rows/s':>9}"
    )
    for name in arguments.sets:
        X = datasets.load_rows(name)
        for k in arguments.clusters:
            hindsight = batch(X, k, z, 0, 10 if z == 2 else 64)
            best = cost(X, hindsight, z)
            results: dict[str, list[tuple[float, ...]]] = {setting: [] for setting in SETTINGS}
            doubling = []
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                rows = X[np.random.default_rng(seed).permutation(len(X))]
                reference = cost(rows[CHUNK:], hindsight, z)
                doubling.append(doubling_loss(rows, k, z, seed) / reference)
                for setting, options in SETTINGS.items():
                    loss, final, late, total, rate = online(rows, k, z, options, seed)
                    results[setting].append((loss / reference, final / best, late, total, rate))
            for setting, values in results.items():
                v = np.array(values)
                print(
                    f"{name:13} {k:3} {setting:13} {np.median(v[:, 0]):7.4f} {v[:, 0].max():7.4f} "
                    f"{np.median(doubling):8.4f} {np.median(v[:, 1]):7.4f} {v[:, 1].max():7.4f} "
                    f"{v[:, 2].mean():5.1f}{v[:, 2].max():3.0f} {v[:, 3].max():4.0f} {np.median(v[:, 4]):9,.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
