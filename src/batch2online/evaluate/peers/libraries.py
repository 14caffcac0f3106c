"""Learners of scikit-learn and River: classifiers with ``predict_proba``, subspaces through zero."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

import numpy as np
import sklearn
from scipy.special import softmax
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import IncrementalPCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, SGDRegressor

from batch2online._types import FloatArray


class LogisticOrConstant(LogisticRegression):  # type: ignore[misc]
    """Logistic regression that also accepts rows of a single class, which it predicts with probability 1."""

    def __init__(self, max_iter: int = 1000) -> None:
        super().__init__(max_iter=max_iter)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self.classes_ = np.unique(y)
        return self if len(self.classes_) == 1 else super().fit(X, y, sample_weight)

    def predict_proba(self, X: FloatArray) -> FloatArray:
        return np.ones((len(X), 1)) if len(self.classes_) == 1 else np.asarray(super().predict_proba(X))


class WithClasses(BaseEstimator):  # type: ignore[misc]
    """A classifier of scikit-learn that wants to know all classes beforehand.

    Margins are taken for logits where it gives no probabilities.
    """

    def __init__(self, model: Any, n_classes: int = 2) -> None:
        self.model = model
        self.n_classes = n_classes

    def partial_fit(self, X: FloatArray, y: FloatArray) -> Self:
        if "model_" not in vars(self):
            self.classes_, self.model_ = np.arange(float(self.n_classes)), clone(self.model)
        self.model_.partial_fit(X, y, classes=self.classes_)
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        if "model_" not in vars(self):
            raise NotFittedError("This WithClasses has seen no rows.")
        if hasattr(self.model_, "predict_proba"):
            return np.asarray(self.model_.predict_proba(X))
        margins = self.model_.decision_function(X)
        both = np.column_stack([-margins / 2, margins / 2]) if margins.ndim == 1 else margins
        return np.asarray(softmax(both, axis=1))


class RiverLogistic(BaseEstimator):  # type: ignore[misc]
    """River's ``LogisticRegression``, one for each class where there are more than two."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes

    def partial_fit(self, X: FloatArray, y: FloatArray) -> Self:
        if "model_" not in vars(self):
            self.classes_ = np.arange(float(self.n_classes))
            binary = import_module("river.linear_model").LogisticRegression()
            several = import_module("river.multiclass").OneVsRestClassifier
            self.model_ = binary if self.n_classes <= 2 else several(binary)
        for row, label in zip(X.tolist(), np.asarray(y).tolist(), strict=True):
            self.model_.learn_one(dict(enumerate(row)), label)
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        if "model_" not in vars(self):
            raise NotFittedError("This RiverLogistic has seen no rows.")
        found = [self.model_.predict_proba_one(dict(enumerate(row))) for row in X.tolist()]
        return np.array([[each.get(label, 0.0) for label in self.classes_.tolist()] for each in found])


class Uncentred(BaseEstimator):  # type: ignore[misc]
    """IncrementalPCA of the rows and their negatives, whose mean is zero: a subspace through zero, twice the work."""

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    def partial_fit(self, X: FloatArray, y: FloatArray | None = None) -> Self:
        self.pca_ = getattr(self, "pca_", None) or IncrementalPCA(self.n_components)
        self.components_ = self.pca_.partial_fit(np.concatenate([X, -X])).components_
        return self


def passive_aggressive_regressor() -> Any:
    """Return the Passive-Aggressive regressor of Crammer et al. (2006), PA-I, as scikit-learn has it."""
    if _has_moved():
        return SGDRegressor(loss="epsilon_insensitive", penalty=None, learning_rate="pa1", eta0=1.0)
    return import_module("sklearn.linear_model").PassiveAggressiveRegressor()


def passive_aggressive_classifier() -> Any:
    """Return the classifier of the same paper."""
    models = import_module("sklearn.linear_model")
    if _has_moved():
        return models.SGDClassifier(loss="hinge", penalty=None, learning_rate="pa1", eta0=1.0)
    return models.PassiveAggressiveClassifier()


def _has_moved() -> bool:
    """Whether scikit-learn implements it by ``SGDRegressor`` and ``SGDClassifier``, as since version 1.8."""
    return tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)
