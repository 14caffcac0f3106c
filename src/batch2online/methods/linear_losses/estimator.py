"""Models of classes in the order of the labels; the engine stores classes in order of appearance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin

from batch2online._types import FloatArray
from batch2online.engine.stream import Stream
from batch2online.estimator import Trusted, check_plain
from batch2online.input import LinearPlan, PreparedRows, RowReader
from batch2online.labels import Labelled, Labels
from batch2online.methods.linear_losses.problem import LinearLossProblem, LinearPredictor, default_refresh
from batch2online.methods.linear_losses.sketch import Anchored
from batch2online.methods.linear_losses.solver import Penalty
from batch2online.methods.losses import Logistic
from batch2online.metrics import Metrics
from batch2online.numerics.threads import one_thread
from batch2online.schema import check_value
from batch2online.settings import ClassificationSettings

_LARGEST_EXPONENT = 700.0
"""Below the logarithm of the largest number."""


def _sorted_codes(engine: Stream) -> list[float]:
    labels: dict[float, Any] = engine.problem.labels
    return sorted(labels, key=labels.__getitem__)


def _places(classes: tuple[float, ...], codes: list[float]) -> list[int]:
    """Return the positions of the classes of a model among all codes."""
    place = {code: position for position, code in enumerate(codes)}
    return [place[code] for code in classes]


def sorted_labels(engine: Stream) -> Any:
    """Return the labels seen so far, sorted."""
    labels: dict[float, Any] = engine.problem.labels
    return np.array([labels[code] for code in _sorted_codes(engine)])


def by_label(engine: Stream) -> tuple[FloatArray, FloatArray]:
    """Return coefficients and intercepts in the order of the labels."""
    model: LinearPredictor = engine.current.model
    codes = _sorted_codes(engine)
    if len(codes) <= 2:
        sign = -1.0 if len(model.classes) == 2 and model.classes[0] != codes[0] else 1.0
        return sign * model.coefficients, sign * model.intercepts
    coefficients, intercepts = np.zeros((len(codes), engine.width)), np.full(len(codes), -model.unknown)
    own = _places(model.classes, codes)
    if len(model.classes) == 2:
        coefficients[own], intercepts[own] = np.outer([-0.5, 0.5], model.coefficients), model.intercepts * [-0.5, 0.5]
    elif len(own) > 2:
        coefficients[own], intercepts[own] = model.coefficients, model.intercepts
    return coefficients, intercepts


def probabilities(engine: Stream, eta: FloatArray) -> FloatArray:
    """Return probabilities of all labels, in their order; 0 for those unknown to the model."""
    model, codes = engine.current.model, _sorted_codes(engine)
    if not model.classes:
        return np.full((len(eta), len(codes)), 1 / len(codes))
    found = Logistic().probabilities(eta)
    if len(model.classes) == 2:
        found = np.column_stack([1 - found, found])
    elif len(model.classes) == 1:
        found = np.ones_like(found)
    everything = np.zeros((len(eta), len(codes)))
    everything[:, _places(model.classes, codes)] = found
    return everything


class OnlineClassifier(ClassifierMixin, Labelled, ClassificationSettings):  # type: ignore[misc]
    r"""Online logistic regression of two classes or more: the quality of refits on all rows, in a megabyte.

    The loss of each row is expanded at the current model. The sums of these expansions are exact; a coreset represents
    the remainders of the losses, see :class:`batch2online.coresets.Anchored`. At row counts that grow geometrically a
    model is fitted to both.

    Attributes
    ----------
    classes_ : labels seen so far, sorted
    coef_, intercept_ : the current model, one row for two classes, else one for each
    error_ : estimated share by which the model costs more than the fit to all rows
    n_seen_, n_changes_, changes_, coreset_, regret_, metrics_, baseline_metrics_, window_metrics_, recent_metrics_
        Rows seen; changes of the model and their reasons; the coreset; log loss against the best known model.

    Notes
    -----
    While all rows fit into the coreset the model is that of ``LogisticRegression`` on them. New labels can appear at
    any time; a row whose label is unknown to the model has the loss of a class with half a row among all rows. Merged
    shards were expanded at their own models: once the coreset does not hold all rows, the merged coreset and model are
    not those of ``fit``, and depend on the shards and the order of merging. ``error_`` estimates by which share the
    model costs more than the fit to all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OnlineClassifier(random_state=0).partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    >>> model.n_seen_, model.classes_.tolist(), model.predict_proba(X[:2]).shape
    (569, [0, 1], (2, 2))
    >>> model.score(X, y) > 0.94
    True
    """

    _needs_targets = True

    @property
    def baseline_metrics_(self) -> Metrics:
        """Accuracy of the most frequent class so far, and log loss of the shares of classes so far.

        With balanced classes there is no log loss: that of ``metrics_`` weighs the classes.
        """
        found = super().baseline_metrics_
        return {name: value for name, value in found.items() if name != "log loss" or not self._is_balanced}

    def _new_coreset(self) -> Anchored:
        settings = {"intercept": self.fit_intercept, "balanced": self._is_balanced, **self._sampling()}
        return Anchored(Logistic(), **settings)

    def _new_stream(self, n_targets: int) -> Stream:
        coreset = self._new_coreset()
        policy = default_refresh(self.n_features_in_) if self.refresh is None else self.refresh
        problem = LinearLossProblem(coreset.loss, Penalty(self.alpha, self.l1_ratio))
        return Stream.new(problem, coreset, policy, self.n_features_in_, n_targets)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: Any = None) -> Self:
        """Learn further rows. The result does not depend on how rows are split into calls.

        ``classes`` is accepted for compatibility and ignored; new labels can appear at any time.
        """
        return super().partial_fit(X, y, sample_weight)

    def _new_reader(self) -> RowReader | None:
        return None if isinstance(self.class_weight, Mapping) else super()._new_reader()

    def _is_plain_array(self, X: Any, y: Any, sample_weight: Any) -> bool:
        return not isinstance(self.class_weight, Mapping) and super()._is_plain_array(X, y, sample_weight)

    @property
    def _is_balanced(self) -> bool:
        return isinstance(self.class_weight, str)

    def prepare(self, X: Any, y: Any, sample_weight: Any) -> PreparedRows:
        return super().prepare(X, y, self._weighted(y, sample_weight))

    def _weighted(self, y: Any, sample_weight: Any) -> Any:
        """Return the weights of rows, times those that were given for their classes."""
        if y is None or not isinstance(self.class_weight, Mapping):
            return sample_weight
        found = [self.class_weight.get(label, 1.0) for label in np.asarray(y).reshape(-1).tolist()]
        return np.array(found, dtype=np.float64) * (1.0 if sample_weight is None else np.asarray(sample_weight))

    def _encoded(self, y: Any) -> tuple[FloatArray, Labels]:
        codes, known = super()._encoded(y)
        fractions = (codes % 1).astype(bool)
        if fractions.any():
            row = int(fractions.argmax())
            raise ValueError(
                f"Unknown label type: y holds {float(codes[row])!r} at row {row}, which is not whole. "
                "Labels are text or whole numbers."
            )
        if len(known) > max(2, len(self._labels)):
            self._new_coreset().check_classes_fit(self.n_features_in_, len(known))
        return codes, known

    # Each reads the engine and its model once: another thread may replace them at any moment.

    @property
    def classes_(self) -> Any:
        """Return the labels seen so far, sorted."""
        return sorted_labels(self._check_fitted())

    @property
    def coef_(self) -> FloatArray:
        """Coefficients, (1, n_features) for two classes, else (n_classes, n_features)."""
        return by_label(self._check_fitted())[0]

    @property
    def intercept_(self) -> FloatArray:
        """Intercepts, (1,) for two classes, else (n_classes,)."""
        return by_label(self._check_fitted())[1]

    @property
    def n_iter_(self) -> int:
        """Number of fits that replaced the model, each of many steps."""
        engine = self._check_fitted()
        return engine.current.n_changes + engine.has_model

    @property
    def error_(self) -> float:
        """Estimated share by which the model costs more than a fit on all rows seen at that time."""
        return float(self._check_fitted().current.model.error)

    @one_thread()
    def decision_function(self, X: Any) -> FloatArray:
        """Logits of the second class (n,), or of all classes (n, n_classes)."""
        engine = self._check_fitted()
        coefficients, intercepts = by_label(engine)
        scores = np.asarray(self._validated(X, reset=False) @ coefficients.T + intercepts)
        return scores[:, 0] if len(intercepts) == 1 else scores

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of ``classes_``, (n, n_classes); those are equal before there is a model."""
        return self._shares(self._validated(X, reset=False))

    def _shares(self, points: Any) -> FloatArray:
        engine = self._check_fitted()
        return probabilities(engine, engine.current.model.predictors(points))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> Any:
        """Return the likeliest label of each row."""
        engine = self._check_fitted()
        found = probabilities(engine, engine.current.model.predictors(self._validated(X, reset=False)))
        return sorted_labels(engine)[found.argmax(axis=1)]

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Probabilities of labels for one row: a mapping of column names to values, or a sequence of values."""
        found = self._plain_predictor(x)
        if found is None or found[0] < -_LARGEST_EXPONENT:
            return self._predict_proba_one(x)
        share, plan = 1 / (1 + exp(-found[0])), found[1]
        first, second = plan.labels
        return {first: share, second: 1 - share} if plan.is_swapped else {first: 1 - share, second: share}

    def _new_plan(self, stream: Stream) -> LinearPlan | None:
        model, labels = stream.model, stream.problem.labels
        if not len(model.classes) == len(labels) == 2:
            return None
        is_swapped = labels[model.classes[0]] != min(labels.values())
        known = model.coefficients[0].tolist(), float(model.intercepts[0]), tuple(sorted(labels.values()))
        return LinearPlan(*known, is_swapped)

    def _predict_proba_one(self, x: Any) -> dict[Any, float]:
        engine, row = self._check_fitted(), self._row_of(x)
        model, labels = engine.current.model, engine.problem.labels
        if len(model.classes) == len(labels) == 2:
            second = float(expit(model.coefficients[0].dot(row) + model.intercepts[0]))
            shares = (1 - second, second) if model.classes[0] == _sorted_codes(engine)[0] else (second, 1 - second)
            return dict(zip(sorted(labels.values()), shares, strict=True))
        found = probabilities(engine, model.predictors(row[None]))[0]
        return dict(zip(sorted_labels(engine).tolist(), found.tolist(), strict=True))

    def predict_one(self, x: Any) -> Any:
        """Return the likeliest label of one row: a mapping of column names to values, or a sequence of values."""
        found = self.predict_proba_one(x)
        return max(found, key=found.__getitem__)

    # -- storing --------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        state = super()._state()
        state["labels"] = list(self._labels.items())
        if isinstance(self.class_weight, Mapping):
            state["params"]["class_weight"] = list(self.class_weight.items())
        return state

    def _can_be_stored(self, value: Any) -> bool:
        return isinstance(value, dict) or super()._can_be_stored(value)

    @classmethod
    def _from_state(cls, state: dict[str, Any], trusted: Trusted = None, refit: bool = False) -> Self:
        params = dict(state["params"])
        given = params.pop("class_weight", None)
        check_plain(params)
        is_plain = given is None or given == "balanced"
        if not is_plain:
            check_value("class_weight", given, list[tuple[bool | int | float | str, float]])
        params["class_weight"] = given if is_plain else dict(given)
        estimator = cls._assembled(state | {"params": params})
        problem: Any = estimator.stream.problem
        known = replace(problem, labels=estimator.checked_labels(state["labels"]))
        estimator.stream = estimator.stream.append([], known)
        return estimator
