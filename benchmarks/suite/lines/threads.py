"""Two BLAS threads against one, by elapsed time.

On a busy machine that says nothing: OpenBLAS waits for its second thread in a loop, up to a hundred times as long as
the work takes. The gain is judged on an idle one only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.suite import limits
from benchmarks.suite.contest import Run, Timing, feed
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line
from benchmarks.suite.problems.regression import draw, learner

COLUMNS, LARGE, SMALL = 100, 100_000, 100
IDLE = 1.5
"""This process alone is a load of one."""


def measure(form: Form) -> Iterator[Line]:
    rows, chunk = form.choose(tiny=(4_000, 2_000), quick=(500_000, LARGE), full=(1_000_000, LARGE))
    X, y = draw(np.random.default_rng(0), rows, COLUMNS)
    load = os.getloadavg()[0]
    note = f"load {load:.1f} on {os.cpu_count()} cores" + ("" if load <= IDLE else ": busy, not judged")
    bare = gain(lambda: limits.gram(X[:chunk], chunk), form)
    large = gain(lambda: feed(learner(), X, y, chunk), form)
    text = f"speed of 2 / of 1, chunks of {chunk:,} x {COLUMNS}"
    asked = 1.5 if load <= IDLE else None
    yield Line("threads", text, large, at_least=asked, note=f"bare `X.T @ X`: {bare:.2f}; {note}")
    small = gain(lambda: feed(learner(), X[: rows // 5], y[: rows // 5], SMALL), form)
    yield Line(
        "threads",
        f"time of 2 / of 1, chunks of {SMALL} x {COLUMNS}",
        1 / small,
        at_most=1.1,
        note=note.partition(":")[0],
    )


def gain(run: Run, form: Form) -> float:
    """Median seconds with one thread over those with two, in turn."""
    timings = {count: Timing(1) for count in (1, 2)}
    for _ in range(form.repeats):
        for count, timing in timings.items():
            with threadpool_limits(count, user_api="blas"):
                timing.time(run)
    return timings[1].elapsed / timings[2].elapsed
