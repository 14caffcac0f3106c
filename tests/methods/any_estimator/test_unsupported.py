"""Estimators that do not fit a stream are refused with a sentence; threads of those that do are limited."""

from __future__ import annotations

import os

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.cluster import DBSCAN, AgglomerativeClustering, Birch
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_info

from batch2online import BatchToOnline
from batch2online.numerics import threads

X = np.random.default_rng(0).normal(size=(100, 3))


class Ranker(BaseEstimator):
    def fit(self, X, y, group=None):
        return self

    def predict(self, X):
        return X[:, 0]


@pytest.mark.parametrize(
    ("estimator", "targets", "message"),
    [
        (
            Ranker(),
            X[:, 0],
            r"Ranker ranks rows within groups, fit\(X, y, group=...\), and a stream of rows has no groups",
        ),
        (DBSCAN(), None, "DBSCAN has no predict or transform: it describes the rows that it is fitted to"),
        (AgglomerativeClustering(2), None, "AgglomerativeClustering has no predict"),
        (TSNE(), None, "TSNE has no predict"),
        (Birch(n_clusters=2), None, "Birch has neither cluster_centers_ nor means_"),
    ],
)
def test_estimators_that_do_not_fit_a_stream_are_refused_with_advice(estimator, targets, message):
    model = BatchToOnline(estimator, resample=True, random_state=0)
    with pytest.raises(TypeError, match=message):
        model.partial_fit(X, targets)
    assert not model.__sklearn_is_fitted__()


class Counting(RegressorMixin, BaseEstimator):
    """Store how many threads OpenMP had."""

    def __init__(self, n_jobs=None):
        self.n_jobs = n_jobs

    def fit(self, X, y, sample_weight=None):
        self.threads_ = [info["num_threads"] for info in threadpool_info() if info["user_api"] == "openmp"]
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_openmp_has_one_thread_unless_a_variable_says_otherwise(monkeypatch):
    for name in threads._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    threads._is_set.cache_clear()
    try:
        before = [info["num_threads"] for info in threadpool_info() if info["user_api"] == "openmp"]
        model = BatchToOnline(Counting(), random_state=0).partial_fit(X, X[:, 0])
        assert model.threads_ == [1] * len(before) != []
        assert [info["num_threads"] for info in threadpool_info() if info["user_api"] == "openmp"] == before
        assert model.model_.n_jobs == 1
        assert BatchToOnline(Counting(os.cpu_count()), random_state=0).fit(X, X[:, 0]).model_.n_jobs == os.cpu_count()
    finally:
        threads._is_set.cache_clear()
