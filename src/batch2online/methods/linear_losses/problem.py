"""Losses of a linear predictor as an online problem: classification, counts, quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.linear_losses.classes import positions
from batch2online.methods.linear_losses.newton import predictors
from batch2online.methods.linear_losses.sketch import AnchoredSample, AnchoredSketch
from batch2online.methods.linear_losses.solver import Penalty, fit
from batch2online.methods.losses import PredictorLoss
from batch2online.metrics import Metrics, classification_quality
from batch2online.problem import FitResult, Hindsight, Problem, certain_weight, sampling_error
from batch2online.quality import Baseline, ClassScores
from batch2online.record import Averages
from batch2online.refresh import Geometric
from batch2online.results import most_moved
from batch2online.rows import Rows
from batch2online.schema import shape, storable
from batch2online.sketches.base import Snapshot
from batch2online.theory.bounds import DependsOn
from batch2online.warm_up import Scored, WarmUp


@storable
@dataclass(frozen=True)
class LinearPredictor:
    """A fitted linear model: ``predictors = points @ coefficients.T + intercepts`` (n, K).

    Attributes
    ----------
    coefficients, intercepts : (K, d) and (K,) arrays
    scale : float
        Scale of residuals, for losses that have one.
    classes : tuple of float
        Codes of the known classes.
    error : float
        Estimated share by which it costs more than the fit to all rows.
    unknown : float
        Loss of a row of an unknown class: that of a class with half a row among all.
    factors : tuple of float
        Weights of balanced classes at the fit; empty where classes are not balanced.
    """

    coefficients: Annotated[FloatArray, shape("k", "d")]
    intercepts: Annotated[FloatArray, shape("k")]
    scale: float = 1.0
    classes: tuple[float, ...] = ()
    error: float = 0.0
    unknown: float = math.log(2)
    factors: tuple[float, ...] = ()

    def predictors(self, points: FloatArray) -> FloatArray:
        return np.asarray((self.coefficients @ points.T + self.intercepts[:, None]).T)  # contiguous by class


@storable
@dataclass(frozen=True)
class LinearLossProblem(Problem):
    """The problem: a loss of a linear predictor and a penalty, solved on an anchored coreset.

    ``labels`` are those of classes by their codes; they grow as labels come.
    """

    sketch_type: ClassVar[type] = AnchoredSketch
    tries_changes: ClassVar[bool] = True
    loss: PredictorLoss
    penalty: Penalty
    labels: dict = field(default_factory=dict)  # type: ignore[type-arg]  # a file holds them elsewhere

    @property
    def secondary_name(self) -> str:
        return "errors" if self.loss.has_classes else "absolute residual"

    @property
    def best_model(self) -> str:
        return "model known" if self.loss.has_classes else "possible linear fit"

    def quality(self, rows: Averages) -> Metrics:
        if self.loss.has_classes:
            return classification_quality(rows)
        return {"MAE": rows.mean_secondary_loss, "mean loss": rows.mean_loss}

    def refit_cost(self, keeps_history: bool) -> Literal["moments", "low", "high"]:
        return "low"

    @property
    def depends_on(self) -> DependsOn:
        return DependsOn.CURRENT_MODEL

    def first_check(self, width: int, n_targets: int) -> int:
        """Three rows for each coefficient of a predictor."""
        return 3 * (width + 1)

    def warm_up(self) -> WarmUp:
        return self.loss.warm_up()

    def baseline(self) -> Baseline:
        return self.loss.baseline()

    def class_scores(self, model: LinearPredictor, rows: Rows, losses: Scored) -> ClassScores | None:
        if not self.loss.has_classes:
            return None
        own, errors = losses
        if model.factors:
            own = own / _factors(model)[positions(model.classes, rows.targets[:, 0]).astype(np.int64)]
        return ClassScores(errors, own)

    def initial_model(self, prediction: FloatArray | None, width: int, n_targets: int) -> LinearPredictor:
        return LinearPredictor(np.zeros((1, width)), np.zeros(1) if prediction is None else prediction)

    def degrees_of_freedom(self, model: LinearPredictor, data: Snapshot) -> float:
        """Return half the number of parameters over the mean loss: each costs half a unit of a likelihood."""
        mean = self.cost(model, data) / data.totals.weight
        return float((model.coefficients.size + len(model.intercepts)) / max(2 * mean, 1e-9))

    def losses(self, model: LinearPredictor, points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the loss of each row, and 1 for a wrong class or the absolute error.

        Where classes are balanced, a loss is multiplied by the weight that its class had when the model was solved.
        """
        eta = model.predictors(points)
        if not self.loss.has_classes:
            values = self.loss.value(eta, targets[:, 0], self.loss.scoring_scale(model.scale))
            return values, np.abs(targets[:, 0] - self.loss.mean(eta))
        y = positions(model.classes, targets[:, 0])
        values = self._class_losses(model, eta, y)
        if model.factors:
            values = values * _factors(model)[y.astype(np.int64)]
        return values, (y != decided(eta)).astype(np.float64)

    def _class_losses(self, model: LinearPredictor, eta: FloatArray, y: FloatArray) -> FloatArray:
        is_known = y >= 0
        if is_known.all():
            return self.loss.value(eta, y)
        return np.where(is_known, self.loss.value(eta, np.maximum(y, 0.0)), model.unknown)

    def predict(self, model: LinearPredictor, points: FloatArray) -> FloatArray:
        """Predictions (n,) of a model of numbers."""
        return self.loss.mean(model.predictors(points))

    def fit(self, data: Snapshot, current: LinearPredictor | None) -> FitResult:
        """Return the model of the anchored coreset; the current one is one of the starts."""
        sample = data.sketch.in_full()
        return FitResult(self._fitted(sample, data, current), len(sample.anchored.y))

    def _fitted(self, sample: AnchoredSample, data: Snapshot, current: LinearPredictor | None) -> LinearPredictor:
        unknown = math.log(1 + 2 * sample.weight)
        if self.loss.has_classes and len(sample.classes) < 2:
            nothing, intercepts = np.zeros((1, len(sample.frame.shift))), np.array([-unknown])
            return LinearPredictor(nothing, intercepts, classes=sample.classes, unknown=unknown, factors=sample.factors)
        found = fit(sample, self.penalty, self._start(sample, current))
        coefficients, intercepts = sample.frame.outer(
            _without_shared(found.theta, sample.frame.intercept, self.penalty)
        )
        shown = (found.scale, sample.classes, 0.0, unknown, sample.factors)
        model = LinearPredictor(coefficients, intercepts, *shown)
        cost = max(abs(self._cost(model, data, found.is_expanded)), np.finfo(np.float64).tiny)
        return replace(model, error=float(found.excess / cost))

    def _start(self, sample: AnchoredSample, current: LinearPredictor | None) -> FloatArray | None:
        if current is None or current.classes != sample.classes:
            return None
        return sample.frame.inner(current.coefficients, current.intercepts)

    def cost(self, model: LinearPredictor, data: Snapshot) -> float:
        """Total loss on all rows seen, by the coreset and the expansions of all rows."""
        return max(0.0, self._cost(model, data, is_expanded=True))

    def _cost(self, model: LinearPredictor, data: Snapshot, is_expanded: bool) -> float:
        """Total loss by the coreset, and by expansions, of which there are none for other classes."""
        sample = data.sketch.in_full()
        theta = sample.frame.inner(model.coefficients, model.intercepts)
        return float(sample.cost(self._losses_on(data, model), theta, is_expanded and model.classes == sample.classes))

    def optimum(self, data: Snapshot, model: LinearPredictor) -> float:
        """Return the cost of the best model known, this one or one solved now."""
        if not data.totals.n_rows:
            return 0.0
        return min(self.cost(option, data) for option in (model, self.fit(data, model).model))

    def hindsight(self, data: Snapshot, model: LinearPredictor) -> Hindsight:
        """Return the optimum and, unless all rows are kept, how far the coreset's plain sum may be from that of all."""
        optimum = self.optimum(data, model)
        if data.sketch.is_complete or not data.totals.n_rows:
            return Hindsight(optimum)
        weights, losses = data.sketch.in_full().anchored.weights, self._losses_on(data, model)
        return Hindsight(optimum, sampling_error(weights, losses, certain=certain_weight(data)))

    def difference(self, old: LinearPredictor, new: LinearPredictor, data: Snapshot) -> dict[str, Any]:
        """Mean absolute change of the loss of a row, on the coreset; and how predictions and coefficients moved."""
        moved = np.abs(self._losses_on(data, new) - self._losses_on(data, old))
        magnitude = float(np.average(moved, weights=data.sketch.in_full().anchored.weights))
        return {
            "magnitude": magnitude,
            **self._moved_predictions(old, new, data),
            **_moved_coefficients(old, new, data),
        }

    def _moved_predictions(self, old: LinearPredictor, new: LinearPredictor, data: Snapshot) -> dict[str, Any]:
        """Return the share of predicted classes that changed, or the root mean square change of numbers."""
        sample = data.sketch.in_full()
        design, weights = sample.anchored.design, _unbalanced(sample)
        if not len(design):
            return {}
        inner = (sample.frame.inner(model.coefficients, model.intercepts) for model in (old, new))
        before, after = (predictors(design, theta) for theta in inner)
        if not self.loss.has_classes:
            change = np.square(self.loss.mean(after) - self.loss.mean(before))
            return {"prediction_change": math.sqrt(np.average(change, weights=weights))}
        labels = [
            np.array(model.classes)[decided(eta).astype(np.int64)] for model, eta in ((old, before), (new, after))
        ]
        return {"churn": float(np.average(labels[0] != labels[1], weights=weights))}

    def _losses_on(self, data: Snapshot, model: LinearPredictor) -> FloatArray:
        """Losses of the rows of the coreset, computed once for each snapshot."""
        known = data.cache
        key = (id(model.coefficients), id(model.intercepts), model.scale, model.classes)
        if key not in known:
            known[key] = (self._fresh_losses_on(data, model), model)  # the model keeps its ids from others
        losses: FloatArray = known[key][0]
        return losses

    def _fresh_losses_on(self, data: Snapshot, model: LinearPredictor) -> FloatArray:
        sample = data.sketch.in_full()
        if model.classes == sample.classes:
            rows, theta = sample.anchored, sample.frame.inner(model.coefficients, model.intercepts)
            return self.loss.value(predictors(rows.design, theta), rows.y, self.loss.scoring_scale(model.scale))
        coreset = data.coreset
        assert coreset.targets is not None
        y = positions(model.classes, coreset.targets.reshape(-1))
        return self._class_losses(model, model.predictors(coreset.points), y)

    def same(self, old: LinearPredictor, new: LinearPredictor) -> bool:
        return (
            np.array_equal(old.coefficients, new.coefficients)
            and np.array_equal(old.intercepts, new.intercepts)
            and (old.scale, old.classes) == (new.scale, new.classes)
        )


_WIDE = 100
"""Columns from which on models are refitted more often: the excess loss of an old one grows with their number."""


def default_refresh(width: int) -> Geometric:
    """Return the default policy for rows of so many columns.

    >>> default_refresh(10).growth, default_refresh(300).growth
    (2.0, 1.5)
    """
    return Geometric(growth=1.5 if width >= _WIDE else 2.0)


def _without_shared(theta: FloatArray, intercept: bool, penalty: Penalty) -> FloatArray:
    """Return parameters (K, p) of several classes minus their common part, which changes no probability."""
    if len(theta) == 1:
        return theta
    shared = theta.mean(axis=0)
    if penalty.has_absolute_values:  # these would change
        shared[int(intercept) :] = 0.0
    return np.asarray(theta - shared)


def _moved_coefficients(old: LinearPredictor, new: LinearPredictor, data: Snapshot) -> dict[str, Any]:
    """Return the coefficients that moved most, times the spread of their columns, and the classes that they are of."""
    sample = data.sketch.in_full()
    rows, frame = sample.anchored, sample.frame
    if old.coefficients.shape != new.coefficients.shape or old.classes != new.classes or not len(rows.y):
        return {}
    columns, weights = rows.design.T[int(frame.intercept) :], _unbalanced(sample)
    shares = weights / weights.sum()
    centred = columns - (columns @ shares)[:, None]
    spreads = frame.scale * np.sqrt(np.square(centred, out=centred) @ shares)
    changes = np.abs(new.coefficients - old.coefficients) * spreads
    each = np.arange(changes.shape[1])
    of = changes.argmax(axis=0)  # the class in which the coefficient of a column moved most
    found = most_moved(changes[of, each], old.coefficients[of, each], new.coefficients[of, each])
    if not new.classes:
        return {"coefficients": found}
    classes = new.classes[1:] if len(new.coefficients) == 1 else new.classes
    return {"coefficients": found, "coefficient_classes": tuple(float(classes[of[j]]) for j, _, _ in found)}


def _unbalanced(sample: AnchoredSample) -> FloatArray:
    """Return the weights of the rows of a coreset without those of balanced classes."""
    rows = sample.anchored
    return rows.weights / np.array(sample.factors)[rows.y.astype(np.int64)] if sample.factors else rows.weights


def _factors(model: LinearPredictor) -> FloatArray:
    """Return the weights of balanced classes, the last one that of unknown classes."""
    return np.array([*model.factors, max(model.factors)])


def decided(eta: FloatArray) -> FloatArray:
    """Return the position of the likeliest class of each row."""
    if eta.shape[1] == 1:
        return (eta[:, 0] > 0).astype(np.float64)
    return np.asarray(eta.argmax(axis=1), dtype=np.float64)
