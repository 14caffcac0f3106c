"""A run from standard input against reading the same input with the same reader: processor time and memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

IS_TIMED = True
COLUMNS, BLOCK = 10, 10_000
READ = """
from batch2online.app.inputs import open_source
source = open_source("-")
print(sum(len(batch) for batch in source.batches(source.names)))
"""
RUN = ["-m", "batch2online", "run", "-", "--json", "--task"]
TASKS = {
    "reading alone": ["-c", READ],
    "regression": [*RUN, "regression", "--target", "y"],
    "low rank, 5 components": [*RUN, "lowrank", "--k", "5"],
    "clustering, 5 clusters": [*RUN, "clustering", "--k", "5"],
}
TEXT = (
    "1,000,000 rows of 10 numbers and a target as CSV on standard input of `batch2online run`, processor time beyond "
    "that of 20,000 rows (without imports), relative to reading them with the same reader; peak "
    "memory in MB."
)


def measure(form: Form) -> Iterator[Study]:
    few, many = form.choose(tiny=(BLOCK, 2 * BLOCK), quick=(20_000, 1_000_000), full=(20_000, 1_000_000))
    repeats, tasks = form.choose(tiny=1, quick=1, full=3), form.choose(tiny=2, quick=4, full=4)
    chosen = dict(list(TASKS.items())[:tasks])
    with tempfile.TemporaryDirectory() as folder:
        paths = [written(Path(folder) / f"{n}.csv", n) for n in (few, many)]
        turns = [[[measured(task, path) for path in paths] for task in chosen.values()] for _ in range(repeats)]
    heads, records, reading = [f"MB, {n:,} rows" for n in (few, many)], [], None
    for task, ((start, little), (whole, much)) in zip(chosen, np.min(turns, axis=0), strict=True):
        reading = reading or max(whole - start, 1e-9)
        record = {"task": task, "time / reading": float((whole - start) / reading)}
        records.append(record | dict(zip(heads, (round(float(little)), round(float(much))), strict=True)))
    columns, formats = ["task", "time / reading", *heads], {"time / reading": ".1f"}
    yield Study("The command line", TEXT, columns, records, formats=formats)


LAUNCH = """
import os, subprocess, sys
_, status, usage = os.wait4(subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL).pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def measured(arguments: list[str], path: Path) -> tuple[float, float]:
    """Processor time in seconds and peak memory in MB of a process that reads the file on its standard input.

    A process inherits the peak memory of the one that starts it, which is a small one here.
    """
    command = [sys.executable, "-c", LAUNCH, sys.executable, *arguments]
    with path.open("rb") as file:
        seconds, memory = subprocess.run(command, stdin=file, capture_output=True, check=True).stdout.split()
    return float(seconds), float(memory)


def written(path: Path, n: int) -> Path:
    """Write the rows, a few at a time."""
    rng, names = np.random.default_rng(0), [*(f"x{j}" for j in range(COLUMNS)), "y"]
    with pa.csv.CSVWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
        for start in range(0, n, BLOCK):
            size = min(BLOCK, n - start)
            X = rng.standard_normal((size, COLUMNS))
            y = X.sum(axis=1) + rng.standard_normal(size)
            values = np.column_stack([X, y]).round(6)
            writer.write_table(pa.table({name: values[:, j] for j, name in enumerate(names)}))
    return path
