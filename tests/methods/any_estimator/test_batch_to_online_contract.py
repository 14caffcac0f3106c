"""BatchToOnline as scikit-learn and its users meet it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier, is_clusterer, is_regressor
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Lasso, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from batch2online import BatchToOnline, Durable
from batch2online.refresh import Geometric
from streams import stream
from wrapped_cases import (
    CASES,
    SIZE,
    N,
    data,
    learn,
    learned,
    new,
    weighted_mean,
)

# -- labels ----------------------------------------------------------------------------------------------


def test_a_single_class_is_predicted_until_another_comes():
    X, _ = data("labels")
    y = np.array([7] * 100 + [9, 7] * 200)
    model = BatchToOnline(LogisticRegression(), random_state=0, refresh=Geometric(2.0, start=50)).partial_fit(
        X[:100], y[:100]
    )
    assert model.classes_.tolist() == [7]
    assert model.predict(X[:3]).tolist() == [7, 7, 7]
    model.partial_fit(X[100:500], y[100:500])
    assert model.classes_.tolist() == [7, 9]
    assert model.regret_.loss > 34


@pytest.mark.parametrize("labels", [[0, 1], [-3, 2**40], [True, False], ["a", "b"], [2.0, 3.0]])
def test_labels_come_back_as_they_were(labels):
    X, y = data("labels")
    given = np.array(labels)[y]
    model = BatchToOnline(LogisticRegression(), random_state=0).fit(X, given)
    assert sorted(model.classes_.tolist()) == sorted(labels)
    assert type(model.predict(X[:1])[0]) is type(given[0]) or given.dtype.kind == "U"
    assert (model.predict(X) == given).mean() > 0.8


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([0.0, np.nan] * 50), "NaN or infinity at row 1"),
        (np.zeros((100, 2)), r"shape \(n,\)"),
        (np.array(["a", 1] * 50, dtype=object), r"not supported between|all strings or all numbers"),
    ],
)
def test_bad_labels_are_refused(y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        BatchToOnline(LogisticRegression()).fit(data("labels")[0][:100], y)


def test_labels_of_another_kind_are_refused_and_leave_no_trace():
    X, y = data("labels")
    model = BatchToOnline(LogisticRegression(), random_state=0).partial_fit(X[:500], y[:500])
    with pytest.raises(ValueError, match="all strings or all numbers"):
        model.partial_fit(X[500:600], np.where(y[500:600], "yes", "no"))
    assert model.partial_fit(X[500:], y[500:]).n_seen_ == N


# -- scikit-learn ----------------------------------------------------------------------------------------


def test_kinds_are_those_of_the_wrapped():
    assert is_regressor(BatchToOnline(Ridge()))
    assert is_classifier(BatchToOnline(LogisticRegression()))
    assert is_clusterer(BatchToOnline(KMeans(2)))
    assert not is_regressor(BatchToOnline(weighted_mean))


def test_labels_are_one_list_whatever_the_wrapped_takes():
    tags = get_tags(BatchToOnline(RidgeClassifier()))
    assert get_tags(RidgeClassifier()).classifier_tags.multi_label
    assert not tags.classifier_tags.multi_label
    assert not tags.target_tags.multi_output


def test_methods_and_attributes_are_those_of_the_wrapped():
    model = BatchToOnline(Ridge(), random_state=0)
    assert hasattr(model, "predict")
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "coef_")
    assert not hasattr(BatchToOnline(weighted_mean), "predict")
    with pytest.raises(NotFittedError, match="seen no rows"):
        model.predict([[1.0]])
    X, y = data("regression")
    with pytest.raises(NotFittedError, match="no model before the first refresh, at 20 rows: 5 seen"):
        model.partial_fit(X[:5], y[:5]).predict(X[:5])
    model.partial_fit(X[5:], y[5:])
    assert model.coef_.shape == (5,)
    assert model.score(X, y) > 0.8
    assert model.score(X, y, sample_weight=np.ones(N)) == model.score(X, y)
    assert model.predict_one(X[0]) == pytest.approx(model.predict(X[:1])[0])
    with pytest.raises(AttributeError, match="no attribute 'classes_'"):
        _ = model.classes_


def test_transformers_transform_back():
    X, _ = data("rows")
    model = learned("PCA")
    np.testing.assert_array_equal(model.transform(X), model.model_.transform(X))
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(X)), model.model_.inverse_transform(model.transform(X))
    )
    logistic = learned("LogisticRegression")
    X, _ = data("labels")
    np.testing.assert_array_equal(logistic.decision_function(X), logistic.model_.decision_function(X))
    np.testing.assert_allclose(np.exp(logistic.predict_log_proba(X)), logistic.predict_proba(X))


def test_transformers_give_data_frames_when_asked():
    X, _ = data("rows")
    frame = pd.DataFrame(X, columns=list("abcde"), index=np.arange(N) + 7)
    model = clone(learned("PCA")).set_output(transform="pandas").partial_fit(frame)
    transformed = model.transform(frame)
    assert transformed.columns.tolist() == model.get_feature_names_out().tolist() == ["pca0", "pca1"]
    assert transformed.index.tolist() == frame.index.tolist()
    np.testing.assert_array_equal(transformed.to_numpy(), learned("PCA").transform(X))
    assert isinstance(model.set_output(transform="default").transform(frame), np.ndarray)
    assert not hasattr(BatchToOnline(Ridge()), "set_output")


def test_data_frames_and_names():
    X, y = data("regression")
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = new("Ridge").partial_fit(frame, y)
    np.testing.assert_array_equal(model.predict(frame), learned("Ridge").predict(X))
    assert model.predict_one(dict(zip("abcde", X[0], strict=True))) == pytest.approx(model.predict(frame[:1])[0])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("edcba")])


def test_a_wrapped_estimator_takes_several_targets():
    X, y = stream("multi_output", 400)
    model = BatchToOnline(Ridge(), random_state=0).partial_fit(X, y)
    assert model.predict(X).shape == (400, 2)
    assert model.regret_.ratio < 3


def test_grid_search_reaches_the_wrapped_estimator():
    X, y = data("regression")
    search = GridSearchCV(BatchToOnline(Ridge(), random_state=0), {"estimator__alpha": [0.1, 1e6]}, cv=3).fit(X, y)
    assert search.best_params_ == {"estimator__alpha": 0.1}
    assert search.best_estimator_.model_.alpha == 0.1


def test_a_pipeline_around_it_scales_first():
    X, y = data("regression")
    pipeline = make_pipeline(StandardScaler(), BatchToOnline(Ridge(), random_state=0)).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    alone = BatchToOnline(Ridge(), random_state=0).fit(scaled, y)
    np.testing.assert_array_equal(pipeline.predict(X), alone.predict(scaled))


@pytest.mark.parametrize("name", ["Ridge", "KMeans"])
def test_a_durable_one_reopens_where_it_was(name, tmp_path):
    X, y = data(CASES[name][1])
    with Durable(tmp_path / "folder", new(name)) as durable:
        for start in range(0, N, 200):
            durable.partial_fit(X[start : start + 200], None if y is None else y[start : start + 200])
    with Durable(tmp_path / "folder", new(name)) as again:
        predicted = again.model.predict(X)
        np.testing.assert_array_equal(predicted, learned(name).predict(X))
        assert predicted.dtype == learned(name).predict(X).dtype
    with pytest.raises(ValueError, match="holds an estimator with estimator="):
        Durable(tmp_path / "folder", new(name).set_params(estimator=Lasso()))


def test_only_shards_of_the_same_settings_merge():
    left = learn(new("Ridge"), "Ridge", N, slice(0, 100))
    right = clone(new("Ridge", first_id=100)).set_params(estimator__alpha=2)
    right.partial_fit(*(part[100:200] for part in data("regression")))
    with pytest.raises(ValueError, match="same estimator"):
        left.merge(right)


class Counting(BaseEstimator):
    """Has an estimator inside and passes what it is given on to it, as searches do."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y, **params):
        self.inside_ = clone(self.estimator).fit(X, y, **params)
        return self

    def predict(self, X):
        return self.inside_.predict(X)


def test_weights_reach_an_estimator_inside():
    X, y = data("regression")
    model = BatchToOnline(Counting(Ridge()), loss="squared", coreset_size=SIZE, random_state=4).fit(X, y)
    assert model.predict(X[:2]).shape == (2,)
    with pytest.raises(TypeError, match=r"Counting\.fit takes no sample_weight"):
        BatchToOnline(Counting(KNeighborsRegressor()), loss="squared").fit(X, y)
