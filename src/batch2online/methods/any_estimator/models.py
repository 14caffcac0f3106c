"""What estimators offer, and what the size of a fitted model is."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from sklearn.pipeline import Pipeline

from batch2online._types import FloatArray

InputRows = Any
"""Rows as an estimator is given them: an array, a table, a list of strings."""


class Model(Protocol):
    """A fitted estimator. Which of these it has depends on its kind."""

    n_features_in_: int
    feature_names_in_: np.ndarray[Any, Any]
    classes_: np.ndarray[Any, Any]
    cluster_centers_: FloatArray
    means_: FloatArray
    steps: list[tuple[str, Model]]

    def predict(self, X: InputRows) -> np.ndarray[Any, Any]: ...
    def predict_proba(self, X: InputRows) -> FloatArray: ...
    def transform(self, X: InputRows) -> InputRows: ...
    def inverse_transform(self, X: InputRows) -> InputRows: ...
    def score_samples(self, X: InputRows) -> FloatArray: ...


class Estimator(Model, Protocol):
    """What is wrapped: an estimator, or a function of weighted rows and targets that returns a model."""

    def fit(self, X: InputRows, *targets: InputRows, **weights: FloatArray) -> Model: ...
    def get_params(self, deep: bool = True) -> dict[str, object]: ...
    def set_params(self, **params: object) -> Estimator: ...
    def __call__(self, points: InputRows, weights: FloatArray, *targets: InputRows) -> Model: ...


def final_step(model: Any) -> Any:
    """Return the last step of a pipeline; the model itself otherwise."""
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def n_coefficients(model: Model) -> int | None:
    """Return the number of coefficients and the intercept of one output of a linear model; None for other models."""
    shape = np.shape(getattr(final_step(model), "coef_", ()))
    return shape[-1] + 1 if shape and shape[-1] else None


def _parts_of(model: Model) -> FloatArray | None:
    """Return the clusters of a model, or the components of a mixture or decomposition; None for other models."""
    names = ("cluster_centers_", "means_", "components_")
    return next((getattr(model, name) for name in names if hasattr(model, name)), None)


def n_parameters(model: Model) -> int | None:
    """Return the parameters of one output of a linear model, or of the centers or components of a model, if known."""
    parts = _parts_of(final_step(model))
    return n_coefficients(model) or (None if parts is None else int(np.size(parts)))


def degrees_of(model: Model) -> float | None:
    """Return the degrees of freedom of a fitted scikit-learn model; None if they are not known.

    Coefficients and the intercept of one output; clusters, components of a mixture or of a decomposition; leaves of a
    tree, on average over those of a forest.

    >>> from sklearn.linear_model import LinearRegression
    >>> degrees_of(LinearRegression().fit(np.eye(3), [1.0, 2.0, 3.0]))
    4.0
    """
    final = final_step(model)
    parts = _parts_of(final)
    if (size := n_coefficients(model) or (None if parts is None else len(parts))) is not None:
        return float(size)
    trees = [final] if hasattr(final, "tree_") else np.ravel(getattr(final, "estimators_", []))
    leaves = [tree.tree_.n_leaves for tree in trees if hasattr(getattr(tree, "tree_", None), "n_leaves")]
    return float(np.mean(leaves)) if leaves else None  # the tree of neighbours of a density has none
