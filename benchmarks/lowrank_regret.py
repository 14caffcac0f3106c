"""Prequential loss and model changes of online low-rank approximation on real data in random order.

    python benchmarks/lowrank_regret.py [--seeds 5] [--sets letter china_patches mnist] [--ranks 5 10 20]

Loss is summed from row 1,000 on (4,000 for MNIST), relative to the exact SVD of all rows so far, solved at
every chunk of 1,000.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.decomposition import PCA

from batch2online import OnlineLowRank, datasets

CHUNK = 1_000
FIRST = {"mnist": 4_000}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "epsilon=0.01": {"epsilon": 0.01},
    'solve="exact"': {"solve": "exact"},
}


def refitted_loss(X: np.ndarray, rank: int, first: int) -> float:
    """Loss of the leading subspace of all rows so far, solved at every chunk."""
    d = X.shape[1]
    gram, loss = np.zeros((d, d)), 0.0
    for start in range(0, len(X), CHUNK):
        rows = X[start : start + CHUNK]
        if start >= first:
            basis = eigh(gram, subset_by_index=[d - rank, d - 1])[1]
            loss += float(np.square(rows).sum() - np.square(rows @ basis).sum())
        gram += rows.T @ rows
    return loss


def online_loss(
    X: np.ndarray, rank: int, first: int, settings: dict[str, Any], seed: int
) -> tuple[float, int, int, float]:
    """Loss from row ``first`` on, changes after it, changes in all, rows per second."""
    model, before = OnlineLowRank(rank, random_state=seed, **settings), 0.0
    started = time.perf_counter()
    for start in range(0, len(X), CHUNK):
        model.partial_fit(X[start : start + CHUNK])
        if start + CHUNK == first:
            before = model.regret_.loss
    elapsed = time.perf_counter() - started
    late = sum(event.at > first for event in model.changes_)
    return model.regret_.loss - before, late, model.n_changes_, len(X) / elapsed


def centred_variance(X: np.ndarray, rank: int) -> float:
    """Explained variance of the centred variant relative to PCA of all rows."""
    ours = OnlineLowRank(rank, center=True, random_state=0)
    for start in range(0, len(X), CHUNK):
        ours.partial_fit(X[start : start + CHUNK])
    theirs = PCA(rank, svd_solver="covariance_eigh").fit(X)
    return float(ours.explained_variance_.sum() / theirs.explained_variance_.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=["letter", "china_patches", "mnist"])
    parser.add_argument("--ranks", nargs="*", type=int, default=[5, 10, 20])
    arguments = parser.parse_args()
    print(f"{'data':14} {'k':>3} {'setting':14} {'/exact mean':>11} {'worst':>8} {'late':>9} {'all':>9} {'rows/s':>9}")
    for name in arguments.sets:
        X = datasets.load_rows(name)
        first = FIRST.get(name, 1_000)
        for rank in (rank for rank in arguments.ranks if rank < X.shape[1]):
            results: dict[str, list[tuple[float, ...]]] = {setting: [] for setting in SETTINGS}
            for seed in range(arguments.seeds):
                rows = X[np.random.default_rng(seed).permutation(len(X))]
                refit = refitted_loss(rows, rank, first)
                for setting, options in SETTINGS.items():
                    loss, late, total, rate = online_loss(rows, rank, first, options, seed)
                    results[setting].append((loss / refit, late, total, rate))
            for setting, values in results.items():
                v = np.array(values)
                print(
                    f"{name:14} {rank:3} {setting:14} {v[:, 0].mean():11.4f} {v[:, 0].max():8.4f} "
                    f"{v[:, 1].mean():5.1f}{v[:, 1].max():4.0f} {v[:, 2].mean():5.1f}{v[:, 2].max():4.0f} "
                    f"{np.median(v[:, 3]):9,.0f}",
                    flush=True,
                )
            print(
                f"{name:14} {rank:3} centred, explained variance / PCA: {centred_variance(rows, rank):.5f}", flush=True
            )


if __name__ == "__main__":
    main()
