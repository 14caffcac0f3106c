r"""One table of losses: what the prediction of a row costs, and what predicts best without a model.

A :class:`PredictionLoss` is of predictions, whatever made them: wrapped estimators and evaluations read it, and so do
warm-up and baseline. A :class:`PredictorLoss` is a loss :math:`l(\eta, y)` of a linear predictor
:math:`\eta = x \cdot \theta`, with a link and derivatives.

Arrays of predictors are (n, K), K = 1 except for more than two classes. Targets are (n,) numbers, or the positions of
classes. Some losses have a *scale* of residuals, which is part of the model: a number, or one per row where rows were
expanded under different models.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, xlogy

from batch2online._types import FloatArray
from batch2online.quality import Baseline, ClassBaseline, MeanBaseline
from batch2online.schema import storable
from batch2online.warm_up import LabelsSoFar, MeanSoFar, Scored, WarmUp

Scale = float | FloatArray

Local = tuple[FloatArray, FloatArray, FloatArray]
"""Values (n,), first derivatives (n, K) and second derivatives by the same predictor (n, K) of rows."""

__all__ = [
    "Deviation",
    "Gamma",
    "HalfSquared",
    "Huber",
    "Logistic",
    "Poisson",
    "PredictionLoss",
    "PredictorLoss",
    "Quantile",
    "Tweedie",
    "ZeroOne",
    "predictor_loss",
]

_LARGEST_PREDICTOR = 300.0
"""Logarithms of means are clipped here, so that means are finite."""

_LARGEST = 1e100
"""Predictions are clipped here, so that losses are finite."""

_LEAST_MEAN = 1e-12
"""Prediction of a constant model of zeros."""

_LEAST_PROBABILITY = 1e-15
"""A probability below this counts as this, so that a loss is finite."""


class PredictionLoss(ABC):
    """What a prediction costs."""

    has_classes: ClassVar[bool] = False
    """Whether targets are labels of classes."""

    @abstractmethod
    def of_prediction(self, prediction: Any, y: Any) -> Scored:
        """Return loss and secondary loss of each row: errors of classes, else absolute residuals."""

    def warm_up(self) -> WarmUp:
        """Return the scoring of rows before there is a model."""
        return LabelsSoFar(is_log=False)

    def baseline(self) -> Baseline:
        """Return the simplest prediction, which is scored beside the model."""
        return ClassBaseline(is_log=False) if self.has_classes else MeanBaseline(self.warm_up())

    def gradient_norms(self, losses: FloatArray) -> FloatArray:
        """Return the gradient norms of rows with these losses: the losses themselves, if nothing else is known."""
        return np.maximum(losses, 0.0)

    def measure(self, mean: float) -> tuple[str, float]:
        """Return the name of a mean loss, and its value in the user's units."""
        return f"{type(self).__name__.lower()} loss", mean


@storable
@dataclass(frozen=True)
class Deviation(PredictionLoss):
    """``|target - prediction|^power``, Euclidean over several targets: 2 for squared, 1 for absolute loss."""

    power: float = 2.0

    def of_prediction(self, prediction: Any, y: Any) -> Scored:
        away = (y - np.reshape(prediction, np.shape(y))).reshape(len(y), -1)
        distances = np.linalg.norm(away, axis=1)
        return np.asarray(distances**self.power), distances

    def warm_up(self) -> WarmUp:
        return MeanSoFar(of_targets=True, power=self.power)

    def gradient_norms(self, losses: FloatArray) -> FloatArray:
        return np.asarray(losses ** (1 - 1 / self.power))

    def measure(self, mean: float) -> tuple[str, float]:
        return ("RMSE", math.sqrt(mean)) if self.power == 2 else ("MAE", mean)


@dataclass(frozen=True)
class ZeroOne(PredictionLoss):
    """1 for a wrong label, 0 for the right one."""

    has_classes: ClassVar[bool] = True

    def of_prediction(self, prediction: Any, y: Any) -> Scored:
        errors = np.asarray(prediction != y, dtype=np.float64)
        return errors, errors

    def measure(self, mean: float) -> tuple[str, float]:
        return "error rate", mean


class PredictorLoss(PredictionLoss):
    """A convex loss of a linear predictor; a subclass implements :meth:`local`."""

    has_scale: ClassVar[bool] = False
    """Whether the loss has a scale of residuals, which is part of the model."""

    is_location: ClassVar[bool] = False
    """Whether the loss depends on ``y - eta`` alone, so that both can be shifted by any origin."""

    size_factor: ClassVar[float] = 1.0
    """Factor of the default size of a coreset."""

    roughness: ClassVar[float] = 1.0
    """Factor by which the noise of a coreset costs more than for a smooth loss."""

    least_target: ClassVar[float] = -math.inf
    """Least target that is possible."""

    has_log_link: ClassVar[bool] = False
    """Whether predictions are exponentials of predictors."""

    @property
    def is_above_least(self) -> bool:
        """Whether targets must be above the least one."""
        return False

    def n_outputs(self, n_classes: int) -> int:
        """Return K, the number of predictors."""
        return 1

    @abstractmethod
    def local(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        """Return values, first and second derivatives."""

    def value(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        """Return the loss of each row, (n,)."""
        return self.local(eta, y, scale)[0]

    def expanded(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        """Return values and derivatives for an expansion."""
        return self.local(eta, y, scale)

    def hessian_product(self, eta: FloatArray, hessian: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the second derivatives times a direction (n, K); ``hessian`` holds those by the same predictor."""
        return hessian * direction

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        """Return the predictors (K,) of the best constant model."""
        return np.array([np.average(y, weights=weights)])

    def mean(self, eta: FloatArray) -> FloatArray:
        """Apply the inverse link: return the predictions (n,) of predictors (n, 1)."""
        return eta[:, 0]

    def predictor(self, mean: FloatArray) -> FloatArray:
        """Apply the link: return the predictors (n, 1) of predictions (n,)."""
        return mean[:, None]

    def without_scale(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of each row while the scale is unknown."""
        return self.value(eta, y, self.scoring_scale(1.0))

    def of_prediction(self, prediction: Any, y: Any) -> Scored:
        """Return the losses of predictions (n,); those outside the domain count as the nearest."""
        values = np.clip(np.asarray(prediction, dtype=np.float64).reshape(-1), -_LARGEST, _LARGEST)
        return self.without_scale(self.predictor(values), y), np.abs(y - values)

    def warm_up(self) -> WarmUp:
        return MeanUnderLoss(self, MeanSoFar(of_targets=True))

    def check(self, targets: FloatArray) -> None:
        """Raise ValueError for targets outside the domain of the loss; the message names the first row."""
        least, is_open = self.least_target, self.is_above_least
        bad = np.flatnonzero(~(targets > least if is_open else targets >= least))
        if bad.size:
            row, name = int(bad[0]), type(self).__name__
            name = name.lower() if name == "Gamma" else name
            range_ = f"above {least:g}" if is_open else f"{least:g} or more"
            raise ValueError(f"y must be {range_} for the {name} loss, got {float(targets[row]):g} at row {row}.")

    def next_scale(self, turn: int, scale: float, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float | None:
        """Return the scale of the next fit, given the predictors of the last one; None after the last."""
        return 1.0 if turn == 0 else None

    def scoring_scale(self, scale: float) -> float:
        """Return the scale with which rows are scored under a model of this scale."""
        return scale

    def anchor_scale(self, scale: float, rows: float) -> float:
        """Return the scale with which losses are expanded, under a model of this scale fitted to so many rows."""
        return scale

    def scale_of(self, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Return the best scale for these predictors."""
        return 1.0


@storable
@dataclass(frozen=True)
class Logistic(PredictorLoss):
    r""":math:`-\ln p_y`: :math:`p_1 = 1/(1 + e^{-\eta})` for two classes, softmax of K predictors for more."""

    has_classes: ClassVar[bool] = True

    def n_outputs(self, n_classes: int) -> int:
        return 1 if n_classes <= 2 else n_classes

    def local(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        if eta.shape[1] > 1:
            (found, top, total), places = _shares(eta), (np.arange(len(eta)), y.astype(np.int64))
            values, hessian = np.log(total) + (top - eta[places]), found * (1 - found)
            found[places] -= 1.0
            return values, found, hessian
        eta = eta[:, 0]
        small = np.exp(-np.abs(eta))  # the one exponential of a row
        found = np.where(eta >= 0, 1.0, small) / (1.0 + small)
        values = np.maximum(np.where(y > 0, -eta, eta), 0.0) + np.log1p(small)
        return values, (found - y)[:, None], (found * (1 - found))[:, None]

    def value(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        if eta.shape[1] > 1:
            return self.local(eta, y)[0]
        signed = np.where(y > 0, -eta[:, 0], eta[:, 0])
        return np.asarray(np.maximum(signed, 0.0) + np.log1p(np.exp(-np.abs(signed))))

    def probabilities(self, eta: FloatArray) -> FloatArray:
        """Return the probability of the second class (n, 1), or of all classes (n, K)."""
        return np.asarray(expit(eta)) if eta.shape[1] == 1 else _shares(eta)[0]

    def hessian_product(self, eta: FloatArray, hessian: FloatArray, direction: FloatArray) -> FloatArray:
        if eta.shape[1] == 1:
            return hessian * direction
        found = self.probabilities(eta)
        return np.asarray(found * (direction - (found * direction).sum(axis=1)[:, None]))

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        """Return the logarithm of the share of each class, after half a row is added to each."""
        logarithms = np.log(np.bincount(y.astype(np.int64), weights, minlength=max(n_classes, 2)) + 0.5)
        if n_classes <= 2:
            return np.asarray(logarithms[1:2] - logarithms[0])
        return np.asarray(logarithms - logarithms.mean())

    def of_prediction(self, prediction: Any, y: Any) -> Scored:
        """Return the losses of probabilities (n, k), p at least 1e-15; ``y`` holds positions, k for unknown classes."""
        places, known = y.astype(np.int64), np.column_stack([prediction, np.zeros(len(y))])
        own = known[np.arange(len(y)), places]
        errors = np.asarray(known.argmax(axis=1) != places, dtype=np.float64)
        return -np.log(np.clip(own, _LEAST_PROBABILITY, 1.0)), errors

    def warm_up(self) -> WarmUp:
        return LabelsSoFar(is_log=True)

    def baseline(self) -> Baseline:
        return ClassBaseline()

    def gradient_norms(self, losses: FloatArray) -> FloatArray:
        """Return ``1 - p`` of the true label."""
        return -np.expm1(-losses)

    def measure(self, mean: float) -> tuple[str, float]:
        return "log loss", mean


def _shares(eta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the softmax (n, K) of predictors, the largest of each row, and the sum of exponentials relative to it."""
    top = eta.max(axis=1)
    found = eta - top[:, None]
    np.exp(found, out=found)
    total = found.sum(axis=1)
    found *= (1 / total)[:, None]
    return found, top, total


@storable
@dataclass(frozen=True)
class HalfSquared(PredictorLoss):
    r"""Half the squared residual, :math:`(y - \eta)^2 / 2`. Its expansions of second order are exact."""

    is_location: ClassVar[bool] = True

    def local(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        return np.square(y - eta[:, 0]) / 2, eta - y[:, None], np.ones_like(eta)


_SMOOTHING_STEPS = 7
"""Number of scales on the way to the pinball loss, each a quarter of the one before."""


@storable
@dataclass(frozen=True)
class Quantile(PredictorLoss):
    r"""Pinball loss, ``factor`` times :math:`\tau u + \delta \ln(1 + e^{-u/\delta})` of the residual u = y - eta.

    It is smoothed over the scale delta; with scale 0 it is the pinball loss itself.
    """

    has_scale: ClassVar[bool] = True
    is_location: ClassVar[bool] = True
    size_factor: ClassVar[float] = 2.5  # remainders at the kink are not small
    roughness: ClassVar[float] = 2.0  # a minimum fits the noise of kinks; measured
    quantile: float = 0.5
    factor: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile must be between 0 and 1, got {self.quantile!r}.")

    def value(self, eta: FloatArray, y: FloatArray, scale: Scale = 0.0) -> FloatArray:
        residual, smooth = y - eta[:, 0], np.asarray(scale)
        own = self.quantile * residual + np.maximum(-residual, 0.0)
        if smooth.any():
            own = own + smooth * np.log1p(np.exp(-np.abs(residual) / smooth))
        return np.asarray(self.factor * own)

    def local(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        below = np.asarray(expit((eta[:, 0] - y) / scale))
        gradient, hessian = below - self.quantile, below * (1 - below) / scale
        return self.value(eta, y, scale), self.factor * gradient[:, None], self.factor * hessian[:, None]

    def expanded(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        """Return values and first derivatives without smoothing, and the second ones of the scale."""
        values, gradient, _ = self.local(eta, y, 1e-6 * scale)
        return values, gradient, self.local(eta, y, scale)[2]

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        return np.array([weighted_quantile(y, weights, self.quantile)])

    def scale_of(self, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Return the mean absolute residual."""
        return max(float(np.average(np.abs(y - eta[:, 0]), weights=weights)), _least_scale(y))

    def next_scale(self, turn: int, scale: float, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float | None:
        """Return a quarter of the scale before, down to nearly the pinball loss itself."""
        scale = self.scale_of(eta, y, weights) if turn == 0 else scale
        return scale / 4 if turn < _SMOOTHING_STEPS else None

    def scoring_scale(self, scale: float) -> float:
        return 0.0

    def anchor_scale(self, scale: float, rows: float) -> float:
        """Return a scale that shrinks with the number of rows: a kernel bandwidth for the density of residuals at 0."""
        return float(scale * max(rows, 1.0) ** (-1 / 3))


_SCALE_STEPS, _ALTERNATIONS = 200, 40


@storable
@dataclass(frozen=True)
class Huber(PredictorLoss):
    r"""Huber's loss :math:`\sigma + \sigma H((y - \eta) / \sigma)`, H(z) = z^2 up to ``delta`` and linear beyond.

    The scale sigma is fitted with the model, as in ``HuberRegressor``: the loss is convex in both.
    """

    has_scale: ClassVar[bool] = True
    is_location: ClassVar[bool] = True
    delta: float = 1.35

    def __post_init__(self) -> None:
        if not 1 < self.delta < np.inf:
            raise ValueError(f"delta must be above 1, got {self.delta!r}.")

    def local(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        away = eta[:, 0] - y
        size = np.abs(away)
        inner = np.minimum(size, self.delta * scale)
        values = np.asarray(scale + inner * inner / scale + 2 * self.delta * (size - inner))
        gradient = 2 * np.clip(away / scale, -self.delta, self.delta)
        return values, gradient[:, None], np.where(size <= self.delta * scale, 2 / scale, 0.0)[:, None]

    def without_scale(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss with each residual as its own scale."""
        return np.asarray(2 * np.abs(y - eta[:, 0]))

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        return np.array([weighted_quantile(y, weights, 0.5)])

    def next_scale(self, turn: int, scale: float, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float | None:
        """Return the best scale for the predictors of the last fit, until it converges."""
        new = self.scale_of(eta, y, weights)
        return new if turn == 0 or (turn < _ALTERNATIONS and abs(new - scale) > 1e-7 * scale) else None

    def scale_of(self, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Return the sigma at which ``min(z^2, delta^2)`` is 1 on average: the derivative by sigma is zero there."""
        size = np.abs(y - eta[:, 0])
        sigma = float(np.sqrt(np.average(size * size, weights=weights)))
        for _ in range(_SCALE_STEPS):  # falls from above, since the root mean square is never less than the solution
            inner = np.minimum(size, self.delta * sigma)
            new = float(np.sqrt(np.average(inner * inner, weights=weights)))
            if new >= sigma * (1 - 1e-12):
                break
            sigma = new
        return max(sigma, _least_scale(y))


@storable
@dataclass(frozen=True)
class PlainHuber(Huber):
    """Huber's loss of residuals z as they are: z^2 up to ``delta``, linear beyond. No scale is fitted."""

    def without_scale(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        return self.value(eta, y, 1.0) - 1.0

    def measure(self, mean: float) -> tuple[str, float]:
        return "huber loss", mean


class _Deviance(PredictorLoss):
    """Base of half deviances with logarithmic link: the prediction is ``exp(eta)``."""

    least_target: ClassVar[float] = 0.0
    has_log_link: ClassVar[bool] = True

    def mean(self, eta: FloatArray) -> FloatArray:
        return np.asarray(np.exp(_clipped(eta)))

    def predictor(self, mean: FloatArray) -> FloatArray:
        return np.asarray(np.log(np.maximum(mean, _LEAST_MEAN))[:, None])

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        return np.log([max(float(np.average(y, weights=weights)), _LEAST_MEAN)])


def _clipped(eta: FloatArray) -> FloatArray:
    return np.clip(eta[:, 0], -_LARGEST_PREDICTOR, _LARGEST_PREDICTOR)


@storable
@dataclass(frozen=True)
class Poisson(_Deviance):
    r"""Counts: :math:`\mu - y \ln \mu + y \ln y - y`, for y from 0."""

    def local(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        own = _clipped(eta)
        mean = np.exp(own)
        return np.asarray(mean - y * own + (xlogy(y, y) - y)), (mean - y)[:, None], mean[:, None]


@storable
@dataclass(frozen=True)
class Gamma(_Deviance):
    r"""Positive numbers: :math:`y / \mu - \ln(y / \mu) - 1`, for y above 0."""

    @property
    def is_above_least(self) -> bool:
        return True

    def local(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        own = _clipped(eta)
        ratio = y * np.exp(-own)
        return np.asarray(ratio + own - np.log(y) - 1), (1 - ratio)[:, None], ratio[:, None]


@storable
@dataclass(frozen=True)
class Tweedie(_Deviance):
    r"""Sums of a random number of positive numbers: half the Tweedie deviance of a power above 1 and not 2.

    :math:`\frac{y^{2-p}}{(1-p)(2-p)} - \frac{y \mu^{1-p}}{1-p} + \frac{\mu^{2-p}}{2-p}`; for powers between 1 and 2
    targets may be 0. Powers 1 and 2 are Poisson and gamma. Above 2 the loss is not convex.
    """

    power: float = 1.5

    def __post_init__(self) -> None:
        if not self.power > 1 or self.power == 2 or not self.power < 10:
            raise ValueError(f"power must be above 1, below 10 and not 2 here, got {self.power!r}.")

    @property
    def is_above_least(self) -> bool:
        return self.power > 2

    def local(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        own, one, two = _clipped(eta), 1 - self.power, 2 - self.power
        first, second = y * np.exp(one * own), np.exp(two * own)
        least = np.where(y > 0, np.power(np.where(y > 0, y, 1.0), two), 0.0) / (one * two)
        values = np.asarray(least - first / one + second / two)
        return values, (second - first)[:, None], (two * second - one * first)[:, None]


@storable
@dataclass(frozen=True)
class MeanUnderLoss(WarmUp):
    """The mean of the targets so far as the prediction of the next one, under any loss; the first row costs nothing."""

    loss: PredictorLoss
    mean: MeanSoFar

    def score(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> tuple[Scored, Self]:
        away, following = self.mean.residuals(targets, weights)
        y = targets[:, 0]
        losses = self.loss.without_scale(self.loss.predictor(y - away[:, 0]), y)
        if self.mean.first is None and len(losses):
            losses[0] = 0.0
        return (losses, abs(away[:, 0])), type(self)(self.loss, following)

    def scaled(self, factor: float) -> Self:
        return type(self)(self.loss, self.mean.scaled(factor))

    def merge(self, other: Self) -> Self:
        return type(self)(self.loss, self.mean.merge(other.mean))

    @property
    def prediction(self) -> FloatArray | None:
        """The predictor of any row."""
        mean = self.mean.prediction
        return None if mean is None else self.loss.predictor(mean)[0]


PREDICTOR_LOSSES: dict[str, PredictorLoss] = {
    "logistic": Logistic(),
    "squared": HalfSquared(),
    "huber": Huber(),
    "absolute": Quantile(0.5, factor=2.0),
    "quantile": Quantile(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "tweedie": Tweedie(),
}
"""Losses of linear models by name."""

REGRESSION_LOSSES = {name: loss for name, loss in PREDICTOR_LOSSES.items() if not loss.has_classes}
"""Losses of numbers: those of ``OnlineRegression``."""

LOSSES: dict[str, PredictionLoss] = {
    **PREDICTOR_LOSSES,
    "squared": Deviation(2.0),
    "absolute": Deviation(1.0),
    "huber": PlainHuber(),
    "zero_one": ZeroOne(),
    "log": Logistic(),
}
"""Losses of any predictions by name."""


def predictor_loss(
    loss: str | PredictorLoss, quantile: float = 0.5, power: float = 1.5, delta: float = 1.35
) -> PredictorLoss:
    """Return a loss of linear models by its name, with the setting that belongs to it; or the loss itself.

    >>> predictor_loss("tweedie", power=2.0)
    Gamma()
    """
    if isinstance(loss, PredictorLoss):
        return loss
    if loss not in PREDICTOR_LOSSES:
        names = ", ".join(map(repr, PREDICTOR_LOSSES))
        raise ValueError(f"loss must be one of {names} or a PredictorLoss, got {loss!r}.")
    if loss == "quantile":
        return Quantile(float(quantile))
    if loss == "huber":
        return Huber(float(delta))
    if loss == "tweedie":
        special: dict[float, PredictorLoss] = {0.0: HalfSquared(), 1.0: Poisson(), 2.0: Gamma()}
        return special[power] if power in special else Tweedie(float(power))
    return PREDICTOR_LOSSES[loss]


def weighted_quantile(values: FloatArray, weights: FloatArray, quantile: float) -> float:
    """Return the least value at or below which this share of the weight lies."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order])
    position = int(np.searchsorted(share, quantile * share[-1]))
    return float(values[order[min(position, len(order) - 1)]])


def _least_scale(y: FloatArray) -> float:
    """Return the least scale of residuals that differs from zero: a billionth of the largest target."""
    return 1e-9 * float(np.abs(y).max(initial=0.0)) or 1e-9
