"""Export the current model of an estimator to other tools; an exported model cannot learn further rows."""

from __future__ import annotations

from functools import singledispatch
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
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

__all__ = ["mlflow", "onnx", "scikit_learn"]


@singledispatch
def scikit_learn(model: Any) -> BaseEstimator:
    """Return a fitted scikit-learn estimator with the same predictions.

    A regression becomes a :class:`~sklearn.linear_model.LinearRegression`, a clustering a
    :class:`~sklearn.cluster.KMeans`, a low-rank approximation a :class:`~sklearn.decomposition.PCA` (centered) or a
    :class:`~sklearn.decomposition.TruncatedSVD`; ``BatchToOnline`` returns its current fitted estimator.

    >>> from batch2online import OnlineRegression
    >>> X, y = np.eye(4), np.array([1.0, 2.0, 3.0, 4.0])
    >>> scikit_learn(OnlineRegression().fit(X, y)).predict(X).round(6).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    raise TypeError(f"There is no scikit-learn estimator equivalent to {type(model).__name__}.")


def _fitted(model: Any, estimator: Any, **attributes: Any) -> BaseEstimator:
    """Set fitted attributes of an estimator, with the feature names of the model."""
    names = model.feature_names()
    if names is not None:
        attributes["feature_names_in_"] = np.asarray(names, dtype=object)
    vars(estimator).update(n_features_in_=model.stream.view().width, **attributes)
    return estimator


@scikit_learn.register
def _of_regression(model: OnlineRegression) -> BaseEstimator:
    estimator = LinearRegression(fit_intercept=model.fit_intercept)
    return _fitted(model, estimator, coef_=np.array(model.coef_), intercept_=np.copy(model.intercept_)[()])


@scikit_learn.register
def _of_clustering(model: OnlineClustering) -> BaseEstimator:
    centers = np.array(model.cluster_centers_)
    estimator = KMeans(len(centers), n_init=1)
    return _fitted(model, estimator, cluster_centers_=centers, _n_threads=1, _n_features_out=len(centers), n_iter_=0)


@scikit_learn.register
def _of_low_rank(model: OnlineLowRank) -> BaseEstimator:
    components = np.array(model.components_)
    if not model.center:
        return _fitted(model, TruncatedSVD(len(components)), components_=components)
    return _fitted(
        model,
        PCA(len(components)),
        components_=components,
        mean_=np.array(model.mean_),
        explained_variance_=np.array(model.explained_variance_),
        explained_variance_ratio_=np.array(model.explained_variance_ratio_),
        n_components_=len(components),
        noise_variance_=0.0,
    )


@scikit_learn.register
def _of_any(model: BatchToOnline) -> BaseEstimator:
    return model.model_


_OPSET = 17
"""Supported by onnxruntime since 1.12."""


def onnx(model: Any, *, dtype: Any = np.float64) -> Any:
    """Return the current model as an ONNX graph, by skl2onnx. Needs the extra ``onnx``.

    Parameters
    ----------
    model : estimator
        A fitted estimator that :func:`scikit_learn` supports.
    dtype : float64 or float32
        Type of the input of the graph, which is called ``X``.

    Returns
    -------
    onnx.ModelProto
        ``SerializeToString()`` returns the bytes of a file. Classifiers output labels, then probabilities.
    """
    import skl2onnx

    fitted = scikit_learn(model)
    options = {id(fitted): {"zipmap": False}} if hasattr(fitted, "predict_proba") else None
    example = np.zeros((1, model.stream.view().width), dtype=dtype)
    return skl2onnx.to_onnx(fitted, example, options=options, target_opset=_OPSET)


_SERVED = '''"""Serve a checkpoint of batch2online."""

from mlflow import models, pyfunc

import batch2online


class Served(pyfunc.PythonModel):
    def load_context(self, context):
        settings = context.model_config
        path, trusted, refit = context.artifacts["checkpoint"], settings.get("trusted"), settings.get("refit", False)
        self.model = batch2online.load(path, trusted=trusted, refit=refit)

    def predict(self, context, model_input, params=None):
        act = self.model.predict if hasattr(self.model, "predict") else self.model.transform
        return act(model_input)


models.set_model(Served())
'''
"""Code that MLflow copies into the folder of the model and runs to serve it: nothing is pickled."""


def mlflow(model: Any, path: str | Path, *, trusted: Any = None, refit: bool = False, **settings: Any) -> None:
    """Write an estimator as an MLflow model for ``mlflow.pyfunc.load_model``. Needs the extra ``mlflow``.

    Parameters
    ----------
    model : estimator
        Any estimator of this package. It is stored as a checkpoint, which ``batch2online.load`` can continue.
    path : path
        A folder that does not exist yet.
    trusted : None, True or list of str
        Types that :func:`batch2online.load` may construct when the model is loaded.
    refit : bool
        Whether it may refit the estimator then.
    **settings
        Further parameters of ``mlflow.pyfunc.save_model``.
    """
    from mlflow import pyfunc

    with TemporaryDirectory() as folder:
        checkpoint, code = Path(folder) / "model.b2o", Path(folder) / "served.py"
        model.save(checkpoint)
        code.write_text(_SERVED, encoding="utf-8")
        pyfunc.save_model(
            str(path),
            python_model=str(code),
            artifacts={"checkpoint": str(checkpoint)},
            model_config={"trusted": trusted, "refit": refit},
            **{"pip_requirements": ["batch2online", *_installed()], **settings},
        )


def _installed() -> list[str]:
    """Return the dependencies that predictions rest on, with the versions installed."""
    return [f"{name}=={version(name)}" for name in ("numpy", "scipy", "scikit-learn")]
