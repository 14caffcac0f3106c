"""Wrapped clusterers: clusters keep their numbers, and labels change only for a gain."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.cluster import Birch, KMeans, MiniBatchKMeans
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from batch2online import BatchToOnline
from batch2online.methods.any_estimator.clusters import churn
from batch2online.refresh import Every, Geometric

ESTIMATORS = {
    "KMeans": KMeans(6, n_init=1),
    "MiniBatchKMeans": MiniBatchKMeans(6, n_init=1),
    "pipeline": make_pipeline(StandardScaler(), KMeans(6, n_init=1)),
}


@cache
def clouds():
    rng = np.random.default_rng(0)
    return 10 * rng.normal(size=(6, 3))[rng.integers(6, size=1_200)] + 0.3 * rng.normal(size=(1_200, 3))


def learned(estimator, X, chunk=1_200, **settings):
    model = BatchToOnline(estimator, random_state=0, **{"refresh": Geometric(1.3), **settings})
    for start in range(0, len(X), chunk):
        model.partial_fit(X[start : start + chunk])
    return model


@pytest.mark.parametrize("name", ESTIMATORS)
def test_clusters_keep_their_numbers(name):
    """Clusters are far from each other, so that after the first refits every row has its cluster for good."""
    X = clouds()
    model = BatchToOnline(KMeans(6, n_init=10), random_state=0, churn_price=0.0, refresh=Every(100))
    if name != "KMeans":
        model.set_params(estimator=ESTIMATORS[name].set_params(**{_starts(name): 10}))
    labels = [model.partial_fit(X[start : start + 100]).predict(X) for start in range(0, 1_200, 100)]
    assert model.n_changes_ == 11
    assert all(np.array_equal(labels[0], each) for each in labels[1:])
    assert np.array_equal(model.transform(X).argmin(axis=1), labels[0])
    assert all(event.churn == 0 for event in model.changes_)


def _starts(name):
    return "n_init" if name == "MiniBatchKMeans" else "kmeans__n_init"


def test_labels_change_only_for_a_gain_that_is_worth_it():
    X = np.random.default_rng(0).normal(size=(1_200, 3))  # no clusters: many solutions are about as good
    free, priced, never = (learned(KMeans(6, n_init=1), X, churn_price=price) for price in (0.0, 0.05, 10.0))
    assert free.n_changes_ > priced.n_changes_ > never.n_changes_
    assert all(event.at < 150 for event in never.changes_)  # while there are too few rows to tell
    assert sum(event.churn for event in priced.changes_) < sum(event.churn for event in free.changes_) / 2


def test_the_price_of_clusterers_is_that_of_our_own():
    X = np.random.default_rng(0).normal(size=(1_200, 3))
    usual, priced = learned(KMeans(6, n_init=1), X), learned(KMeans(6, n_init=1), X, churn_price=0.05)
    assert usual.changes_ == priced.changes_
    assert usual.n_changes_


@pytest.mark.parametrize("name", ESTIMATORS)
def test_numbers_of_clusters_do_not_depend_on_chunks_and_survive_a_file(name, tmp_path):
    X = clouds()
    whole = learned(ESTIMATORS[name], X[:900], churn_price=0.0)
    pieces = learned(ESTIMATORS[name], X[:900], chunk=77, churn_price=0.0)
    assert np.array_equal(whole.predict(X), pieces.predict(X))
    assert whole.changes_ == pieces.changes_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of some estimators the file holds rows alone
        whole.save(tmp_path / "model.b2o")
    again = BatchToOnline.restore(tmp_path / "model.b2o", estimator=ESTIMATORS[name])
    assert np.array_equal(again.predict(X), whole.predict(X))
    for model in (again, whole):
        model.partial_fit(X[900:])
    assert np.array_equal(again.predict(X), whole.predict(X))


class OwnScaler(StandardScaler):
    """A class that no file may name, so that a model with it is fitted again."""


def test_a_model_that_is_fitted_again_from_a_file_has_the_numbers_of_its_clusters(tmp_path):
    X = clouds()
    model = learned(make_pipeline(OwnScaler(), KMeans(6, n_init=1)), X, churn_price=0.0)
    assert not np.array_equal(model.stream.current.model.order, np.arange(6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(tmp_path / "model.b2o")
    again = BatchToOnline.restore(tmp_path / "model.b2o", estimator=make_pipeline(OwnScaler(), KMeans(6, n_init=1)))
    assert np.array_equal(again.predict(X), model.predict(X))


def test_other_clusterers_have_a_price_as_well():
    def from_mean(model, points):
        return np.square(points - points.mean(axis=0)).sum(axis=1)

    X = np.random.default_rng(0).normal(size=(400, 2))
    settings = {"resample": True, "loss": from_mean}
    free, never = (learned(Birch(n_clusters=5), X, churn_price=price, **settings) for price in (0.0, 10.0))
    assert free.n_changes_ > never.n_changes_
    assert all(event.at < 150 for event in never.changes_)


@pytest.mark.parametrize("price", [-0.1, np.inf, np.nan, True])
def test_a_price_that_is_none_is_refused(price):
    with pytest.raises(ValueError, match="churn_price must be a finite number that is not negative"):
        learned(KMeans(2), clouds(), churn_price=price)


def test_a_price_is_for_clusterers():
    with pytest.raises(ValueError, match="churn_price is for clusterers, and this is a regressor"):
        BatchToOnline(Ridge(), churn_price=0.1).partial_fit(clouds(), clouds()[:, 0])


def test_churn_is_the_share_of_weight_whose_cluster_changes():
    assert churn(np.array([0, 0, 1, -1]), np.array([5, 5, 0, 0]), np.array([1.0, 1.0, 1.0, 2.0])) == pytest.approx(0.2)
    assert churn(np.array([0, 1]), np.array([1, 0]), np.ones(2)) == 0
