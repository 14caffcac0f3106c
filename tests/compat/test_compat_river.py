"""Our estimators as models of River pass River's own checks, and learn what they learn alone."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

river = pytest.importorskip("river", reason="needs the extra river")

from river import base, checks, datasets, evaluate, metrics, preprocessing  # noqa: E402

from batch2online import BatchToOnline, OnlineClustering, OnlineLowRank, OnlineRegression  # noqa: E402
from batch2online.compat.river import Classifier, Clusterer, Regressor, Transformer  # noqa: E402

MODELS = [
    kind(**params) for kind in (Regressor, Classifier, Clusterer, Transformer) for params in kind._unit_test_params()
]
CASES = [
    pytest.param(model, check, id=f"{type(model).__name__}-{check.__name__}")
    for model in MODELS
    for check in checks.yield_checks(model)
]


@pytest.mark.parametrize(("model", "check"), CASES)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.covering(axes=lambda model, check: (type(model), check.__name__))
def test_rivers_own_checks(model, check):
    check(copy.deepcopy(model))


def stream(n, names="abc", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(names)))
    y = X @ np.arange(1.0, len(names) + 1) + rng.normal(size=n)
    return [dict(zip(names, row.tolist(), strict=True)) for row in X], y.tolist(), X


def test_the_adapter_learns_what_the_estimator_learns():
    rows, y, X = stream(300)
    adapter = Regressor(OnlineRegression(random_state=3))
    for x, target in zip(rows, y, strict=True):
        adapter.learn_one(x, target)
    alone = OnlineRegression(random_state=3).partial_fit(X, np.array(y))
    np.testing.assert_array_equal(adapter.learner.coef_, alone.coef_)
    assert adapter.predict_one(rows[0]) == pytest.approx(alone.predict(X[:1])[0], rel=1e-12)


@pytest.mark.parametrize("keep_history", [True, False])
def test_a_feature_that_comes_later_is_zero_before(keep_history):
    rows, y, X = stream(200)
    late = Regressor(OnlineRegression(random_state=0, keep_history=keep_history))
    for number, (x, target) in enumerate(zip(rows, y, strict=True)):
        late.learn_one({k: v for k, v in x.items() if k != "c" or number >= 50}, target)
    X = X.copy()
    X[:50, 2] = 0.0
    expected = OnlineRegression(random_state=0, keep_history=True).partial_fit(X, np.array(y))
    tolerance = 1e-9 if keep_history else 0.2  # the coreset stands for the first 50 rows
    np.testing.assert_allclose(late.learner.coef_, expected.coef_, rtol=tolerance)


def test_features_may_go():
    rows, y, X = stream(60)
    model = Regressor(OnlineRegression(random_state=0))
    for x, target in zip(rows, y, strict=True):
        model.learn_one(x, target)
    assert model.predict_one({"a": rows[0]["a"]}) == pytest.approx(model.learner.predict([[X[0, 0], 0, 0]])[0])


def test_a_classifier_knows_a_label_that_the_model_does_not():
    rows, _, _ = stream(120)
    model = Classifier(BatchToOnline(LogisticRegression(), random_state=0))
    assert model.predict_proba_one(rows[0]) == {}
    for number, x in enumerate(rows):
        model.learn_one(x, "up" if x["a"] > 0 else "down")
        if number < 1:
            assert list(model.predict_proba_one(x).values()) == [1.0]
    model.learn_one(rows[0], "sideways")
    assert set(model.predict_proba_one(rows[0])) == {"up", "down", "sideways"}
    assert model.predict_one({"a": 5.0, "b": 0.0, "c": 0.0}) == "up"


def test_pipelines_and_progressive_validation():
    model = preprocessing.StandardScaler() | Regressor(OnlineRegression(random_state=0))
    assert isinstance(model["Regressor"], base.Regressor)
    assert evaluate.progressive_val_score(datasets.TrumpApproval().take(400), model, metrics.MAE()).get() < 4


def test_clusters_and_coordinates():
    rows, _, X = stream(200)
    clusters, coordinates = (
        Clusterer(OnlineClustering(3, random_state=0)),
        Transformer(OnlineLowRank(2, random_state=0)),
    )
    assert (clusters.predict_one(rows[0]), coordinates.transform_one(rows[0])) == (0, {})
    for x in rows:
        clusters.learn_one(x)
        coordinates.learn_one(x)
    alone = OnlineClustering(3, random_state=0).partial_fit(X)
    assert [clusters.predict_one(x) for x in rows] == alone.predict(X).tolist()
    assert set(coordinates.transform_one(rows[0])) == {0, 1}


def test_a_model_of_another_library_is_refused():
    with pytest.raises(TypeError, match="an estimator of batch2online"):
        Regressor(LogisticRegression())
