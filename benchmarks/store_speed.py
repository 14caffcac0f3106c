"""What the store costs: appending 1,000 rows of 8 columns, reading them, opening a store, learning durably.

Medians over appends, the best of three for the rest, in a folder that may be given (default: a temporary one).
"""

from __future__ import annotations

import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np

from batch2online import OnlineRegression
from batch2online.persistence.durable import Durable
from batch2online.persistence.store import Store

ROWS = np.random.default_rng(0).normal(size=(1000, 8))
APPENDS = 500


def seconds(act) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def appends(folder: Path, mode: str) -> float:
    with Store.create(folder, 8, sync=mode) as store:
        return float(np.median([seconds(lambda: store.append(ROWS)) for _ in range(APPENDS)]))


def reading(folder: Path) -> float:
    with Store.open(folder) as store:
        return min(seconds(lambda: [piece.sum() for piece in store.pieces()]) for _ in range(3))


def learning(folder: Path | None) -> float:
    """Rows a second, in chunks of 1,000; with a folder, durably."""
    y = ROWS @ np.arange(8.0)
    model = OnlineRegression(random_state=0)
    learner = model if folder is None else Durable(folder, model)
    learner.partial_fit(ROWS, y)
    return 300_000 / seconds(lambda: [learner.partial_fit(ROWS, y) for _ in range(300)])


def main(folder: Path) -> None:
    megabytes = APPENDS * ROWS.nbytes / 1e6
    for mode in ("never", "interval", "always"):
        print(f"append of 1,000 x 8, sync={mode:9} {1e6 * appends(folder / mode, mode):8.0f} microseconds")
    print(f"of which CRC-32                     {1e6 * min(seconds(lambda: zlib.crc32(ROWS)) for _ in range(99)):8.0f}")
    print(f"read through                        {megabytes / reading(folder / 'never'):8.0f} MB/s")
    best = min(seconds(lambda: Store.open(folder / "never", read_only=True)) for _ in range(3))
    print(f"open, every byte checked            {megabytes / best:8.0f} MB/s")
    print(f"OnlineRegression                    {learning(None):8,.0f} rows/s")
    print(f"the same, durable, sync=interval    {learning(folder / 'model'):8,.0f} rows/s")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
