r"""The base of losses of a linear predictor: :math:`l(\eta, y)` at :math:`\eta = x \cdot \theta`, and its derivatives.

Arrays of predictors are (n, K), K = 1 except for more than two classes. Targets are (n,) numbers, or the positions of
classes in order of appearance. Some losses have a *scale* of residuals, which is part of the model: a number, or one
per row where rows were expanded under different models.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from batch2online._types import BoolArray, FloatArray

Scale = float | FloatArray

Local = tuple[FloatArray, FloatArray, FloatArray]
"""Values (n,), first derivatives (n, K) and second derivatives (n, K) of rows."""

_GRAM_ROWS, _GRAM_PRODUCTS = 1_024, 600_000
"""Least number of rows of a piece, and size of one matrix product: BLAS is fastest for small ones."""

_ENTRIES = 32_000
"""Number of entries of a piece of rows."""

LARGEST_PREDICTOR = 300.0
"""Logarithms of means are clipped here, so that means are finite."""


class PredictorLoss(ABC):
    """A convex loss of a linear predictor, with its first and second derivatives."""

    has_classes: ClassVar[bool] = False
    """Whether targets are labels of classes."""

    has_scale: ClassVar[bool] = False
    """Whether the loss has a scale of residuals, which is part of the model."""

    is_location: ClassVar[bool] = False
    """Whether the loss depends on ``y - eta`` alone, so that both can be shifted by any origin."""

    size_factor: ClassVar[float] = 1.0
    """Factor of the default size of a coreset."""

    roughness: ClassVar[float] = 1.0
    """Factor by which the noise of a coreset costs more than for a smooth loss."""

    def n_outputs(self, n_classes: int) -> int:
        """Return K, the number of predictors."""
        return 1

    @abstractmethod
    def value(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        """Return the loss of each row, (n,)."""

    @abstractmethod
    def gradient(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        """Return the first derivatives by the predictors, (n, K)."""

    @abstractmethod
    def hessian(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        """Return the second derivatives by the same predictor, (n, K)."""

    def local(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        """Return values, first and second derivatives together, which can take less work."""
        return self.value(eta, y, scale), self.gradient(eta, y, scale), self.hessian(eta, y, scale)

    def value_and_gradient(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> tuple[FloatArray, FloatArray]:
        """Return values and first derivatives together."""
        return self.value(eta, y, scale), self.gradient(eta, y, scale)

    def expanded(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        """Return values and derivatives for expansions of this scale, see :meth:`gradient_scale`.

        For a loss without a scale, that of an expansion is 1, or 0 if it has Taylor order 1.
        """
        sharp = self.gradient_scale(scale)
        if sharp is not scale:
            return self.value(eta, y, sharp), self.gradient(eta, y, sharp), self.hessian(eta, y, scale)
        values, gradient, hessian = self.local(eta, y, scale)
        is_whole = self.has_scale or (scale == 1.0 if isinstance(scale, float) else bool(scale.all()))
        return values, gradient, hessian if is_whole else hessian * np.reshape(scale, (-1, 1))

    @abstractmethod
    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        """Return the predictors (K,) of the best constant model."""

    def mean(self, eta: FloatArray) -> FloatArray:
        """Apply the inverse link: return the predictions (n,) of predictors (n, 1)."""
        return eta[:, 0]

    def predictor(self, mean: FloatArray) -> FloatArray:
        """Apply the link: return the predictors (n, 1) of predictions (n,)."""
        return mean[:, None]

    def without_scale(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of each row while the scale is unknown."""
        return self.value(eta, y, self.scoring_scale(1.0))

    def check(self, targets: FloatArray) -> None:  # noqa: B027  # most take any number
        """Raise ValueError for targets outside the domain of the loss; the message names the first row."""

    def hessian_product(self, eta: FloatArray, y: FloatArray, scale: Scale, direction: FloatArray) -> FloatArray:
        """Return the second derivatives times a direction of the predictors, (n, K)."""
        return self.hessian_operator(eta, y, scale)(direction)

    def expanded_hessian_product(
        self, eta: FloatArray, y: FloatArray, scale: Scale, direction: FloatArray
    ) -> FloatArray:
        """Return the product for expansions of this scale, see :meth:`expanded`."""
        found = self.hessian_product(eta, y, scale, direction)
        return found if self.has_scale else found * np.reshape(scale, (-1, 1))

    def hessian_operator(self, eta: FloatArray, y: FloatArray, scale: Scale) -> Callable[[FloatArray], FloatArray]:
        """Return a function that multiplies directions of the predictors by the second derivatives."""
        hessian = self.hessian(eta, y, scale)
        return lambda direction: np.asarray(hessian * direction)

    def hessian_sum(
        self, design: FloatArray, weights: FloatArray, eta: FloatArray, y: FloatArray, scale: Scale
    ) -> FloatArray:
        """Return the sum over rows of ``weight * x x'`` times the second derivatives, (K p, K p)."""
        return weighted_gram(design, weights * self.hessian(eta, y, scale)[:, 0])

    def next_scale(self, turn: int, scale: float, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float | None:
        """Return the scale of the next fit, given the predictors of the last one; None after the last."""
        return 1.0 if turn == 0 else None

    def scoring_scale(self, scale: float) -> float:
        """Return the scale with which rows are scored under a model of this scale."""
        return scale

    def anchor_scale(self, scale: float, rows: float) -> float:
        """Return the scale with which losses are expanded, under a model of this scale fitted to so many rows."""
        return scale

    def gradient_scale(self, scale: Scale) -> Scale:
        """Return the scale of values and first derivatives in expansions whose second derivatives have this one."""
        return scale

    def scale_of(self, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Return the best scale for these predictors."""
        return 1.0


def pieces(n: int, columns: int) -> Iterator[slice]:
    """Return slices of n rows of so many columns that take little memory."""
    step = max(1, _ENTRIES // columns)
    return (slice(start, start + step) for start in range(0, n, step))


def weighted_gram(design: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the sum over rows of ``weight * x x'``, (p, p), a piece of rows at a time."""
    n, p = design.shape
    step = max(_GRAM_ROWS, _GRAM_PRODUCTS // (p * p))
    if n <= step:
        return _weighted_gram(design, weights)
    total = np.zeros((p, p))
    for start in range(0, n, step):
        total += _weighted_gram(design[start : start + step], weights[start : start + step])
    return total


def _weighted_gram(design: FloatArray, weights: FloatArray) -> FloatArray:
    if weights.min(initial=0.0) < 0:
        return np.asarray((design * weights[:, None]).T @ design)
    scaled = design * np.sqrt(weights)[:, None]
    return np.asarray(scaled.T @ scaled)  # half the products of two different factors


def check_range(targets: FloatArray, is_valid: BoolArray, what: str) -> None:
    """Raise ValueError for targets outside a range; the message names the first row."""
    bad = np.flatnonzero(~is_valid)
    if bad.size:
        row = int(bad[0])
        raise ValueError(f"y must be {what}, got {float(targets[row]):g} at row {row}.")


def least_scale(y: FloatArray) -> float:
    """Return the least scale of residuals that differs from zero: a billionth of the largest target."""
    return 1e-9 * float(np.abs(y).max(initial=0.0)) or 1e-9
