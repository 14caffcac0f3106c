"""Targets of any kind of estimator: none, numbers, or labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import get_tags

from batch2online.estimators.base import OnlineEstimator
from batch2online.estimators.batch_to_online import kinds
from batch2online.estimators.batch_to_online.labels import Labels


class TakingTargets(OnlineEstimator):
    """An online estimator whose targets are those of the estimator inside."""

    estimator: Any

    @property
    def _needs_targets(self) -> bool:  # type: ignore[override]
        kind = kinds.kind_of(self.estimator)
        if kind in ("function", "estimator"):
            return bool(self._engine.n_targets) if self.__sklearn_is_fitted__() else self._given_targets
        if kind in ("regressor", "classifier"):
            return True
        return bool(get_tags(self.estimator).target_tags.required)

    @property
    def _labels(self) -> Labels:
        """Labels of a classifier and their codes; it knows none for all other kinds."""
        if "_known_labels" not in vars(self):
            self._known_labels = Labels(is_used=kinds.kind_of(self.estimator) == "classifier")
        return self._known_labels

    def _is_ready_for(self, X: Any, y: Any, sample_weight: Any) -> bool:
        return not self._labels.is_used and super()._is_ready_for(X, y, sample_weight)

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._given_targets = y is not None
        super()._learn(X, self._labels.encoded(self._flattened(y)) if self._needs_targets else None, sample_weight)

    def _flattened(self, y: Any) -> Any:
        """Targets as an array, a single column of them as a list, which is what estimators expect."""
        y = None if y is None else np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        if y is None or y.ndim != 2 or y.shape[1] != 1:
            return y
        if not self.__sklearn_tags__().target_tags.multi_output:
            warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, 2)
        return y[:, 0]

    def _target_of(self, y: Any) -> Any:
        return super()._target_of(float(self._labels.encoded([y])[0]) if self._labels.is_used else y)
