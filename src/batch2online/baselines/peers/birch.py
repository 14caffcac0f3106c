"""scikit-learn's tree of clustering features; its subclusters are joined into k at every call."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.cluster import Birch, KMeans


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
