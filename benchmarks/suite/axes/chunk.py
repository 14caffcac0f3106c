"""Rows handed over at a time."""

from __future__ import annotations

from typing import Any

from benchmarks.suite.form import Form
from benchmarks.suite.growth import Case

LABEL = "rows in a chunk"


def cases(problem: Any, form: Form) -> dict[int, Case]:
    rows = form.choose(tiny=300, quick=30_000, full=100_000)
    values = form.choose(tiny=(10, 100), quick=(1, 10, 100, 1_000, 10_000), full=(1, 10, 100, 1_000, 10_000, 100_000))
    return {chunk: Case(rows, problem.COLUMNS, chunk) for chunk in values}
