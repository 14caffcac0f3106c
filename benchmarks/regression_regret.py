"""Prequential loss and model changes of online regression on real data in random order.

    python benchmarks/regression_regret.py [--seeds 5] [--first-seed 0] [--growth 1.5]

Loss is summed from row 1,000 on, relative to least squares on all rows so far, solved at every chunk of
1,000 (``exact refit``) and to the hindsight optimum (``hindsight``).
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from batch2online import OnlineRegression, datasets, refresh

CHUNK = FIRST = 1_000
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "epsilon=0.01": {"epsilon": 0.01},
    'solve="exact"': {"solve": "exact"},
    "Geometric(1.1)": {"refresh": refresh.Geometric(1.1)},
}


def refitted_loss(X: np.ndarray, y: np.ndarray) -> float:
    """Loss of least squares on all rows so far, solved at every chunk: a few lines of NumPy."""
    rows = np.column_stack([np.ones(len(X)), X])
    gram, right, loss = np.zeros((rows.shape[1],) * 2), np.zeros(rows.shape[1]), 0.0
    for start in range(0, len(X), CHUNK):
        a, b = rows[start : start + CHUNK], y[start : start + CHUNK]
        if start >= FIRST:
            loss += float(np.square(b - a @ np.linalg.lstsq(gram, right, rcond=1e-12)[0]).sum())
        gram += a.T @ a
        right += a.T @ b
    return loss


def hindsight_loss(X: np.ndarray, y: np.ndarray) -> float:
    rows = np.column_stack([np.ones(len(X)), X])
    solution = np.linalg.lstsq(rows, y, rcond=None)[0]
    return float(np.square(y - rows @ solution)[FIRST:].sum())


def online_loss(X: np.ndarray, y: np.ndarray, settings: dict[str, Any], seed: int) -> tuple[float, int, int, float]:
    """Loss from row FIRST on, changes after it, changes in all, rows per second."""
    model, before = OnlineRegression(random_state=seed, **settings), 0.0
    started = time.perf_counter()
    for start in range(0, len(X), CHUNK):
        model.partial_fit(X[start : start + CHUNK], y[start : start + CHUNK])
        if start + CHUNK == FIRST:
            before = model.regret_.loss
    elapsed = time.perf_counter() - started
    late = sum(event.at > FIRST for event in model.changes_)
    return model.regret_.loss - before, late, model.n_changes_, len(X) / elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--growth", type=float, help="compare the default with another growth of its refreshes only")
    parser.add_argument("--sets", nargs="*", default=["cps1988", "diamonds", "flights"])
    arguments = parser.parse_args()
    settings = SETTINGS
    if arguments.growth is not None:
        settings = {"default": {}, f"growth {arguments.growth}": {"refresh": refresh.Lazy(arguments.growth, 0.015)}}
    print(f"{'data':9} {'setting':16} {'/exact refit':>17} {'/hindsight':>10} {'late':>8} {'all':>8} {'rows/s':>10}")
    for name in arguments.sets:
        X, y = datasets.load_regression(name)
        results: dict[str, list[tuple[float, ...]]] = {setting: [] for setting in settings}
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            order = np.random.default_rng(seed).permutation(len(X))
            rows, targets = X[order], y[order]
            refit, hindsight = refitted_loss(rows, targets), hindsight_loss(rows, targets)
            for setting, options in settings.items():
                loss, late, total, rate = online_loss(rows, targets, options, seed)
                results[setting].append((loss / refit, loss / hindsight, late, total, rate))
        for setting, values in results.items():
            v = np.array(values)
            print(
                f"{name:9} {setting:16} {v[:, 0].mean():8.4f} {v[:, 0].max():8.4f} {v[:, 1].mean():10.4f} "
                f"{v[:, 2].mean():5.1f}{v[:, 2].max():3.0f} {v[:, 3].mean():5.1f}{v[:, 3].max():3.0f} "
                f"{np.median(v[:, 4]):10,.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
