"""All peers when the order is not random."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online import evaluate
from benchmarks.suite.discovery import modules
from benchmarks.suite.form import Form
from benchmarks.suite.studies.peers import compared
from benchmarks.suite.study import Study, cell, loaded

SETS = {"regression": "diamonds", "lowrank": "letter", "clustering": "diamonds"}
ROWS, CHUNK = 5_000, 100
ORDERS: dict[str, Any] = {
    "random": "random",
    "sorted by column 0": evaluate.Sorted(0),
    "drifting": "drifting",
    "blocks": "blocks",
    "hardest last": "adversarial",
}
TEXT = (
    "5,000 rows of a set, chunks of 100, each scored under the model before it, 2 seeds: loss over hindsight, "
    "changes in brackets. *Sorted* is by the first column; *drifting* slides along the first principal direction "
    "with as much noise as spread; *blocks* cuts that direction into ten blocks that come in random order; *hardest "
    "last* puts the rows that the best model of all fits worst at the end."
)


def measure(form: Form) -> Iterator[Study]:
    rows = form.choose(tiny=400, quick=ROWS, full=ROWS)
    for problem in modules("problems"):
        is_regression = problem.NAME == "regression"
        tiny = "diabetes" if is_regression else "digits"
        for name, data in loaded(form.sets_of(SETS[problem.NAME], tiny=tiny), targets=is_regression):
            X, y = first_of(data, rows)
            yield of_problem(problem, f"{problem.TITLE.lower()}, {name}", X, y, form)


def first_of(data: tuple[np.ndarray, np.ndarray | None], rows: int) -> tuple[np.ndarray, np.ndarray | None]:
    """So many rows, drawn at random."""
    X, y = data
    chosen = np.random.default_rng(0).permutation(len(X))[:rows]
    return X[chosen], None if y is None else y[chosen]


def of_problem(problem: Any, title: str, X: np.ndarray, y: np.ndarray | None, form: Form) -> Study:
    results = {
        name: compared(problem, X, y, order=order, seeds=form.seeds_of(2), chunk=CHUNK)
        for name, order in list(ORDERS.items())[: form.choose(tiny=2, quick=5, full=5)]
    }
    models = results["random"].models
    records = [
        {
            "learner": model,
            **{name: cell(r.mean(model, "ratio"), r.mean(model, "changes")) for name, r in results.items()},
        }
        for model in models
    ]
    return Study(f"Orders, {title}", TEXT, ["learner", *results], records)
