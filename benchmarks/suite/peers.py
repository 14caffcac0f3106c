"""Learners whose speed alone is measured, beside those of ``batch2online.baselines``."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

import numpy as np
from scipy.sparse import csc_matrix
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.cluster import Birch, KMeans

from batch2online._types import FloatArray
from batch2online.baselines.peers import FEW, SPEED, Peer


class RecursiveLeastSquares(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Sherman and Morrison's formula, starting from a ridge of one."""

    def partial_fit(self, X: Any, y: Any) -> Self:
        rows = np.column_stack([np.ones(len(X)), X])
        if not hasattr(self, "inverse_"):
            self.inverse_, self.weights_ = np.eye(rows.shape[1]), np.zeros(rows.shape[1])
        for row, target in zip(rows, y, strict=True):
            moved = self.inverse_ @ row
            gain = moved / (1 + row @ moved)
            self.weights_ = self.weights_ + gain * (target - row @ self.weights_)
            self.inverse_ -= np.outer(gain, moved)
        return self

    def predict(self, X: Any) -> FloatArray:
        return np.asarray(np.asarray(X) @ self.weights_[1:] + self.weights_[0])


class BirchThenKMeans(BaseEstimator):  # type: ignore[misc]
    """Birch names no k centers: those of k-means on its subclusters stand for them."""

    def __init__(self, n_clusters: int, threshold: float = 0.5, random_state: Any = None) -> None:
        self.n_clusters = n_clusters
        self.threshold = threshold
        self.random_state = random_state

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        if not hasattr(self, "tree_"):
            self.tree_ = Birch(n_clusters=None, threshold=self.threshold)
        middles = self.tree_.partial_fit(X).subcluster_centers_
        k = min(self.n_clusters, len(middles))
        self.cluster_centers_ = KMeans(k, n_init=1, random_state=self.random_state).fit(middles).cluster_centers_
        return self


class Lsi(BaseEstimator):  # type: ignore[misc]
    """gensim's ``LsiModel`` with rows as documents: a one-pass decomposition, for sparse documents by design."""

    def __init__(self, n_components: int, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        if not hasattr(self, "lsi_"):
            model = import_module("gensim.models").LsiModel
            words = {column: str(column) for column in range(X.shape[1])}
            self.lsi_ = model(num_topics=self.n_components, id2word=words, random_seed=self.random_state)
        self.lsi_.add_documents(csc_matrix(X.T))
        self.components_ = self.lsi_.projection.u.T
        return self


SPEED_ONLY = (
    Peer(
        "recursive least squares, row by row",
        {"regression": lambda told: RecursiveLeastSquares()},
        frozenset({SPEED}),
        most_rows=FEW,
    ),
    Peer(
        "scikit-learn Birch, then k-means",
        {"clustering": lambda told: BirchThenKMeans(told.k)},
        frozenset({SPEED}),
        most_rows=FEW,  # it slows down as its tree grows
    ),
    Peer("gensim LsiModel", {"lowrank": lambda told: Lsi(told.k)}, frozenset({SPEED}), package="gensim"),
)
