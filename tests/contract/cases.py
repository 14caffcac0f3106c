"""How each estimator and construction is made for the contract: small, and in the ways that differ.

A class that discovery finds and that is not here fails the contract. What a case does not offer stands in ``lacks``,
with the words of the error that says so, which is checked as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, coresets
from batch2online.methods.clustering.sketch import MovingSeeds
from batch2online.refresh import Geometric
from batch2online.rows import Rows
from batch2online.schema import storable
from contract.discovery import example
from contract.subjects import learn

N, WIDTH, BLOCK = 150, 3, 16
"""Rows of the stream, its columns, and rows of a block: nine whole blocks and an unfinished one."""

SMALL = {"coreset_size": 30, "random_state": 3}
WITHOUT_HISTORY = {"forget": "history"}


@dataclass(frozen=True, eq=False)
class Case:
    """One way to make a subject, and the stream it is shown."""

    make: Callable[..., Any]
    targets: str = "none"
    history: Mapping[str, Any] = field(default_factory=lambda: {"keep_history": True})
    """Settings with which rows can be forgotten."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """What the subject does not offer, and a part of the message that says so."""
    merges_exactly: bool = True
    """Whether merged shards are one stream; if not, the merged coreset is still the same in either order."""
    keeps_all: bool = True
    """Whether a coreset of any size holds each of few rows with its own weight."""
    fades: bool = False
    """Whether rows count for less as others come."""
    expected_failures: Mapping[str, str] = field(default_factory=dict)
    """Checks of scikit-learn that cannot pass, and why."""

    scikit_learn: bool = False
    """Whether scikit-learn's checks run: once for each class, and for each kind of target and output of a wrapped one.
    What its settings change is checked by the promises, which hold for every case."""

    def new(self, **settings):
        return self.make(**SMALL | settings)

    @property
    def data(self):
        """Rows, targets and weights."""
        rows, targets, weights = stream()
        return rows, targets[self.targets], weights

    @cached_property
    def whole(self):
        """One that has seen the stream at once; to be looked at, not to be used further."""
        return learn(self.new(), *self.data)


@cache
def stream():
    """Three clusters of rows on different scales, with numbers and labels that depend on them."""
    rng = np.random.default_rng(7)
    rows = (rng.normal(size=(N, WIDTH)) + 6 * rng.integers(3, size=(N, 1))) * [1.0, 10.0, 0.1]
    rows[np.abs(rows) < 0.1] = 0.0
    numbers = rows @ [1.0, -0.2, 3.0] + rng.standard_t(3, size=N)
    labels = np.where(rows[:, 0] + rng.normal(size=N) > 6, "high", "low")
    targets = {"none": None, "numbers": numbers, "several": np.column_stack([numbers, -rows[:, 0]]), "labels": labels}
    targets["counts"] = np.floor(np.abs(numbers))
    targets["codes"] = (labels == "high").astype(np.float64)
    targets["classes"] = np.where(rng.random(N) < 0.3, 7, np.where(labels == "high", 1, 4))
    return rows, targets, rng.choice([0.25, 1.0, 3.7], size=N)


@storable
@dataclass(frozen=True)
class ShareOfLength:
    """A score that only falls: the squared length of a row in the sum of all of them."""

    def __call__(self, points, weights, targets=None, *, summary):
        return weights * np.square(points).sum(axis=1) / summary


@storable
@dataclass(frozen=True)
class TotalLength:
    def __call__(self, points, weights, targets=None):
        return weights @ np.square(points).sum(axis=1)


def length(points, weights, targets=None):
    return weights * np.square(points).sum(axis=1)


def moving_seeds(**settings):
    return MovingSeeds(Rows.empty(WIDTH, 0), 3, 2.0, **settings)


def weighted_mean(points, weights):
    return np.average(points, axis=0, weights=weights)


def squared_from(theta, points):
    return np.square(points - theta).sum(axis=1)


wrapped = partial(partial, BatchToOnline, refresh=Geometric(2.0))
REPEATED_ROWS = "repeated rows are another stream, with other ids (as for KMeans)"
OF_ANOTHER_STREAM = {f"check_sample_weight_equivalence_on_{kind}_data": REPEATED_ROWS for kind in ("dense", "sparse")}
regression = partial(Case, targets="numbers")
anchored = partial(Case, merges_exactly=False)
clustering = partial(Case, history={}, expected_failures=OF_ANOTHER_STREAM)

CASES: dict[str, dict[str, Case]] = {
    "OnlineRegression": {
        "default": regression(OnlineRegression, scikit_learn=True),
        "coreset": regression(partial(OnlineRegression, solve="coreset")),
        "exact": regression(partial(OnlineRegression, solve="exact", fit_intercept=False, refresh=Geometric(1.3))),
        "huber": anchored(
            partial(OnlineRegression, loss="huber", alpha=0.1, refresh=Geometric(2.0)), targets="numbers"
        ),
        "poisson": anchored(partial(OnlineRegression, loss="poisson", alpha=0.1), targets="counts", scikit_learn=True),
        "half-life": regression(partial(OnlineRegression, half_life=300), fades=True),
        "several targets": regression(partial(OnlineRegression, score_targets=False), targets="several"),
    },
    "OnlineClassifier": {
        "two classes": anchored(OnlineClassifier, targets="labels", scikit_learn=True),
        "three classes": anchored(partial(OnlineClassifier, alpha=0.01), targets="classes"),
    },
    "OnlineLowRank": {
        "around zero": Case(partial(OnlineLowRank, 1), scikit_learn=True),
        "coreset": Case(partial(OnlineLowRank, 1, solve="coreset")),
        "centred": Case(partial(OnlineLowRank, 1, center=True, solve="exact", basis="variance")),
    },
    "OnlineClustering": {
        "memory": clustering(partial(OnlineClustering, 3, refresh=Geometric(2.0)), scikit_learn=True),
        "bounded": clustering(
            partial(OnlineClustering, 3, z=1.5, stages=2, history="coreset", refresh=Geometric(3.0)),
            lacks=WITHOUT_HISTORY,
            merges_exactly=False,
            keeps_all=False,
        ),
    },
    "BatchToOnline": {
        "Ridge": anchored(wrapped(Ridge()), targets="numbers", scikit_learn=True),
        "measured": anchored(partial(BatchToOnline, Ridge()), targets="numbers"),
        "Leverage": Case(wrapped(Ridge(), coreset=coresets.Leverage), targets="numbers"),
        "LogisticRegression": anchored(
            wrapped(LogisticRegression(solver="newton-cholesky")), targets="labels", scikit_learn=True
        ),
        "PCA": Case(wrapped(PCA(1)), scikit_learn=True),
        "function": Case(
            wrapped(weighted_mean, loss=squared_from),
            lacks={"save": "weighted_mean|function"},
        ),
    },
    "OnlineMedian": {"coreset": Case(example().OnlineMedian, scikit_learn=True)},
    "Anchored": {
        "logistic": Case(coresets.Anchored, targets="codes"),
        "absolute": Case(partial(coresets.Anchored, "absolute", intercept=False), targets="numbers"),
    },
    "Leverage": {
        "targets": Case(coresets.Leverage, targets="numbers"),
        "no intercept": Case(partial(coresets.Leverage, intercept=False), targets="several"),
    },
    "Piloted": {
        "numbers": Case(coresets.Piloted, targets="numbers"),
        "labels": Case(partial(coresets.Piloted, labels=True, leverage=False), targets="codes"),
    },
    "RidgeLeverage": {
        "around zero": Case(partial(coresets.RidgeLeverage, 1)),
        "centred": Case(partial(coresets.RidgeLeverage, 1, intercept=True)),
    },
    "Uniform": {"uniform": Case(coresets.Uniform, targets="numbers")},
    "Everything": {"everything": Case(coresets.Everything, targets="numbers")},
    "Sensitivity": {
        "whole": Case(partial(coresets.Sensitivity, coresets.LewisScore(1.0)), targets="numbers", history={}),
        "bound": Case(
            partial(coresets.Sensitivity, ShareOfLength(), summary=TotalLength(), total_score=1), targets="numbers"
        ),
        "function": Case(partial(coresets.Sensitivity, length), history={}, lacks={"save": "function"}),
    },
    "Clustering": {
        "memory": Case(partial(coresets.Clustering, 3), history={}),
        "two stages": Case(partial(coresets.Clustering, 3, 1.0, stages=2), history={}, keeps_all=False),
        "bounded": Case(
            partial(coresets.Clustering, 3, history="coreset"),
            lacks=WITHOUT_HISTORY,
            merges_exactly=False,
        ),
    },
    "MovingSeeds": {
        "bounded": Case(moving_seeds, lacks=WITHOUT_HISTORY, merges_exactly=False),
    },
}

PARTS = {
    "FixedSeeds": "sees rows that Clustering has reduced to three columns, and is checked through it",
    "Seeded": "base of the two kinds of seeds, never stored",
}
"""Classes that are parts of others and not public; why they are not checked on their own."""
