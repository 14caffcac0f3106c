"""The experiment of the paper's section 9: its algorithms and ours on the same streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batch2online.paper.figure import OURS, WARMUP, last_points, paper_experiment
from batch2online.paper.problems import CONSTANT
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
    lines = last_points(paper_experiment(rows, seeds, epsilons, real=form.name == "full"))
    text = TEXT.format(seeds=len(seeds), rows=rows, first=WARMUP, constant=CONSTANT)
    yield Study("", text, COLUMNS, [record(*pair) for pair in zip(lines[::2], lines[1::2], strict=True)])


def record(ours: dict[str, Any], papers: dict[str, Any]) -> dict[str, Any]:
    assert ours["algorithm"] == OURS
    found = {"data": ours["data"], "problem": ours["problem"], "ε": f"{ours['epsilon']:g}", "size": f"{ours['size']:,}"}
    for line, loss, regret in ((ours, "ours", "our regret"), (papers, "the paper's", "its regret")):
        found |= {loss: f"{line['ratio']:.4f} ({line['ratio_std']:.4f})", regret: f"{line['regret']:,.0f}"}
    return found
