"""Losses of rows under a fitted estimator: those of predictions, of the model itself, or a function of the user.

Before there is a model, rows are scored by those before them, see ``warm_up``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.pipeline import Pipeline

from batch2online._types import FloatArray
from batch2online.methods.any_estimator.models import InputRows, Model
from batch2online.methods.losses import LOSSES as OF_PREDICTIONS
from batch2online.methods.losses import Logistic, Loss, PlainHuber, predictor_loss
from batch2online.quality import Baseline
from batch2online.warm_up import Free, MeanSoFar, Scored, WarmUp


class ModelLoss(ABC):
    """A loss that needs more of a model than its predictions."""

    @abstractmethod
    def of_model(self, model: Model, points: InputRows, targets: Any) -> FloatArray:
        """Return the loss of each row."""

    def warm_up(self) -> WarmUp:
        """Return the scoring of rows before there is a model; by default they cost nothing."""
        return Free()

    def baseline(self) -> Baseline | None:
        """Return the simplest prediction, which is scored beside the model: there is none."""
        return None

    def gradient_norms(self, losses: FloatArray) -> FloatArray:
        """Return the gradient norms of rows with these losses: the losses themselves."""
        return np.maximum(losses, 0.0)

    def measure(self, mean: float) -> tuple[str, float]:
        """Return the name of a mean loss, and its value in the user's units."""
        return "mean loss", mean


@dataclass(frozen=True)
class Distance(ModelLoss):
    """``|x - c|^power`` to the nearest center of the model (``cluster_centers_`` or ``means_``)."""

    power: float = 2.0

    def of_model(self, model: Model, points: InputRows, targets: Any) -> FloatArray:
        model, points = _last_step(model, points)
        centers = getattr(model, "cluster_centers_", None if not hasattr(model, "means_") else model.means_)
        if centers is None:
            name = type(model).__name__
            raise TypeError(f"{name} has neither cluster_centers_ nor means_ to measure distances to: pass loss=.")
        return np.asarray(cdist(np.asarray(points), centers).min(axis=1) ** self.power)

    def warm_up(self) -> WarmUp:
        return MeanSoFar(of_targets=False, power=self.power)

    def measure(self, mean: float) -> tuple[str, float]:
        return ("RMS distance", math.sqrt(mean)) if self.power == 2 else ("mean distance", mean)


@dataclass(frozen=True)
class Reconstruction(ModelLoss):
    """``|x - inverse_transform(transform(x))|^2``."""

    def of_model(self, model: Model, points: InputRows, targets: Any) -> FloatArray:
        model, points = _last_step(model, points)
        restored = np.asarray(model.inverse_transform(model.transform(points)))
        return np.asarray(np.square(np.asarray(points) - restored).sum(axis=1))

    def warm_up(self) -> WarmUp:
        return MeanSoFar(of_targets=False)

    def measure(self, mean: float) -> tuple[str, float]:
        return "RMS distance", math.sqrt(mean)


@dataclass(frozen=True)
class NegativeLogLikelihood(ModelLoss):
    """``-score_samples(x)`` of a density. It may be negative: then differences have a meaning, ratios have none."""

    def of_model(self, model: Model, points: InputRows, targets: Any) -> FloatArray:
        return np.asarray(-model.score_samples(points))


@dataclass(frozen=True)
class OwnLoss(ModelLoss):
    """The user's own function ``loss(model, points[, targets])``; a row costs nothing before there is a model."""

    function: Callable[..., Any]

    def of_model(self, model: Model, points: InputRows, targets: Any) -> FloatArray:
        given = (targets[:, 0] if targets.shape[1] == 1 else targets,) if targets.shape[1] else ()
        losses = np.asarray(self.function(model, points, *given), dtype=np.float64)
        if losses.shape != (len(targets),):
            raise ValueError(f"loss must return an array of shape ({len(targets)},), got shape {losses.shape}.")
        return losses


def _last_step(model: Model, points: InputRows) -> tuple[Model, InputRows]:
    """Return the last step of a pipeline, and rows as it is given them: distances are those after the other steps."""
    if not isinstance(model, Pipeline):
        return model, points
    prepared = points if len(model.steps) == 1 else model[:-1].transform(points)
    return model.steps[-1][1], prepared.toarray() if hasattr(prepared, "toarray") else prepared


RowLoss = Loss | ModelLoss

LOSSES: dict[str, RowLoss] = {
    **{name: loss for name, loss in OF_PREDICTIONS.items() if name != "logistic"},
    "distance": Distance(1.0),
    "squared_distance": Distance(2.0),
    "reconstruction": Reconstruction(),
    "negative_log_likelihood": NegativeLogLikelihood(),
}
"""Losses by name."""


def losses_of(loss: RowLoss, model: Model, points: InputRows, targets: Any) -> Scored:
    """Return loss and secondary loss of rows with targets (n, k), k may be zero; the latter is 0 where there is none.

    Classes that the model does not know have a probability of zero.
    """
    if isinstance(loss, ModelLoss):
        losses = loss.of_model(model, points, targets)
        return losses, np.zeros(len(losses))
    y = targets[:, 0] if targets.shape[1] == 1 else targets
    if not isinstance(loss, Logistic):
        return loss.of_prediction(model.predict(points), y)
    places = np.full(len(y), len(model.classes_))
    for place, label in enumerate(model.classes_):
        places[y == label] = place
    return loss.of_prediction(np.asarray(model.predict_proba(points)), places)


def loss_of(loss: str | tuple[str, float] | Callable[..., Any]) -> RowLoss:
    """Return the loss of this name, or of a name and its setting, or the function itself.

    >>> loss_of(("quantile", 0.9))
    Quantile(quantile=0.9, factor=1.0)
    """
    if isinstance(loss, tuple) and len(loss) == 2 and loss[0] in ("huber", "quantile", "tweedie"):
        name, setting = loss[0], float(loss[1])
        return PlainHuber(setting) if name == "huber" else predictor_loss(name, setting, setting)
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    if isinstance(loss, str) or not callable(loss):
        error = ValueError if isinstance(loss, str) else TypeError
        raise error(f"loss must be a function or one of {', '.join(map(repr, LOSSES))}, got {loss!r}.")
    return OwnLoss(loss)
