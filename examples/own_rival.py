"""A learner to compare with, and a data set, from a package of your own.

``evaluate.prequential`` takes any learner with ``partial_fit`` as it is. To have it in ``batch2online compare`` too,
and the data set in ``datasets.load_regression``, name both in the ``pyproject.toml`` of your package::

    [project.entry-points."batch2online.peers"]
    rls = "own_rival:PEER"

    [project.entry-points."batch2online.datasets.regression"]
    kinked = "own_rival:kinked"
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import HuberRegressor

from batch2online import OnlineRegression, evaluate
from batch2online.baselines.peers import COMPARE, Peer
from batch2online.extend import FloatArray


class RecursiveLeastSquares(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Least squares of all rows so far, refitted at every call."""

    def partial_fit(self, X: FloatArray, y: FloatArray) -> Self:
        rows = np.column_stack([np.ones(len(X)), X])
        known = getattr(self, "moments_", (1e-6 * np.eye(rows.shape[1]), np.zeros(rows.shape[1])))
        self.moments_ = (known[0] + rows.T @ rows, known[1] + rows.T @ y)
        self.coef_ = np.linalg.solve(*self.moments_)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        return np.asarray(np.column_stack([np.ones(len(X)), X]) @ self.coef_)


PEER = Peer("recursive least squares", {"regression": lambda settings: RecursiveLeastSquares()}, frozenset({COMPARE}))


def kinked() -> tuple[FloatArray, FloatArray]:
    """Return a regression data set: rows (n, d) and targets (n,)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 3))
    return X, np.abs(X[:, 0]) + X[:, 1] + rng.standard_t(3, size=2_000)


def huber(targets: FloatArray, predictions: FloatArray) -> FloatArray:
    """Return the loss of each row: a function of targets and predictions."""
    away = np.abs(targets - predictions)
    return np.where(away < 1, away**2 / 2, away - 0.5)


def run() -> evaluate.Result:
    """Compare by a loss of one's own, with the best model of a batch estimator in hindsight."""
    X, y = kinked()
    models: dict[str, Any] = {"ours": OnlineRegression(), "rival": RecursiveLeastSquares()}
    loss = evaluate.Predictions(huber, best=HuberRegressor(alpha=0.0))
    return evaluate.prequential(models, X, y, loss=loss, seeds=2, chunk=20)


if __name__ == "__main__":
    print(run())
