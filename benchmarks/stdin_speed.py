"""A run from standard input against reading the same input with the same reader: time and peak memory."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

READ = """
import sys, resource
from batch2online.readers import open_source
source = open_source("-")
print(sum(len(batch) for batch in source.batches(source.names)))
"""
RUN = ["-m", "batch2online", "run", "-", "--task", "regression", "--target", "y", "--json"]


def seconds(arguments: list[str], path: Path) -> tuple[float, float]:
    """Wall clock time and processor time of a process that reads the file on its standard input."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with path.open("rb") as file:
        subprocess.run([sys.executable, *arguments], stdin=file, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, used


def write_rows(path: Path, n: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, columns)).round(6)
    y = (X.sum(axis=1) + rng.standard_normal(n)).round(6)
    pa.csv.write_csv(pa.table({**{f"x{j}": X[:, j] for j in range(columns)}, "y": y}), path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.csv", Path(folder) / "large.csv"
        write_rows(small, 20_000, arguments.columns)
        write_rows(large, arguments.rows, arguments.columns)
        for task, command in (("read", ["-c", READ]), ("run", RUN)):
            start = np.min([seconds(command, small) for _ in range(arguments.repeats)], axis=0)
            whole = np.min([seconds(command, large) for _ in range(arguments.repeats)], axis=0)
            wall, used = whole - start  # what the rows take, without the imports
            print(f"{task:5} {wall:6.2f} s wall, {used:6.2f} s processor for {arguments.rows - 20_000:,} rows")
    print(f"peak memory of all processes {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
