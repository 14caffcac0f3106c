"""scikit-learn's incremental PCA."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import IncrementalPCA


class Uncentred(BaseEstimator):
    """IncrementalPCA of the rows and their negatives, whose mean is zero: a subspace through zero, twice the work."""

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    def partial_fit(self, X: np.ndarray) -> Self:
        self.pca_ = getattr(self, "pca_", None) or IncrementalPCA(self.n_components)
        self.components_ = self.pca_.partial_fit(np.concatenate([X, -X])).components_
        return self


def lowrank(k: int) -> dict[str, Any]:
    return {"scikit-learn IncrementalPCA, rows and negatives": Uncentred(k)}
