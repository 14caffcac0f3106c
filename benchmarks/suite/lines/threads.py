"""Two BLAS threads against one: elapsed time, which says nothing on a machine that is busy."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.suite.contest import Timing, feed
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line
from benchmarks.suite.problems.regression import draw, learner

COLUMNS = 100


def measure(form: Form) -> Iterator[Line]:
    rows = form.choose(tiny=4_000, quick=500_000, full=1_000_000)
    X, y = draw(np.random.default_rng(0), rows, COLUMNS)
    note = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    large = elapsed(X, y, form.choose(tiny=2_000, quick=100_000, full=100_000), form)
    yield Line(
        "threads", f"speed of 2 / of 1, chunks of 100,000 x {COLUMNS}", large[1] / large[2], at_least=1.5, note=note
    )
    part = rows // 5
    small = elapsed(X[:part], y[:part], 100, form)
    yield Line("threads", f"time of 2 / of 1, chunks of 100 x {COLUMNS}", small[2] / small[1], at_most=1.1, note=note)


def elapsed(X: np.ndarray, y: np.ndarray, chunk: int, form: Form) -> dict[int, float]:
    """Median seconds with one thread and with two, in turn."""
    timings = {count: Timing(len(X)) for count in (1, 2)}
    for _ in range(form.repeats):
        for count, timing in timings.items():
            with threadpool_limits(count, user_api="blas"):
                timing.time(lambda: feed(learner(), X, y, chunk))
    return {count: timing.elapsed for count, timing in timings.items()}
