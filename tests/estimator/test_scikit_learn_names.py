"""Names and habits of scikit-learn: what is known by which name, and parameters in mid-stream."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import Ridge

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression
from batch2online.refresh import Geometric

X, Y = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(X))
X, Y = X[ORDER], Y[ORDER]


def every_estimator():
    yield OnlineRegression(random_state=0), X[:, 0]
    yield OnlineClassifier(alpha=0.1, random_state=0), Y
    yield OnlineLowRank(2, random_state=0), None
    yield OnlineClustering(3, random_state=0), None
    yield BatchToOnline(Ridge(), random_state=0), X[:, 0]


@pytest.mark.parametrize(("model", "y"), list(every_estimator()))
def test_rows_seen_are_known_by_both_names(model, y):
    assert model.partial_fit(X, y).n_samples_seen_ == model.n_seen_ == 150


@pytest.mark.parametrize("settings", [{}, {"history": "coreset", "coreset_size": 150}, {"z": 1.0}])
def test_inertia_is_the_cost_of_the_centers_on_all_rows(settings):
    model = OnlineClustering(3, random_state=0, **settings).fit(X)
    assert model.inertia_ == pytest.approx(-model.score(X), rel=0.05 if "history" in settings else 1e-9)
    assert model.labels_.tolist() == model.predict(X).tolist()
    assert model.n_iter_ == model.n_changes_ + 1
    assert model.score_samples(X).sum() == pytest.approx(model.score(X))
    part = OnlineClustering(3, random_state=0, **settings).partial_fit(X)
    assert part.inertia_ == pytest.approx(-part.score(X), rel=0.05 if "history" in settings else 1e-9)


def test_the_components_of_fit_are_those_of_pca_in_the_same_order():
    model, known = OnlineLowRank(3, center=True, random_state=0).fit(X), PCA(3).fit(X)
    np.testing.assert_allclose(model.explained_variance_ratio_, known.explained_variance_ratio_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(model.components_), np.abs(known.components_), atol=1e-9)
    turned = OnlineLowRank(3, center=True, basis="variance", refresh=Geometric(1.1), random_state=0).partial_fit(X)
    assert (np.diff(turned.explained_variance_ratio_) < 0).all()


def test_scores_of_rows_are_minus_their_squared_distances():
    model = OnlineLowRank(2, center=True, random_state=0).fit(X)
    distances = np.square(X - model.inverse_transform(model.transform(X))).sum(axis=1)
    np.testing.assert_allclose(model.score_samples(X), -distances, atol=1e-12)
    assert model.score(X) == pytest.approx(-distances.mean())


def test_iterations_of_a_classifier_are_its_models():
    model = OnlineClassifier(alpha=0.1, random_state=0).partial_fit(X, Y)
    assert model.n_iter_ == model.n_changes_ + 1


def test_labels_of_a_wrapped_clusterer_are_those_of_the_rows_that_were_fitted():
    model = BatchToOnline(KMeans(3, n_init=1), coreset_size=60, random_state=0).fit(X)
    assert model.labels_.tolist() == model.predict(X).tolist()
    with pytest.raises(AttributeError, match="labels_"):
        _ = BatchToOnline(KMeans(3, n_init=1), random_state=0).partial_fit(X).labels_


def test_scores_of_rows_come_from_the_model_inside():
    def loss(forest, rows):
        return -forest.score_samples(rows)

    model = BatchToOnline(IsolationForest(n_estimators=5), loss=loss, random_state=0).fit(X)
    assert model.score_samples(X).shape == (150,)


# -- parameters in mid-stream ----------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "y"), list(every_estimator()))
def test_parameters_in_mid_stream_wait_for_fit(model, y, tmp_path):
    model.partial_fit(X[:100], None if y is None else y[:100])
    before = model.coreset_
    model.set_params(epsilon=0.05)
    acts = {
        "partial_fit": lambda: model.partial_fit(X, y),
        "learn_one": lambda: model.learn_one(X[0], None if y is None else y[0]),
        "merge": lambda: model.merge(model),
        "forget": lambda: model.forget([0]),
        "save": lambda: model.save(tmp_path / "model"),
    }
    for act in acts.values():
        with pytest.raises(ValueError, match="epsilon was changed after rows were seen: call fit"):
            act()
    assert model.coreset_ == before
    assert model.fit(X, y).partial_fit(X, y).n_seen_ == 300
    assert model.get_params()["epsilon"] == 0.05


def test_parameters_that_are_set_back_are_as_before():
    model, other = (OnlineRegression(epsilon=0.1, random_state=0).partial_fit(X, X[:, 0]) for _ in range(2))
    model.set_params(epsilon=0.2).set_params(epsilon=0.3).set_params(epsilon=0.1)
    assert model.partial_fit(X, X[:, 0]).coreset_ == other.partial_fit(X, X[:, 0]).coreset_


def test_parameters_inside_a_wrapped_estimator_count_as_well():
    model = BatchToOnline(Ridge(), random_state=0).partial_fit(X, X[:, 0])
    predictions = model.predict(X)
    model.set_params(estimator__alpha=5.0)
    np.testing.assert_array_equal(model.predict(X), predictions)
    with pytest.raises(ValueError, match="estimator__alpha was changed"):
        model.partial_fit(X, X[:, 0])
    model.set_params(estimator__alpha=1.0).partial_fit(X, X[:, 0])


@pytest.mark.parametrize("row", [[1.0, 2.0], {"a": 1.0, "b": 2.0}], ids=["list", "mapping"])
def test_single_rows_are_refused_with_other_parameters_and_taken_when_they_are_set_back(row):
    model = OnlineRegression(random_state=0)
    for _ in range(3):
        model.learn_one(row, 1.0)
    model.set_params(alpha=3.0)
    with pytest.raises(ValueError, match="alpha was changed after rows were seen"):
        model.learn_one(row, 1.0)
    assert model.n_seen_ == 3
    assert model.set_params(alpha=0.0).learn_one(row, 1.0).n_seen_ == 4


def test_single_rows_as_lists_and_tuples_are_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    whole = OnlineRegression(random_state=0).partial_fit(X, y)
    for kind in (list, tuple, np.array):
        single = OnlineRegression(random_state=0)
        for x, target in zip(X.tolist(), y.tolist(), strict=True):
            single.learn_one(kind(x), target)
        np.testing.assert_array_equal(single.coef_, whole.coef_)
        for bad in ([1.0], [1.0, 2.0, float("nan")], ["a", 1.0, 2.0], {"a": 1.0, "b": 2.0, "c": 3.0}):
            with pytest.raises(ValueError, match=r"values|NaN|real numbers|no names"):
                single.learn_one(bad, 1.0)
        assert single.n_seen_ == 60
