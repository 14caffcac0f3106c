"""Regression rows from a memory-mapped file against ``X.T @ X`` straight from the same file, which reads it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.suite import limits
from benchmarks.suite.contest import contest, feed
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line
from benchmarks.suite.problems.regression import draw, learner

COLUMNS, CHUNK = 20, 10_000


def measure(form: Form) -> Iterator[Line]:
    rows = form.choose(tiny=20_000, quick=1_000_000, full=10_000_000)
    with tempfile.TemporaryDirectory() as folder:
        X, y = written(Path(folder), rows)
        times = contest(
            {
                "limit": (rows, lambda: limits.gram(X, CHUNK)),
                "ours": (rows, lambda: feed(learner(), X, y, CHUNK)),
            },
            form.repeats,
        )
    ratio, rate = times["ours"] / times["limit"], 1 / times["ours"].per_row
    text = f"time / reading and `X.T @ X`, {rows:,} x {COLUMNS} from a mapped file"
    yield Line("mapped file", text, ratio, at_most=2.5, note=f"{rate:,.0f} rows/s")


def written(folder: Path, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Maps of a file of rows and one of targets."""
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float64, (rows, COLUMNS))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float64, (rows,))
    rng = np.random.default_rng(0)
    for start in range(0, rows, CHUNK):
        X[start : start + CHUNK], y[start : start + CHUNK] = draw(rng, CHUNK, COLUMNS)
    del X, y
    return np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")
