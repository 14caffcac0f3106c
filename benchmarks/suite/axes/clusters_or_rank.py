"""Clusters, or the rank."""

from __future__ import annotations

from typing import Any

from benchmarks.suite.form import Form
from benchmarks.suite.growth import Case

LABEL = "k"


def cases(problem: Any, form: Form) -> dict[int, Case]:
    if not problem.K:
        return {}
    rows = form.choose(tiny=300, quick=10_000, full=100_000)
    columns = {"lowrank": 400}.get(problem.NAME, problem.COLUMNS)
    values = form.choose(tiny=(2, 5), quick=(5, 10, 20, 50, 100, 200), full=(5, 10, 20, 50, 100, 200))
    return {k: Case(rows, columns, k=k) for k in values}
