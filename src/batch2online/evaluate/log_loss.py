"""The loss of classifiers that give probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from batch2online._types import FloatArray
from batch2online.evaluate.adapters import Adapter
from batch2online.evaluate.losses import Loss
from batch2online.warm_up import LabelsSoFar

LEAST = 1e-15
"""A probability below this counts as this, so that a loss is finite."""


@dataclass(frozen=True)
class LogarithmicLoss(Loss):
    """Minus the logarithm of the probability of the own class, which is a number.

    Hindsight: ``LogisticRegression`` on all rows.
    """

    def answer(self, learner: Adapter, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        return learner.probabilities(X)

    def losses(self, answer: Any, X: FloatArray, y: FloatArray | None) -> FloatArray:
        classes, shares = answer
        assert y is not None
        place = np.searchsorted(classes, y).clip(max=len(classes) - 1)
        own = np.where(classes[place] == y, shares[np.arange(len(y)), place], 0.0)
        return np.asarray(-np.log(np.clip(own, LEAST, 1.0)))

    def warm_up(self) -> Any:
        return LabelsSoFar(is_log=True)

    def hindsight(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        best = LogisticRegression(max_iter=1000).fit(X, y)
        return self.losses((best.classes_, best.predict_proba(X)), X, y)

    def movement(self, old: Any, new: Any, probe: FloatArray) -> float:
        """Mean absolute change of a probability, 1 where there are other classes now."""
        return float(np.abs(old[1] - new[1]).mean()) if np.array_equal(old[0], new[0]) else 1.0
