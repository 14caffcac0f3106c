"""What a model of any kind offers, offered by the estimator that keeps it up to date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, is_clusterer
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from batch2online.frames import encoding


def _delegated(name: str) -> Callable[[Callable[..., Any]], Any]:
    """There only if the model has it: ``hasattr`` of the whole then says what ``hasattr`` of the model says."""
    decorate: Callable[[Callable[..., Any]], Any] = available_if(lambda self: hasattr(self._model_or_estimator(), name))
    return decorate


_OF_THE_CORESET = ("labels_",)
"""Fitted attributes with an entry for each row of the coreset, which is not what a caller takes them for."""


class Delegating:
    """Passes calls and fitted attributes on to the current model."""

    estimator: Any
    _engine: Any
    fit: Callable[..., Any]
    _check_fitted: Callable[[], Any]
    _checked_rows: Callable[[Any], Any]
    _row_to_predict: Callable[[Any], Any]

    @property
    def model_(self) -> Any:
        """The current model: a fitted estimator, or what the function has returned."""
        engine = self._check_fitted()
        if engine.model is None:
            raise NotFittedError(
                f"There is no model before the first refresh, at {engine.next_refresh} rows: {engine.n_seen} seen."
            )
        return engine.model.model

    def _model_or_estimator(self) -> Any:
        solved = vars(self)["_engine"].model if "_engine" in vars(self) else None
        return self.estimator if solved is None else solved.model

    def __getattr__(self, name: str) -> Any:
        """Fitted attributes of the current model: ``coef_``, ``classes_``, ``cluster_centers_``, ..."""
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # a property that has failed: raise what it raised
        is_fitted = name.endswith("_") and not name.startswith("_") and "_engine" in vars(self)
        if is_fitted and name not in _OF_THE_CORESET:
            model = self._model_or_estimator()
            if model is not self.estimator and hasattr(model, name):
                return getattr(model, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _finish_fit(self, X: Any) -> None:
        """Add the labels of the rows, where the estimator finds any for rows to come."""
        if isinstance(self.estimator, BaseEstimator) and is_clusterer(self.estimator) and hasattr(self, "predict"):
            self.labels_ = self.predict(X)

    @_delegated("predict")
    def predict(self, X: Any) -> Any:
        """Predictions of the current model."""
        return self.model_.predict(self._checked_rows(X))

    @_delegated("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes that the current model knows."""
        return self.model_.predict_proba(self._checked_rows(X))

    @_delegated("predict_log_proba")
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of :meth:`predict_proba`."""
        return self.model_.predict_log_proba(self._checked_rows(X))

    @_delegated("decision_function")
    def decision_function(self, X: Any) -> Any:
        """Decision function of the current model."""
        return self.model_.decision_function(self._checked_rows(X))

    @_delegated("transform")
    def transform(self, X: Any) -> Any:
        """Rows transformed by the current model."""
        transformed = self.model_.transform(self._checked_rows(X))
        if hasattr(X, "index") and hasattr(transformed, "index"):
            transformed.index = X.index
        return transformed

    @_delegated("get_feature_names_out")
    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns that ``transform`` gives."""
        return self.model_.get_feature_names_out(input_features)

    @_delegated("set_output")
    def set_output(self, *, transform: str | None = None) -> Self:
        """Return what ``transform`` gives: arrays or data frames. Set for the estimator inside, as a pipeline does."""
        for model in (self.estimator, self._model_or_estimator()):
            model.set_output(transform=transform)
        return self

    @_delegated("transform")
    def fit_transform(self, X: Any, y: Any = None, **settings: Any) -> Any:
        """Learn from these rows alone, then transform them."""
        X = encoding.table(X)
        return self.fit(X, y, **settings).transform(X)

    @_delegated("fit_predict")
    def fit_predict(self, X: Any, y: Any = None, **settings: Any) -> Any:
        """Learn from these rows alone, then predict their clusters."""
        X = encoding.table(X)
        return self.fit(X, y, **settings).predict(X)

    @_delegated("inverse_transform")
    def inverse_transform(self, X: Any) -> Any:
        """Rows from what the current model has transformed them to."""
        return self.model_.inverse_transform(np.asarray(X))

    @_delegated("score_samples")
    def score_samples(self, X: Any) -> Any:
        """Log-likelihood of each row under the current model."""
        return self.model_.score_samples(self._checked_rows(X))

    @_delegated("score")
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the score of the current model, as the estimator defines it."""
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.model_.score(self._checked_rows(X), *(() if y is None else (y,)), **weights))

    @_delegated("predict")
    def predict_one(self, x: Any) -> Any:
        """Prediction for one row: a mapping of column names to values, a sequence of values, or a text."""
        model = self.model_
        return model.predict(self._row_to_predict(x))[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        if isinstance(self.estimator, BaseEstimator):
            own = get_tags(self.estimator)
            tags.estimator_type, tags.target_tags = own.estimator_type, own.target_tags
            tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
            tags.transformer_tags = own.transformer_tags
        if tags.classifier_tags is not None:  # labels are one list, whatever the estimator takes
            tags.classifier_tags.multi_label = tags.target_tags.multi_output = False
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
