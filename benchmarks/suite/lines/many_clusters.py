"""Clustering with many clusters and wide rows: chunks of 1,000, both losses tracked; and growth with k."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from batch2online import datasets
from benchmarks.suite.contest import contest, feed
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line
from benchmarks.suite.lines.clustering import CHUNK, mini_batch, tracked_loss
from benchmarks.suite.problems.clustering import learner

GROUP = "many clusters"
SHAPES = ((60_000, 100, 50, 0.5), (60_000, 100, 10, 0.7), (40_000, 400, 10, 0.7), (20_000, 784, 10, 0.7))
"""Rows, columns, clusters, and the speed that is asked for."""
PIXELS, FEW_CENTERS, MANY_CENTERS = 100_000, 20, 100


def measure(form: Form) -> Iterator[Line]:
    shrink, repeats = form.choose(tiny=40, quick=1, full=1), form.choose(tiny=1, quick=5, full=7)
    for rows, columns, k, at_least in SHAPES:
        X = overlapping(rows // shrink, columns)
        yield from compared(X, k, repeats, at_least, f"{len(X):,} x {columns}")
    pixels = datasets.load_rows("china_pixels")
    X = pixels[np.random.default_rng(0).permutation(len(pixels))[: PIXELS // shrink]]
    yield from compared(X, MANY_CENTERS // 2, repeats, 0.5, f"china_pixels, {len(X):,} x 3")
    yield slope(X, repeats)


def overlapping(rows: int, columns: int) -> np.ndarray:
    """Return rows of 200 clusters that overlap, with standard deviations of columns that decay like 1 / sqrt(j)."""
    rng, spread = np.random.default_rng(columns), 1 / np.sqrt(1 + np.arange(columns))
    middles = rng.normal(size=(200, columns))
    return (middles[rng.integers(200, size=rows)] + 1.2 * rng.normal(size=(rows, columns))) * spread


def compared(X: np.ndarray, k: int, repeats: int, at_least: float, size: str) -> Iterator[Line]:
    losses: list[float] = []
    runs = {
        "ours": (len(X), lambda: feed(learner(k), X, None, CHUNK)),
        "peer": (len(X), lambda: losses.append(mini_batch(X, k, tracked=True))),
    }
    times, text = contest(runs, repeats), f"`MiniBatchKMeans`, its loss tracked, {size}, k={k}"
    note = f"loss over its: {tracked_loss(learner(k), X) / losses[0]:.4f}" if losses[0] else ""
    yield Line(GROUP, f"rows/s / {text}", times["peer"] / times["ours"], at_least=at_least, note=note)


def slope(X: np.ndarray, repeats: int) -> Line:
    few, many = FEW_CENTERS, MANY_CENTERS
    times = contest({str(k): (len(X), lambda k=k: feed(learner(k), X, None, CHUNK)) for k in (few, many)}, repeats)
    power = math.log(times[str(many)] / times[str(few)]) / math.log(many / few)
    return Line(
        GROUP, f"growth of time with k from {few} to {many}, china_pixels", power, at_most=1, unit="(power of k)"
    )
