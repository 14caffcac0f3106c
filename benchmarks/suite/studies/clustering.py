"""Loss and changes of online clustering against k-means on all rows, in hindsight and at doublings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans

from batch2online import OnlineClustering, baselines, evaluate
from batch2online.evaluate.losses import best_centers
from batch2online.methods.clustering import solver
from benchmarks.suite.form import Form
from benchmarks.suite.study import Against, Kept, Study, loaded

STARTS, FEW, RESTARTS = 64, 8, 10
"""Starts of our solver on all rows, in hindsight and at doublings, where z is not 2; those of `KMeans` where it is."""
FIGURES = [
    "median",
    "worst",
    "doubling",
    "/ doubling",
    "final",
    "final / doubling",
    "changes",
    "doubling changes",
    "in all",
]
COMMON = (
    "Random order, {seeds} seeds from {first} on, chunks of 1,000, each scored under the model before it, loss from "
    "row 1,000 on over the loss of hindsight. Median over seeds, and the worst of them. *Doubling* is "
    "`KMeans(n_init=10)` on all rows whenever they have doubled; */ doubling* is the median of ratios in one "
    "stream; *final* is the cost of the last model on all rows; changes after row 1,000 and in all, in the worst "
    "stream."
)
SETS = ("digits", "diamonds", "letter", "flights", "china_pixels", "mnist")


class Powers(BaseEstimator):
    """Our solver of (k,z)-clustering as a batch estimator."""

    def __init__(self, n_clusters: int, z: float, random_state: int = 0) -> None:
        self.n_clusters = n_clusters
        self.z = z
        self.random_state = random_state

    def fit(self, X: np.ndarray) -> Powers:
        args = (X, np.ones(len(X)), self.n_clusters, self.z, self.random_state)
        self.cluster_centers_ = solver.solve(*args, starts=FEW)
        return self


def measure(form: Form) -> Iterator[Study]:
    clusters, columns = form.choose(tiny=(3,), quick=(5, 10), full=(3, 5, 10)), ["data", "k", "setting", *FIGURES]
    records = []
    for name, (X, _) in loaded(form.sets_of(*form.choose(tiny=(), quick=SETS[:4], full=SETS), tiny="digits")):
        for k in clusters:
            settings = {"default": OnlineClustering(k), 'history="coreset"': OnlineClustering(k, history="coreset")}
            records += [{"data": name, "k": k, **record} for record in compared(X, k, 2.0, settings, form)]
    common = COMMON.format(seeds=len(form.seeds_of(5)), first=form.first_seed)
    text = f"{common} Hindsight is `KMeans(n_init=10)` on all rows."
    yield Study("Loss and changes, clustering", text, columns, records)
    columns, records = ["data", "z", *FIGURES], []
    for name, (X, _) in loaded(
        form.sets_of("diamonds", *form.choose(tiny=(), quick=(), full=("flights",)), tiny="breast_cancer")
    ):
        for z in form.choose(tiny=(1.0,), quick=(1.0, 3.0), full=(1.0, 1.5, 3.0)):
            (record,) = compared(X, 5, z, {"default": OnlineClustering(5, z=z)}, form)
            records.append({"data": name, "z": z, **record})
    starts = form.choose(tiny=2, quick=FEW, full=STARTS)
    text = f"{common} 5 clusters; *doubling* and hindsight are our solver on all rows, with {FEW} and {starts} starts."
    yield Study("Loss and changes, other powers", text, columns, records, formats={"z": "g"})


def compared(X: np.ndarray, k: int, z: float, settings: dict[str, OnlineClustering], form: Form) -> list[dict]:
    """One record a setting."""
    doubling: Any = baselines.FollowTheLeader(KMeans(k, n_init=RESTARTS), growth=2)
    best = (
        best_centers(X, k)
        if z == 2
        else solver.solve(X, np.ones(len(X)), k, z, 0, starts=form.choose(tiny=2, quick=FEW, full=STARTS))
    )
    loss = Against(z, k, best=best)
    kept: dict[str, Kept] = {name: Kept(model) for name, model in settings.items()}
    if z != 2:
        doubling = baselines.FollowTheLeader(Powers(k, z), growth=2)
    refits = Kept(doubling)
    result = evaluate.prequential(
        {**kept, "doubling": refits}, X, loss=loss, seeds=form.seeds_of(5), chunk=form.chunk, warmup=form.chunk
    )
    ratios = {name: [run.ratio for run in result if run.model == name] for name in result.models}
    ends = {name: finals(makers, loss, X) for name, makers in {**kept, "doubling": refits}.items()}
    doublings = max(run.changes for run in result if run.model == "doubling")
    records = []
    for name, makers in kept.items():
        figures = [np.median(ratios[name]), max(ratios[name]), np.median(ratios["doubling"])]
        figures += [np.median(np.divide(ratios[name], ratios["doubling"]))]
        figures += [np.median(ends[name]), np.median(ends[name] / ends["doubling"])]
        changes = [makers.most_changes(form.chunk), doublings, makers.most_changes()]
        records.append({"setting": name, **dict(zip(FIGURES, [*map(float, figures), *changes], strict=True))})
    return records


def finals(makers: Kept, loss: Against, X: np.ndarray) -> np.ndarray:
    """Cost of the last model of each stream on all rows, over that of hindsight."""
    costs = [loss.losses(model.cluster_centers_, X, None).sum() for model in makers.learned]
    return np.array(costs) / loss.hindsight(X, None).sum()
