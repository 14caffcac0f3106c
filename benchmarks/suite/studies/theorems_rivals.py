"""Algorithms of the paper's related work in random and other orders, and a stream on which stochastic learners fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online import OnlineRegression, evaluate
from batch2online.baselines import ExpectsRepeats, Simulation
from batch2online.baselines.peers import OURS
from benchmarks.suite.discovery import modules
from benchmarks.suite.form import Form
from benchmarks.suite.studies.orders import first_of
from benchmarks.suite.studies.peers import compared
from benchmarks.suite.study import Study, cell, followed_cell, loaded

RIVALS = {
    "regression": {
        "online gradient descent": "Garber et al. 2020",
        "stable gradient descent": "Sherman et al. 2021",
        "online ridge": "Azoury & Warmuth 2001",
    },
    "lowrank": {
        "descent on projections": "Garber et al. 2020",
        "exponentiated gradient": "Warmuth & Kuzmin 2008",
        "online gradient descent": "Nie et al. 2016",
        "Oja, step 30": "Oja 1982",
    },
    "clustering": {
        "clustering of low sensitivity": "Yoshida & Ito 2022",
        "consistent k-clustering": "Lattanzi & Vassilvitskii 2017",
        "weighted solutions": "Cohen-Addad et al. 2021",
    },
}
SETS = {"regression": "cps1988", "lowrank": "digits", "clustering": "digits"}
ROWS, CHUNK = 2_000, 20
ORDERS: dict[str, Any] = {
    "random": "random",
    "drifting": "drifting",
    "blocks": "blocks",
    "hardest last": "adversarial",
}
TEXT = (
    "Up to 2,000 rows of cps1988 and digits, chunks of 20, each scored under the model before it, {seeds} seeds: loss "
    "over hindsight, changes of the model in brackets. Rank and clusters are those of the other tables."
)
COLUMNS = ["learner", "after", *ORDERS]
REPEATS = (
    "A learner that has next to no regret on independent draws and gives up if no row repeats, the same in the "
    "simulation that Bernasconi et al. (2025) propose, and ours: squared loss over hindsight, changes in brackets, for "
    "independent draws from 4,000 rows and for the same rows in random order; {seeds} seeds, chunks of 20."
)


def measure(form: Form) -> Iterator[Study]:
    seeds = form.seeds_of(3)
    for problem in modules("problems"):
        is_regression = problem.NAME == "regression"
        sets = form.choose(tiny=("diabetes" if is_regression else "digits",), quick=None, full=None)
        for name, data in loaded(sets or (SETS[problem.NAME],), targets=is_regression):
            X, y = first_of(data, form.choose(tiny=400, quick=ROWS, full=ROWS))
            records = of_problem(problem, X, y, seeds)
            yield Study(f"{problem.TITLE}, {name}", TEXT.format(seeds=len(seeds)), COLUMNS, records)
    yield repeats(form.choose(tiny=400, quick=4_000, full=4_000), seeds)


def of_problem(problem: Any, X: np.ndarray, y: np.ndarray | None, seeds: list[int]) -> list[dict[str, Any]]:
    after = {OURS: "", **RIVALS[problem.NAME]}
    results = {
        name: compared(problem, X, y, order=order, seeds=seeds, chunk=CHUNK, only=after)
        for name, order in ORDERS.items()
    }
    return [
        {"learner": model, "after": after[model]}
        | {name: cell(found.mean(model, "ratio"), found.mean(model, "changes")) for name, found in results.items()}
        for model in after
    ]


def repeats(n: int, seeds: list[int]) -> Study:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 3))
    y = X @ rng.normal(size=3) + 1 + 0.5 * rng.uniform(-1, 1, size=n)
    learner = ExpectsRepeats(n)
    models = {"expects repeats": learner, "simulated": Simulation(learner), OURS: OnlineRegression()}
    drawn = rng.integers(n, size=n)
    found = {
        "independent draws": _scored(models, X[drawn], y[drawn], seeds),
        "random order": _scored(models, X, y, seeds),
    }
    records = [
        {"algorithm": name}
        | {column: followed_cell(r.mean(name, "ratio"), r.mean(name, "changes")) for column, r in found.items()}
        for name in models
    ]
    return Study("A learner that expects repeats", REPEATS.format(seeds=len(seeds)), ["algorithm", *found], records)


def _scored(models: dict[str, Any], X: np.ndarray, y: np.ndarray, seeds: list[int]) -> evaluate.Result:
    return evaluate.prequential(models, X, y, loss="squared", seeds=seeds, chunk=CHUNK, warmup=CHUNK)
