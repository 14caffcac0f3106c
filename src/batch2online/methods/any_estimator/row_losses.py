"""Losses of rows under a fitted estimator: by name, or a function of the user.

A loss is called with a fitted model, points (n, d) and targets (n, k), k may be zero, and returns an array (n,). Before
there is a model, rows are scored by those before them, see ``warm_up``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.pipeline import Pipeline

from batch2online._types import FloatArray
from batch2online.methods.losses import MeanUnderLoss, PlainHuber, PredictorLoss, predictor_loss
from batch2online.quality import Baseline, ClassBaseline, MeanBaseline
from batch2online.rows import Rows
from batch2online.warm_up import Free, LabelsSoFar, MeanSoFar, Scored, WarmUp

_LEAST_PROBABILITY = 1e-15


class RowLoss(ABC):
    """The loss of rows under a model, and before there is one."""

    @abstractmethod
    def __call__(self, model: Any, points: FloatArray, targets: FloatArray) -> FloatArray:
        """Return the loss of each row."""

    def with_secondary(self, model: Any, points: FloatArray, targets: FloatArray) -> Scored:
        """Return loss and secondary loss of each row: errors of classes, absolute residuals; 0 where there is none."""
        losses = self(model, points, targets)
        return losses, np.zeros(len(losses))

    def warm_up(self) -> WarmUp:
        """Return the scoring of rows before there is a model; by default they cost nothing."""
        return Free()

    def baseline(self) -> Baseline | None:
        """Return the simplest prediction, which is scored beside the model; None where there is none."""
        return None

    def gradient_norms(self, losses: FloatArray) -> FloatArray:
        """Return the gradient norms of rows with these losses: the losses themselves, if nothing else is known."""
        return np.maximum(losses, 0.0)

    def measure(self, mean: float) -> tuple[str, float]:
        """Return the name of a mean loss, and its value in the user's units."""
        return "mean loss", mean


@dataclass(frozen=True)
class Deviation(RowLoss):
    """``|target - prediction|^power``, Euclidean over several targets: 2 for squared, 1 for absolute loss."""

    power: float = 2.0

    def __call__(self, model: Any, points: FloatArray, targets: FloatArray) -> FloatArray:
        return self.with_secondary(model, points, targets)[0]

    def with_secondary(self, model: Any, points: FloatArray, targets: FloatArray) -> Scored:
        distances = np.linalg.norm(targets - np.reshape(model.predict(points), targets.shape), axis=1)
        return np.asarray(distances**self.power), distances

    def warm_up(self) -> WarmUp:
        return MeanSoFar(of_targets=True, power=self.power)

    def baseline(self) -> Baseline:
        return MeanBaseline(self.warm_up())

    def gradient_norms(self, losses: FloatArray) -> FloatArray:
        return np.asarray(losses ** (1 - 1 / self.power))

    def measure(self, mean: float) -> tuple[str, float]:
        return ("RMSE", math.sqrt(mean)) if self.power == 2 else ("MAE", mean)


@dataclass(frozen=True)
class OfPrediction(RowLoss):
    """A loss of linear models, of the predictions of any regressor; those outside its domain count as the nearest."""

    name: str
    own: PredictorLoss

    def __call__(self, model: Any, points: FloatArray, targets: FloatArray) -> FloatArray:
        return self.with_secondary(model, points, targets)[0]

    def with_secondary(self, model: Any, points: FloatArray, targets: FloatArray) -> Scored:
        y, predictions = targets[:, 0], np.reshape(model.predict(points), -1).astype(np.float64)
        return self.own.without_scale(self.own.predictor(predictions), y), np.abs(y - predictions)

    def check(self, targets: FloatArray) -> None:
        """Raise ValueError for targets (n,) that the loss is not made for."""
        if targets.ndim != 1:
            raise ValueError(f"The {self.name} loss is of one target, got targets of shape {targets.shape}.")
        self.own.check(targets)

    def warm_up(self) -> WarmUp:
        return MeanUnderLoss(self.own, MeanSoFar(of_targets=True))

    def baseline(self) -> Baseline:
        return MeanBaseline(self.warm_up())

    def measure(self, mean: float) -> tuple[str, float]:
        return f"{self.name} loss", mean


@dataclass(frozen=True)
class ZeroOne(RowLoss):
    """1 for a wrong label, 0 for the right one."""

    def __call__(self, model: Any, points: FloatArray, targets: FloatArray) -> FloatArray:
        return np.asarray(model.predict(points) != targets[:, 0], dtype=np.float64)

    def with_secondary(self, model: Any, points: FloatArray, targets: FloatArray) -> Scored:
        errors = self(model, points, targets)
        return errors, errors

    def warm_up(self) -> WarmUp:
        return LabelsSoFar(is_log=False)

    def baseline(self) -> Baseline:
        return ClassBaseline(is_log=False)

    def measure(self, mean: float) -> tuple[str, float]:
        return "error rate", mean


@dataclass(frozen=True)
class LogLoss(RowLoss):
    """``-ln p`` of the true label, p at least 1e-15: a label that the model does not know costs 34.5."""

    def __call__(self, model: Any, points: FloatArray, targets: FloatArray) -> FloatArray:
        return self.with_secondary(model, points, targets)[0]

    def with_secondary(self, model: Any, points: FloatArray, targets: FloatArray) -> Scored:
        probability, shares = np.zeros(len(points)), np.asarray(model.predict_proba(points))
        for column, label in zip(shares.T, model.classes_, strict=True):
            probability = np.where(targets[:, 0] == label, column, probability)
        errors = np.asarray(np.asarray(model.classes_)[shares.argmax(axis=1)] != targets[:, 0], dtype=np.float64)
        return -np.log(np.clip(probability, _LEAST_PROBABILITY, 1.0)), errors

    def warm_up(self) -> WarmUp:
        return LabelsSoFar(is_log=True)

    def baseline(self) -> Baseline:
        return ClassBaseline()

    def gradient_norms(self, losses: FloatArray) -> FloatArray:
        """Return ``1 - p`` of the true label."""
        return -np.expm1(-losses)

    def measure(self, mean: float) -> tuple[str, float]:
        return "log loss", mean


@dataclass(frozen=True)
class Distance(RowLoss):
    """``|x - c|^power`` to the nearest center of the model (``cluster_centers_`` or ``means_``)."""

    power: float = 2.0

    def __call__(self, model: Any, points: FloatArray, targets: FloatArray) -> FloatArray:
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
class Reconstruction(RowLoss):
    """``|x - inverse_transform(transform(x))|^2``."""

    def __call__(self, model: Any, points: FloatArray, targets: FloatArray) -> FloatArray:
        model, points = _last_step(model, points)
        restored = np.asarray(model.inverse_transform(model.transform(points)))
        return np.asarray(np.square(np.asarray(points) - restored).sum(axis=1))

    def warm_up(self) -> WarmUp:
        return MeanSoFar(of_targets=False)

    def measure(self, mean: float) -> tuple[str, float]:
        return "RMS distance", math.sqrt(mean)


@dataclass(frozen=True)
class NegativeLogLikelihood(RowLoss):
    """``-score_samples(x)`` of a density. It may be negative: then differences have a meaning, ratios have none."""

    def __call__(self, model: Any, points: FloatArray, targets: FloatArray) -> FloatArray:
        return np.asarray(-model.score_samples(points))


@dataclass(frozen=True)
class OwnLoss(RowLoss):
    """The user's own function ``loss(model, points[, targets])``; a row costs nothing before there is a model."""

    function: Callable[..., Any]

    def __call__(self, model: Any, points: FloatArray, targets: FloatArray) -> FloatArray:
        given = (targets[:, 0] if targets.shape[1] == 1 else targets,) if targets.shape[1] else ()
        losses = np.asarray(self.function(model, points, *given), dtype=np.float64)
        if losses.shape != (len(points),):
            raise ValueError(f"loss must return an array of shape ({len(points)},), got shape {losses.shape}.")
        return losses


def _last_step(model: Any, points: Any) -> tuple[Any, Any]:
    """Return the last step of a pipeline, and rows as it is given them: distances are those after the other steps."""
    if not isinstance(model, Pipeline):
        return model, points
    prepared = points if len(model.steps) == 1 else model[:-1].transform(points)
    return model.steps[-1][1], prepared.toarray() if hasattr(prepared, "toarray") else prepared


LOSSES: dict[str, RowLoss] = {
    "squared": Deviation(2.0),
    "absolute": Deviation(1.0),
    "huber": OfPrediction("huber", PlainHuber()),
    **{name: OfPrediction(name, predictor_loss(name)) for name in ("quantile", "poisson", "gamma", "tweedie")},
    "zero_one": ZeroOne(),
    "log": LogLoss(),
    "distance": Distance(1.0),
    "squared_distance": Distance(2.0),
    "reconstruction": Reconstruction(),
    "negative_log_likelihood": NegativeLogLikelihood(),
}
"""Losses by name."""


def loss_of(loss: str | tuple[str, float] | Callable[..., Any]) -> RowLoss:
    """Return the loss of this name, or of a name and its setting, or the function itself.

    >>> loss_of(("quantile", 0.9))
    OfPrediction(name='quantile', own=Quantile(quantile=0.9, factor=1.0))
    """
    if isinstance(loss, tuple) and len(loss) == 2 and loss[0] in ("huber", "quantile", "tweedie"):
        name, setting = loss[0], float(loss[1])
        return OfPrediction(
            name, PlainHuber(setting) if name == "huber" else predictor_loss(name, setting, setting, setting)
        )
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(f"loss must be a function or one of {', '.join(map(repr, LOSSES))}, got {loss!r}.")
        return LOSSES[loss]
    if not callable(loss):
        raise TypeError(f"loss must be a function or one of {', '.join(map(repr, LOSSES))}, got {loss!r}.")
    return OwnLoss(loss)


class LastLosses:
    """Cache of the losses of one model on the rows where they were computed last, by a digest of the rows.

    A check needs the losses of a coreset several times: for the cost of the old and of the new model, and for their
    difference. Ids alone do not identify rows: an interrupted call may have given them to other rows. The cache is
    neither copied nor stored; losses are computed again on the same rows, with the same result.
    """

    def __init__(self) -> None:
        self._last: tuple[bytes, FloatArray] | None = None

    def of(self, rows: Rows, measured: Callable[[], FloatArray]) -> FloatArray:
        """Return the losses of these rows, cached or computed now."""
        last, key = self._last, _digest(rows)
        if last is not None and last[0] == key:
            return last[1]
        losses = measured()
        self._last = (key, losses)
        return losses

    def differ(self, other: LastLosses) -> bool:
        """Whether two models were seen to have different losses on the same rows."""
        if self._last is None or other._last is None or self._last[0] != other._last[0]:
            return False
        return not np.array_equal(self._last[1], other._last[1])

    def __getstate__(self) -> dict[str, None]:
        return {"_last": None}


def _digest(rows: Rows) -> bytes:
    digest = blake2b(digest_size=16)
    for part in (rows.ids, rows.points, rows.targets):
        digest.update(np.ascontiguousarray(part).data.cast("B") if part.size else b"")
    return digest.digest()
