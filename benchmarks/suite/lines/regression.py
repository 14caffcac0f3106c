"""Regression: rows in chunks of 10,000, ours with its prequential loss tracked, peers without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online import OnlineRegression
from batch2online.baselines.peers import named
from benchmarks.suite import limits
from benchmarks.suite.contest import contest, feed
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line
from benchmarks.suite.problems import regression as problem
from benchmarks.suite.problems.regression import draw, learner
from benchmarks.suite.states import line, states

GROUP, CHUNK = "regression", 10_000
SHAPES = {(1_000_000, 5): 6.0, (1_000_000, 20): 3.0, (300_000, 100): 2.2}
"""Rows and columns, and the time over that of `X.T @ X` that is not to be exceeded."""
WIDE, TIMES_WIDE = (20_000, 500), 2.5
SGD, RIVER = named("scikit-learn SGDRegressor"), named("River LinearRegression")


def measure(form: Form) -> Iterator[Line]:
    for (rows, columns), most in SHAPES.items():
        yield from chunked(form, form.choose(tiny=2_000, quick=rows, full=rows), columns, most)
    yield wide(form)
    yield correlated(form)
    yield one_by_one(form)
    yield state(form)


def chunked(form: Form, rows: int, columns: int, most: float) -> Iterator[Line]:
    X, y = draw(np.random.default_rng(0), rows, columns)
    part = rows // 4  # its cost a row does not depend on how many have come
    times = contest(
        {
            "limit": (rows, lambda: limits.gram(X, CHUNK)),
            "ours": (rows, lambda: tracked(X, y, CHUNK)),
            "small": (rows, lambda: tracked(X, y, 100)),
            "sgd": (part, lambda: feed(SGD.make("regression"), X[:part], y[:part], CHUNK)),
        },
        form.repeats,
    )
    ours, size = times["ours"], f"{rows:,} x {columns}"
    limit, sgd, small = (times[name] for name in ("limit", "sgd", "small"))
    note = f"{ours.per_row * 1e9:.0f} ns a row"
    yield Line(GROUP, f"time / `X.T @ X`, {size}", ours / limit, at_most=most, note=note)
    yield Line(
        GROUP, f"rows/s / `SGDRegressor`, {size}", sgd / ours, at_least=4, note=f"its time / limit {sgd / limit:.1f}"
    )
    yield Line(GROUP, f"time a row in chunks of 100 / of 10,000, {size}", small / ours, at_most=2)


def wide(form: Form) -> Line:
    """A short stream of many columns, where checks of few rows weigh most."""
    rows, columns = form.choose(tiny=(500, 50), quick=WIDE, full=WIDE)
    X, y = draw(np.random.default_rng(0), rows, columns)
    runs = {"limit": (rows, lambda: limits.gram(X, CHUNK)), "ours": (rows, lambda: tracked(X, y, CHUNK))}
    times = contest(runs, form.repeats)
    return Line(GROUP, f"time / `X.T @ X`, {rows:,} x {columns}", times["ours"] / times["limit"], at_most=TIMES_WIDE)


def correlated(form: Form, columns: int = 100) -> Line:
    """Neighbours of these columns correlate by 0.9, so that no column alone tells how far out a row is."""
    rows = form.choose(tiny=2_000, quick=300_000, full=300_000)
    distance = np.abs(np.subtract.outer(np.arange(columns), np.arange(columns)))
    X, y = draw(np.random.default_rng(0), rows, columns)
    X = X @ np.linalg.cholesky(0.9**distance).T
    runs = {"limit": (rows, lambda: limits.gram(X, CHUNK)), "ours": (rows, lambda: tracked(X, y, CHUNK))}
    times = contest(runs, form.repeats)
    text = f"time / `X.T @ X`, {rows:,} x {columns}, neighbours correlate by 0.9"
    return Line(GROUP, text, times["ours"] / times["limit"], at_most=2)


def tracked(X: np.ndarray, y: np.ndarray | None, chunk: int) -> float:
    """The loss is part of the work."""
    return float(feed(learner(), X, y, chunk).regret_.loss)


def one_by_one(form: Form, columns: int = 20) -> Line:
    rows = form.choose(tiny=500, quick=50_000, full=100_000)
    X, y = draw(np.random.default_rng(0), rows, columns)
    names = [f"x{j}" for j in range(columns)]
    dicts = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    targets = y.tolist()
    runs = {
        "ours": (rows, lambda: _learn_all(OnlineRegression(random_state=0), dicts, targets)),
        "river": (rows, lambda: _learn_all(RIVER.make("regression"), dicts, targets)),
    }
    times = contest(runs, form.repeats)
    ratio, rate = times["river"] / times["ours"], 1 / times["ours"].per_row
    text = f"`learn_one` rows/s / River `LinearRegression`, dictionaries of {columns}"
    return Line(GROUP, text, ratio, at_least=3, note=f"{rate:,.0f} rows/s")


def _learn_all(model: Any, dicts: list[dict[str, float]], targets: list[float]) -> None:
    for x, target in zip(dicts, targets, strict=True):
        model.learn_one(x, target)


def state(form: Form, columns: int = 20) -> Line:
    last = form.choose(tiny=4_000, quick=10_000_000, full=10_000_000)
    return line(GROUP, states(problem, columns, last, form.choose(tiny=100, quick=CHUNK, full=CHUNK)), at_most=1)
