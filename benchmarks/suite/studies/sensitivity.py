"""Average sensitivity of our coresets against the bound of the theory, and of plain batch algorithms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression

from batch2online import coresets, evaluate
from batch2online.theory import bounds
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study, loaded

EPSILON, SIZE, CLUSTERS = 0.5, 20, 5
TEXT = (
    "The probability that the output changes when a random row is deleted and the randomness of the others stays, its "
    "95 % interval, and after the slash the bound of the theory; the slope of its logarithm over log n. Diamonds, "
    "coresets of 20 expected rows, epsilon = 0.5."
)
Bound = Callable[[int], float]


def measure(form: Form) -> Iterator[Study]:
    sizes = form.choose(tiny=(50, 100), quick=(250, 1_000, 4_000), full=(250, 1_000, 4_000, 16_000))
    trials = form.choose(tiny=10, quick=50, full=200)
    sets = form.choose(tiny=("diabetes",), quick=("diamonds",), full=("diamonds",))
    columns = ["algorithm", *(f"n = {n:,}" for n in sizes), "slope"]
    for (name, (X, y)), (_, (rows, _)) in zip(loaded(sets, targets=True), loaded(rows_of(sets)), strict=True):
        records = [record(*found) for found in decays(X, y, rows, sizes, trials)]
        records.append(told_apart(rows, columns[1], form))
        yield Study(f"Average sensitivity, {name}", TEXT, columns, records)


def rows_of(sets: tuple[str, ...]) -> tuple[str, ...]:
    """Sets of rows for clustering; there is none of diabetes."""
    return tuple({"diabetes": "breast_cancer"}.get(name, name) for name in sets)


def decays(
    X: np.ndarray, y: np.ndarray | None, rows: np.ndarray, sizes: tuple[int, ...], trials: int
) -> Iterator[tuple[str, evaluate.Decay, Bound]]:
    settings: dict[str, Any] = {"epsilon": EPSILON, "coreset_size": SIZE}
    leverage, clusters = coresets.Leverage(**settings), coresets.Clustering(CLUSTERS, **settings)
    decay = evaluate.sensitivity_decay(leverage, X, y, sizes=sizes, trials=trials)
    yield "leverage coreset", decay, lambda n: bounds.leverage_sensitivity(n, SIZE, 1.0, EPSILON)
    decay = evaluate.sensitivity_decay(clusters, rows, sizes=sizes, trials=trials)
    yield "clustering coreset", decay, lambda n: bounds.clustering_sensitivity(n, SIZE, CLUSTERS, EPSILON)
    few: dict[str, Any] = {"sizes": sizes[:3], "trials": max(10, trials // 10)}
    batch = KMeans(CLUSTERS, n_init=1)
    yield "least squares", evaluate.sensitivity_decay(LinearRegression(), X, y, **few), lambda n: 1.0
    yield "KMeans, same seed", evaluate.sensitivity_decay(batch, rows, **few), lambda n: 1.0
    moved = evaluate.sensitivity_decay(batch, rows, tolerance=0.05, **few)
    yield "KMeans, moved by over 5 %", moved, lambda n: 1.0


def record(name: str, decay: evaluate.Decay, bound: Bound) -> dict[str, str]:
    found = {f"n = {e.n:,}": f"{e.mean:.3f} ({e.low:.3f}-{e.high:.3f}) / {bound(e.n):.3f}" for e in decay.estimates}
    return {"algorithm": name, **found, "slope": f"{decay.slope:.2f} ({decay.low:.2f} to {decay.high:.2f})"}


def told_apart(rows: np.ndarray, column: str, form: Form) -> dict[str, str]:
    """A lower bound over all seeds: how well a classifier tells outputs with and without a row apart."""
    n, trials = form.choose(tiny=(50, 20), quick=(250, 100), full=(250, 400))
    small = rows[np.random.default_rng(0).choice(len(rows), size=n, replace=False)]
    lower = evaluate.average_sensitivity(KMeans(CLUSTERS, n_init=1), small, method="classifier", trials=trials)
    return {"algorithm": "KMeans, told apart by a classifier", column: f"{lower.mean:.3f} (at least {lower.low:.3f})"}
