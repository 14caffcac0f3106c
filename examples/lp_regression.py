"""Lp regression of a stream, ``sum |b - a x|^p``: an estimator, a loss and a coreset that fit each other.

``coresets.Leverage`` keeps rows by a bound of their share in the squared loss of any model. The estimator is fitted by
iteratively reweighted least squares.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from batch2online import BatchToOnline, coresets, refresh
from batch2online.extend import FloatArray


class LpRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Linear model of least ``sum_i w_i |y_i - prediction|^p``, for p from 1 to 3."""

    def __init__(self, p: float = 1.5, max_iter: int = 100) -> None:
        self.p = p
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        rows = np.column_stack([np.ones(len(X)), X])
        weights, own = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight), np.ones(len(X))
        step = 1.0 if self.p <= 2 else 1 / (self.p - 1)  # full steps overshoot for p above 2
        theta = np.zeros(rows.shape[1])
        for _ in range(self.max_iter):
            root = np.sqrt(weights * own)
            new = np.linalg.lstsq(rows * root[:, None], y * root, rcond=None)[0]
            theta, before = theta + step * (new - theta), theta
            residuals = np.abs(y - rows @ theta)
            own = np.maximum(residuals, 1e-6 * residuals.max(initial=1e-300)) ** (self.p - 2)
            if np.allclose(theta, before, rtol=1e-6, atol=1e-9):
                break
        self.intercept_, self.coef_ = float(theta[0]), theta[1:]
        return self

    def predict(self, X: Any) -> FloatArray:
        return np.asarray(X @ self.coef_ + self.intercept_)


def loss_for(p: float) -> Any:
    """Return the loss of each row as a function of a fitted model, rows and targets."""
    return lambda model, points, targets: np.abs(targets - model.predict(points)) ** p


def run(p: float = 1.5, n: int = 20_000, coreset: Any = None) -> tuple[BatchToOnline, FloatArray, FloatArray]:
    """Return a model of n rows, the rows and the targets: heavy tails in both."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(2.5, size=(n, 4))
    y = X @ [1.0, 2.0, 3.0, 4.0] + rng.standard_t(2.5, size=n)
    coreset = coresets.Leverage(coreset_size=400) if coreset is None else coreset
    model = BatchToOnline(
        LpRegressor(p), loss=loss_for(p), coreset=coreset, refresh=refresh.Geometric(1.5), random_state=0
    )
    for start in range(0, n, 1_000):
        model.partial_fit(X[start : start + 1_000], y[start : start + 1_000])
    return model, X, y


if __name__ == "__main__":
    for p in (1.0, 1.5, 3.0):
        for coreset in (None, coresets.Uniform(coreset_size=400)):
            model, X, y = run(p, coreset=coreset)
            every = LpRegressor(p).fit(X, y)
            ratio = loss_for(p)(model.model_, X, y).sum() / loss_for(p)(every, X, y).sum()
            print(f"p = {p}: {type(model.stream_.view().sketch).__name__:13} loss {ratio:.4f} of that of all rows")
