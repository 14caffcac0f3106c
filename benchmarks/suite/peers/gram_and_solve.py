"""The Gram matrix of all rows so far, solved when their number has doubled: a few lines of NumPy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh, solve
from sklearn.base import BaseEstimator, RegressorMixin

TINY = 1e-9


class _Doubling(BaseEstimator, ABC):
    """What both share: sums over rows, and a solution whenever the number of rows has doubled."""

    def _sum(self, rows: np.ndarray) -> None:
        if not hasattr(self, "gram_"):
            self.gram_, self.n_seen_, self.next_ = np.zeros((rows.shape[1],) * 2), 0, 1
        self.gram_ += rows.T @ rows
        self.n_seen_ += len(rows)
        if self.n_seen_ >= self.next_:
            self._solve()
            self.next_ = 2 * self.n_seen_

    @abstractmethod
    def _solve(self) -> None:
        """A model from the sums."""


class GramRegression(RegressorMixin, _Doubling):
    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self._sum(np.column_stack([np.ones(len(X)), X, y]))
        return self

    def _solve(self) -> None:
        inner = self.gram_[:-1, :-1]
        self.weights_ = solve(inner + TINY * np.eye(len(inner)), self.gram_[:-1, -1], assume_a="pos")

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X @ self.weights_[1:] + self.weights_[0]


class GramSubspace(_Doubling):
    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    def partial_fit(self, X: np.ndarray) -> Self:
        self._sum(X)
        return self

    def _solve(self) -> None:
        d = len(self.gram_)
        self.components_ = eigh(self.gram_, subset_by_index=[d - self.n_components, d - 1])[1].T


def regression(k: int) -> dict[str, Any]:
    return {"Gram matrix, solved at doublings": GramRegression()}


def lowrank(k: int) -> dict[str, Any]:
    return {"Gram matrix, solved at doublings": GramSubspace(k)}
