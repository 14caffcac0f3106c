"""Linear models and k-means of River."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from batch2online._types import FloatArray
from batch2online.baselines.peer import COMPARE, EVERYWHERE, FEW, LOSS, WIDE, Peer, PeerSettings


class RiverLogistic(BaseEstimator):  # type: ignore[misc]
    """River's ``LogisticRegression``, one for each class where there are more than two."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes

    def partial_fit(self, X: Any, y: Any) -> Self:
        if "model_" not in vars(self):
            self.classes_ = np.arange(float(self.n_classes))
            binary = import_module("river.linear_model").LogisticRegression()
            several = import_module("river.multiclass").OneVsRestClassifier
            self.model_ = binary if self.n_classes <= 2 else several(binary)
        for row, label in zip(X.tolist(), np.asarray(y).tolist(), strict=True):
            self.model_.learn_one(dict(enumerate(row)), label)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        if "model_" not in vars(self):
            raise NotFittedError("This RiverLogistic has seen no rows.")
        found = [self.model_.predict_proba_one(dict(enumerate(row))) for row in X.tolist()]
        return np.array([[each.get(label, 0.0) for label in self.classes_.tolist()] for each in found])


def _river_k_means(settings: PeerSettings, halflife: float) -> Any:
    k_means = import_module("river.cluster").KMeans
    return k_means(n_clusters=settings.k, halflife=halflife, mu=settings.mean, sigma=settings.spread)


PEERS = (
    Peer(
        "River LinearRegression",
        {"regression": lambda settings: import_module("river.linear_model").LinearRegression()},
        EVERYWHERE,
        package="river",
        most_rows=FEW,
        most_columns=WIDE,
    ),
    Peer(
        "River LogisticRegression",
        {"classification": lambda settings: RiverLogistic(settings.k)},
        frozenset({COMPARE}),
        package="river",
    ),
    *(
        Peer(
            f"River KMeans, halflife {halflife}",
            {"clustering": lambda settings, halflife=halflife: _river_k_means(settings, halflife)},  # type: ignore[misc]
            shown,
            package="river",
            most_rows=FEW,
            most_columns=WIDE,
        )
        for halflife, shown in ((0.1, frozenset({LOSS})), (0.02, EVERYWHERE))
    ),
)
