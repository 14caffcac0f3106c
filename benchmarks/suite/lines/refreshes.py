"""What a refresh costs against the rows since the last one.

The same stream is learned with refreshes and without. The difference between two refreshes is what the second one cost,
with all that would not have been done without it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online.refresh import Geometric
from benchmarks.suite.discovery import modules
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line

FIRST = 20_000


def measure(form: Form) -> Iterator[Line]:
    first, last = form.choose(tiny=(1_000, 4_000), quick=(FIRST, 300_000), full=(FIRST, 1_000_000))
    for problem in modules("problems"):
        X, y = problem.draw(np.random.default_rng(0), last, problem.COLUMNS)
        times, ends = refresh_times(problem, first, last), {}
        for _ in range(form.repeats):
            for kind, settings in (("with", {}), ("without", {"refresh": Geometric(start=last + 1)})):
                ends.setdefault(kind, []).append(seconds_between(problem.learner(**settings), X, y, times))
        with_them, without = (np.median(ends[kind], axis=0) for kind in ("with", "without"))
        ratios = (with_them - without)[1:] / without[1:]  # the first stretch is from zero
        text = f"dearest refresh from {first:,} rows on / the rows since the last, {problem.NAME}"
        note = f"median {np.median(ratios):.2f}, {len(ratios)} refreshes up to {last:,} rows"
        yield Line("refreshes", text, float(ratios.max()), at_most=1, note=note)


def refresh_times(problem: Any, first: int, last: int) -> list[int]:
    """Row counts of the refreshes between two counts, by the default policy."""
    model = problem.learner().partial_fit(
        *(part for part in problem.draw(np.random.default_rng(0), 10, problem.COLUMNS) if part is not None)
    )
    policy = model._engine.policy
    times = [policy.after(first)]
    while policy.following(times[-1]) <= last:
        times.append(policy.following(times[-1]))
    return times


def seconds_between(model: Any, X: np.ndarray, y: np.ndarray | None, times: list[int]) -> list[float]:
    """Processor time of the rows up to the first of the times, from there to the second, ..."""
    found = []
    for start, end in zip([0, *times], times, strict=False):
        started = time.process_time()
        model.partial_fit(X[start:end]) if y is None else model.partial_fit(X[start:end], y[start:end])
        found.append(max(time.process_time() - started, 1e-9))
    return found
