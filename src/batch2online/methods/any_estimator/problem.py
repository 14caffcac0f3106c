"""The problem that a wrapped estimator poses: fit it on the coreset, and measure a loss on rows."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import joblib
import numpy as np

from batch2online import sampling
from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.frames.encoding import Encoding
from batch2online.methods.any_estimator import clusters
from batch2online.methods.any_estimator.defaults import kind_of, rows_in_memory
from batch2online.methods.any_estimator.no_fits import FitNeededError, may_fit
from batch2online.methods.any_estimator.row_losses import Deviation, LastLosses, LogLoss, RowLoss, ZeroOne
from batch2online.methods.any_estimator.sketch import rows_of as _as_rows
from batch2online.methods.any_estimator.weighted_fit import FOLDS, copy_counts, fitted, selected, subsample
from batch2online.metrics import Metrics, classification_quality, regression_quality
from batch2online.numerics.threads import one_openmp_thread
from batch2online.problem import FitResult, Hindsight, Problem, certain_weight, check_losses, sampling_error
from batch2online.quality import Baseline, ClassBaseline, ClassScores
from batch2online.record import Averages
from batch2online.results import most_moved
from batch2online.rows import Rows, all_ones
from batch2online.sketches.base import Coreset, Snapshot
from batch2online.warm_up import Free, MeanSoFar, Scored, WarmUp


def degrees_of(model: Any) -> float | None:
    """Return the degrees of freedom of a fitted scikit-learn model; None if they are not known.

    Coefficients and the intercept of one output; clusters, components of a mixture or of a decomposition; leaves of a
    tree, on average over those of a forest.

    >>> from sklearn.linear_model import LinearRegression
    >>> degrees_of(LinearRegression().fit(np.eye(3), [1.0, 2.0, 3.0]))
    4.0
    """
    final = model.steps[-1][1] if hasattr(model, "steps") else model
    if (coefficients := n_coefficients(model)) is not None:
        return float(coefficients)
    for name in ("cluster_centers_", "means_", "components_"):
        if hasattr(final, name):
            return float(len(getattr(final, name)))
    if hasattr(getattr(final, "tree_", None), "n_leaves"):  # not the tree of neighbours of a density
        return float(final.tree_.n_leaves)
    trees = [tree.tree_.n_leaves for tree in np.ravel(getattr(final, "estimators_", [])) if hasattr(tree, "tree_")]
    return float(np.mean(trees)) if trees else None


def n_coefficients(model: Any) -> int | None:
    """Return the number of coefficients and the intercept of one output of a linear model; None for other models."""
    final = model.steps[-1][1] if hasattr(model, "steps") else model
    shape = np.shape(getattr(final, "coef_", ()))
    return shape[-1] + 1 if shape and shape[-1] else None


def n_parameters(model: Any) -> int | None:
    """Return the parameters of one output of a linear model, or of the centers or components of a model, if known."""
    final = model.steps[-1][1] if hasattr(model, "steps") else model
    sizes = (
        np.size(getattr(final, name)) for name in ("cluster_centers_", "means_", "components_") if hasattr(final, name)
    )
    return n_coefficients(model) or next(sizes, None)


_ROWS_PER_PARAMETER = 50
"""A model of fewer rows for each of its parameters is flexible."""

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
class FittedEstimator:
    """A model and the weighted rows it was fitted on, on which it can be fitted again.

    ``order`` is that in which its clusters were numbered anew, if they were.
    """

    model: Any
    rows: Rows
    order: IntArray | None = None
    last: LastLosses = field(default_factory=LastLosses, compare=False, repr=False)


class DeferredFit(FittedEstimator):
    """A model out of a file that is fitted again on its rows when it is first used, by a call that learns."""

    _problem: EstimatorProblem

    def __init__(self, problem: EstimatorProblem, rows: Rows, order: IntArray | None = None) -> None:
        vars(self).update(_problem=problem, rows=rows, order=order, last=LastLosses())

    @cached_property
    def model(self) -> Any:
        return self._problem.fit_on(self.rows, self.order).model


@dataclass(frozen=True)
class EstimatorProblem(Problem):
    """An estimator or a function, fitted on the coreset, and a loss measured on it.

    ``labels`` decodes the targets of classifiers and grows as labels come. A single target is passed as (n,).
    ``memory`` are the bytes that the coreset may take; None where its size is given. ``decays`` is whether old rows
    lose weight. ``churn_price`` is the gain, as a share of the loss, that is worth a change of all labels of clusters.
    ``own_sensitivity`` is what the user knows of the average sensitivity of a model of n rows.
    """

    estimator: Any
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

    @property
    def counts_errors(self) -> bool:
        return isinstance(self.loss, ZeroOne)

    def quality(self, rows: Averages) -> Metrics:
        if isinstance(self.loss, LogLoss):
            return classification_quality(rows)
        if self.loss == Deviation(2.0):
            return regression_quality(rows)
        return dict([self.loss.measure(rows.mean_loss)])

    def first_check(self, width: int, n_targets: int) -> int:
        return self.start

    def refit_cost(self, keeps_history: bool) -> Literal["any"]:
        return "any"

    def sensitivity(self, data: Snapshot) -> Callable[[int], float]:
        known = self.own_sensitivity
        return super().sensitivity(data) if known is None else lambda n: min(1.0, float(known(n)))

    def warm_up(self) -> WarmUp:
        """Return the warm-up of the loss; rows with strings or missing values have no distances, and a loss of 0."""
        known = self.loss.warm_up()
        needs_numbers = isinstance(known, MeanSoFar) and not known.of_targets
        return Free() if needs_numbers and not self.encoding.is_numeric else known

    def baseline(self) -> Baseline | None:
        return self.loss.baseline()

    def class_scores(self, model: FittedEstimator | None, rows: Rows, losses: Scored) -> ClassScores | None:
        """Return errors, and the losses of probabilities."""
        if not isinstance(self.baseline(), ClassBaseline):
            return None
        return ClassScores(losses[1], losses[0] if isinstance(self.loss, LogLoss) else None)

    def spread_of(self, rows: Rows) -> FloatArray | None:
        """Return the targets of squared losses."""
        return rows.targets if self.loss == Deviation(2.0) else None

    def as_numbers(self, rows: Rows) -> Rows:
        return self.encoding.as_numbers(rows)

    def initial_model(self, prediction: Any, width: int, n_targets: int) -> None:
        return None

    @one_openmp_thread()
    def losses(self, model: FittedEstimator, points: FloatArray, targets: FloatArray) -> Scored:
        """Return the loss of each row and its secondary loss."""
        targets = self._decoded(targets)
        return self.loss.with_secondary(model.model, self.encoding.decoded(points, model.rows.points), targets)

    def fit(self, data: Snapshot, current: Any) -> FitResult:
        """Fit the estimator on the kept rows; of the current model only the number of coefficients is used.

        A clusterer keeps its current model unless labels change for a gain out of sample. Clusters keep their numbers.
        """
        coreset = self._training_coreset(data, current)
        if current is None or not self._has_clusters(current):
            model = self.fit_on(self._training_rows(coreset))
        elif self.churn_price and not self._is_worth_labels(coreset, current):
            model = current
        else:
            model = self.fit_on(self._training_rows(coreset))
            some = self._comparison_rows(data)
            one, other = (self._predicted(each, some) for each in (current, model))
            model = renumbered(model, clusters.order_like(current.model, model.model, one, other, some.weights))
        return FitResult(model, len(model.rows))

    def _has_clusters(self, model: FittedEstimator) -> bool:
        return kind_of(self.estimator) == "clusterer" and hasattr(model.model, "predict")

    def _is_worth_labels(self, coreset: Coreset, current: FittedEstimator) -> bool:
        """Return whether a model of one half of the rows gains enough on the other half for the labels that change."""
        is_fitted = sampling.uniforms(self.seed, FOLDS, coreset.ids) < 0.5
        if min(is_fitted.sum(), (~is_fitted).sum()) < self.start:
            return True
        new, others = self.fit_on(self._training_rows(selected(coreset, is_fitted))), selected(coreset, ~is_fitted)
        before, after = (
            float(others.weights @ self._checked_losses(each, _as_rows(others))) for each in (current, new)
        )
        one, other = (self._predicted(each, others) for each in (current, new))
        return before - after > self.churn_price * clusters.churn(one, other, others.weights) * before

    def _predicted(self, model: FittedEstimator, some: Coreset) -> Any:
        return model.model.predict(self.encoding.decoded(some.points, model.rows.points))

    def n_fit_rows(self, data: Snapshot, current: Any) -> int:
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

    def fitted_later(self, rows: Rows | None, order: IntArray | None = None) -> FittedEstimator | None:
        """Return the model of these rows, fitted when it is first used; None is the model before the first refresh."""
        return None if rows is None else DeferredFit(self, rows, order)

    def _training_rows(self, coreset: Coreset) -> Rows:
        rows = _as_rows(coreset)
        if self.resample:
            rows = rows[np.repeat(np.arange(len(rows)), copy_counts(coreset, self.epsilon, self.seed))]
            rows = Rows(rows.points, rows.targets, np.ones(len(rows)), rows.ids)
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
            given = () if flat is None else (flat,)
            return FittedEstimator(self.estimator(points, rows.weights, *given), rows)
        weights = None if self.resample or all_ones(rows.weights) else rows.weights  # often slower
        return renumbered(FittedEstimator(fitted(self.estimator, points, flat, weights, self.seed), rows), order)

    def _decoded(self, targets: FloatArray) -> Any:
        """Return targets as the user passed them: labels for a classifier."""
        if not self.labels or not len(targets):
            return targets
        codes, inverse = np.unique(targets[:, 0], return_inverse=True)
        return np.array([self.labels[float(code)] for code in codes])[inverse.reshape(-1)][:, None]

    def cost(self, model: FittedEstimator, data: Snapshot, scored: Scores | None = None) -> float:
        """Total loss on all rows seen, estimated on some of the kept rows.

        ``scored`` selects the rows that were predicted before they were learned; None selects all.
        """
        return self._cost_on(self._comparison_rows(data), model, scored)

    def _comparison_rows(self, data: Snapshot) -> Coreset:
        """Return the rows on which models are compared."""
        if "comparison" not in data.cache:
            share = max(_LEAST_COMPARISON, len(data.coreset) // _COMPARISON_SHARE)
            size = _COMPARISON_ROWS if self.memory is None else min(_COMPARISON_ROWS, share)
            data.cache["comparison"] = subsample(data.coreset, size, self.seed)
        rows: Coreset = data.cache["comparison"]
        return rows

    def _cost_on(self, coreset: Coreset, model: FittedEstimator, scored: Scores | None = None) -> float:
        weights = coreset.weights if scored is None else coreset.weights * scored(coreset.ids)
        return float(weights @ self._losses_on(coreset, model))

    def _losses_on(self, coreset: Coreset, model: FittedEstimator) -> FloatArray:
        rows = _as_rows(coreset)
        return model.last.of(rows, lambda: self._checked_losses(model, rows)) if len(rows) else np.empty(0)

    def _checked_losses(self, model: FittedEstimator, rows: Rows) -> FloatArray:
        losses = self.losses(model, rows.points, rows.targets)[0]
        check_losses(losses, rows.ids)
        return losses

    def gradient_norms(self, losses: FloatArray) -> FloatArray:
        """Return the gradient norms of rows with these losses, with respect to the prediction."""
        return self.loss.gradient_norms(losses)

    def piloted(self, sketch: Any, model: FittedEstimator, data: Snapshot) -> Any:
        """Return the sketch that scores further rows by a new model, measured on some of the kept rows.

        Its size is that which the memory holds of rows like these.
        """
        sketch = self._sized(sketch, data)
        if sketch.pilot != "gradients":
            return sketch
        some = self._comparison_rows(data)
        return sketch.with_model(model, some, self.gradient_norms(self._losses_on(some, model)))

    def _sized(self, sketch: Any, data: Snapshot) -> Any:
        schema = self.encoding.schema
        if self.memory is None or schema is None or not len(schema.string_columns):
            return sketch
        strings = self.encoding.strings.bytes_of(data.coreset.points[:, schema.string_columns])
        size = rows_in_memory(self.memory, sum(sketch.settings.shape), strings / max(1, len(data.coreset)))
        is_complete = sketch.totals.n_rows <= sketch.settings.size
        return sketch.with_size(float(size if is_complete else min(size, sketch.settings.size)))

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
        if model is None or (scored is not None and not scored(coreset.ids).any()):
            return Hindsight(math.nan)
        if self.is_flexible(model, len(coreset)):
            losses, certain = self._held_out_losses(coreset), certain_weight(data)
            weights = coreset.weights if scored is None else coreset.weights * scored(coreset.ids)
            return Hindsight(float(weights @ losses), sampling_error(weights, losses, certain=certain))
        options = [self.fit(data, None).model, model]
        costs = [self._full_cost(option, data, coreset, scored) for option in options]
        best = options[costs.index(min(costs))]
        if data.history is not None:
            return Hindsight(min(costs))
        losses, certain = self._losses_on(coreset, best), certain_weight(data)
        weights = coreset.weights if scored is None else coreset.weights * scored(coreset.ids)
        return Hindsight(min(costs), sampling_error(weights, losses, certain=certain))

    def is_flexible(self, model: FittedEstimator, n_rows: int) -> bool:
        """Whether an estimator has so many parameters, or any number, that its loss on its own rows says little.

        A function is fitted and measured on the same rows, as its optimum is defined.
        """
        known = n_parameters(model.model)
        is_estimator = hasattr(self.estimator, "fit") and n_rows >= 2 * self.start
        return is_estimator and (known is None or n_rows < _ROWS_PER_PARAMETER * known)

    def _held_out_losses(self, coreset: Coreset) -> FloatArray:
        """Return the loss of each row of the coreset under a model of the half that it is not in."""
        losses, is_first = np.empty(len(coreset)), sampling.uniforms(self.seed, FOLDS, coreset.ids) < 0.5
        for is_fitted in (is_first, ~is_first):
            model = self.fit_on(self._training_rows(selected(coreset, is_fitted)))
            losses[~is_fitted] = self._checked_losses(model, _as_rows(selected(coreset, ~is_fitted)))
        return losses

    def _full_cost(self, model: FittedEstimator, data: Snapshot, coreset: Coreset, scored: Scores | None) -> float:
        if data.history is None:
            return self._cost_on(coreset, model, scored)
        parts = data.history if scored is None else (rows[scored(rows.ids)] for rows in data.history)
        return sum(float(rows.weights @ self._checked_losses(model, rows)) for rows in parts if len(rows))

    def degrees_of_freedom(self, model: FittedEstimator | None, data: Snapshot) -> float:
        """Return the degrees of freedom of the model if they are known, else one for each column and one more.

        Where the coreset holds fewer rows than have come, its own noise counts: as if these were all.
        """
        known = None if model is None else degrees_of(model.model)
        own = data.sketch.settings.shape[0] + 1.0 if known is None else known
        rows, kept = data.totals.effective_rows, max(1, len(data.coreset))
        return float(own * max(1.0, rows / kept))

    def difference(self, old: FittedEstimator, new: FittedEstimator, data: Snapshot) -> dict[str, Any]:
        """Mean absolute change of the loss of a row, on the rows on which models are compared."""
        coreset = self._comparison_rows(data)
        moved = np.abs(self._losses_on(coreset, new) - self._losses_on(coreset, old))
        magnitude = float(np.average(moved, weights=coreset.weights))
        return {
            "magnitude": magnitude,
            **moved_importances(old.model, new.model),
            **self._moved_predictions(old, new, data),
        }

    def _moved_predictions(self, old: FittedEstimator, new: FittedEstimator, data: Snapshot) -> dict[str, Any]:
        """Return the share of classes that changed, or the change of numbers, on a sample of the coreset."""
        has_clusters = self._has_clusters(new)
        is_known = (self.baseline() is not None and hasattr(new.model, "predict")) or has_clusters
        if not is_known or not len(data.coreset):
            return {}
        some = subsample(self._comparison_rows(data), _PREDICTED_ROWS, self.seed)
        before, after = (np.reshape(self._predicted(each, some), (len(some), -1)) for each in (old, new))
        if isinstance(self.baseline(), ClassBaseline) or has_clusters:
            return {"churn": float(np.average((before != after).any(axis=1), weights=some.weights))}
        change = np.square(after - before).sum(axis=1)
        return {"prediction_change": math.sqrt(np.average(change, weights=some.weights))}

    def same(self, old: FittedEstimator | Rows | None, new: FittedEstimator | Rows | None) -> bool:
        """Whether two models hold the same; None is the model before the first refresh."""
        if old is None or new is None:
            return old is new
        mine, theirs = rows_of(old), rows_of(new)
        if np.array_equal(mine.ids, theirs.ids) and np.array_equal(mine.weights, theirs.weights):
            return True
        if isinstance(old, Rows) or isinstance(new, Rows) or old.last.differ(new.last):
            return False
        try:
            return bool(joblib.hash(old.model) == joblib.hash(new.model))
        except (pickle.PicklingError, AttributeError, TypeError):  # it holds what cannot be compared
            return False


def moved_importances(old: Any, new: Any) -> dict[str, Any]:
    """Return the columns whose coefficients, or shares of ``feature_importances_``, moved most between two estimators.

    Estimators in pipelines see other columns, and several targets or classes have several coefficients: nothing then.
    """
    for name, field_name in (("coef_", "coefficients"), ("feature_importances_", "importances")):
        found = [getattr(each, name, None) for each in (old, new)]
        if any(each is None or not isinstance(each, np.ndarray) or each.ndim != 1 for each in found):
            continue
        before, after = (np.asarray(each, dtype=np.float64) for each in found)
        if name == "feature_importances_":
            before, after = (each / (each.sum() or 1.0) for each in (before, after))
        if before.shape == after.shape:
            return {field_name: most_moved(np.abs(after - before), before, after)}
    return {}


def renumbered(model: FittedEstimator, order: IntArray | None) -> FittedEstimator:
    """Return a model that was fitted just now with its clusters in another order, if one is given."""
    if order is None:
        return model
    clusters.renumber(model.model, order)
    return replace(model, order=order)


def rows_of(model: FittedEstimator | Rows | None) -> Any:
    """Return the rows that a model was fitted on; None if there is no model."""
    return model if model is None or isinstance(model, Rows) else model.rows
