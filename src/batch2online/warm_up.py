"""Scores of rows before the first model: the simplest prediction from the rows before them.

A row of regression is predicted by the mean of the targets before it, a row without targets by the mean of the rows
before it, a label by the labels before it. So losses do not depend on the origin: adding a constant to all values
changes none. The very first row has nothing before it and costs nothing.

A warm-up is a value, in files too: ``score`` returns another one. One for a further loss is a storable dataclass with
``score`` and ``prediction``; the problem returns an empty one from ``Problem.warm_up``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from batch2online._types import FloatArray
from batch2online.numerics.distances import power
from batch2online.rows import all_ones
from batch2online.schema import shape, storable

Scored = tuple[FloatArray, FloatArray]
"""Loss and secondary loss of each row."""


class WarmUp(ABC):
    """Base class: scores rows until the first model."""

    scores: ClassVar[bool] = True
    """Whether rows have a loss; otherwise they are left out of all sums of losses."""

    @abstractmethod
    def score(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> tuple[Scored, Self]:
        """Return the losses of rows, each from the rows before it alone, and the warm-up after all of them."""

    def scaled(self, factor: float) -> Self:
        """Return the warm-up for weights multiplied by a power of 4."""
        return self

    def merge(self, other: Self) -> Self:
        """Return the warm-up after the rows of both; by default after those of the first alone."""
        return self

    @property
    def prediction(self) -> Any:
        """Prediction for any row from the rows so far; None if there is none."""
        return None


@storable
@dataclass(frozen=True)
class MeanSoFar(WarmUp):
    """Predict the weighted mean of the targets, or of the rows, so far; the loss is the distance to it, to a power.

    ``sums`` are those of the differences from the first row, so that no digits are lost far from the origin.

    >>> targets = np.array([[1e9], [1e9 + 2], [1e9 + 4]])
    >>> (losses, _), mean = MeanSoFar(of_targets=True).score(np.empty((3, 0)), targets, np.ones(3))
    >>> losses.tolist(), float(mean.prediction[0] - 1e9)
    ([0.0, 4.0, 9.0], 2.0)
    """

    of_targets: bool
    power: float = 2.0
    first: Annotated[FloatArray, shape("d")] | None = None
    sums: Annotated[FloatArray, shape("d")] | None = None
    weight: float = 0.0

    def score(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> tuple[Scored, Self]:
        away, following = self.residuals(targets if self.of_targets else points, weights)
        return self.losses(away), following

    def residuals(self, values: FloatArray, weights: FloatArray) -> tuple[FloatArray, Self]:
        """Return the difference of each row from the mean of those before it, and the warm-up after these rows."""
        n = len(values)
        if not n:
            return values, self
        first = values[0].copy() if self.first is None else self.first
        away, are_one = values - first, all_ones(weights)
        summands = np.empty((n + 1, len(first)))
        summands[0] = 0.0 if self.sums is None else self.sums
        summands[1:] = away if are_one else weights[:, None] * away
        axis = None if len(first) == 1 else 0  # three times as fast without one
        sums = np.cumsum(summands, axis=axis).reshape(summands.shape)
        totals = np.arange(n + 1.0) if are_one else np.concatenate([[self.weight], weights])
        totals = np.add(totals, self.weight, out=totals) if are_one else np.cumsum(totals)
        following = type(self)(self.of_targets, self.power, first, sums[-1].copy(), float(totals[-1]))
        totals[0] = totals[0] or 1.0  # the first row of all has nothing before it
        sums /= totals[:, None]
        away -= sums[:-1]
        return away, following

    def scaled(self, factor: float) -> Self:
        return replace(self, sums=None if self.sums is None else self.sums * factor, weight=self.weight * factor)

    def merge(self, other: Self) -> Self:
        if self.first is None or self.sums is None or other.first is None or other.sums is None:
            return other if self.first is None else self
        sums = self.sums + (other.sums + other.weight * (other.first - self.first))
        return replace(self, sums=sums, weight=self.weight + other.weight)

    def losses(self, away: FloatArray) -> Scored:
        """Return the losses of rows with these differences from the mean."""
        if away.shape[1] == 1:
            one = away[:, 0]
            return power(one * one, self.power), np.abs(one)
        squared = np.square(away).sum(axis=1)
        return power(squared, self.power), np.sqrt(squared)

    @property
    def prediction(self) -> FloatArray | None:
        return None if self.first is None or self.sums is None else self.first + self.sums / self.weight


@storable
@dataclass(frozen=True)
class LabelsSoFar(WarmUp):
    """Predict the shares of the labels so far, as codes: logarithmic loss, or 1 if the most frequent label is wrong.

    Half a label is added to each known one, and to all others together, so that a new one has a positive probability.

    >>> codes = np.array([[5.0], [5.0], [7.0]])
    >>> (losses, _), _ = LabelsSoFar(is_log=False).score(np.empty((3, 0)), codes, np.ones(3))
    >>> losses.tolist()
    [0.0, 0.0, 1.0]
    """

    is_log: bool
    codes: Annotated[FloatArray, shape("n")] | None = None
    weights: Annotated[FloatArray, shape("n")] | None = None

    def score(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> tuple[Scored, Self]:
        shares = self._shares()
        rows = zip(targets[:, 0].tolist(), weights.tolist(), strict=True)
        found = np.array([self._count(shares, code, weight) for code, weight in rows]).reshape(-1, 2)
        codes, totals = (np.array(list(part), dtype=np.float64) for part in (shares, shares.values()))
        return (found[:, 0 if self.is_log else 1].copy(), found[:, 1].copy()), type(self)(self.is_log, codes, totals)

    def scaled(self, factor: float) -> Self:
        return replace(self, weights=None if self.weights is None else self.weights * factor)

    def _shares(self) -> dict[float, float]:
        if self.codes is None or self.weights is None:
            return {}
        return dict(zip(self.codes.tolist(), self.weights.tolist(), strict=True))

    @staticmethod
    def _count(shares: dict[float, float], code: float, weight: float) -> tuple[float, float]:
        """Return the logarithmic loss of one label and whether the most frequent one is wrong; then count it."""
        share, is_wrong = 1.0, 0.0
        if shares:
            share = (shares.get(code, 0.0) + 0.5) / (sum(shares.values()) + 0.5 * (len(shares) + 1))
            is_wrong = float(code != max(shares, key=lambda known: shares[known]))
        shares[code] = shares.get(code, 0.0) + weight
        return -float(np.log(share)), is_wrong


@storable
@dataclass(frozen=True)
class Free(WarmUp):
    """Do not score rows: for losses that are undefined without a model."""

    scores: ClassVar[bool] = False

    def score(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> tuple[Scored, Self]:
        nothing = np.zeros(len(points))
        return (nothing, nothing), self
