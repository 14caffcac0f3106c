"""Losses of numbers that are not squares: counts, positive numbers, quantiles, residuals with outliers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.evaluate.losses import Predictions
from batch2online.methods.least_squares.estimator import OnlineRegression
from batch2online.methods.linear_losses.losses import PredictorLoss, of_regression

_EVERYTHING = 2**40
"""A size of a coreset that no table reaches: all rows are kept."""


@dataclass(frozen=True)
class PredictorLosses(Predictions):
    """What predictions cost under a loss of ``OnlineRegression``, which has the same parameters.

    Hindsight is ``OnlineRegression`` with all rows kept. Predictions that the loss has no value for, such as a count
    below zero, cost what the nearest ones do. The scale of Huber's loss is ``scale``.

    >>> PredictorLosses(loss="poisson").losses(np.array([1.0, 2.0]), np.empty((2, 0)), np.array([1.0, 2.0])).tolist()
    [0.0, 0.0]
    """

    function: Any = field(default=None, repr=False)
    loss: str = "absolute"
    quantile: float = 0.5
    power: float = 1.5
    delta: float = 1.35
    alpha: float = 0.0
    l1_ratio: float = 0.0
    scale: float = 1.0

    @property
    def _own(self) -> PredictorLoss:
        return of_regression(self.loss, self.quantile, self.power, self.delta)

    def losses(self, answer: Any, X: FloatArray, y: FloatArray | None) -> FloatArray:
        assert y is not None
        own, values = self._own, np.clip(np.asarray(answer, dtype=np.float64), -1e100, 1e100)
        return own.value(own.predictor(values), y, own.scoring_width(self.scale))

    def hindsight(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        names = ("loss", "quantile", "power", "delta", "alpha", "l1_ratio")
        settings = {name: getattr(self, name) for name in names}
        best = OnlineRegression(coreset_size=_EVERYTHING, random_state=0, **settings).fit(X, y)
        return self.losses(best.predict(X), X, y)
