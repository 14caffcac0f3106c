"""``epsilon="auto"`` against a fixed epsilon: the excess loss over exact models at the same refreshes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from batch2online import OnlineClustering, OnlineRegression
from batch2online.refresh import Geometric
from batch2online.theory.bounds import refresh_times
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

K, START, TURN = 5, 100, 0.28
"""Clusters; the first refresh; the slope is taken from about this share of the rows on."""

TEXT = (
    "The loss beyond that of exact solves at the same refreshes, in mean losses of the best model, a mean over the "
    "streams with its standard error. *Slope*: of its logarithm over the logarithm of the rows, over the last "
    "factor of 3.6. *Kept*: rows of the coreset at the end. *Regret* is that of the exact solves. Regression of 10 "
    'columns, refits as rows grow by 1.2; k-means of 5 clusters in 4 columns, by 1.3, each with `solve="coreset"`. '
    "Exact solves of k-means start from the best centers of all rows."
)
Rows = tuple[np.ndarray, np.ndarray]


def measure(form: Form) -> Iterator[Study]:
    rows = form.choose(tiny=2_000, quick=50_000, full=200_000)
    regressions = form.seeds_of(form.choose(tiny=1, quick=3, full=40))
    clusters = form.seeds_of(form.choose(tiny=1, quick=3, full=24))
    cases: list[tuple[str, Any, list[int]]] = [
        ("regression, normal noise", partial(regression, normal), regressions),
        ("regression, t(3) noise and a rare column", partial(regression, heavy), regressions),
        ("k-means, separate", partial(clustering, 8.0), clusters),
        ("k-means, overlapping", partial(clustering, 2.0), clusters),
    ]
    columns = ["problem", "ε", "excess", "slope", "kept", "regret", "streams"]
    records = [record for name, run, seeds in cases for record in compared(name, run, rows, seeds)]
    yield Study(f"An accuracy that improves, {rows:,} rows", TEXT, columns, records, formats={"slope": ".2f"})


def compared(name: str, run: Any, rows: int, seeds: list[int]) -> Iterator[dict[str, Any]]:
    found = [run(rows, seed) for seed in seeds]
    for number, epsilon in enumerate(EPSILONS):
        excess = np.array([each.excess[number] for each in found])
        mean = excess.mean(axis=0)
        error = excess[:, 1].std(ddof=1) / np.sqrt(len(seeds)) if len(seeds) > 1 else 0.0
        yield {
            "problem": name,
            "ε": str(epsilon),
            "excess": f"{mean[1]:,.0f} ± {error:,.0f}",
            "slope": float(np.log(mean[1] / mean[0]) / np.log(found[0].growth)) if mean.min() > 0 else None,
            "kept": f"{np.mean([each.kept[number] for each in found]):,.0f}",
            "regret": f"{np.mean([each.regret for each in found]):,.0f}",
            "streams": len(seeds),
        }


EPSILONS: tuple[float | str, ...] = (0.1, "auto")


class Found(NamedTuple):
    """Of each model its excess over exact solves at the turn and at the end, and its rows kept at the end.

    ``growth`` is the factor of the rows from the turn on, ``regret`` that of the exact solves.
    """

    excess: np.ndarray
    kept: list[int]
    growth: float
    regret: float


def normal(rng: np.random.Generator, rows: int) -> Rows:
    X = rng.normal(size=(rows, 10))
    return X, X.sum(axis=1) + rng.normal(size=rows)


def heavy(rng: np.random.Generator, rows: int) -> Rows:
    """Return rows with heavy-tailed noise; the first column has 40 values that are not zero, in random places."""
    X = rng.normal(size=(rows, 10))
    X[:, 0] *= np.isin(np.arange(rows), rng.choice(rows, size=min(40, rows), replace=False))
    return X, X.sum(axis=1) + rng.standard_t(3, size=rows)


def regression(make: Callable[[np.random.Generator, int], Rows], rows: int, seed: int) -> Found:
    X, y = make(np.random.default_rng(seed), rows)
    times = [*refresh_times(rows, START, 1.2), rows]
    policy = Geometric(1.2, start=START)
    settings: dict[str, Any] = {"fit_intercept": False, "refresh": policy, "random_state": seed}
    models = [OnlineRegression(solve="coreset", epsilon=epsilon, **settings) for epsilon in EPSILONS]

    def exact(n: int) -> np.ndarray:
        return np.asarray(np.linalg.lstsq(X[:n], y[:n], rcond=None)[0])

    def losses(model: np.ndarray, part: slice) -> np.ndarray:
        return np.asarray(np.square(X[part] @ model - y[part]))

    return followed(models, (X, y), times, exact, losses, lambda model: np.asarray(model.coef_).ravel())


def clustering(spread: float, rows: int, seed: int) -> Found:
    rng = np.random.default_rng(seed)
    X = spread * rng.normal(size=(K, 4))[rng.integers(K, size=rows)] + rng.normal(size=(rows, 4))
    times = [*refresh_times(rows, START, 1.3), rows]
    settings: dict[str, Any] = {"refresh": Geometric(1.3, start=START), "churn_price": 0.0, "random_state": seed}
    models = [OnlineClustering(K, solve="coreset", epsilon=epsilon, **settings) for epsilon in EPSILONS]
    best = KMeans(K, n_init=10, random_state=0).fit(X).cluster_centers_

    def exact(n: int) -> np.ndarray:
        return np.asarray(KMeans(K, init=best, n_init=1).fit(X[:n]).cluster_centers_)

    def losses(model: np.ndarray, part: slice) -> np.ndarray:
        return np.asarray(np.square(X[part, None] - model).sum(axis=2).min(axis=1))

    return followed(models, (X, None), times, exact, losses, lambda model: model.cluster_centers_)


def followed(models: list[Any], rows: Any, times: list[int], exact: Any, losses: Any, read: Any) -> Found:
    """Feed the models from refresh to refresh, and compare the losses of the rows after each with exact ones."""
    (X, y), n = rows, times[-1]
    best = losses(exact(n), slice(0, n))
    excess, turn = np.zeros((len(models), 2)), min(times, key=lambda t: abs(t - TURN * n))
    before, regret = 0, 0.0
    for at, until in pairwise(times):
        part = slice(at, until)
        own = losses(exact(at), part).sum()
        regret += own - best[part].sum()
        for number, model in enumerate(models):
            model.partial_fit(X[before:at], None if y is None else y[before:at])
            excess[number, 1] += losses(read(model), part).sum() - own
        if until == turn:
            excess[:, 0] = excess[:, 1]
        before = at
    kept = [len(model.partial_fit(X[before:], None if y is None else y[before:]).coreset_) for model in models]
    return Found(excess / best.mean(), kept, n / turn, float(regret / best.mean()))
