r"""What a loss of a linear predictor is: :math:`l(\eta, y)` at :math:`\eta = x \cdot \theta`, and its derivatives.

All arrays of predictors are (n, K): K is 1 but for several classes. Targets are (n,) numbers, or the positions of
classes in the order in which they came. Some losses have a *width*, the scale of residuals at which they bend; it is
part of the model, a number, or one for each row where rows were expanded under different models.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from batch2online._types import BoolArray, FloatArray

Width = float | FloatArray

Local = tuple[FloatArray, FloatArray, FloatArray]
"""Values (n,), slopes (n, K) and second derivatives (n, K) of rows."""

_GRAM_ROWS, _GRAM_PRODUCTS = 1_024, 600_000
"""Rows of a piece at least, and products of one matrix product: BLAS is fastest for small ones, and memory is short."""

_ENTRIES = 32_000
"""Numbers of a piece of rows."""

LARGEST_PREDICTOR = 300.0
"""Logarithms of means are cut here: what they stand for must be a number, whatever the row."""


class PredictorLoss(ABC):
    """A convex loss of one linear predictor; losses of several classes override what differs."""

    has_classes: ClassVar[bool] = False
    """Whether targets are labels of classes."""

    has_width: ClassVar[bool] = False
    """Whether the model has a width, see above."""

    is_location: ClassVar[bool] = False
    """Whether the loss depends on ``y - eta`` alone, so that both can be counted from any origin."""

    size_factor: ClassVar[float] = 1.0
    """How many times the usual size a coreset has by default."""

    roughness: ClassVar[float] = 1.0
    """How many times what smooth noise would cost the noise of a coreset costs."""

    def n_outputs(self, n_classes: int) -> int:
        """Return K, the number of predictors."""
        return 1

    @abstractmethod
    def value(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> FloatArray:
        """Return the loss of each row, (n,)."""

    @abstractmethod
    def slope(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> FloatArray:
        """Return the derivatives by the predictors, (n, K)."""

    @abstractmethod
    def bend(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> FloatArray:
        """Return the second derivatives by the same predictor, (n, K)."""

    def local(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> Local:
        """Return values, slopes and second derivatives at once, which may take less work."""
        return self.value(eta, y, width), self.slope(eta, y, width), self.bend(eta, y, width)

    def expanded(self, eta: FloatArray, y: FloatArray, width: Width = 1.0) -> Local:
        """Return the same as expansions of this width have them, see :meth:`slope_width`.

        For a loss without a width, that of an expansion is 1, or 0 if it has no second derivatives.
        """
        sharp = self.slope_width(width)
        if sharp is not width:
            return self.value(eta, y, sharp), self.slope(eta, y, sharp), self.bend(eta, y, width)
        values, slope, bend = self.local(eta, y, width)
        is_whole = self.has_width or (width == 1.0 if isinstance(width, float) else bool(width.all()))
        return values, slope, bend if is_whole else bend * np.reshape(width, (-1, 1))

    @abstractmethod
    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        """Return the predictors (K,) of the best model without columns."""

    def mean(self, eta: FloatArray) -> FloatArray:
        """Return the predictions (n,) that predictors (n, 1) stand for."""
        return eta[:, 0]

    def predictor(self, mean: FloatArray) -> FloatArray:
        """Return the predictors (n, 1) that stand for these predictions (n,)."""
        return mean[:, None]

    def without_scale(self, eta: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of each row before anything is known of a width."""
        return self.value(eta, y, self.scoring_width(1.0))

    def check(self, targets: FloatArray) -> None:  # noqa: B027  # most take any number
        """Refuse targets that the loss is not made for, and name the first row."""

    def bent(self, eta: FloatArray, y: FloatArray, width: Width, direction: FloatArray) -> FloatArray:
        """Return the second derivatives times a direction of the predictors, (n, K)."""
        return self.bending(eta, y, width)(direction)

    def expanded_bent(self, eta: FloatArray, y: FloatArray, width: Width, direction: FloatArray) -> FloatArray:
        """Return the same as expansions of this width have it, see :meth:`expanded`."""
        found = self.bent(eta, y, width, direction)
        return found if self.has_width else found * np.reshape(width, (-1, 1))

    def bending(self, eta: FloatArray, y: FloatArray, width: Width) -> Callable[[FloatArray], FloatArray]:
        """Return what turns directions of the predictors into second derivatives times them."""
        bend = self.bend(eta, y, width)
        return lambda direction: np.asarray(bend * direction)

    def hessian(
        self, design: FloatArray, weights: FloatArray, eta: FloatArray, y: FloatArray, width: Width
    ) -> FloatArray:
        """Return the sum over rows of ``weight * x x'`` times the second derivatives, (K p, K p)."""
        return weighted_gram(design, weights * self.bend(eta, y, width)[:, 0])

    def next_width(self, turn: int, width: float, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float | None:
        """Return the width to solve with in this turn, given what the last one found; None when there is no more."""
        return 1.0 if turn == 0 else None

    def scoring_width(self, width: float) -> float:
        """Return the width with which rows are scored under a model that has this one."""
        return width

    def anchor_width(self, width: float, rows: float) -> float:
        """Return the width with which losses are expanded, under a model of so many rows with this width."""
        return width

    def slope_width(self, width: Width) -> Width:
        """Return the width of values and slopes in expansions whose second derivatives have this one."""
        return width

    def width_of(self, eta: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Return the best width for these predictors."""
        return 1.0


def pieces(n: int, columns: int) -> Iterator[slice]:
    """Iterate over n rows of so many columns, a piece at a time that takes little memory."""
    step = max(1, _ENTRIES // columns)
    return (slice(start, start + step) for start in range(0, n, step))


def weighted_gram(design: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the sum over rows of ``weight * x x'``, (p, p), a piece of rows at a time."""
    n, p = design.shape
    step = max(_GRAM_ROWS, _GRAM_PRODUCTS // (p * p))
    if n <= step:
        return np.asarray((design * weights[:, None]).T @ design)
    total = np.zeros((p, p))
    for start in range(0, n, step):
        piece = design[start : start + step]
        total += (piece * weights[start : start + step, None]).T @ piece
    return total


def check_range(targets: FloatArray, is_allowed: BoolArray, what: str) -> None:
    """Refuse targets that are not allowed, and name the first row."""
    bad = np.flatnonzero(~is_allowed)
    if bad.size:
        row = int(bad[0])
        raise ValueError(f"y must be {what}, got {float(targets[row]):g} at row {row}.")


def least_scale(y: FloatArray) -> float:
    """Return the least scale of residuals that is told apart from none: a billionth of the largest target."""
    return 1e-9 * float(np.abs(y).max(initial=0.0)) or 1e-9
