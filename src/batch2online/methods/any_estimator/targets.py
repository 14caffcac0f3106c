"""Targets of any kind of estimator: none, numbers, or labels."""

from __future__ import annotations

from typing import Any

from sklearn.utils import get_tags

from batch2online.labelled import Labelled
from batch2online.methods.any_estimator import defaults


class TakingTargets(Labelled):
    """An online estimator whose targets are those of the estimator inside."""

    estimator: Any

    @property
    def _needs_targets(self) -> bool:  # type: ignore[override]
        kind = defaults.kind_of(self.estimator)
        if kind in ("function", "estimator"):
            return self.__sklearn_is_fitted__() and bool(self._engine.n_targets)
        if kind in ("regressor", "classifier"):
            return True
        return bool(get_tags(self.estimator).target_tags.required)

    @property
    def _has_labels(self) -> bool:  # type: ignore[override]
        return defaults.kind_of(self.estimator) == "classifier"

    def _prepared_targets(self, y: Any) -> tuple[Any, Any]:
        is_free = defaults.kind_of(self.estimator) in ("function", "estimator") and not self.__sklearn_is_fitted__()
        return (self._flattened(y), None) if is_free else super()._prepared_targets(y)
