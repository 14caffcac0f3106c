"""What the page says about speed and growth, from the stored result."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from batch2online.baselines.peers import OURS
from benchmarks.suite.line import figure, short, spread
from benchmarks.suite.markdown import Cells, table
from benchmarks.suite.plots import file_of

COMMANDS = {"tiny": "python -m benchmarks.suite --tiny", "quick": "make bench", "full": "make bench-full"}
TITLES = {"regression": "Regression", "lowrank": "Low rank", "clustering": "Clustering"}
HOW = """\
All runs of a comparison alternate, {repeats} times (twice if a run is long), with one BLAS and one OpenMP thread unless
stated otherwise. Times are medians of **processor time**, which other programs on the machine affect least;
*turns* gives the lowest and the highest ratio of single runs, *spread* half the range of the times over their median.
Rows/s measure learning only, for our learners with the loss of each row before it is learned; *elapsed* is the same in
elapsed time. *Peak MB* is the memory allocated while learning, by `tracemalloc`, in a separate run."""
LIMITS = """\
*Limits* are the minimal arithmetic of an exact method: `X.T @ X` on the same chunks; squared distances to k
centers and their argmin; and reading the rows once (`x.dot(x)`)."""
PEERS = """\
Real data in random order, one seed. The loss is summed from the second chunk on and divided by that of the best model
in hindsight on the same rows. Slow learners receive the first rows only."""
READING = """\
2 x means twice the time in a line *time / ...*, and twice the speed in a line *rows/s / ...*."""
GROUPS = {
    "regression": (
        "Regression in large chunks",
        "Synthetic rows in chunks of 10,000; our learner tracks its loss. The order test runs when `order_` is read.",
    ),
    "classifier": (
        "Classification",
        "Synthetic rows in chunks of 1,000. The other learner fits `LogisticRegression` without a penalty whenever the "
        "rows have doubled, and predicts each chunk before it is learned.",
    ),
    "command": ("The command", "Processor time of whole processes, imports included."),
    "low rank": ("Low rank in large chunks", "Synthetic rows in chunks of 1,000, rank 10."),
    "clustering": (
        "Clustering in large chunks",
        "Synthetic and real rows in chunks of 1,000. `MiniBatchKMeans` tracks its loss where a line or its note says "
        "so. Before each run on real rows, as much memory as they take is allocated and freed; otherwise the first "
        "allocation on a virtual machine would slow down learners that store rows.",
    ),
    "many clusters": (
        "Many clusters and wide rows",
        "Chunks of 1,000, both losses tracked. Synthetic rows of 200 clusters that overlap, with standard deviations "
        "that decay like 1 / sqrt(j); and pixels.",
    ),
    "doublings": (
        "Comparison with refits from moments at doublings",
        "Real rows in random orders that were not used to choose defaults. The other learner keeps a Gram matrix and "
        "refits whenever the rows have doubled. It validates no values, keeps no coreset and tracks no loss.",
    ),
    "mapped file": ("Rows from a file", "A memory-mapped file, read by our learner and by the product alone."),
    "single rows": ("Single rows", "A prediction for one row, the best of many rounds."),
    "refreshes": (
        "The time of a refresh check",
        "A check refits on the coreset. Its time is compared with that of learning the rows since the previous check, "
        "whose number grows while the time of a check stays the same.",
    ),
    "float32": ("Single precision", "Rows of float32 are not copied to float64 as a whole, and give the same models."),
    "threads": ("Two threads", "The passes over the rows are bound by memory, which both cores share."),
    "growth": ("Time per row on long streams", "Checks are frequent at first, so later rows take less time."),
}


def section(results: dict[str, Any]) -> Iterator[str]:
    """How fast, against what, how it grows, and how it was measured."""
    yield "## Speed compared with other learners\n"
    yield f"{PEERS}\n{LIMITS}\n"
    for problem, found in results["tables"].items():
        yield from _learners(problem, found)
    yield "## Speed of single operations\n"
    yield f"{READING}\n"
    for group, members in groupby(results["lines"], key=lambda line: line["group"]):
        yield from _lines(group, list(members))
    yield from _growth(results["growth"])
    yield from _measured(results)


def _learners(problem: str, found: dict[str, Any]) -> Iterator[str]:
    size = f"{found['rows']:,} x {found['columns']}"
    yield f"### {TITLES.get(problem, problem)}: {found['set']}, {size}, chunks of {found['chunk']:,}\n"
    yield from table(*learners(found))
    yield ""


def learners(found: dict[str, Any]) -> Cells:
    """Return the table of the learners of one problem."""
    heads = ["learner", "rows/s", "loss / hindsight", "changes", "peak MB"]
    limits = [f"time / {limit}" for limit in found["limits"]]
    return [*heads, *limits, "rows", "spread", "elapsed"], list(_learner_rows(found))


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
    heads, rows = line_cells(lines)
    used = [column for column in range(1, len(heads)) if any(row[column] for row in rows)]
    yield from table([heads[column] for column in used], ([row[column] for column in used] for row in rows))
    yield ""


def line_cells(lines: list[dict[str, Any]]) -> Cells:
    """Return the table of these lines."""
    rows = [[line["group"], line["text"], figure(line), spread(line), line["note"]] for line in lines]
    return ["group", "comparison", "figure", "turns", "note"], rows


def _growth(curves: list[dict[str, Any]]) -> Iterator[str]:
    yield "## Growth of time and memory\n"
    yield f"Our learners on synthetic rows; runs: {max(curve['turns'] for curve in curves)}."
    yield "With a slope of p the quantity grows like the p-th power over the whole range. Clustering stores all rows"
    yield 'in memory by default (see `history="coreset"`, or a folder).\n'
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
        f"{_machine(results['machine'])}. Load average: {load['before'][0]:g} at the "
        f"start, {load['after'][0]:g} at the end.{busy}\n"
    )
    yield HOW.format(repeats=results["repeats"])


def _machine(machine: dict[str, Any]) -> str:
    versions = [f"{name} {version}" for name, version in machine["packages"].items() if version]
    hardware = [machine["processor"], f"{machine['cores']} cores", f"{machine['memory_gb']} GB"]
    return ", ".join([*hardware, machine["system"], f"Python {machine['python']}", *versions, *machine["blas"]])
