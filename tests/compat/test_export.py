"""What other tools make of our models is what our models say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from batch2online import BatchToOnline, OnlineClustering, OnlineLowRank, OnlineRegression, export, load

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3)) @ np.diag([1.0, 2.0, 0.5]) + [1.0, 0.0, -3.0]
Y = X @ [1.0, -2.0, 0.5] + rng.normal(size=400)

CASES = {
    "regression": (OnlineRegression(random_state=0), Y, "predict"),
    "no intercept": (OnlineRegression(random_state=0, fit_intercept=False), Y, "predict"),
    "two targets": (OnlineRegression(random_state=0), np.column_stack([Y, -Y + X[:, 0]]), "predict"),
    "clustering": (OnlineClustering(3, random_state=0), None, "predict"),
    "medians": (OnlineClustering(3, z=1.0, random_state=0), None, "predict"),
    "low rank": (OnlineLowRank(2, random_state=0), None, "transform"),
    "pca": (OnlineLowRank(2, center=True, random_state=0), None, "transform"),
    "ridge": (BatchToOnline(Ridge(), random_state=0), Y, "predict"),
    "logistic": (BatchToOnline(LogisticRegression(), random_state=0), np.where(Y > 0, "up", "down"), "predict"),
    "trees": (BatchToOnline(GradientBoostingRegressor(n_estimators=5), random_state=0), Y, "predict"),
}
every_case = pytest.mark.parametrize("name", CASES)


def learned(name):
    model, y, method = CASES[name]
    model = clone(model).partial_fit(X, y)
    return model, getattr(model, method)


def agree(found, expected):
    if np.asarray(expected).dtype.kind in "US":
        assert np.ravel(found).tolist() == np.ravel(expected).tolist()
    else:
        np.testing.assert_allclose(np.reshape(found, np.shape(expected)), expected, rtol=1e-6, atol=1e-6)


@every_case
def test_a_scikit_learn_estimator_predicts_the_same(name):
    model, output = learned(name)
    agree(getattr(export.scikit_learn(model), CASES[name][2])(X), output(X))


@every_case
def test_onnxruntime_predicts_the_same(name):
    pytest.importorskip("skl2onnx", reason="needs the extra onnx")
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    model, output = learned(name)
    dtype = np.float32 if name == "trees" else np.float64  # trees of ONNX are of single precision
    graph = export.onnx(model, dtype=dtype).SerializeToString()
    session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    agree(session.run(None, {"X": X.astype(dtype)})[0], output(X.astype(dtype)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["pca", "logistic"])
def test_mlflow_serves_the_same_and_the_checkpoint_goes_on(name, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
    model, output = learned(name)
    export.mlflow(model, tmp_path / "served")
    agree(mlflow.pyfunc.load_model(str(tmp_path / "served")).predict(X), output(X))
    again = load(next((tmp_path / "served").rglob("*.b2o")))
    assert again.n_seen_ == 400


def test_names_of_columns_come_along():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = OnlineRegression(random_state=0).fit(frame, Y)
    assert export.scikit_learn(model).feature_names_in_.tolist() == ["a", "b", "c"]


def test_what_has_no_counterpart_is_refused():
    with pytest.raises(TypeError, match="no scikit-learn estimator"):
        export.scikit_learn(object())


def test_unknown_forms_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'pmml'"):
        _ = export.pmml
