"""Sizes of clustering coresets: how often a coreset is within epsilon for all sets of centers that are tried."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from batch2online import coresets, theory
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

EPSILON = 0.1
TEXT = (
    "The error of a coreset is the largest relative error of its cost over solutions fitted to it, seeded and random "
    "centers, and the worst of these moved so that the error grows (`coresets.errors`). *Within ε*: the share of "
    'draws whose error is at most ε = 0.1. *theory*: `coreset_size="theory"`, with δ = ε / 10⁹; *δ = 0.01*: the same '
    "formula, k ε⁻² min(√k, ε⁻²) + ε⁻² ln(1/δ); *default*: 10 (1 + k) / ε, which is for solutions alone. *Solutions*: "
    "the largest error of a fitted solution."
)


def measure(form: Form) -> Iterator[Study]:
    rows = form.choose(tiny=500, quick=20_000, full=50_000)
    draws = len(form.seeds_of(form.choose(tiny=1, quick=3, full=8)))
    cases = form.choose(tiny=[("groups", 5)], quick=list(product(MAKERS, (5, 20))), full=list(product(MAKERS, (5, 20))))
    columns = ["rows", "k", "size", "expected rows", "within ε", "median error", "largest error", "solutions", "draws"]
    records = [record for kind, k in cases for record in coverage(kind, k, rows, draws)]
    yield Study(f"Sizes of clustering coresets, {rows:,} rows", TEXT, columns, records, formats={"within ε": ".2f"})


def groups(rng: np.random.Generator, rows: int, k: int) -> np.ndarray:
    """As many groups as clusters, of unit spread and uneven sizes."""
    shares = rng.dirichlet(np.full(k, 2.0))
    return 3 * rng.normal(size=(k, 8))[rng.choice(k, size=rows, p=shares)] + rng.normal(size=(rows, 8))


def normal(rng: np.random.Generator, rows: int, k: int) -> np.ndarray:
    return rng.normal(size=(rows, 8))


def simplex(rng: np.random.Generator, rows: int, k: int) -> np.ndarray:
    """Points near the corners of a simplex of four times as many corners as centers: hard to summarise."""
    return np.eye(4 * k)[rng.integers(4 * k, size=rows)] + 0.01 * rng.normal(size=(rows, 4 * k))


def heavy(rng: np.random.Generator, rows: int, k: int) -> np.ndarray:
    return rng.standard_t(2.5, size=(rows, 8))


MAKERS = {"groups": groups, "normal": normal, "simplex": simplex, "heavy tails": heavy}


def coverage(kind: str, k: int, rows: int, draws: int) -> Iterator[dict[str, Any]]:
    """A record for each size."""
    X = MAKERS[kind](np.random.default_rng(k), rows, k)
    sizes = {
        "theory": theory.clustering_size_theory(k, 2.0, EPSILON, EPSILON / theory.HORIZON),
        "δ = 0.01": theory.clustering_size_theory(k, 2.0, EPSILON),
        "default": float(theory.clustering_size(k, EPSILON)),
    }
    for name, size in sizes.items():
        found = []
        for seed in range(draws):
            coreset = coresets.Clustering(k, epsilon=EPSILON, coreset_size=size, random_state=seed).add(X).coreset()
            every = coresets.errors(coreset, X, k=k, solutions=8, random_state=seed)
            found.append([max(np.abs(each).max() for each in every.values()), np.abs(every["solved"]).max()])
        worst, solved = np.transpose(found)
        yield {
            "rows": kind,
            "k": k,
            "size": name,
            "expected rows": f"{size:,.0f}",
            "within ε": float((worst <= EPSILON).mean()),
            "median error": float(np.median(worst)),
            "largest error": float(worst.max()),
            "solutions": float(solved.max()),
            "draws": draws,
        }
