"""A run from standard input against reading the same input with the same reader: processor time and memory."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

READ = """
from batch2online.readers import open_source
source = open_source("-")
print(sum(len(batch) for batch in source.batches(source.names)))
"""
RUN = ["-m", "batch2online", "run", "-", "--task", "regression", "--target", "y", "--json"]


def measured(arguments: list[str], path: Path) -> tuple[float, float]:
    """Processor time in seconds and peak memory in MB of a process that reads the file on its standard input."""
    with path.open("rb") as file:
        process = subprocess.Popen([sys.executable, *arguments], stdin=file, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def write_rows(path: Path, n: int, columns: int) -> None:
    """A few rows at a time: children inherit the peak memory of their parent."""
    rng, names = np.random.default_rng(0), [*(f"x{j}" for j in range(columns)), "y"]
    with pa.csv.CSVWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
        for _ in range(0, n, 10_000):
            X = rng.standard_normal((10_000, columns))
            y = X.sum(axis=1) + rng.standard_normal(10_000)
            values = np.column_stack([X, y]).round(6)
            writer.write_table(pa.table({name: values[:, j] for j, name in enumerate(names)}))


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
        tasks = {"read": ["-c", READ], "run": RUN}
        rounds = [
            [[measured(command, path) for path in (small, large)] for command in tasks.values()]
            for _ in range(arguments.repeats)
        ]
        times = {}
        for task, ((start, little), (whole, much)) in zip(tasks, np.min(rounds, axis=0), strict=True):
            times[task] = whole - start  # what the rows take, without the imports
            print(
                f"{task:5} {times[task]:6.2f} s processor time for {arguments.rows - 20_000:,} rows; peak memory",
                end=" ",
            )
            print(f"{little:.0f} MB for 20,000 rows, {much:.0f} MB for {arguments.rows:,}")
    print(f"run / read {times['run'] / times['read']:.2f}")


if __name__ == "__main__":
    main()
