"""Prequential loss against hindsight."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Regret:
    """What the online model has cost, next to the best model in hindsight.

    Attributes
    ----------
    loss : float
        Prequential loss: each row under the model that was in force before it came.
    optimum : float
        Least loss of any single model on the same rows.
    rows : int
        How many rows were scored.
    unsquared_loss : float
        The same loss without the square, as sections 7 and 8 of the paper write it.
    """

    loss: float
    optimum: float
    rows: int
    unsquared_loss: float

    @property
    def ratio(self) -> float:
        """``loss / optimum``; 1 where both are zero."""
        if not self.optimum <= 0:
            return self.loss / self.optimum
        return 1.0 if self.loss == 0 else math.inf

    def regret(self, epsilon: float = 0.0) -> float:
        """Return the epsilon-approximate regret ``loss - (1 + epsilon) * optimum``."""
        return self.loss - (1 + epsilon) * self.optimum
