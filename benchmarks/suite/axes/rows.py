"""Rows."""

from __future__ import annotations

from typing import Any

from benchmarks.suite.form import Form
from benchmarks.suite.growth import Case

LABEL = "rows"


def cases(problem: Any, form: Form) -> dict[int, Case]:
    usual = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
    values = form.choose(tiny=(500, 1_000), quick=usual, full=usual)
    return {rows: Case(rows, problem.COLUMNS) for rows in values}
