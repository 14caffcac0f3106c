"""Learners of scikit-learn: classifiers with ``predict_proba``, subspaces through zero, Passive-Aggressive models."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

import numpy as np
import sklearn
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor

from batch2online._types import FloatArray
from batch2online.baselines.peer import COMPARE, EVERYWHERE, LOSS, MEASURED, STARTS, Peer


class LogisticOrConstant(LogisticRegression):  # type: ignore[misc]
    """Logistic regression that also accepts rows of a single class, which it predicts with probability 1."""

    def __init__(self, max_iter: int = 1000) -> None:
        super().__init__(max_iter=max_iter)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self.classes_ = np.unique(y)
        return self if len(self.classes_) == 1 else super().fit(X, y, sample_weight)

    def predict_proba(self, X: Any) -> FloatArray:
        return np.ones((len(X), 1)) if len(self.classes_) == 1 else np.asarray(super().predict_proba(X))


class StochasticGradient(SGDClassifier):  # type: ignore[misc]
    """``SGDClassifier(loss="log_loss")``, which wants to know all classes beforehand."""

    def __init__(self, n_classes: int = 2, random_state: Any = None) -> None:
        super().__init__(loss="log_loss", random_state=random_state)
        self.n_classes = n_classes

    def partial_fit(self, X: Any, y: Any) -> Self:
        super().partial_fit(X, y, classes=np.arange(float(self.n_classes)))
        return self


class PassiveAggressive(BaseEstimator):  # type: ignore[misc]
    """scikit-learn's Passive-Aggressive classifier, whose margins are taken for logits: it gives no probabilities."""

    def __init__(self, n_classes: int = 2, random_state: Any = None) -> None:
        self.n_classes = n_classes
        self.random_state = random_state

    def partial_fit(self, X: Any, y: Any) -> Self:
        if "model_" not in vars(self):
            self.classes_ = np.arange(float(self.n_classes))
            self.model_ = passive_aggressive_classifier().set_params(random_state=self.random_state)
        self.model_.partial_fit(X, y, classes=self.classes_)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        if "model_" not in vars(self):
            raise NotFittedError("This PassiveAggressive has seen no rows.")
        margins = self.model_.decision_function(X)
        both = np.column_stack([-margins / 2, margins / 2]) if margins.ndim == 1 else margins
        return np.asarray(softmax(both, axis=1))


class Uncentred(BaseEstimator):  # type: ignore[misc]
    """IncrementalPCA of the rows and their negatives, whose mean is zero: a subspace through zero, twice the work."""

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    def partial_fit(self, X: Any, y: Any = None) -> Self:
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


PEERS = (
    Peer("scikit-learn SGDRegressor", {"regression": lambda settings: SGDRegressor()}, EVERYWHERE),
    Peer(
        "scikit-learn SGDClassifier",
        {"classification": lambda settings: StochasticGradient(settings.k)},
        frozenset({COMPARE}),
    ),
    Peer(
        "scikit-learn Passive-Aggressive, by margins",
        {"classification": lambda settings: PassiveAggressive(settings.k)},
        frozenset({COMPARE}),
    ),
    Peer(
        "scikit-learn Passive-Aggressive",
        {"regression": lambda settings: passive_aggressive_regressor()},
        frozenset({COMPARE}),
    ),
    Peer(
        "scikit-learn SGDRegressor, eta0 0.05",
        {"regression": lambda settings: SGDRegressor(eta0=0.05)},
        frozenset({LOSS}),
    ),
    # It centres its rows: a fair peer on centred ones, such as ``compare`` hands out.
    Peer("scikit-learn IncrementalPCA", {"lowrank": lambda settings: IncrementalPCA(settings.k)}, frozenset({COMPARE})),
    Peer(
        "scikit-learn IncrementalPCA, rows and negatives", {"lowrank": lambda settings: Uncentred(settings.k)}, MEASURED
    ),
    Peer(
        "scikit-learn MiniBatchKMeans",
        {"clustering": lambda settings: MiniBatchKMeans(settings.k, n_init=STARTS)},
        EVERYWHERE,
    ),
)
