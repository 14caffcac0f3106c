"""The generated part of docs/benchmarks.md: a pure function of results.json."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from benchmarks.suite.line import demand, figure, short, spread, verdict
from benchmarks.suite.plots import file_of

BEGIN, END = "<!-- benchmarks.suite: begin, written by make bench -->", "<!-- benchmarks.suite: end -->"
COMMANDS = {"tiny": "python -m benchmarks.suite --tiny", "quick": "make bench", "full": "make bench-full"}

HOW = """\
How: all runs of a comparison, the limits included, take turns, {repeats} times (2 where a run is long), with one BLAS
and one OpenMP thread unless a line says otherwise. Times are medians of **processor time**, which other programs on the
machine disturb least. *Turns* gives the lowest and the highest ratio of single turns, *spread* half the range of the
times over their median. Rows/s count learning alone, in
our case with the prequential loss; *elapsed* is the same by the clock on the wall. *Peak memory* is what is allocated
while learning, by `tracemalloc`, in a run of its own."""

LIMITS = """\
The limits are bare arithmetic that an exact method needs at least: `X.T @ X` on the same chunks; squared distances to k
centers and their argmin; and reading the rows once (`x.dot(x)`)."""


def rendered(results: dict[str, Any]) -> str:
    return "\n".join([BEGIN, *_parts(results), END])


def inserted(page: str, results: dict[str, Any]) -> str:
    """The page with its generated part replaced."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return before + rendered(results) + after


def _parts(results: dict[str, Any]) -> Iterator[str]:
    yield from _introduction(results)
    yield from _lines(results["lines"])
    for problem, table in results["tables"].items():
        yield from _table(problem, table)
    yield from _growth(results["growth"])


def _introduction(results: dict[str, Any]) -> Iterator[str]:
    load = results["load"]
    busy = " It was **busy** with other work: figures are less certain." if _was_busy(results) else ""
    yield f"## Speed, in one run of `{COMMANDS[results['form']]}`\n"
    yield (
        f"That command wrote everything from here to the next mark, from `benchmarks/results.json`, in "
        f"{results['seconds'] / 60:.0f} minutes. The machine: {_machine(results['machine'])}. Processes that wanted a "
        f"core (load average): {load['before'][0]:g} at the start, {load['after'][0]:g} at the end.{busy}\n"
    )
    yield HOW.format(repeats=results["repeats"]) + "\n"
    yield LIMITS + "\n"


def _machine(machine: dict[str, Any]) -> str:
    versions = [f"{name} {version}" for name, version in machine["packages"].items() if version]
    hardware = [machine["processor"], f"{machine['cores']} cores", f"{machine['memory_gb']} GB"]
    return ", ".join([*hardware, machine["system"], f"Python {machine['python']}", *versions, *machine["blas"]])


def _was_busy(results: dict[str, Any]) -> bool:
    return max(results["load"]["before"][0], results["load"]["after"][0]) > results["machine"]["cores"]


def _lines(lines: list[dict[str, Any]]) -> Iterator[str]:
    judged = [line for line in lines if line["met"] is not None]
    yield "### What was asked for\n"
    yield f"{sum(line['met'] for line in judged)} of {len(judged)} lines met in this run.\n"
    yield "| | figure | turns | asked | | |\n|---|---|---|---|---|---|"
    for group, members in groupby(lines, key=lambda line: line["group"]):
        yield f"| **{group}** | | | | | |"
        for line in members:
            met = f"**{verdict(line)}**" if line["met"] is False else verdict(line)
            yield f"| {line['text']} | {figure(line)} | {spread(line)} | {demand(line)} | {met} | {line['note']} |"
    yield ""


def _table(problem: str, table: dict[str, Any]) -> Iterator[str]:
    limits = table["limits"]
    yield f"### {problem}: {table['set']}, {table['rows']:,} x {table['columns']}, chunks of {table['chunk']:,}\n"
    yield "Random order, one seed; loss from the second chunk on, over the best model in hindsight of the rows given."
    yield "Slow learners are given the first rows only.\n"
    heads = ["learner", "rows", "rows/s", "spread", "elapsed", *(f"time / {limit}" for limit in limits)]
    heads += ["loss / hindsight", "changes", "peak MB"]
    yield f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}"
    for name, record in table["learners"].items():
        cells = [name, f"{record['rows']:,}", f"{record['rows_per_second']:,.0f}", f"{record['spread']:.0%}"]
        cells += [
            f"{record['rows_per_second_elapsed']:,.0f}",
            *(f"{short(record[f'time / {limit}'])}" for limit in limits),
        ]
        yield f"| {' | '.join(cells + _quality(record))} |"
    yield ""


def _quality(record: dict[str, Any]) -> list[str]:
    """A limit has neither loss nor changes."""
    if "loss_ratio" not in record:
        return ["", "", ""]
    return [f"{record['loss_ratio']:.4f}", f"{record['changes']:,}", f"{record['peak_memory'] / 1e6:.1f}"]


def _growth(curves: list[dict[str, Any]]) -> Iterator[str]:
    yield "### Growth\n"
    yield f"Drawn rows, our learners; turns: {max(curve['turns'] for curve in curves)}."
    yield "A slope p says that the quantity grows like the p-th power over the whole range. Clustering keeps all rows"
    yield 'in memory unless told otherwise (`history="coreset"` or a folder: lines above).\n'
    yield "| against | from | to | problem | fixed | slope of time | slope of memory |\n|---|---|---|---|---|---|---|"
    for curve in curves:
        fixed = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in curve["fixed"].items())
        yield (
            f"| {curve['axis']} | {curve['values'][0]:,} | {curve['values'][-1]:,} | {curve['problem']} | {fixed} "
            f"| {curve['slope_seconds']:.2f} | {curve['slope_bytes']:.2f} |"
        )
    yield ""
    for axis in dict.fromkeys(curve["axis"] for curve in curves):
        yield f"![Time and memory against {axis}]({file_of(axis)})\n"
