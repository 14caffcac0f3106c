"""gensim's latent semantic indexing: a one-pass singular value decomposition, for sparse documents by design."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import csc_matrix
from sklearn.base import BaseEstimator


class Lsi(BaseEstimator):
    """``LsiModel`` with rows as documents; gensim is imported where it is needed."""

    def __init__(self, n_components: int, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def partial_fit(self, X: np.ndarray) -> Self:
        if not hasattr(self, "lsi_"):
            from gensim.models import LsiModel

            words = {column: str(column) for column in range(X.shape[1])}
            self.lsi_ = LsiModel(num_topics=self.n_components, id2word=words, random_seed=self.random_state)
        self.lsi_.add_documents(csc_matrix(X.T))
        self.components_ = self.lsi_.projection.u.T
        return self


def lowrank(k: int) -> dict[str, Any]:
    return {"gensim LsiModel": Lsi(k)}
