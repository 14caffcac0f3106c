"""Run the suite: ``python -m benchmarks.suite [--tiny | --full] [--only WORD ...] [--out FOLDER] [--page]``.

Writes benchmarks/results.json, the generated part of docs/benchmarks.md and docs/growth-*.svg; with ``--out``
results.json, page.md and the plots go to that folder instead. ``--only`` measures the files whose path holds a word,
such as ``lines/regression`` or ``problems/clustering``, prints what it finds, and writes nothing.
``--page`` measures nothing and writes the page and the plots anew from benchmarks/results.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.suite import growth, machine, page, plots
from benchmarks.suite.discovery import modules
from benchmarks.suite.form import FORMS, Form
from benchmarks.suite.line import Line, demand, figure, verdict
from benchmarks.suite.table import table

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "benchmarks" / "results.json", ROOT / "docs" / "benchmarks.md"


def main() -> None:
    arguments = _arguments()
    if arguments.page:
        write(json.loads(RESULTS.read_text(encoding="utf-8")), RESULTS, PAGE)
        return
    form = FORMS[arguments.form]
    with threadpool_limits(1):
        if arguments.only:
            only(form, arguments.only)
            return
        results = run(form)
    if arguments.out is None:
        write(results, RESULTS, PAGE)
    else:
        arguments.out.mkdir(parents=True, exist_ok=True)
        write(results, arguments.out / "results.json", arguments.out / "page.md")


def run(form: Form) -> dict[str, Any]:
    """Measure everything."""
    started, before = time.perf_counter(), machine.load()
    tables = {problem.NAME: _said(problem.NAME, table(problem, form)) for problem in modules("problems")}
    curves = list(growth.curves(form))
    lines = [*_lines(form, modules("lines")), *(_printed(line) for line in growth.lines(curves))]
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


def only(form: Form, words: list[str]) -> None:
    """Measure the problems and lines whose path holds one of the words."""

    def chosen(folder: str) -> list[Any]:
        names = {module: f"{folder}/{module.__name__.rpartition('.')[2]}" for module in modules(folder)}
        return [module for module, name in names.items() if any(word in name for word in words)]

    for problem in chosen("problems"):
        _said(problem.NAME, table(problem, form))
    list(_lines(form, chosen("lines")))


def _lines(form: Form, groups: list[Any]) -> Iterator[Line]:
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


def _said(name: str, found: dict[str, Any]) -> dict[str, Any]:
    for learner, record in found["learners"].items():
        ratio = f"{record['loss_ratio']:.4f} x hindsight" if "loss_ratio" in record else ""
        print(f"{name:11} {learner:48} {record['rows_per_second']:14,.0f} rows/s {ratio}", flush=True)
    return found


def write(results: dict[str, Any], file: Path, page_file: Path) -> None:
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    old = page_file.read_text(encoding="utf-8") if page_file.exists() else page.BEGIN + page.END
    page_file.write_text(page.inserted(old, results), encoding="utf-8")
    plots.draw(results["growth"], page_file.parent)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--tiny", dest="form", action="store_const", const="tiny", default="quick")
    forms.add_argument("--full", dest="form", action="store_const", const="full")
    parser.add_argument("--only", nargs="+", metavar="WORD")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    if arguments.form == "tiny" and arguments.out is None and not arguments.only:
        parser.error("--tiny measures nothing worth keeping: name a folder with --out")
    return arguments


if __name__ == "__main__":
    main()
