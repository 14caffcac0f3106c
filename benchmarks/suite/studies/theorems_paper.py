"""The experiment of the paper's section 9: its algorithms and ours on the same streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batch2online.paper.figure import CONSTANT, OURS, WARMUP, Line, paper_experiment
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

TEXT = (
    "Loss over hindsight with its standard deviation over {seeds} seeds, and regret, from row {first} on of {rows:,} "
    "rows in random order. Coresets have {constant:g} p ln(p n / ε) / ε² rows; both sides fit a model whenever the "
    "rows have grown by a tenth."
)
COLUMNS = ["data", "problem", "ε", "size", "ours", "the paper's", "our regret", "its regret"]


def measure(form: Form) -> Iterator[Study]:
    rows = form.choose(tiny=60, quick=20_000, full=100_000)
    seeds, epsilons = form.seeds_of(5), form.choose(tiny=(0.2,), quick=(0.1, 0.01, 0.001), full=(0.1, 0.01, 0.001))
    lines = paper_experiment(rows, seeds, epsilons, real=form.name == "full")
    text = TEXT.format(seeds=len(seeds), rows=rows, first=WARMUP, constant=CONSTANT)
    yield Study("", text, COLUMNS, [record(*pair) for pair in zip(lines[::2], lines[1::2], strict=True)])


def record(ours: Line, papers: Line) -> dict[str, Any]:
    assert ours.algorithm == OURS
    n = len(ours.panel.X)
    found = {"data": ours.panel.data, "problem": ours.panel.problem.title, "ε": f"{ours.epsilon:g}"}
    found["size"] = f"{min(n, ours.panel.problem.size(ours.epsilon, n)):,}"
    for line, loss, regret in ((ours, "ours", "our regret"), (papers, "the paper's", "its regret")):
        mean, deviation = (float(values[-1]) for values in line.summary("ratio"))
        found |= {loss: f"{mean:.4f} ({deviation:.4f})", regret: f"{line.summary('regret')[0][-1]:,.0f}"}
    return found
