"""Peak memory of online clustering against the number of rows, for each place that the history can be in.

    python benchmarks/clustering_memory.py [--rows 500000 1000000 2000000 4000000]

Rows are drawn as they are needed. Each run is a process of its own; the peak is that of its resident memory that is
private to it (pages of files that are mapped can be dropped at any time and are not counted).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

CHUNK = 10_000


def private_megabytes() -> float:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024


def peak_of(history: str, rows: int) -> float:
    from batch2online import OnlineClustering

    rng, peak = np.random.default_rng(0), [0.0]
    middles = rng.normal(size=(5, 8)) * 3
    finished = threading.Event()

    def watch() -> None:
        while not finished.is_set():
            peak[0] = max(peak[0], private_megabytes())
            time.sleep(0.01)

    with tempfile.TemporaryDirectory() as folder:
        model = OnlineClustering(5, history=folder if history == "folder" else history, random_state=0)
        threading.Thread(target=watch, daemon=True).start()
        for _ in range(0, rows, CHUNK):
            model.partial_fit(middles[rng.integers(5, size=CHUNK)] + rng.normal(size=(CHUNK, 8)))
        finished.set()
    return peak[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", type=int, default=[500_000, 1_000_000, 2_000_000, 4_000_000])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(f"{peak_of(arguments.one[0], int(arguments.one[1])):.1f}")
        return
    print(f"{'history':10}" + "".join(f"{rows:>14,}" for rows in arguments.rows) + "   rows (MB at the peak)")
    for history in ("memory", "folder", "coreset"):
        runs = [[sys.executable, __file__, "--one", history, str(rows)] for rows in arguments.rows]
        peaks = [subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip() for run in runs]
        print(f"{history:10}" + "".join(f"{peak:>14}" for peak in peaks), flush=True)


if __name__ == "__main__":
    main()
