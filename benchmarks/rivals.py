"""The learners that are compared, by problem: ours, the baselines, scikit-learn, River."""

from __future__ import annotations

from typing import Any

import numpy as np
from river import cluster, linear_model
from scipy.linalg import eigh
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA, TruncatedSVD
from sklearn.linear_model import LinearRegression, SGDRegressor

from batch2online import OnlineClustering, OnlineLowRank, OnlineRegression, baselines

REFIT = "exact refit, every chunk"
TINY = 1e-9


class ExactSubspace(BaseEstimator):
    """The leading subspace of all rows so far from their Gram matrix: a few lines of NumPy."""

    def __init__(self, n_components: int, growth: float = 1.0) -> None:
        self.n_components = n_components
        self.growth = growth

    def partial_fit(self, X: np.ndarray) -> ExactSubspace:
        d = X.shape[1]
        self.gram_ = getattr(self, "gram_", np.zeros((d, d))) + X.T @ X
        self.n_seen_ = getattr(self, "n_seen_", 0) + len(X)
        if self.n_seen_ >= getattr(self, "next_", 0):
            self.components_ = eigh(self.gram_, subset_by_index=[d - self.n_components, d - 1])[1].T
            self.next_ = self.growth * self.n_seen_
        return self


class Uncentred(BaseEstimator):
    """IncrementalPCA of the rows and their negatives, whose mean is zero: a subspace through zero, twice the work."""

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    def partial_fit(self, X: np.ndarray) -> Uncentred:
        self.pca_ = getattr(self, "pca_", None) or IncrementalPCA(self.n_components)
        self.pca_.partial_fit(np.concatenate([X, -X]))
        self.components_ = self.pca_.components_
        return self


def regression() -> dict[str, Any]:
    return {
        "**ours**": OnlineRegression(),
        '**ours**, `solve="exact"`': OnlineRegression(solve="exact"),
        REFIT: baselines.Ridge(TINY),
        "exact refit, doubling": baselines.FollowTheLeader(LinearRegression(), growth=2),
        "reservoir of 1,000": baselines.Reservoir(LinearRegression()),
        "online ridge": baselines.Ridge(1.0),
        "forward algorithm (sees a_t)": baselines.Forward(1.0),
        "gradient descent": baselines.GradientDescent(),
        "scikit-learn SGDRegressor": SGDRegressor(),
        "scikit-learn SGDRegressor, eta0 0.05": SGDRegressor(eta0=0.05),
        "River LinearRegression": linear_model.LinearRegression(),
    }


def lowrank(k: int) -> dict[str, Any]:
    return {
        "**ours**": OnlineLowRank(k),
        '**ours**, `solve="exact"`': OnlineLowRank(k, solve="exact"),
        REFIT: ExactSubspace(k),
        "exact refit, doubling": ExactSubspace(k, growth=2),
        "reservoir of 1,000": baselines.Reservoir(TruncatedSVD(k, algorithm="arpack")),
        "Frequent Directions, 4k": baselines.FrequentDirections(k),
        "Oja, step 3": baselines.Oja(k, step=3),
        "Oja, step 30": baselines.Oja(k, step=30),
        "exponentiated gradient": baselines.ExponentiatedGradient(k),
        "gradient descent": baselines.SubspaceDescent(k),
        "scikit-learn IncrementalPCA": Uncentred(k),
    }


def clustering(k: int, X: np.ndarray) -> dict[str, Any]:
    drawn = {"mu": float(X.mean()), "sigma": float(X.std())}  # where River draws its first centers
    return {
        "**ours**": OnlineClustering(k),
        '**ours**, `history="coreset"`': OnlineClustering(k, history="coreset"),
        "refit, at 10 % more rows": baselines.FollowTheLeader(KMeans(k, n_init=3), growth=1.1),
        "refit, doubling": baselines.FollowTheLeader(KMeans(k, n_init=3), growth=2),
        "reservoir of 1,000": baselines.Reservoir(KMeans(k, n_init=3)),
        "MacQueen": baselines.MacQueen(k),
        "consistent k-clustering": baselines.Consistent(k),
        "weighted solutions": baselines.WeightedSolutions(k),
        "scikit-learn MiniBatchKMeans": MiniBatchKMeans(k, n_init=3),
        "River KMeans, halflife 0.1": cluster.KMeans(n_clusters=k, halflife=0.1, **drawn),
        "River KMeans, halflife 0.02": cluster.KMeans(n_clusters=k, halflife=0.02, **drawn),
    }
