"""Clusters, or the rank."""

from __future__ import annotations

from typing import Any

from benchmarks.suite.form import Form
from benchmarks.suite.growth import Case

LABEL = "k"


def cases(problem: Any, form: Form) -> dict[int, Case]:
    if not problem.K:
        return {}
    rows, columns = (
        form.choose(tiny=1_000, quick=30_000, full=100_000),
        {"lowrank": 200}.get(problem.NAME, problem.COLUMNS),
    )
    values = form.choose(tiny=(2, 5), quick=(2, 5, 10, 30, 100), full=(2, 5, 10, 30, 100))
    return {k: Case(rows, columns, k=k) for k in values}
