"""Estimators of this package as River models, for its pipelines, metrics and evaluations. Needs the extra ``river``.

Rows of River are dictionaries whose features may change; rows here have fixed columns. An absent feature is zero, as in
linear models of River. A new feature adds a column: a new estimator learns the earlier rows with a zero there, from the
history if the estimator keeps one, otherwise from its coreset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from river import base
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression

from batch2online._types import FloatArray
from batch2online.estimator import OnlineEstimator
from batch2online.methods.any_estimator.estimator import BatchToOnline
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.methods.least_squares.estimator import OnlineRegression
from batch2online.methods.low_rank.estimator import OnlineLowRank

__all__ = ["Classifier", "Clusterer", "Regressor", "Transformer"]

Row = Mapping[Any, Any]


class _Adapter:
    """Base class of the adapters: an estimator, and columns that follow the features."""

    def __init__(self, model: Any) -> None:
        if not isinstance(model, OnlineEstimator):
            raise TypeError(f"model must be an estimator of batch2online, got {model!r}.")
        self.model = model
        self._learner: Any = clone(model)
        self._names: tuple[Any, ...] = ()

    @property
    def learner(self) -> Any:
        """The fitted estimator."""
        return self._learner

    def _learn(self, x: Row, y: Any = None) -> None:
        unknown = [name for name in x if name not in self._names]
        if unknown:
            self._widen(unknown)
        self._learner.learn_one(self._values(x), y)

    def _values(self, x: Row) -> list[Any]:
        """Return the values in the order of the columns, bools as numbers."""
        values = [x.get(name, 0.0) for name in self._names]
        return [float(value) if isinstance(value, bool) else value for value in values]

    def _widen(self, unknown: list[Any]) -> None:
        """Add columns at the end: a new estimator learns the rows so far with a zero there."""
        learner, names = clone(self.model), (*self._names, *sorted(unknown, key=str))
        if self._is_begun:
            rows, targets, weights = _seen(self._learner)
            zeros = np.zeros((len(rows), len(unknown)))
            learner.partial_fit(np.hstack([rows, zeros]), targets, sample_weight=weights)
        self._learner, self._names = learner, names

    @property
    def _is_begun(self) -> bool:
        return bool(self._learner.__sklearn_is_fitted__())

    def _row(self, x: Row) -> FloatArray:
        return np.array([self._values(x)], dtype=np.float64)


def _seen(learner: Any) -> tuple[FloatArray, Any, FloatArray]:
    """Return rows, targets and weights learned so far: the history or the coreset."""
    coreset = learner.coreset_
    history = learner.stream_.view().snapshot().history
    if history is None:
        return coreset.points, _decoded(learner, coreset.targets), coreset.weights
    rows = history.everything()
    targets = rows.targets[:, 0] if coreset.targets is not None and coreset.targets.ndim == 1 else rows.targets
    return rows.points, _decoded(learner, targets if rows.targets.shape[1] else None), rows.weights


def _decoded(learner: Any, targets: Any) -> Any:
    """Return the labels of a classifier, which stores codes."""
    labels = getattr(learner.stream_.view().problem, "labels", None)
    if targets is None or not labels:
        return targets
    return np.array([labels[float(code)] for code in np.ravel(targets)])


class Regressor(_Adapter, base.Regressor):
    """A regressor of this package as a regressor of River.

    Parameters
    ----------
    model : estimator
        :class:`OnlineRegression`, or :class:`BatchToOnline` around any regressor.

    Examples
    --------
    >>> from batch2online import OnlineRegression
    >>> from batch2online.compat.river import Regressor
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> model = preprocessing.StandardScaler() | Regressor(OnlineRegression(random_state=0))
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE()).get() < 3
    True
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)

    def learn_one(self, x: Row, y: float) -> None:
        """Learn one row."""
        self._learn(x, y)

    def predict_one(self, x: Row) -> float:
        """Return the prediction for one row; zero before the first row."""
        return float(self._learner.predict(self._row(x))[0]) if self._is_begun else 0.0

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": OnlineRegression(random_state=0)}


class Classifier(_Adapter, base.Classifier):
    """A classifier of this package as a classifier of River; before two classes, it predicts label frequencies.

    Parameters
    ----------
    model : estimator
        :class:`BatchToOnline` around any classifier, or another classifier of this package.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._labels: Counter[Any] = Counter()

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Row, y: Any) -> None:
        """Learn one row."""
        self._learn(x, y)
        self._labels[y] += 1

    def predict_proba_one(self, x: Row, **_: Any) -> dict[Any, float]:
        """Return the probability of each label seen so far."""
        known = self._known_probabilities(x)
        if known is None:
            return {label: count / self._labels.total() for label, count in self._labels.items()}
        return {label: known.get(label, 0.0) for label in self._labels}

    def _known_probabilities(self, x: Row) -> dict[Any, float] | None:
        """Return the probabilities of the model; None before it has two classes."""
        if len(self._labels) < 2:
            return None
        try:
            values = self._learner.predict_proba(self._row(x))[0]
        except (AttributeError, ValueError):  # no model yet; the exception depends on the estimator
            return None
        return dict(zip(self._learner.classes_.tolist(), values.tolist(), strict=True))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": BatchToOnline(LogisticRegression(max_iter=50), random_state=0)}


class Clusterer(_Adapter, base.Clusterer):
    """A clustering of this package as a clusterer of River.

    Parameters
    ----------
    model : estimator
        :class:`OnlineClustering`, or :class:`BatchToOnline` around a clustering that predicts.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)

    def learn_one(self, x: Row) -> None:
        """Learn one row."""
        self._learn(x)

    def predict_one(self, x: Row) -> int:
        """Return the cluster of one row; 0 before the first row."""
        return int(self._learner.predict(self._row(x))[0]) if self._is_begun else 0

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": OnlineClustering(3, random_state=0)}
        yield {"model": BatchToOnline(KMeans(3, n_init=1), random_state=0)}


class Transformer(_Adapter, base.Transformer):
    """A low-rank approximation of this package as a transformer of River, with components by number.

    Parameters
    ----------
    model : estimator
        :class:`OnlineLowRank`, or another estimator of this package with ``transform``.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)

    def learn_one(self, x: Row) -> None:
        """Learn one row."""
        self._learn(x)

    def transform_one(self, x: Row) -> dict[Any, Any]:
        """Return the components of one row; none before the first row."""
        if not self._is_begun:
            return {}
        return dict(enumerate(self._learner.transform(self._row(x))[0].tolist()))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": OnlineLowRank(2, random_state=0)}
