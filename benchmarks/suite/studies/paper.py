"""The experiment of the paper's section 9: its algorithms and ours on the same streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batch2online.evaluate.paper import OURS, Line, paper_experiment
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

TEXT = (
    "Loss over hindsight with its standard deviation over {seeds} seeds, and changes of the model, both from row 50 on "
    "of {rows} rows in random order."
)
COLUMNS = ["data", "problem", "ε", "ours", "changes", "the paper's", "its changes"]


def measure(form: Form) -> Iterator[Study]:
    rows = form.choose(tiny=60, quick=300, full=1_500)
    seeds, epsilons = form.seeds_of(5), form.choose(tiny=(0.2,), quick=(0.1, 0.01), full=(0.1, 0.01, 0.001))
    lines = paper_experiment(rows, seeds, epsilons)
    pairs = zip(lines[::2], lines[1::2], strict=True)
    text = TEXT.format(seeds=len(seeds), rows=rows)
    yield Study(
        "", text, COLUMNS, [record(*pair) for pair in pairs], formats={"ε": "g"} | dict.fromkeys(CHANGES, ".1f")
    )


CHANGES = ("changes", "its changes")


def record(ours: Line, papers: Line) -> dict[str, Any]:
    assert ours.algorithm == OURS
    found = {"data": ours.panel.data, "problem": ours.panel.problem.title, "ε": ours.epsilon}
    for line, loss, changes in ((ours, "ours", "changes"), (papers, "the paper's", "its changes")):
        mean, deviation = (float(values[-1]) for values in line.summary("ratio"))
        found |= {loss: f"{mean:.3f} ({deviation:.3f})", changes: float(line.summary("changes")[0][-1])}
    return found
