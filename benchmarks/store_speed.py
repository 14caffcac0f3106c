"""What a model on disk costs: calls of 1,000 rows of 8 columns, single rows, opening, saving, loading.

Medians over calls, the best of three for the rest, in a folder that may be given (default: a temporary one).
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from batch2online import Durable, OnlineRegression, load

ROWS = np.random.default_rng(0).normal(size=(1000, 8))
TARGETS = ROWS @ np.arange(8.0)
CALLS = 300


def seconds(act) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def in_memory() -> float:
    model = OnlineRegression(random_state=0).partial_fit(ROWS, TARGETS)
    return float(np.median([seconds(lambda: model.partial_fit(ROWS, TARGETS)) for _ in range(CALLS)]))


def on_disk(path: Path, durability: str) -> tuple[float, float]:
    """Return the time of a call with 1,000 rows, and of one with a single row."""
    with Durable(path, OnlineRegression(random_state=0), durability=durability) as durable:
        durable.partial_fit(ROWS, TARGETS)
        many = np.median([seconds(lambda: durable.partial_fit(ROWS, TARGETS)) for _ in range(CALLS)])
        row, target = ROWS[0].tolist(), float(TARGETS[0])
        one = np.median([seconds(lambda: durable.learn_one(row, target)) for _ in range(CALLS)])
    return float(many), float(one)


def files(folder: Path) -> tuple[float, float, float]:
    """Return MB/s of saving and of loading a model with its history, and of opening rows that are learned again."""
    model = OnlineRegression(random_state=0, keep_history=True)
    durable = Durable(folder / "open.b2o", OnlineRegression(random_state=0), durability="os", checkpoint_rows=10**9)
    for _ in range(CALLS):
        model.partial_fit(ROWS, TARGETS)
        durable.partial_fit(ROWS, TARGETS)
    durable._session.abandon()
    megabytes = CALLS * (ROWS.nbytes + TARGETS.nbytes) / 1e6
    saving = min(seconds(lambda: model.save(folder / "saved.b2o")) for _ in range(3))
    loading = min(seconds(lambda: load(folder / "saved.b2o")) for _ in range(3))
    opening = seconds(lambda: Durable.open(folder / "open.b2o").close())
    return megabytes / saving, megabytes / loading, megabytes / opening


def main(folder: Path) -> None:
    print(f"OnlineRegression in memory, 1,000 x 8 {1e6 * in_memory():8.0f} microseconds")
    for durability in ("os", "batch", "every"):
        many, one = on_disk(folder / f"{durability}.b2o", durability)
        print(f"durable, {durability:6} 1,000 x 8 {1e6 * many:8.0f} microseconds, a single row {1e6 * one:8.0f}")
    for name, speed in zip(("save", "load", "open and learn again"), files(folder), strict=True):
        print(f"{name:21} {speed:8.0f} MB/s")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
