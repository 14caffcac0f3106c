"""Measure what was asked for, and print it as it is found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from benchmarks.suite import growth, machine, stored
from benchmarks.suite.discovery import modules
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line, demand, figure, verdict
from benchmarks.suite.markdown import of_study
from benchmarks.suite.table import table

Result = tuple[str, dict[str, Any]]


def results(form: Form, words: list[str] | None) -> Iterator[Result]:
    """Measure what the words name, or speed and then studies; names, and what is to be stored under them.

    Speed is stored as a whole alone. Without words the quick form takes the studies of times (``IS_TIMED``).
    """
    if words is None:
        yield "speed", everything(form)
        every = [module for module in modules("studies") if form.name != "quick" or hasattr(module, "IS_TIMED")]
    else:
        for problem in _chosen("problems", words):
            _summary(problem.NAME, table(problem, form))
        list(_lines(form, _chosen("lines", words)))
        every = _chosen("studies", words)
    yield from (study(form, module) for module in every)


def everything(form: Form) -> dict[str, Any]:
    """Measure all but the studies."""
    started, before, origin = time.perf_counter(), machine.load(), stored.provenance(form.command())
    tables = {problem.NAME: _summary(problem.NAME, table(problem, form)) for problem in modules("problems")}
    curves = list(growth.curves(form))
    lines = [*_lines(form, modules("lines")), *(_printed(line) for line in growth.lines(curves))]
    judged = [line.is_met for line in lines if line.is_met is not None]
    print(f"{sum(judged)} of {len(judged)} lines met", flush=True)
    return {
        **origin,
        "machine": machine.description() | {"busy": max(before[0], machine.load()[0]) > (origin["machine"]["cores"])},
        "form": form.name,
        "repeats": form.repeats,
        "load": {"before": before, "after": machine.load()},
        "seconds": time.perf_counter() - started,
        "lines": [line.record() for line in lines],
        "tables": tables,
        "growth": curves,
    }


def study(form: Form, module: ModuleType) -> Result:
    """Measure the tables of a study; the commit is that of the beginning."""
    origin, tables = stored.provenance(form.command(_path(module))), []
    for found in module.measure(form):
        tables.append(found.record())
        print(f"\n{found.title}\n", *of_study(tables[-1]), sep="\n", flush=True)
    return _path(module).partition("/")[2], {**origin, "tables": tables}


def _chosen(folder: str, words: list[str]) -> list[ModuleType]:
    return [module for module in modules(folder) if any(word in _path(module) for word in words)]


def _path(module: ModuleType) -> str:
    """The folder and the name of a module.

    >>> _path(ModuleType("benchmarks.suite.lines.regression"))
    'lines/regression'
    """
    return "/".join(module.__name__.split(".")[-2:])


def _lines(form: Form, groups: list[ModuleType]) -> Iterator[Line]:
    for group in groups:
        for line in group.measure(form):
            yield _printed(line)


def _printed(line: Line) -> Line:
    record = line.record()
    print(
        f"{verdict(record):9} {figure(record):>12} {demand(record):14} {line.group}: {line.text}. {line.note}",
        flush=True,
    )
    return line


def _summary(name: str, found: dict[str, Any]) -> dict[str, Any]:
    for learner, record in found["learners"].items():
        ratio = f"{record['loss_ratio']:.4f} x hindsight" if "loss_ratio" in record else ""
        print(f"{name:11} {learner:48} {record['rows_per_second']:14,.0f} rows/s {ratio}", flush=True)
    return found
