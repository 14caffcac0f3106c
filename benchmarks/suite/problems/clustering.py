"""k-means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from batch2online import OnlineClustering, datasets
from benchmarks.suite import limits as physical
from benchmarks.suite.form import Form

NAME, LOSS, CHUNK = "clustering", "clustering", 1_000
TITLE = "Clustering"
K = 5
"""The number of clusters."""
COLUMNS = 8
SET = "flights"


def data(form: Form) -> tuple[np.ndarray, np.ndarray | None]:
    X = datasets.load_rows(form.choose(tiny="digits", quick=SET, full=SET))
    order = np.random.default_rng(0).permutation(len(X))[: form.choose(tiny=400, quick=100_000, full=None)]
    return np.ascontiguousarray(X[order]), None


def draw(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Five gaussian clusters, their middles three deviations from zero."""
    middles = 3 * np.random.default_rng(columns).normal(size=(5, columns))
    return middles[rng.integers(5, size=rows)] + rng.normal(size=(rows, columns)), None


def limits(X: np.ndarray, chunk: int) -> dict[str, Callable[[], None]]:
    return {"distances": lambda: physical.distances(X, K, chunk), "reading": lambda: physical.read(X, chunk)}


def learner(k: int | None = None, seed: int = 0, **settings: Any) -> OnlineClustering:
    return OnlineClustering(k or K, random_state=seed, **settings)
