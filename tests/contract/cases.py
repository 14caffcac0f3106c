"""How each estimator and construction is made for the contract: small, and in the ways that differ.

A class that discovery finds and that is not here fails the contract. What a case does not offer stands in ``lacks``,
with the words of the error that says so, which is checked as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, coresets
from batch2online.checks import Case as PlainCase
from batch2online.refresh import Geometric
from batch2online.schema import storable
from contract.discovery import example

WITHOUT_HISTORY = {"forget": "history"}


@dataclass(frozen=True, eq=False)
class Case(PlainCase):
    """A case whose estimator passes scikit-learn's checks as well, but for those that cannot pass."""

    expected_failures: dict[str, str] = field(default_factory=dict)
    scikit_learn: bool = False


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
        "half-life": regression(partial(OnlineRegression, half_life=300), half_life=300),
        "columns": regression(partial(OnlineRegression, columns="auto"), scikit_learn=True),
        "several targets": regression(partial(OnlineRegression, score_targets=False), targets="several"),
    },
    "OnlineClassifier": {
        "two classes": anchored(OnlineClassifier, targets="labels", scikit_learn=True),
        "three classes": anchored(
            partial(OnlineClassifier, alpha=0.01, columns="auto"), targets="classes", scikit_learn=True
        ),
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
    "PilotSampling": {
        "numbers": Case(coresets.PilotSampling, targets="numbers"),
        "labels": Case(partial(coresets.PilotSampling, labels=True, leverage=False), targets="codes"),
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
}

PARTS = {}
"""Classes that are parts of others and not public; why they are not checked on their own."""
