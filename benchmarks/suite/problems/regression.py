"""Linear least squares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from batch2online import OnlineRegression, datasets
from benchmarks.suite import limits as physical
from benchmarks.suite.form import Form

NAME, LOSS, CHUNK = "regression", "squared", 1_000
TITLE = "Regression"
K = 0
"""Least squares has neither clusters nor a rank."""
COLUMNS = 20
SET = "flights"


def data(form: Form) -> tuple[np.ndarray, np.ndarray | None]:
    X, y = datasets.load_regression(form.choose(tiny="diabetes", quick=SET, full=SET))
    order = np.random.default_rng(0).permutation(len(X))[: form.choose(tiny=400, quick=100_000, full=None)]
    return np.ascontiguousarray(X[order]), y[order]


def draw(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Gaussian rows, a linear target and gaussian noise."""
    X = rng.normal(size=(rows, columns))
    return X, X @ np.cos(np.arange(columns)) + rng.normal(size=rows)


def limits(X: np.ndarray, chunk: int) -> dict[str, Callable[[], None]]:
    return {"X.T @ X": lambda: physical.gram(X, chunk), "reading": lambda: physical.read(X, chunk)}


def learner(k: int | None = None, **settings: Any) -> OnlineRegression:
    return OnlineRegression(random_state=0, **settings)
