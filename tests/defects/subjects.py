"""All estimators, small, with rows for them."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression
from state_bytes import serialise

_rng = np.random.default_rng(0)
X = _rng.normal(loc=[0.0, 0.0, 5.0], size=(4000, 3))
X[::3] += 8
Y = X @ [1.0, 2.0, 3.0] + _rng.normal(size=len(X))
LABELS = np.where(X[:, 0] > 1, "high", "low")
"""Rows, and numbers and labels that depend on them."""

SMALL = {"coreset_size": 60, "random_state": 0}
ESTIMATORS = {
    "OnlineRegression": (partial(OnlineRegression, keep_history=True, **SMALL), Y),
    "OnlineLowRank": (partial(OnlineLowRank, 2, keep_history=True, **SMALL), None),
    "OnlineClustering": (partial(OnlineClustering, 3, **SMALL), None),
    "OnlineClustering bounded": (partial(OnlineClustering, 3, history="coreset", **SMALL), None),
    "OnlineClassifier": (partial(OnlineClassifier, keep_history=True, **SMALL), LABELS),
    "Ridge": (partial(BatchToOnline, Ridge(), keep_history=True, **SMALL), Y),
    "LogisticRegression": (partial(BatchToOnline, LogisticRegression(), keep_history=True, **SMALL), LABELS),
    "PCA": (partial(BatchToOnline, PCA(2), keep_history=True, **SMALL), None),
}
"""What makes each of them, and its targets."""


def some(targets, first, stop):
    """Some of the targets, where there are any."""
    return None if targets is None else targets[first:stop]


def learned(model, targets, first, stop):
    return model.partial_fit(X[first:stop], some(targets, first, stop))


def learned_one_by_one(model, targets, first, stop):
    for index in range(first, stop):
        learn_one(model, targets, index)
    return model


def learn_one(model, targets, index):
    target = () if targets is None else (targets[index].item(),)
    model.learn_one(X[index].tolist(), *target)


def state(model):
    """All that a model has learned, as bytes."""
    return serialise(model._state())


def rows_of(model):
    """The rows that a model has kept, and their targets."""
    rows = model._stream.view().history.everything()
    return rows.points, rows.targets
