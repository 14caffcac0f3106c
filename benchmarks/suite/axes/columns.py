"""Columns."""

from __future__ import annotations

from typing import Any

from benchmarks.suite.form import Form
from benchmarks.suite.growth import Case

LABEL = "columns"


def cases(problem: Any, form: Form) -> dict[int, Case]:
    rows = form.choose(tiny=300, quick=5_000, full=50_000)
    values = form.choose(tiny=(5, 20), quick=(5, 20, 100, 300, 1_000, 2_000), full=(5, 20, 100, 300, 1_000, 2_000))
    settings = (
        {"coreset_size": 3_000} if problem.NAME == "regression" else {}
    )  # the default keeps all rows of 1,000 columns
    return {columns: Case(rows, columns, k=3 if problem.K else None, settings=settings) for columns in values}
