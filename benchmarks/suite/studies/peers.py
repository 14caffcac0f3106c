"""All peers on real data in random order: loss against hindsight, and changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from batch2online import evaluate
from batch2online.baselines.peers import LOSS, OURS, PeerSettings, learners, named
from benchmarks.suite.discovery import modules
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study, cell, loaded

SETS = {
    "regression": ("diabetes", "cps1988", "diamonds"),
    "lowrank": ("digits", "breast_cancer", "letter"),
    "clustering": ("digits", "letter", "diamonds"),
}
LARGE = {
    "regression": ("flights",),
    "lowrank": ("china_patches", "mnist"),
    "clustering": ("china_pixels", "flights", "mnist"),
}
"""Sets of the full form alone."""
TEXT = (
    "Columns and targets are standardised. Random order, chunks of 1,000 and loss from row 1,000 on (of 100, and from "
    "row 100 on, for sets of fewer than 2,000 rows), means and standard deviations over {seeds} seeds: loss over "
    "hindsight, changes in brackets, the lowest loss of a data set in bold."
)
NOTES = {
    "regression": "",
    "lowrank": "Rank 10, uncentred. IncrementalPCA is fed each row and its negative, so that its mean stays zero.",
    "clustering": "5 clusters. River receives the mean and the standard deviation of all rows, around which it draws "
    "its centers.",
}


def measure(form: Form) -> Iterator[Study]:
    for problem in modules("problems"):
        yield of_problem(problem, form)


def of_problem(problem: Any, form: Form) -> Study:
    large = form.choose(tiny=(), quick=(), full=LARGE[problem.NAME])
    names = form.sets_of(*SETS[problem.NAME], *large, tiny=SETS[problem.NAME][0])
    records: dict[str, dict[str, Any]] = {}
    columns = []
    for name, (X, y) in loaded(names, targets=problem.NAME == "regression"):
        columns.append(f"{name}, {len(X):,} x {X.shape[1]}")
        chunk = 100 if len(X) < 2_000 else 1_000
        for line in compared(problem, X, y, order="random", seeds=form.seeds_of(3), chunk=chunk).summary():
            record = records.setdefault(line["model"], {"learner": line["model"]})
            record[columns[-1]] = cell(line["ratio"], line["changes"], line["ratio_std"])
    columns = ["learner", *columns]
    title = f"Peers, {problem.TITLE.lower()}"
    return Study(title, TEXT.format(seeds=len(form.seeds_of(3))), columns, list(records.values()), NOTES[problem.NAME])


def compared(
    problem: Any,
    X: np.ndarray,
    y: np.ndarray | None,
    *,
    order: Any,
    seeds: list[int],
    chunk: int,
    only: Collection[str] | None = None,
) -> evaluate.Result:
    """All peers of a problem, or some of them, on the same streams; the first chunk is not scored.

    Targets are standardised, as columns are: gradient descent would else pay for the way to their mean.
    """
    y = None if y is None else (y - y.mean()) / y.std()
    told = PeerSettings(problem.K, float(X.mean()), float(X.std()))
    ours = named(OURS).make(problem.NAME, told).set_params(random_state=0)
    told = replace(told, size=len(ours.partial_fit(X, *(() if y is None else (y,))).coreset_))
    models = learners(problem.NAME, told, LOSS, X.shape[1])
    models = {name: model for name, model in models.items() if only is None or name in only}
    return evaluate.prequential(models, X, y, loss=problem.LOSS, order=order, seeds=seeds, chunk=chunk, warmup=chunk)
