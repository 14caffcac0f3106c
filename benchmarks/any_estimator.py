"""A batch algorithm on a coreset against the same algorithm refitted on all rows at the same times.

    python benchmarks/any_estimator.py [--sets diamonds flights] [--size 5000] [--rows 300000] [--seeds 1]

``GradientBoostingRegressor`` with its defaults, random order, chunks of 1,000, refreshed by ``Geometric(1.2)``. Loss is
the squared prequential loss from row 1,000 on, where the first model comes. Refitting all rows takes a quarter of an
hour for flights.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor

from batch2online import BatchToOnline, coresets, datasets, refresh

CHUNK = START = 1_000
ESTIMATOR = GradientBoostingRegressor(random_state=0)
POLICY = refresh.Geometric(1.2, start=START)
CONSTRUCTIONS = {"leverage": partial(coresets.Leverage, intercept=True), "uniform": coresets.Uniform}


def refitted(X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Loss and seconds of the estimator refitted on all rows so far."""
    at, loss, started = START, 0.0, time.perf_counter()
    while at < len(X):
        model = clone(ESTIMATOR).fit(X[:at], y[:at])
        stop = min(POLICY.following(at), len(X))
        loss += float(np.square(y[at:stop] - model.predict(X[at:stop])).sum())
        at = stop
    return loss, time.perf_counter() - started


def online(X: np.ndarray, y: np.ndarray, size: int, construction: Any, seed: int) -> tuple[float, float, int]:
    """Loss, seconds and changes of the estimator on a coreset."""
    model = BatchToOnline(
        ESTIMATOR, coreset=construction, coreset_size=size, refresh=POLICY, loss="squared", random_state=seed
    )
    started = time.perf_counter()
    for start in range(0, len(X), CHUNK):
        model.partial_fit(X[start : start + CHUNK], y[start : start + CHUNK])
    elapsed = time.perf_counter() - started
    return model.regret_.loss - float(np.square(y[:START]).sum()), elapsed, model.n_changes_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=["diamonds", "flights"])
    parser.add_argument("--size", type=int, default=5_000)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    print("data          rows seed solved on      loss  /refit  seconds  speed changes")
    for name in arguments.sets:
        X, y = datasets.load_regression(name)
        for seed in range(arguments.seeds):
            order = np.random.default_rng(seed).permutation(len(X))[: arguments.rows]
            rows, targets = np.ascontiguousarray(X[order]), y[order]
            results = {
                kind: online(rows, targets, arguments.size, construction, seed)
                for kind, construction in CONSTRUCTIONS.items()
            }
            refit_loss, refit_seconds = refitted(rows, targets)
            results["all rows"] = (refit_loss, refit_seconds, max(changes for _, _, changes in results.values()))
            for kind, (loss, seconds, changes) in results.items():
                print(
                    f"{name:9} {len(rows):8} {seed:4} {kind:9} {loss:9.1f} {loss / refit_loss:7.4f} {seconds:8.1f} "
                    f"{refit_seconds / seconds:6.1f} {changes:7}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
