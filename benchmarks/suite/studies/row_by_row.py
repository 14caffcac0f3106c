"""Classes row by row: ours, stochastic gradients and River."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier

from benchmarks.suite import predictors
from benchmarks.suite.form import Form
from benchmarks.suite.studies.other_losses import shuffled
from benchmarks.suite.study import Study

IS_TIMED = True
NAMES = ("flights_late", "flights_rare", "shuttle")
PEER_ROWS = 50_000
FORMATS = {"rows/s": ",.0f"}
TEXT = (
    f"The first {PEER_ROWS:,} rows of one stream; River's `LogisticRegression` after its `StandardScaler`, and ours, "
    "learn row by row (`learn_one`), `SGDClassifier(loss='log_loss')` in chunks of 1,000."
)


def measure(form: Form) -> Iterator[Study]:
    names = form.sets or form.choose(tiny=("breast_cancer",), quick=NAMES, full=NAMES)
    rows = [record for name in names for record in peers(name, form)]
    yield Study("", TEXT, ["data", "learner", "ratio", "rows/s"], rows, formats=FORMATS)


def peers(name: str, form: Form) -> Iterator[dict[str, Any]]:
    contest = predictors.CONTESTS[name]
    X, y = (part[:PEER_ROWS] for part in shuffled(name, form.seeds_of(1)[0]))
    best = contest.ours(coreset_size=predictors.EVERYTHING, random_state=0).fit(X, y)
    least = float(contest.loss(best, X[form.chunk :], y[form.chunk :]).sum())
    learners = {
        "batch2online": predictors.RowByRow(contest.ours(random_state=0)),
        "scikit-learn SGDClassifier": predictors.Sgd(SGDClassifier(loss="log_loss", random_state=0), np.unique(y)),
        "River LogisticRegression": predictors.RiverClassifier(np.unique(y)),
    }
    for learner, made in learners.items():
        found = predictors.stream(made, contest.loss, X, y, form.chunk)
        yield {"data": name, "learner": learner, "ratio": found.loss / least, "rows/s": found.rows_per_second}
