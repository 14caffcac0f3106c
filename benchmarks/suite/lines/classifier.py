"""Classification in chunks of 1,000 against refits of scikit-learn's logistic regression whenever rows have doubled.

Ours tracks its loss; the peer predicts each chunk before it learns it, so that it could. Of the solvers, the fastest on
the same rows counts.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from batch2online import OnlineClassifier
from benchmarks.suite.contest import contest, feed
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line

GROUP, CHUNK = "classifier", 1_000
SOLVERS = ("lbfgs", "newton-cholesky")
SHAPES = {(100_000, 20, 2): 2.0, (20_000, 100, 2): 1.2, (10_000, 20, 20): 1.2}
"""Rows, columns and classes, and the speed of refits that is to be reached."""


def measure(form: Form) -> Iterator[Line]:
    for (rows, columns, k), least in SHAPES.items():
        yield refits(form, form.choose(tiny=3_000, quick=rows, full=rows), columns, k, least)
    yield one_by_one(form)


def draw(rows: int, columns: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian rows whose classes follow a multinomial logistic model."""
    rng = np.random.default_rng(0)
    X, directions = rng.normal(size=(rows, columns)), rng.normal(size=(columns, k)) * 2 / np.sqrt(columns)
    return X, (X @ directions + rng.gumbel(size=(rows, k))).argmax(axis=1)


def refits(form: Form, rows: int, columns: int, k: int, least: float) -> Line:
    X, y = draw(rows, columns, k)
    solvers = SOLVERS if columns * k <= 200 else SOLVERS[:1]  # the other takes longer by far
    runs = {solver: (rows, lambda solver=solver: refitted(solver, X, y)) for solver in solvers}
    times = contest(runs | {"ours": (rows, lambda: feed(OnlineClassifier(random_state=0), X, y, CHUNK))}, form.repeats)
    fastest = min(solvers, key=lambda solver: times[solver].seconds)
    text = f"rows/s / refits at doublings, {rows:,} x {columns}, {k} classes"
    return Line(GROUP, text, times[fastest] / times["ours"], at_least=least, note=f"`{fastest}`")


def refitted(solver: str, X: np.ndarray, y: np.ndarray) -> None:
    model, last = LogisticRegression(C=np.inf, solver=solver, max_iter=1_000), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for start in range(0, len(X), CHUNK):
            stop = start + CHUNK
            if last:
                model.predict_proba(X[start:stop])
            if stop >= 2 * last:
                model.fit(X[:stop], y[:stop])
                last = stop


def one_by_one(form: Form, columns: int = 20) -> Line:
    """Both learn rows as they are, without a scaler."""
    rows = form.choose(tiny=500, quick=100_000, full=100_000)
    X, y = draw(rows, columns, 2)
    names = [f"x{j}" for j in range(columns)]
    dicts, labels = [dict(zip(names, row, strict=True)) for row in X.tolist()], (y == 1).tolist()
    runs = {
        "ours": (rows, lambda: learned(OnlineClassifier(random_state=0), dicts, labels)),
        "river": (rows, lambda: learned(import_module("river.linear_model").LogisticRegression(), dicts, labels)),
    }
    times = contest(runs, form.repeats)
    ratio, rate = times["river"] / times["ours"], 1 / times["ours"].per_row
    text = f"`learn_one` rows/s / River `LogisticRegression`, dictionaries of {columns}"
    return Line(GROUP, text, ratio, at_least=1.5, note=f"{rate:,.0f} rows/s")


def learned(model: Any, dicts: list[dict[str, float]], labels: list[bool]) -> None:
    for x, label in zip(dicts, labels, strict=True):
        model.learn_one(x, label)
