"""The interval of the optimum that is measured on a coreset: how often the optimum of all rows is in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from batch2online import OnlineClustering
from batch2online.methods.clustering import solver
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

TABLES = 4
"""Rows are drawn so many times; seeds of the coresets are spread over them."""

TEXT = (
    '`OnlineClustering(k, z=z, history="coreset", coreset_size=size)` on rows in random order. The optimum of all rows '
    "is the best of several fits to all of them. *Optimum* is `regret_.optimum` relative to it, *interval* the ends "
    "of `regret_.optimum_interval` relative to it, means over the seeds; *below* and *above* count the seeds in "
    "which the optimum of all rows is beyond an end; *as ±* counts those in which it is farther than `error` from "
    "the reported one, on either side."
)


def measure(form: Form) -> Iterator[Study]:
    seeds = form.choose(tiny=2, quick=8, full=40)
    rows = form.choose(tiny=600, quick=5_000, full=10_000)
    sizes = form.choose(tiny=(100,), quick=(300, 1_000), full=(300, 1_000, 4_000))
    cases = [*product(MAKERS, (2.0,), (5, 20, 40)), *product(("normal",), (1.0, 3.0), (20,))]
    cases = cases[:1] if form.name == "tiny" else cases
    records = [record for case in cases for record in coverage(*case, sizes, rows, seeds)]
    columns = ["rows", "z", "k", "size", "optimum", "interval", "below", "above", "as ±", "seeds"]
    yield Study("Intervals for optima measured on a coreset", TEXT, columns, records)


def normal(rng: np.random.Generator, rows: int, k: int) -> np.ndarray:
    return rng.normal(size=(rows, 20))


def groups(rng: np.random.Generator, rows: int, k: int) -> np.ndarray:
    """As many groups as clusters, of unit spread and uneven sizes."""
    shares = rng.dirichlet(np.full(k, 2.0))
    return 3 * rng.normal(size=(k, 8))[rng.choice(k, size=rows, p=shares)] + rng.normal(size=(rows, 8))


MAKERS = {"normal": normal, "groups": groups}


def coverage(kind: str, z: float, k: int, sizes: tuple[int, ...], rows: int, seeds: int) -> Iterator[dict[str, Any]]:
    """A record for each size of the coreset."""
    tables = [MAKERS[kind](np.random.default_rng(number), rows, k) for number in range(min(TABLES, seeds))]
    best = [least_cost(X, k, z) for X in tables]
    for size in sizes:
        found = []
        for seed in range(seeds):
            number = seed % len(tables)
            model = OnlineClustering(k, z=z, history="coreset", coreset_size=size, random_state=seed)
            known = model.partial_fit(tables[number]).regret_
            found.append([known.optimum / best[number], *np.array(known.optimum_interval) / best[number], known.error])
        ratio, low, high, error = np.transpose(found)
        yield {
            "rows": f"{kind}, {rows:,} x {tables[0].shape[1]}",
            "z": f"{z:g}",
            "k": k,
            "size": f"{size:,}",
            "optimum": f"{ratio.mean():.3f}",
            "interval": f"{low.mean():.2f} to {high.mean():.2f}",
            "below": int((low > 1).sum()),
            "above": int((high < 1).sum()),
            "as ±": int((np.abs(1 / ratio - 1) > error).sum()),
            "seeds": seeds,
        }


def least_cost(X: np.ndarray, k: int, z: float) -> float:
    """The least cost of centers that several fits to all rows have found."""
    every = np.ones(len(X))
    costs = [solver.cost(X, every, solver.solve(X, every, k, z, seed), z) for seed in range(2)]
    if z == 2:
        costs.append(float(KMeans(k, n_init=3, random_state=0).fit(X).inertia_))
    return min(costs)
