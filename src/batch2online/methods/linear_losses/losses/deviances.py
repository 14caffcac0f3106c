"""Half deviances with logarithmic link: Poisson, gamma, Tweedie. The prediction is ``exp(eta)``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from batch2online._types import FloatArray
from batch2online.methods.linear_losses.losses.base import LARGEST_PREDICTOR, PredictorLoss, Scale, check_range
from batch2online.schema import storable

_LEAST_MEAN = 1e-12
"""Prediction of a constant model of zeros."""


def _cut(eta: FloatArray) -> FloatArray:
    return np.clip(eta, -LARGEST_PREDICTOR, LARGEST_PREDICTOR)


class _LogLink(PredictorLoss):
    """Base of losses with logarithmic link."""

    def mean(self, eta: FloatArray) -> FloatArray:
        return np.asarray(np.exp(_cut(eta[:, 0])))

    def predictor(self, mean: FloatArray) -> FloatArray:
        return np.asarray(np.log(np.maximum(mean, _LEAST_MEAN))[:, None])

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        return np.log([max(float(np.average(y, weights=weights)), _LEAST_MEAN)])


@storable
@dataclass(frozen=True)
class Poisson(_LogLink):
    r"""Counts: :math:`\mu - y \ln \mu + y \ln y - y`, for y from 0."""

    def value(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        own = _cut(eta[:, 0])
        return np.asarray(np.exp(own) - y * own + (xlogy(y, y) - y))

    def gradient(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        return np.asarray(np.exp(_cut(eta)) - y[:, None])

    def hessian(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        return np.asarray(np.exp(_cut(eta)))

    def check(self, targets: FloatArray) -> None:
        check_range(targets, targets >= 0, "0 or more for the Poisson loss")


@storable
@dataclass(frozen=True)
class Gamma(_LogLink):
    r"""Positive numbers: :math:`y / \mu - \ln(y / \mu) - 1`, for y above 0."""

    def value(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        own = _cut(eta[:, 0])
        return np.asarray(y * np.exp(-own) + own - np.log(y) - 1)

    def gradient(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        return np.asarray(1 - y[:, None] * np.exp(-_cut(eta)))

    def hessian(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        return np.asarray(y[:, None] * np.exp(-_cut(eta)))

    def check(self, targets: FloatArray) -> None:
        check_range(targets, targets > 0, "above 0 for the gamma loss")


@storable
@dataclass(frozen=True)
class Tweedie(_LogLink):
    r"""Sums of a random number of positive numbers: half the Tweedie deviance of a power above 1 and not 2.

    :math:`\frac{y^{2-p}}{(1-p)(2-p)} - \frac{y \mu^{1-p}}{1-p} + \frac{\mu^{2-p}}{2-p}`; for powers between 1 and 2
    targets may be 0. Powers 1 and 2 are Poisson and gamma. Above 2 the loss is not convex.
    """

    power: float = 1.5

    def __post_init__(self) -> None:
        if not self.power > 1 or self.power == 2 or not self.power < 10:
            raise ValueError(f"power must be above 1, below 10 and not 2 here, got {self.power!r}.")

    def value(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        own, one, two = _cut(eta[:, 0]), 1 - self.power, 2 - self.power
        least = np.where(y > 0, np.power(np.where(y > 0, y, 1.0), two), 0.0) / (one * two)
        return np.asarray(least - y * np.exp(one * own) / one + np.exp(two * own) / two)

    def gradient(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        own = _cut(eta)
        return np.asarray(np.exp((2 - self.power) * own) - y[:, None] * np.exp((1 - self.power) * own))

    def hessian(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        own, one, two = _cut(eta), 1 - self.power, 2 - self.power
        return np.asarray(two * np.exp(two * own) - one * y[:, None] * np.exp(one * own))

    def check(self, targets: FloatArray) -> None:
        is_valid = targets >= 0 if self.power < 2 else targets > 0
        check_range(targets, is_valid, f"{'0 or more' if self.power < 2 else 'above 0'} for the Tweedie loss")
