"""The command ``batch2online run`` as a whole: seconds of a short run, and a long file against polars."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.suite.form import Form
from benchmarks.suite.line import Line

GROUP, COLUMNS, BLOCK = "command", 10, 10_000
POLARS = """
import sys
import polars
from sklearn.linear_model import LinearRegression
table = polars.read_csv(sys.argv[1])
LinearRegression().fit(table.drop("y").to_numpy(), table["y"].to_numpy())
"""


def measure(form: Form) -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        rows = form.choose(tiny=100, quick=2_000, full=2_000)
        few, text = written(Path(folder) / "few.csv", rows), f"`batch2online run`, {rows:,} rows of a CSV file"
        yield Line(GROUP, text, seconds(form, {"ours": run(few, folder)})["ours"], at_most=1.5, unit="s")
        if find_spec("polars") is None:
            print("left out: polars is not installed", flush=True)
            return
        rows = form.choose(tiny=1_000, quick=1_000_000, full=1_000_000)
        many = written(Path(folder) / "many.csv", rows)
        found = seconds(form, {"ours": run(many, folder), "polars": ["-c", POLARS, str(many)]})
        text = f"time of `batch2online run` / polars and `LinearRegression`, {rows:,} x {COLUMNS} as CSV"
        yield Line(GROUP, text, found["ours"] / found["polars"], at_most=1.1)


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


def run(path: Path, folder: str) -> list[str]:
    given = ["--task", "regression", "--target", "y", "--quiet", "--out", str(Path(folder) / "result")]
    return ["-m", "batch2online", "run", str(path), *given]


def seconds(form: Form, commands: dict[str, list[str]]) -> dict[str, float]:
    """Return the median processor time of each process, in interleaved turns."""
    turns = [[used(arguments) for arguments in commands.values()] for _ in range(form.choose(tiny=1, quick=3, full=5))]
    return dict(zip(commands, np.median(turns, axis=0).tolist(), strict=True))


def used(arguments: list[str]) -> float:
    """Return the processor time of a process, with one thread for polars as for all others."""
    environment = os.environ | {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    nothing = os.open(os.devnull, os.O_WRONLY)
    silent = [(os.POSIX_SPAWN_DUP2, nothing, 1)]
    process = os.posix_spawn(sys.executable, [sys.executable, *arguments], environment, file_actions=silent)
    _, status, usage = os.wait4(process, 0)
    os.close(nothing)
    assert status == 0
    return usage.ru_utime + usage.ru_stime
