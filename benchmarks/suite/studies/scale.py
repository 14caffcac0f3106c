"""Rows that workers of a cluster draw as they learn them: speed, memory of a worker, distance to the truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

IS_TIMED = True
TEXT = (
    "Rows of 10 columns that the workers generate, in partitions of 250,000: two workers of one thread "
    "each. *Next to the truth*: largest error of a coefficient in standard errors, or the cost of the centers "
    "over that of the true ones."
)
COLUMNS = [
    "task",
    "rows",
    "rows a processor second",
    "seconds on the clock",
    "most MB of a worker",
    "next to the truth",
]
TASKS = {"regression": "regression", "clusters": '10 clusters, `history="coreset"`'}


def measure(form: Form) -> Iterator[Study]:
    sizes = form.choose(tiny=(250_000,), quick=(1_000_000, 10_000_000), full=(10_000_000, 1_000_000_000))
    tasks = form.choose(tiny=1, quick=2, full=2)
    records = [of_run(task, rows, form) for task in list(TASKS)[:tasks] for rows in sizes]
    yield Study("", TEXT, COLUMNS, records)


def of_run(task: str, rows: int, form: Form) -> dict[str, Any]:
    from benchmarks.scale.measure import run  # Dask is needed for this study alone

    found = run(task, rows, form.choose(tiny=1, quick=2, full=2))
    is_regression = task == "regression"
    truth = f"{found['largest_standard_error']:.2f}" if is_regression else f"{found['cost_over_truth']:.4f}"
    values = [TASKS[task], rows, found["rows_per_processor_second"], f"{found['seconds']:.1f}"]
    return dict(zip(COLUMNS, [*values, max(found["peak_megabytes"]), truth], strict=True))
