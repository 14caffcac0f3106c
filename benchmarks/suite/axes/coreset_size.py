"""The expected size of the coreset."""

from __future__ import annotations

from typing import Any

from benchmarks.suite.form import Form
from benchmarks.suite.growth import Case

LABEL = "coreset size"


def cases(problem: Any, form: Form) -> dict[int, Case]:
    rows = form.choose(tiny=300, quick=50_000, full=300_000)
    values = form.choose(tiny=(100, 300), quick=(300, 1_000, 3_000, 10_000), full=(300, 1_000, 3_000, 10_000, 30_000))
    return {size: Case(rows, problem.COLUMNS, settings={"coreset_size": size}) for size in values}
