"""Average sensitivity of every coreset over the number of rows and over 1 / epsilon, with the bounds of Theorem 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online.paper.records import lines_of
from batch2online.paper.theorems import SENSITIVITY_EPSILON, SENSITIVITY_SIZE, measured
from benchmarks.suite.form import Form
from benchmarks.suite.studies.theorems_regret import finite
from benchmarks.suite.study import Study

TEXT = (
    f"Coresets of {SENSITIVITY_SIZE} expected rows, ε = {SENSITIVITY_EPSILON}: the probability that the coreset "
    "changes when a random row is deleted, its 95 % interval, and after the slash the bound of Theorem 1; the log-log "
    "slope over the number of rows, of which the theory says -1."
)


def measure(form: Form) -> Iterator[Study]:
    records = measured(("sensitivity",), quick=form.name != "full")["sensitivity"]
    own = [record for record in records if record["epsilon"] == SENSITIVITY_EPSILON]
    rows = sorted({record["rows"] for record in own})
    columns = ["coreset", *(f"n = {n:,}" for n in rows), "slope"]
    lines = [line(name, points) for (name,), points in lines_of(own, "coreset")]
    yield Study("", TEXT, columns, lines, formats={"slope": ".2f"}, curves=finite(records))


def line(name: str, points: list[dict[str, Any]]) -> dict[str, Any]:
    known = [point for point in points if point["sensitivity"] > 0]
    slope = np.polyfit(*(np.log([p[column] for p in known]) for column in ("rows", "sensitivity")), 1)[0]
    cells = {f"n = {point['rows']:,}": cell(point) for point in points}
    return {"coreset": name, **cells, "slope": float(slope)}


def cell(point: dict[str, Any]) -> str:
    bound = "none" if point["bound"] != point["bound"] else f"{point['bound']:.3f}"
    return f"{point['sensitivity']:.3f} ({point['low']:.3f}-{point['high']:.3f}) / {bound}"
