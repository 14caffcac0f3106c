"""The model in force as an ordinary fitted estimator of scikit-learn."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LinearRegression

from batch2online.methods.any_estimator.estimator import BatchToOnline
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.methods.least_squares.estimator import OnlineRegression
from batch2online.methods.low_rank.estimator import OnlineLowRank


@singledispatch
def scikit_learn(model: Any) -> BaseEstimator:
    """Return a fitted scikit-learn estimator with the same predictions.

    A regression becomes a :class:`~sklearn.linear_model.LinearRegression`, a clustering a
    :class:`~sklearn.cluster.KMeans`, a low-rank approximation a :class:`~sklearn.decomposition.PCA` (centred) or a
    :class:`~sklearn.decomposition.TruncatedSVD`; ``BatchToOnline`` gives the estimator that it has fitted last.

    >>> from batch2online import OnlineRegression
    >>> X, y = np.eye(4), np.array([1.0, 2.0, 3.0, 4.0])
    >>> scikit_learn(OnlineRegression().fit(X, y)).predict(X).round(6).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    raise TypeError(f"There is no scikit-learn estimator that stands for a {type(model).__name__}.")


def _named(model: Any, fitted: Any, **attributes: Any) -> BaseEstimator:
    """Return the estimator with what was learned, and with the names of the columns."""
    if hasattr(model, "feature_names_in_"):
        attributes["feature_names_in_"] = model.feature_names_in_
    vars(fitted).update(n_features_in_=model.n_features_in_, **attributes)
    return fitted


@scikit_learn.register
def _of_regression(model: OnlineRegression) -> BaseEstimator:
    fitted = LinearRegression(fit_intercept=model.fit_intercept)
    return _named(model, fitted, coef_=np.array(model.coef_), intercept_=np.copy(model.intercept_)[()])


@scikit_learn.register
def _of_clustering(model: OnlineClustering) -> BaseEstimator:
    centers = np.array(model.cluster_centers_)
    fitted = KMeans(len(centers), n_init=1)
    return _named(model, fitted, cluster_centers_=centers, _n_threads=1, _n_features_out=len(centers), n_iter_=0)


@scikit_learn.register
def _of_low_rank(model: OnlineLowRank) -> BaseEstimator:
    components = np.array(model.components_)
    if not model.center:
        return _named(model, TruncatedSVD(len(components)), components_=components)
    spread = np.array(model.explained_variance_)
    return _named(
        model,
        PCA(len(components)),
        components_=components,
        mean_=np.array(model.mean_),
        explained_variance_=spread,
        explained_variance_ratio_=np.array(model.explained_variance_ratio_),
        n_components_=len(components),
        noise_variance_=0.0,
    )


@scikit_learn.register
def _of_any(model: BatchToOnline) -> BaseEstimator:
    return model.model_
