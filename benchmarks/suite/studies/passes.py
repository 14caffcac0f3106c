"""Where the time of a row goes in online regression between two refreshes: the passes over a block, one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from batch2online import OnlineRegression
from batch2online.core import randomness
from batch2online.core.rows import Rows, ones
from batch2online.core.validation import check_finite
from batch2online.refresh import Geometric
from benchmarks.suite.form import Form
from benchmarks.suite.problems.regression import draw
from benchmarks.suite.study import Study

TEXT = (
    "what is done with each block of rows in online regression between two refreshes: nanoseconds a row, medians over "
    "many blocks, each of them cold in the cache."
)
Pass = Callable[[np.ndarray, np.ndarray], object]


def measure(form: Form) -> Iterator[Study]:
    widths, records = (20, 100), {}
    for columns in widths:
        X, y = draw(np.random.default_rng(0), form.choose(tiny=30_000, quick=300_000, full=300_000), columns)
        block, named = passes(X, y)
        for name, run in named.items():
            record = records.setdefault(name, {"pass over a block": name})
            record[f"{columns} columns"] = round(float(np.median(timed(run, X, y, block, form))))
    heads = ["pass over a block", *(f"{columns} columns" for columns in widths)]
    yield Study("studies", "Where the time of a row goes", TEXT, heads, list(records.values()))


def passes(X: np.ndarray, y: np.ndarray) -> tuple[int, dict[str, Pass]]:
    """Rows of a block, and what is done with each block of a stream of these rows."""
    model = OnlineRegression(random_state=0, refresh=Geometric(start=10**9)).partial_fit(X, y)
    engine, construction = model._engine, model._engine.construction
    moments, block = construction.statistics.moments, construction.block
    assert moments.is_plain

    def rows(points: np.ndarray, targets: np.ndarray) -> Rows:
        return Rows(points, targets, ones(len(points)), np.arange(len(X), len(X) + len(points)))

    def bounds(points: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.asarray(moments.bounds(rows(points, targets)))

    some = bounds(X[:block], y[:block, None])
    return block, {
        "`X.T @ X`, the limit": lambda points, _: points.T @ points,
        "check of values": lambda points, _: check_finite(points, "X"),
        "losses under the model": lambda *pair: engine.problem.losses(engine.model, *pair),
        "moments of [1, a, b], the limit among them": lambda *pair: moments.plain_gram(
            *moments.plain_columns(rows(*pair))
        ),
        "bounds of scores": bounds,
        "random words": lambda *_: randomness.words(0, randomness.SAMPLING, range(len(X), len(X) + block)),
        "choice of candidates, with the words": lambda *pair: construction._chosen(
            construction._words(rows(*pair).ids), some
        ),
        "all of it, `partial_fit`": lambda points, targets: model.partial_fit(points, targets[:, 0]),
    }


def timed(run: Pass, X: np.ndarray, y: np.ndarray, block: int, form: Form) -> np.ndarray:
    """Nanoseconds a row of each turn."""
    found = []
    for turn in range(form.choose(tiny=3, quick=60, full=60)):
        start = turn * block % (len(X) - block + 1) // block * block
        points, targets = X[start : start + block], y[start : start + block, None]
        started = time.perf_counter()
        run(points, targets)
        found.append((time.perf_counter() - started) / block * 1e9)
    return np.array(found)
