"""What a refresh costs against the rows since the last one.

The same stream is learned with refreshes and without. What a stretch between two refreshes takes beyond its rows, at
what a row costs without any, is the price of the refresh with all that would not have been done but for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online.refresh import Geometric
from benchmarks.suite.contest import feed
from benchmarks.suite.discovery import modules
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line

FIRST = 20_000
MOST = {"clustering": 5}
"""Where a look takes a solve and two passes over all rows."""


def measure(form: Form) -> Iterator[Line]:
    first, last = form.choose(tiny=(1_000, 4_000), quick=(FIRST, 300_000), full=(FIRST, 1_000_000))
    for problem in modules("problems"):
        ratios = prices(problem, first, last, form.repeats)
        text = f"slowest check from {first:,} rows on / the rows since the previous one, {problem.NAME}"
        note = f"median {np.median(ratios):.2f}, {len(ratios)} refreshes up to {last:,} rows"
        yield Line("refreshes", text, float(ratios.max()), at_most=MOST.get(problem.NAME, 1), note=note)


def prices(problem: Any, first: int, last: int, repeats: int) -> np.ndarray:
    """The price of each refresh over that of the rows since the last one."""
    X, y = problem.draw(np.random.default_rng(0), last, problem.COLUMNS)
    times = refresh_times(problem, X, y, first)
    never = Geometric(start=last + 1)
    turns = [
        [stretches(problem.learner(**settings), X, y, times) for settings in ({}, {"refresh": never})]
        for _ in range(repeats)
    ]
    with_them, without = np.median(turns, axis=0)[:, 1:]  # the first stretch is from zero
    rows = np.diff(times)
    of_rows = rows * without.sum() / rows.sum()
    return np.asarray((with_them - of_rows) / of_rows)


def refresh_times(problem: Any, X: np.ndarray, y: np.ndarray | None, first: int) -> list[int]:
    """Row counts of the default policy's refreshes: the last one up to ``first``, and those after it."""
    policy = feed(problem.learner(), X[:10], None if y is None else y[:10], 10).stream.engine.policy
    times = [int(policy.start)]
    while policy.next_check(times[-1]) <= len(X):
        times.append(policy.next_check(times[-1]))
    before = max(time for time in times if time <= first)
    return times[times.index(before) :]


def stretches(model: Any, X: np.ndarray, y: np.ndarray | None, times: list[int]) -> list[float]:
    """Processor time of the rows up to the first of the times, from there to the second, ..."""
    found = []
    for start, end in zip([0, *times], times, strict=False):
        started = time.process_time()
        feed(model, X[start:end], None if y is None else y[start:end], end - start)
        found.append(max(time.process_time() - started, 1e-9))
    return found
