"""Estimators and functions to wrap, one case each, with data for them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import HuberRegressor, Lasso, LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

from batch2online import BatchToOnline
from batch2online.refresh import Geometric
from streams import stream

N, SIZE = 600, 100


def weighted_mean(points, weights):
    return np.average(points, axis=0, weights=weights)


def squared_from(theta, points):
    return np.square(points - theta).sum(axis=1)


def weighted_least_squares(points, weights, targets):
    root = np.sqrt(weights)
    return np.linalg.lstsq(points * root[:, None], targets * root, rcond=None)[0]


def squared_residual(theta, points, targets):
    return np.square(points @ theta - targets)


CASES = {
    "Ridge": (Ridge(), "regression", {}),
    "HuberRegressor": (HuberRegressor(max_iter=1000), "regression", {}),
    "Lasso": (Lasso(alpha=0.01), "regression", {}),
    "LogisticRegression": (LogisticRegression(max_iter=1000), "labels", {}),
    "DecisionTreeRegressor": (DecisionTreeRegressor(max_depth=4, max_features=3), "regression", {}),
    "GradientBoostingRegressor": (GradientBoostingRegressor(n_estimators=4, subsample=0.5), "regression", {}),
    "RandomForestClassifier": (RandomForestClassifier(n_estimators=3), "words", {}),
    "KMeans": (KMeans(3, n_init=1), "rows", {"churn_price": 0.0}),
    "GaussianMixture": (GaussianMixture(2, reg_covar=1e-3), "rows", {"resample": True}),
    "PCA": (PCA(2), "rows", {}),
    "TruncatedSVD": (TruncatedSVD(2), "rows", {}),
    "pipeline": (make_pipeline(StandardScaler(), Ridge()), "regression", {}),
    "labels without probabilities": (LinearSVC(), "labels", {}),
    "function": (weighted_mean, "rows", {"loss": squared_from}),
    "function of targets": (weighted_least_squares, "regression", {"loss": squared_residual}),
}

every_case = pytest.mark.parametrize("name", CASES)


@cache
def data(kind):
    X, y = stream("gaussian", N, seed=2)
    rng = np.random.default_rng(3)
    side = X[:, 0] - X[:, 1] + rng.normal(size=N) > 0
    if kind == "rows":
        X[:, :2] += 4 * rng.integers(3, size=(N, 1))
    targets = {"rows": None, "regression": y, "labels": side.astype(int), "words": np.where(side, "yes", "no")}
    return X, targets[kind]


def new(name, **settings):
    estimator, _, own = CASES[name]
    return BatchToOnline(
        estimator, **{"coreset_size": SIZE, "refresh": Geometric(1.7), "random_state": 4, **own, **settings}
    )


def learn(model, name, chunk, rows=slice(None)):
    X, y = data(CASES[name][1])
    X, y = X[rows], None if y is None else y[rows]
    for start in range(0, len(X), chunk):
        piece = slice(start, start + chunk)
        model.partial_fit(X[piece], None if y is None else y[piece])
    return model


@cache
def learned(name):
    return learn(new(name), name, N)


def output(model, X):
    """All that the model says about rows, as one array."""
    for method in ("predict_proba", "score_samples", "predict", "transform"):
        if hasattr(model, method):
            return np.asarray(getattr(model, method)(X))
    return np.asarray(model.model_)


def assert_same(one, other, name):
    X, _ = data(CASES[name][1])
    np.testing.assert_array_equal(output(one, X), output(other, X))
    assert one.changes_ == other.changes_
    assert one.regret_ == other.regret_
    assert one.coreset_ == other.coreset_
