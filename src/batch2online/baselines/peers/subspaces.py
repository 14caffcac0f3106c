"""Other libraries' methods for low rank, made to answer for a subspace through zero."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

import numpy as np
from scipy.sparse import csc_matrix
from sklearn.base import BaseEstimator
from sklearn.decomposition import IncrementalPCA


class Uncentred(BaseEstimator):  # type: ignore[misc]
    """IncrementalPCA of the rows and their negatives, whose mean is zero: a subspace through zero, twice the work."""

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        self.pca_ = getattr(self, "pca_", None) or IncrementalPCA(self.n_components)
        self.components_ = self.pca_.partial_fit(np.concatenate([X, -X])).components_
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
