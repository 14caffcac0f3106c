"""The Gram matrix of all rows so far, solved whenever their number has grown by a factor: a few lines of NumPy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh, solve
from sklearn.base import BaseEstimator, RegressorMixin

from batch2online._types import FloatArray

TINY = 1e-9
"""Added to the diagonal so that fewer rows than columns, too, have a solution."""


class _Gram(BaseEstimator, ABC):  # type: ignore[misc]
    """What both share: sums over rows, and a solution whenever the number of rows has grown."""

    growth: float

    def _add(self, rows: FloatArray) -> None:
        if not hasattr(self, "gram_"):
            self.gram_, self.n_seen_, self._next = np.zeros((rows.shape[1],) * 2), 0, 1.0
        self.gram_ += rows.T @ rows
        self.n_seen_ += len(rows)
        if self.n_seen_ >= self._next:
            self._solve()
            self._next = self.growth * self.n_seen_

    @abstractmethod
    def _solve(self) -> None:
        """Make a model of the sums."""


class GramRegression(RegressorMixin, _Gram):  # type: ignore[misc]
    """Least squares with an intercept, from the moments of all rows.

    Examples
    --------
    >>> GramRegression().partial_fit(np.array([[0.0], [1.0]]), np.array([1.0, 3.0])).predict([[2.0]]).round(6).tolist()
    [5.0]
    """

    def __init__(self, growth: float = 2.0) -> None:
        self.growth = growth

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        self._add(np.column_stack([np.ones(np.shape(X)[0]), np.asarray(X), np.asarray(y)]))
        return self

    def _solve(self) -> None:
        inner = self.gram_[:-1, :-1]
        self.weights_ = solve(inner + TINY * np.eye(len(inner)), self.gram_[:-1, -1], assume_a="pos")

    def predict(self, X: ArrayLike) -> FloatArray:
        return np.asarray(np.asarray(X) @ self.weights_[1:] + self.weights_[0])


class GramSubspace(_Gram):
    """The leading subspace through zero, from the moments of all rows.

    Examples
    --------
    >>> GramSubspace(1).partial_fit(np.array([[3.0, 0.0], [0.0, 1.0]])).components_.round(6).tolist()
    [[1.0, 0.0]]
    """

    def __init__(self, n_components: int, growth: float = 2.0) -> None:
        self.n_components = n_components
        self.growth = growth

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        self._add(np.asarray(X, dtype=np.float64))
        return self

    def _solve(self) -> None:
        d = len(self.gram_)
        self.components_ = eigh(self.gram_, subset_by_index=[d - self.n_components, d - 1])[1].T
