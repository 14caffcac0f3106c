"""One set for each problem, and the learners that readers know: the table of README.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batch2online.baselines.peers import OURS
from benchmarks.suite.discovery import modules
from benchmarks.suite.form import Form
from benchmarks.suite.studies.peers import compared
from benchmarks.suite.study import Study, cell, loaded

SETS = {"regression": "cps1988", "lowrank": "letter", "clustering": "letter"}
TITLES = {"regression": "{}, regression", "lowrank": "{}, rank 10", "clustering": "{}, 5 clusters"}
LEARNERS = {
    f"**{OURS}**": (OURS,),
    "refit on all rows whenever they have doubled": (
        "refit on all rows at doublings",
        "Gram matrix, solved at doublings",
    ),
    "refit on 1,000 rows, a uniform sample": ("uniform reservoir of 1,000",),
    "scikit-learn: SGDRegressor, IncrementalPCA, MiniBatchKMeans": (
        "scikit-learn SGDRegressor, eta0 0.05",
        "scikit-learn IncrementalPCA, rows and negatives",
        "scikit-learn MiniBatchKMeans",
    ),
    "River: LinearRegression, KMeans": ("River LinearRegression", "River KMeans, halflife 0.02"),
    "exact refit at every chunk, MacQueen": ("exact refit at every chunk", "MacQueen"),
}
CHOSEN = {name for names in LEARNERS.values() for name in names}
TEXT = (
    "Loss relative to hindsight, and changes of the model in brackets, both from row 1,000 on: random order, means "
    "over {seeds} seeds, chunks of 1,000 standardised rows, each scored under the model before it."
)


def measure(form: Form) -> Iterator[Study]:
    records: dict[str, dict[str, Any]] = {shown: {"": shown} for shown in LEARNERS}
    tiny = {"regression": "diabetes", "lowrank": "digits", "clustering": "digits"}
    for problem in modules("problems"):
        name = form.choose(tiny=tiny, quick=SETS, full=SETS)[problem.NAME]
        for _, (X, y) in loaded((name,), targets=problem.NAME == "regression"):
            result = compared(problem, X, y, order="random", seeds=form.seeds_of(5), chunk=form.chunk, only=CHOSEN)
            for shown, peers in LEARNERS.items():
                for model in set(peers) & set(result.models):
                    found = cell(result.mean(model, "ratio"), result.mean(model, "changes"))
                    records[shown][TITLES[problem.NAME].format(name)] = found
    columns = list(dict.fromkeys(column for record in records.values() for column in record))
    yield Study("", TEXT.format(seeds=len(form.seeds_of(5))), columns, list(records.values()))
