"""The problem that a wrapped estimator poses: fit it on the coreset, and measure a loss on rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from sklearn.dummy import DummyClassifier

from batch2online import sampling
from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.estimator import Trusted
from batch2online.methods.any_estimator import clusters
from batch2online.methods.any_estimator.defaults import kind_of, rows_in_memory
from batch2online.methods.any_estimator.fitted_estimator import FittedEstimator, is_same
from batch2online.methods.any_estimator.model_checks import UnusableError
from batch2online.methods.any_estimator.models import Estimator, InputRows, Model, degrees_of, n_coefficients, n_values
from batch2online.methods.any_estimator.no_fits import FitNeededError, may_fit
from batch2online.methods.any_estimator.row_losses import RowLoss, losses_of
from batch2online.methods.any_estimator.sketch import rows_of
from batch2online.methods.any_estimator.stored_models import model_of
from batch2online.methods.any_estimator.weighted_fit import FOLDS, copy_counts, fitted, selected, subsample
from batch2online.methods.losses import Deviation, Logistic, ZeroOne
from batch2online.metrics import Metrics, classification_quality, regression_quality
from batch2online.numerics.threads import one_openmp_thread
from batch2online.problem import FitResult, Hindsight, Problem, certain_weight, check_losses, sampling_error
from batch2online.quality import Baseline, ClassScores
from batch2online.record import Averages
from batch2online.results import most_moved
from batch2online.rows import Rows, all_ones
from batch2online.sketches.base import Coreset, Sketch, Snapshot
from batch2online.storage.tree import CheckpointError
from batch2online.tables.row_encoding import Encoding
from batch2online.warm_up import Free, MeanSoFar, Scored, WarmUp

_ROWS_PER_SLOPE, _ROWS_PER_VALUE = 50, 10
"""A linear model of fewer rows for each coefficient is flexible, and so are centers and components of fewer rows for
each value: those of half of a small coreset cost far too much on the other half."""

_LEAST_PART, _ROWS_PER_COEFFICIENT = 5_000, 500
"""Rows that a linear model is fitted to, and rows for each coefficient: its loss is within 1 / 500 of the least."""

_LEAST_WEIGHT = 2.0**-8
"""Rows that have decayed to less than this share of the largest weight are not fitted to: all of them together have
about this share of the total weight."""

_COMPARISON_ROWS, _LEAST_COMPARISON, _COMPARISON_SHARE = 5_000, 1_000, 10
"""Rows on which two models are compared at most. If memory decides how many rows are kept it is one in ten of them, and
at least 1,000: to predict more would take longer than the fits."""

_PREDICTED_ROWS = 500
"""Rows whose predictions by two models are compared, for the reason of a change."""

Scores = Callable[[IntArray], BoolArray]
"""Which of the rows with these ids were scored when they came."""


@dataclass(frozen=True)
class EstimatorProblem(Problem):
    """An estimator or a function, fitted on the coreset, and a loss measured on it.

    ``labels`` decodes the targets of classifiers and grows as labels come. A single target is passed as (n,).
    ``memory`` are the bytes that the coreset may take; None where its size is given. ``decays`` is whether old rows
    lose weight. ``churn_price`` is the gain, as a share of the loss, that is worth a change of all labels of clusters.
    ``own_sensitivity`` is what the user knows of the average sensitivity of a model of n rows.
    """

    estimator: Estimator
    loss: RowLoss
    seed: int
    start: int
    epsilon: float
    resample: bool = False
    memory: int | None = None
    decays: bool = False
    churn_price: float = 0.0
    own_sensitivity: Callable[[int], float] | None = None
    labels: dict[float, Any] = field(default_factory=dict)
    encoding: Encoding = field(default_factory=Encoding)

    optimum_is_held_out = True  # for flexible models, whose loss on their own rows says little

    # -- losses of rows ------------------------------------------------------------------------------------------

    @one_openmp_thread()
    def losses(self, model: FittedEstimator, points: FloatArray, targets: FloatArray) -> Scored:
        """Return the loss of each row and its secondary loss."""
        return losses_of(self.loss, model.model, self._as_given(points, model), self._decoded(targets))

    def _as_given(self, points: FloatArray, model: FittedEstimator) -> InputRows:
        """Return rows in the container in which they came, with the categories that a model knows."""
        return points if self.encoding.schema is None else self.encoding.decoded(points, model.rows.points)

    def _decoded(self, targets: FloatArray) -> np.ndarray[Any, Any]:
        """Return targets as the user passed them: labels for a classifier."""
        if not self.labels or not len(targets):
            return targets
        codes, inverse = np.unique(targets[:, 0], return_inverse=True)
        return np.array([self.labels[float(code)] for code in codes])[inverse.reshape(-1)][:, None]

    def warm_up(self) -> WarmUp:
        """Return the warm-up of the loss; rows with strings or missing values have no distances, and a loss of 0."""
        known = self.loss.warm_up()
        needs_numbers = isinstance(known, MeanSoFar) and not known.of_targets
        return Free() if needs_numbers and not self.encoding.is_numeric else known

    def baseline(self) -> Baseline | None:
        return self.loss.baseline()

    @property
    def _has_classes(self) -> bool:
        return isinstance(self.loss, Logistic | ZeroOne)

    @property
    def counts_errors(self) -> bool:
        return isinstance(self.loss, ZeroOne)

    def quality(self, rows: Averages) -> Metrics:
        if isinstance(self.loss, Logistic):
            return classification_quality(rows)
        if self.loss == Deviation(2.0):
            return regression_quality(rows)
        return dict([self.loss.measure(rows.mean_loss)])

    def class_scores(self, model: FittedEstimator | None, rows: Rows, losses: Scored) -> ClassScores | None:
        """Return errors, and the losses of probabilities."""
        return ClassScores(losses[1], None if self.counts_errors else losses[0]) if self._has_classes else None

    def spread_of(self, rows: Rows) -> FloatArray | None:
        """Return the targets of squared losses."""
        return rows.targets if self.loss == Deviation(2.0) else None

    def as_numbers(self, rows: Rows) -> Rows:
        return rows if self.encoding.schema is None else self.encoding.as_numbers(rows)

    def gradient_norms(self, losses: FloatArray) -> FloatArray:
        """Return the gradient norms of rows with these losses, with respect to the prediction."""
        return self.loss.gradient_norms(losses)

    # -- models --------------------------------------------------------------------------------------------------

    def first_check(self, width: int, n_targets: int) -> int:
        return self.start

    def refit_cost(self, keeps_history: bool) -> Literal["any"]:
        return "any"

    def sensitivity(self, data: Snapshot) -> Callable[[int], float]:
        known = self.own_sensitivity
        return super().sensitivity(data) if known is None else lambda n: min(1.0, float(known(n)))

    def initial_model(self, prediction: object, width: int, n_targets: int) -> None:
        return None

    def fit(self, data: Snapshot, current: FittedEstimator | None) -> FitResult:
        """Fit the estimator on the kept rows; of the current model only the number of coefficients is used.

        A clusterer keeps its current model unless labels change for a gain out of sample. Clusters keep their numbers.
        """
        coreset = self._training_coreset(data, current)
        if current is None or not self._has_clusters(current):
            model = self.fit_on(self._training_rows(coreset))
        elif self.churn_price and not self._is_worth_labels(coreset, current):
            model = current
        else:
            model, some = self.fit_on(self._training_rows(coreset)), self._comparison_rows(data)
            before, after = (self._predicted(each, some) for each in (current, model))
            model = model.renumbered(clusters.order_like(current.model, model.model, before, after, some.weights))
        return FitResult(model, len(model.rows))

    def n_fit_rows(self, data: Snapshot, current: FittedEstimator | None) -> int:
        return len(self._training_coreset(data, current))

    def _training_coreset(self, data: Snapshot, current: FittedEstimator | None) -> Coreset:
        """Return all kept rows that count; for a linear model a smaller coreset, from the same scores and draws."""
        if self.decays:
            weights = data.coreset.weights
            return selected(data.coreset, weights >= _LEAST_WEIGHT * weights.max(initial=0.0))
        coefficients = None if current is None else n_coefficients(current.model)
        if coefficients is None or self.memory is None:
            return data.coreset
        size = max(_LEAST_PART, _ROWS_PER_COEFFICIENT * coefficients)
        if size >= len(data.coreset):
            return data.coreset
        if size not in data.cache:
            data.cache[size] = data.sketch.with_size(size).coreset(data.history)
        part: Coreset = data.cache[size]
        return part

    def _training_rows(self, coreset: Coreset) -> Rows:
        rows = rows_of(coreset)
        if self.resample:
            rows = rows[np.repeat(np.arange(len(rows)), copy_counts(coreset, self.epsilon, self.seed))]
            rows = replace(rows, weights=np.ones(len(rows)))
        if not len(rows):
            raise ValueError("There are no rows to fit on: coreset_size is too small.")
        return rows

    @one_openmp_thread()
    def fit_on(self, rows: Rows, order: IntArray | None = None) -> FittedEstimator:
        """Return the model of these weighted rows, a pure function of them, the settings and the seed.

        ``order`` is that of its clusters.
        """
        if not may_fit.get():
            raise FitNeededError(f"{type(self.estimator).__name__} would be fitted on {len(rows):,} rows.")
        targets = self._decoded(rows.targets)
        flat = targets[:, 0] if targets.shape[1] == 1 else targets if targets.shape[1] else None
        points = self.encoding.decoded(rows.points, rows.points)
        if not hasattr(self.estimator, "fit"):
            return FittedEstimator(self.estimator(points, rows.weights, *(() if flat is None else (flat,))), rows)
        weights = None if self.resample or all_ones(rows.weights) else rows.weights  # often slower
        model = fitted(self.estimator, points, flat, weights, self.seed)
        return FittedEstimator(model, rows).renumbered(order)

    def open(self, stored: FittedEstimator, trusted: Trusted, refit: bool, is_own: bool = True) -> None:
        """Make the model of the data that a file holds of it, once; where there is none, fit it again if ``refit``.

        ``is_own`` is whether the file holds this estimator, and not one in whose place the caller gives another.
        """
        try:
            if not is_own:
                raise UnusableError("it is a model of another estimator.")
            model = model_of(stored.model, trusted)
            self._check_model(model, stored.rows.points.shape[1])
        except UnusableError as error:
            if not refit:
                raise CheckpointError(
                    f"there is no fitted {type(self.estimator).__name__} to load: {error} Loading fits nothing by "
                    "itself: load(path, refit=True) fits it again on the rows of the file, and "
                    "BatchToOnline.restore(path, estimator=...) fits one of your own."
                ) from error
            model = self.fit_on(stored.rows, stored.order).model
        vars(stored)["model"] = model

    def _check_model(self, model: Model, width: int) -> None:
        """Raise :class:`UnusableError` unless a model can be one of the estimator, of so many columns."""
        is_of_one_class = isinstance(model, DummyClassifier) and kind_of(self.estimator) == "classifier"
        is_alike = type(model) is type(self.estimator) or is_of_one_class
        if not is_alike or getattr(model, "n_features_in_", width) != width:
            raise UnusableError("it is a model of another kind.")

    def same(self, old: FittedEstimator, new: FittedEstimator) -> bool:
        """Return whether two models were fitted to the same rows, or hold the same."""
        if old.has_rows_of(new):
            return True
        return not old.was_seen_to_differ(new) and is_same(old.model, new.model)

    # -- clusters ------------------------------------------------------------------------------------------------

    def _has_clusters(self, model: FittedEstimator) -> bool:
        return kind_of(self.estimator) == "clusterer" and hasattr(model.model, "predict")

    def _is_worth_labels(self, coreset: Coreset, current: FittedEstimator) -> bool:
        """Return whether a model of one half of the rows gains enough on the other half for the labels that change."""
        is_fitted = self._halves(coreset)
        if min(is_fitted.sum(), (~is_fitted).sum()) < self.start:
            return True
        new, others = self.fit_on(self._training_rows(selected(coreset, is_fitted))), selected(coreset, ~is_fitted)
        before, after = (float(others.weights @ self._checked_losses(each, rows_of(others))) for each in (current, new))
        one, other = (self._predicted(each, others) for each in (current, new))
        return before - after > self.churn_price * clusters.churn(one, other, others.weights) * before

    def _halves(self, coreset: Coreset) -> BoolArray:
        """Return which rows are in the first of two random halves."""
        return np.asarray(sampling.uniforms(self.seed, FOLDS, coreset.ids) < 0.5)

    def _predicted(self, model: FittedEstimator, some: Coreset) -> np.ndarray[Any, Any]:
        known: Model = model.model
        return known.predict(self._as_given(some.points, model))

    # -- costs ---------------------------------------------------------------------------------------------------

    def cost(self, model: FittedEstimator, data: Snapshot, scored: Scores | None = None) -> float:
        """Return the total loss on all rows seen, estimated on some of the kept rows.

        ``scored`` selects the rows that were predicted before they were learned; None selects all.
        """
        some = self._comparison_rows(data)
        return float(_weights_of(some, scored) @ self._losses_on(some, model))

    def _comparison_rows(self, data: Snapshot) -> Coreset:
        """Return the rows on which models are compared."""
        if "comparison" not in data.cache:
            share = max(_LEAST_COMPARISON, len(data.coreset) // _COMPARISON_SHARE)
            size = _COMPARISON_ROWS if self.memory is None else min(_COMPARISON_ROWS, share)
            data.cache["comparison"] = subsample(data.coreset, size, self.seed)
        rows: Coreset = data.cache["comparison"]
        return rows

    def _losses_on(self, coreset: Coreset, model: FittedEstimator) -> FloatArray:
        """Return the losses of rows, those that were measured last, or measured now."""
        if model.last is None or model.last[0] is not coreset:
            losses = self._checked_losses(model, rows_of(coreset)) if len(coreset) else np.empty(0)
            vars(model)["last"] = coreset, losses
        else:
            _, losses = model.last
        return losses

    def _checked_losses(self, model: FittedEstimator, rows: Rows) -> FloatArray:
        losses = self.losses(model, rows.points, rows.targets)[0]
        check_losses(losses, rows.ids)
        return losses

    def optimum(self, data: Snapshot, model: FittedEstimator | None) -> float:
        """Return the cost of the best model known, this one or one fitted now: on all rows if they are kept.

        Before the first model it is not known, and not a number.
        """
        return self.hindsight(data, model).optimum

    def hindsight(self, data: Snapshot, model: FittedEstimator | None, scored: Scores | None = None) -> Hindsight:
        """Return the optimum and, without a history, how far the coreset may be from all rows.

        That of a flexible model is measured out of sample: each half of the kept rows under a model of the other half.
        ``scored`` selects the rows that were predicted before they were learned; None selects all.
        """
        coreset = data.coreset
        weights, certain = _weights_of(coreset, scored), certain_weight(data)
        if model is None or (scored is not None and not weights.any()):
            return Hindsight(math.nan)
        if self.is_flexible(model, len(coreset)):
            losses = self._held_out_losses(coreset)
            return Hindsight(float(weights @ losses), sampling_error(weights, losses, certain=certain))
        options = [self.fit(data, None).model, model]
        if data.history is not None:
            return Hindsight(min(self._history_cost(option, data.history, scored) for option in options))
        every = [self._losses_on(coreset, option) for option in options]
        losses = min(every, key=lambda each: float(weights @ each))
        return Hindsight(float(weights @ losses), sampling_error(weights, losses, certain=certain))

    def _history_cost(self, model: FittedEstimator, history: Iterator[Rows], scored: Scores | None) -> float:
        parts = history if scored is None else (rows[scored(rows.ids)] for rows in history)
        return sum(float(rows.weights @ self._checked_losses(model, rows)) for rows in parts if len(rows))

    def is_flexible(self, model: FittedEstimator, n_rows: int) -> bool:
        """Whether an estimator has so many parameters, or any number, that its loss on its own rows says little.

        A function is fitted and measured on the same rows, as its optimum is defined.
        """
        is_estimator = hasattr(self.estimator, "fit") and n_rows >= 2 * self.start
        slopes, values = n_coefficients(model.model), n_values(model.model)
        least = _ROWS_PER_SLOPE * slopes if slopes else _ROWS_PER_VALUE * values if values else math.inf
        return is_estimator and n_rows < least

    def _held_out_losses(self, coreset: Coreset) -> FloatArray:
        """Return the loss of each row of the coreset under a model of the half that it is not in."""
        losses, is_first = np.empty(len(coreset)), self._halves(coreset)
        for is_fitted in (is_first, ~is_first):
            model = self.fit_on(self._training_rows(selected(coreset, is_fitted)))
            losses[~is_fitted] = self._checked_losses(model, rows_of(selected(coreset, ~is_fitted)))
        return losses

    def degrees_of_freedom(self, model: FittedEstimator | None, data: Snapshot) -> float:
        """Return the degrees of freedom of the model if they are known, else one for each column and one more.

        Where the coreset holds fewer rows than have come, its own noise counts: as if these were all.
        """
        known = None if model is None else degrees_of(model.model)
        own = data.sketch.settings.shape[0] + 1.0 if known is None else known
        rows, kept = data.totals.effective_rows, max(1, len(data.coreset))
        return float(own * max(1.0, rows / kept))

    # -- coresets by gradients -----------------------------------------------------------------------------------

    def piloted(self, sketch: Sketch, model: FittedEstimator, data: Snapshot) -> Sketch:
        """Return the sketch that scores further rows by a new model, measured on some of the kept rows.

        Its size is that which the memory holds of rows like these.
        """
        sketch = self._sized(sketch, data)
        if sketch.pilot != "gradients":
            return sketch
        some = self._comparison_rows(data)
        return sketch.with_model(model, some, self.gradient_norms(self._losses_on(some, model)))

    def _sized(self, sketch: Sketch, data: Snapshot) -> Sketch:
        schema = self.encoding.schema
        if self.memory is None or schema is None or not len(schema.string_columns):
            return sketch
        strings = self.encoding.strings.bytes_of(data.coreset.points[:, schema.string_columns])
        size = rows_in_memory(self.memory, sum(sketch.settings.shape), strings / max(1, len(data.coreset)))
        is_complete = sketch.totals.n_rows <= sketch.settings.size
        return sketch.with_size(float(size if is_complete else min(size, sketch.settings.size)))

    # -- changes -------------------------------------------------------------------------------------------------

    def difference(self, old: FittedEstimator, new: FittedEstimator, data: Snapshot) -> dict[str, Any]:
        """Return the mean absolute change of the loss of a row, and what moved, on the rows of comparisons."""
        some = self._comparison_rows(data)
        moved = np.abs(self._losses_on(some, new) - self._losses_on(some, old))
        found: dict[str, Any] = {"magnitude": float(np.average(moved, weights=some.weights))}
        found |= moved_importances(old.model, new.model)
        has_clusters = self._has_clusters(new)
        if len(some) and (has_clusters or (self.baseline() is not None and hasattr(new.model, "predict"))):
            some = subsample(some, _PREDICTED_ROWS, self.seed)
            before, after = (np.reshape(self._predicted(each, some), (len(some), -1)) for each in (old, new))
            if has_clusters or self._has_classes:
                found["churn"] = float(np.average((before != after).any(axis=1), weights=some.weights))
            else:
                change = np.square(after - before).sum(axis=1)
                found["prediction_change"] = math.sqrt(np.average(change, weights=some.weights))
        return found


def _weights_of(coreset: Coreset, scored: Scores | None) -> FloatArray:
    """Return the weights of rows, those that were not scored as 0."""
    return coreset.weights if scored is None else coreset.weights * scored(coreset.ids)


def moved_importances(old: Model, new: Model) -> dict[str, Any]:
    """Return the columns whose coefficients, or shares of ``feature_importances_``, moved most between two estimators.

    Estimators in pipelines see other columns, and several targets or classes have several coefficients: nothing then.
    """
    for name, field_name in (("coef_", "coefficients"), ("feature_importances_", "importances")):
        found = [getattr(each, name, None) for each in (old, new)]
        if any(not isinstance(each, np.ndarray) or each.ndim != 1 for each in found):
            continue
        before, after = (np.asarray(each, dtype=np.float64) for each in found)
        if name == "feature_importances_":
            before, after = (each / (each.sum() or 1.0) for each in (before, after))
        if before.shape == after.shape:
            return {field_name: most_moved(np.abs(after - before), before, after)}
    return {}
