"""Recursive least squares: the inverse of the Gram matrix, updated at every row."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from batch2online._types import FloatArray


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
