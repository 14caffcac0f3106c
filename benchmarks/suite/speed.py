"""What the page says about speed and growth, from the stored result."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from batch2online.baselines.peers import OURS
from benchmarks.suite.line import figure, short, spread
from benchmarks.suite.markdown import table
from benchmarks.suite.plots import file_of

COMMANDS = {"tiny": "python -m benchmarks.suite --tiny", "quick": "make bench", "full": "make bench-full"}
TITLES = {"regression": "Regression", "lowrank": "Low rank", "clustering": "Clustering"}
HOW = """\
All runs of a comparison take turns, {repeats} times (2 where a run is long), with one BLAS and one OpenMP thread unless
a line says otherwise. Times are medians of **processor time**, which other programs on the machine disturb least;
*turns* gives the lowest and the highest ratio of single turns, *spread* half the range of the times over their median.
Rows/s count learning alone, in our case with the loss of each row before it is learned; *elapsed* is the same by
the clock on the wall. *Peak MB* is what is allocated while learning, by `tracemalloc`, in a run of its own."""
LIMITS = """\
*Limits* are bare arithmetic that an exact method needs at least: `X.T @ X` on the same chunks; squared distances to k
centers and their argmin; and reading the rows once (`x.dot(x)`)."""
PEERS = """\
Real data in random order, one seed. The loss is summed from the second chunk on and divided by that of the best model
in hindsight of the rows given. Slow learners are given the first rows only."""
READING = """\
A figure of 2 x is twice the time in a line that says *time / ...*, twice the speed in one that says *rows/s / ...*."""
GROUPS = {
    "regression": (
        "Regression in large chunks",
        "Drawn rows in chunks of 10,000, ours with its loss tracked. The order of rows is judged when somebody asks.",
    ),
    "low rank": ("Low rank in large chunks", "Drawn rows in chunks of 1,000, rank 10."),
    "clustering": (
        "Clustering in large chunks",
        "Drawn and real rows in chunks of 1,000. `MiniBatchKMeans` tracks its loss where a line or its note says so. "
        "Before each turn on real rows as much memory as they take is used and freed: what a virtual machine must "
        "first fetch from its host would else be counted for whoever keeps rows.",
    ),
    "doublings": (
        "Beside moments that are solved at doublings",
        "Real rows in random orders that chose no default. The other learner keeps a Gram matrix and solves it "
        "whenever the rows have doubled. It checks no value, keeps no coreset and tracks no loss.",
    ),
    "mapped file": ("Rows from a file", "A memory-mapped file, read by us and by the bare product alike."),
    "single rows": ("Single rows", "A prediction for one row, the best of many rounds."),
    "refreshes": (
        "What a refresh costs",
        "A refresh solves the batch problem on the coreset. Its price is compared with that of learning the rows since "
        "the one before, which become more and more, while the price stays.",
    ),
    "float32": ("Single precision", "Rows of float32 are not copied to float64 as a whole, and give the same models."),
    "threads": ("Two threads", "The passes over the rows are bound by memory, which both cores share."),
    "growth": ("Time a row on long streams", "Beyond the first rows, which are refreshed often, a row costs less."),
}


def section(results: dict[str, Any]) -> Iterator[str]:
    """How fast, against what, how it grows, and how it was measured."""
    yield "## How fast, beside other learners\n"
    yield f"{PEERS}\n{LIMITS}\n"
    for problem, found in results["tables"].items():
        yield from _learners(problem, found)
    yield "## How fast, in single questions\n"
    yield f"{READING}\n"
    for group, members in groupby(results["lines"], key=lambda line: line["group"]):
        yield from _lines(group, list(members))
    yield from _growth(results["growth"])
    yield from _measured(results)


def _learners(problem: str, found: dict[str, Any]) -> Iterator[str]:
    limits = found["limits"]
    size = f"{found['rows']:,} x {found['columns']}"
    yield f"### {TITLES.get(problem, problem)}: {found['set']}, {size}, chunks of {found['chunk']:,}\n"
    heads = ["learner", "rows/s", "loss / hindsight", "changes", "peak MB", *(f"time / {limit}" for limit in limits)]
    yield from table([*heads, "rows", "spread", "elapsed"], _learner_rows(found))
    yield ""


def _learner_rows(found: dict[str, Any]) -> Iterator[list[str]]:
    """Ours in bold, the limits last."""
    learners = found["learners"]
    for name in sorted(learners, key=lambda name: name in found["limits"]):
        record = learners[name]
        shown = f"*{name}*, a limit" if name in found["limits"] else name
        ratios = [short(record[f"time / {limit}"]) for limit in found["limits"]]
        details = [f"{record['rows']:,}", f"{record['spread']:.0%}", f"{record['rows_per_second_elapsed']:,.0f}"]
        shown = f"**{name}**" if name == OURS else shown
        yield [shown, f"{record['rows_per_second']:,.0f}", *_quality(record), *ratios, *details]


def _quality(record: dict[str, Any]) -> list[str]:
    """A limit has neither loss nor changes."""
    if "loss_ratio" not in record:
        return ["", "", ""]
    return [f"{record['loss_ratio']:.4f}", f"{record['changes']:,}", f"{record['peak_memory'] / 1e6:.1f}"]


def _lines(group: str, lines: list[dict[str, Any]]) -> Iterator[str]:
    title, about = GROUPS.get(group, (group, ""))
    yield f"### {title}\n"
    yield f"{about}\n"
    heads = ["", "figure", "turns", ""]
    cells = [[line["text"], figure(line), spread(line), line["note"]] for line in lines]
    used = [column for column in range(4) if any(row[column] for row in cells)]
    yield from table([heads[column] for column in used], ([row[column] for column in used] for row in cells))
    yield ""


def _growth(curves: list[dict[str, Any]]) -> Iterator[str]:
    yield "## How it grows\n"
    yield f"Our learners on drawn rows; turns: {max(curve['turns'] for curve in curves)}."
    yield "A slope p says that the quantity grows like the p-th power over the whole range. Clustering keeps all rows"
    yield 'in memory unless told otherwise (`history="coreset"`, or a folder).\n'
    yield from table(
        ["against", "from", "to", "problem", "fixed", "slope of time", "slope of memory"], map(_curve, curves)
    )
    yield ""
    for axis in dict.fromkeys(curve["axis"] for curve in curves):
        yield f"![Time and memory against {axis}]({file_of(axis)})\n"


def _curve(curve: dict[str, Any]) -> list[str]:
    fixed = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in curve["fixed"].items())
    ends = [f"{curve['values'][0]:,}", f"{curve['values'][-1]:,}"]
    slopes = [f"{curve['slope_seconds']:.2f}", f"{curve['slope_bytes']:.2f}"]
    return [curve["axis"], *ends, TITLES.get(curve["problem"], curve["problem"]).lower(), fixed, *slopes]


def _measured(results: dict[str, Any]) -> Iterator[str]:
    load = results["load"]
    busy = " It was **busy** with other work: figures are less certain." if results["machine"]["busy"] else ""
    yield "## How this was measured\n"
    yield (
        f"By one run of `{COMMANDS[results['form']]}`, in {results['seconds'] / 60:.0f} minutes, commit "
        f"{results['commit'][:8]}, {results['date']}. The machine: "
        f"{_machine(results['machine'])}. Processes that wanted a core (load average): {load['before'][0]:g} at the "
        f"start, {load['after'][0]:g} at the end.{busy}\n"
    )
    yield HOW.format(repeats=results["repeats"])


def _machine(machine: dict[str, Any]) -> str:
    versions = [f"{name} {version}" for name, version in machine["packages"].items() if version]
    hardware = [machine["processor"], f"{machine['cores']} cores", f"{machine['memory_gb']} GB"]
    return ", ".join([*hardware, machine["system"], f"Python {machine['python']}", *versions, *machine["blas"]])
