"""Changes of the model over the number of rows: the paper's algorithms made consistent, and our policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batch2online.paper.records import lines_of
from batch2online.paper.theorems import CHANGES_EPSILON, CHANGES_SIZE, measured
from benchmarks.suite.form import Form
from benchmarks.suite.studies.theorems_regret import finite
from benchmarks.suite.study import Study

TEXT = (
    f"Coresets of {CHANGES_SIZE} rows, ε = {CHANGES_EPSILON}, random order, {{seeds}} seeds: changes of the model "
    "after so many rows, and the bound of their expected number. Transport is the paper's algorithm with each draw "
    "kept as often as its distribution allows (`reference`, `consistent=True`)."
)
COLUMNS = ["problem", "algorithm", "rows", "changes", "bound", "changes at the first tenth"]


def measure(form: Form) -> Iterator[Study]:
    seeds = form.seeds_of(5)
    records = measured(("changes",), quick=form.name != "full", seeds=seeds)["changes"]
    lines = [line(points) for _, points in lines_of(records, "problem", "algorithm")]
    yield Study("", TEXT.format(seeds=len(seeds)), COLUMNS, lines, curves=finite(records))


def line(points: list[dict[str, Any]]) -> dict[str, Any]:
    last = points[-1]
    tenth = min(points, key=lambda point: abs(point["rows"] - last["rows"] / 10))
    bound = last["bound"]
    return {
        "problem": last["problem"],
        "algorithm": last["algorithm"],
        "rows": f"{last['rows']:,}",
        "changes": f"{last['changes']:,.1f} ({last['changes_std']:,.1f})",
        "bound": "none" if bound != bound else f"{bound:,.0f}",
        "changes at the first tenth": f"{tenth['changes']:,.1f}",
    }
