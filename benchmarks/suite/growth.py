"""Our time and memory against one quantity at a time, with the slopes on log-log paper."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.suite.discovery import modules
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line

BLOCK = 10_000
FLAT = 1.1
"""A cost a row that grew by less than this is called flat: repeated runs differ by as much."""


@dataclass(frozen=True)
class Case:
    """One run: so many drawn rows of so many columns in chunks, by our learner."""

    rows: int
    columns: int
    chunk: int = 1_000
    k: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def curves(form: Form) -> Iterator[dict[str, Any]]:
    for axis in modules("axes"):
        for problem in modules("problems"):
            cases = axis.cases(problem, form)
            if cases:
                yield _curve(axis, problem, cases, form)


def _curve(axis: Any, problem: Any, cases: dict[int, Case], form: Form) -> dict[str, Any]:
    values, turns = list(cases), form.choose(tiny=1, quick=1, full=3)
    seconds = np.median([[seconds_of(problem, case) for case in cases.values()] for _ in range(turns)], axis=0)
    memory = np.array([bytes_of(problem, case) for case in cases.values()])
    return {
        "axis": axis.LABEL,
        "problem": problem.NAME,
        "fixed": _shared(list(cases.values())),
        "turns": turns,
        "values": values,
        "seconds": seconds.tolist(),
        "bytes": memory.tolist(),
        "slope_seconds": slope(values, seconds),
        "slope_bytes": slope(values, memory),
    }


def _shared(cases: list[Case]) -> dict[str, Any]:
    """What all runs have in common."""
    flat = [{**asdict(case), **case.settings} for case in cases]
    return {
        name: value
        for name, value in flat[0].items()
        if name != "settings" and value is not None and all(other.get(name) == value for other in flat)
    }


def slope(values: Sequence[float], results: np.ndarray) -> float:
    """The exponent p of the best fit ``result = a * value ** p``.

    >>> round(slope([1, 10, 100], np.array([3.0, 300.0, 30_000.0])), 6)
    2.0
    """
    return float(np.polyfit(np.log(values), np.log(results), 1)[0])


def seconds_of(problem: Any, case: Case) -> float:
    """Processor time of learning; drawing the rows is not counted."""
    total = 0.0

    def timed(learn: Callable[[], None], drawn: int) -> None:
        nonlocal total
        started = time.process_time()
        learn()
        total += time.process_time() - started

    _run(problem, case, timed)
    return max(total, 1e-9)


def bytes_of(problem: Any, case: Case) -> int:
    """Most bytes allocated at once while learning; the rows handed over are not counted."""
    most = 1

    def traced(learn: Callable[[], None], drawn: int) -> None:
        nonlocal most
        tracemalloc.reset_peak()
        learn()
        most = max(most, tracemalloc.get_traced_memory()[1] - drawn)

    tracemalloc.start()
    try:
        _run(problem, case, traced)
    finally:
        tracemalloc.stop()
    return most


def _run(problem: Any, case: Case, watched: Callable[[Callable[[], None], int], None]) -> None:
    model, rng = problem.learner(case.k, **case.settings), np.random.default_rng(0)
    block = min(case.rows, max(BLOCK, case.chunk))
    for _ in range(0, case.rows, block):
        X, y = problem.draw(rng, block, case.columns)

        def learn(X: np.ndarray = X, y: np.ndarray | None = y) -> None:
            for start in range(0, block, case.chunk):
                rows = slice(start, start + case.chunk)
                model.partial_fit(X[rows]) if y is None else model.partial_fit(X[rows], y[rows])

        watched(learn, X.nbytes + (0 if y is None else y.nbytes))


def lines(found: list[dict[str, Any]]) -> Iterator[Line]:
    """The cost a row must not grow with their number: that of the longest stream against that of a tenth of it."""
    for curve in found:
        if curve["axis"] == "rows":
            rows, seconds = np.array(curve["values"]), np.array(curve["seconds"])
            a_row = seconds / rows
            tenth = int(np.argmin(np.abs(rows - rows[-1] / 10)))
            text = f"time a row over {rows[-1]:,} rows / over {rows[tenth]:,}, {curve['problem']}"
            yield Line(
                "growth", text, float(a_row[-1] / a_row[tenth]), at_most=FLAT, note=f"{a_row[-1] * 1e9:.0f} ns a row"
            )
