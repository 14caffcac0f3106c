"""What losses of a linear predictor are scored by until there is a model: the mean of the targets so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from batch2online._types import FloatArray
from batch2online.core.registry import storable
from batch2online.losses.base import PredictorLoss
from batch2online.problems.warm_up import MeanSoFar, Scored, WarmUp


@storable
@dataclass(frozen=True)
class MeanUnderLoss(WarmUp):
    """The mean of the targets so far as the prediction of the next one, under any loss; the first row costs nothing."""

    loss: PredictorLoss
    mean: MeanSoFar

    def scored(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> tuple[Scored, Self]:
        away, following = self.mean.residuals(targets, weights)
        y = targets[:, 0]
        losses = self.loss.without_scale(self.loss.predictor(y - away[:, 0]), y)
        if self.mean.first is None and len(losses):
            losses[0] = 0.0
        return (losses, abs(away[:, 0])), type(self)(self.loss, following)

    def scaled(self, factor: float) -> Self:
        return type(self)(self.loss, self.mean.scaled(factor))

    @property
    def answer(self) -> FloatArray | None:
        """The predictor of any row."""
        mean = self.mean.answer
        return None if mean is None else self.loss.predictor(mean)[0]

    def is_like(self, other: object) -> bool:
        return type(other) is type(self) and other.loss == self.loss and self.mean.is_like(other.mean)
