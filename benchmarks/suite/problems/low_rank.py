"""Low-rank approximation through zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from batch2online import OnlineLowRank, datasets
from benchmarks.suite import limits as physical
from benchmarks.suite.form import Form

NAME, LOSS, CHUNK = "lowrank", "lowrank", 1_000
TITLE = "Low rank"
K = 10
"""The rank."""
COLUMNS = 100
SET = "china_patches"


def data(form: Form) -> tuple[np.ndarray, np.ndarray | None]:
    X = datasets.load_rows(form.choose(tiny="digits", quick=SET, full=SET))
    order = np.random.default_rng(0).permutation(len(X))[: form.choose(tiny=400, quick=20_000, full=None)]
    return np.ascontiguousarray(X[order]), None


def draw(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Gaussian rows whose variances fall slowly, as those of real data do."""
    return rng.normal(size=(rows, columns)) / np.sqrt(1 + np.arange(columns)), None


def limits(X: np.ndarray, chunk: int) -> dict[str, Callable[[], None]]:
    return {"X.T @ X": lambda: physical.gram(X, chunk), "reading": lambda: physical.read(X, chunk)}


def learner(k: int | None = None, **settings: Any) -> OnlineLowRank:
    return OnlineLowRank(k or K, random_state=0, **settings)
