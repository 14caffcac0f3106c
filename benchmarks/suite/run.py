"""Measure what was asked for, and print it as it is found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from benchmarks.suite import growth, machine
from benchmarks.suite.discovery import modules
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line, demand, figure, verdict
from benchmarks.suite.markdown import of_study
from benchmarks.suite.table import table


def everything(form: Form) -> dict[str, Any]:
    """Measure all but the studies."""
    started, before = time.perf_counter(), machine.load()
    tables = {problem.NAME: _told(problem.NAME, table(problem, form)) for problem in modules("problems")}
    curves = list(growth.curves(form))
    lines = [*_lines(form, modules("lines")), *(_printed(line) for line in growth.lines(curves))]
    judged = [line.is_met for line in lines if line.is_met is not None]
    print(f"{sum(judged)} of {len(judged)} lines met", flush=True)
    return {
        "form": form.name,
        "repeats": form.repeats,
        "machine": machine.description(),
        "load": {"before": before, "after": machine.load()},
        "seconds": time.perf_counter() - started,
        "lines": [line.record() for line in lines],
        "tables": tables,
        "growth": curves,
    }


def studies(form: Form, chosen: list[ModuleType] | None = None) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Measure the studies given, or all of them unless the form is quick: a file, and what it found."""
    every = [] if form.name == "quick" else modules("studies")
    for module in every if chosen is None else chosen:
        file = _path(module)
        found = []
        for study in module.measure(form):
            found.append(study.record(file))
            print(f"\n{study.title}\n", *of_study(found[-1]), sep="\n", flush=True)
        yield file, found


def only(form: Form, words: list[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Measure the files whose path holds one of the words; what studies find is handed on."""

    def chosen(folder: str) -> list[ModuleType]:
        return [module for module in modules(folder) if any(word in _path(module) for word in words)]

    for problem in chosen("problems"):
        _told(problem.NAME, table(problem, form))
    list(_lines(form, chosen("lines")))
    yield from studies(form, chosen("studies"))


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


def _told(name: str, found: dict[str, Any]) -> dict[str, Any]:
    for learner, record in found["learners"].items():
        ratio = f"{record['loss_ratio']:.4f} x hindsight" if "loss_ratio" in record else ""
        print(f"{name:11} {learner:48} {record['rows_per_second']:14,.0f} rows/s {ratio}", flush=True)
    return found
