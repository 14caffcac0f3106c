"""Prequential loss against hindsight."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

UNORDERED = "no loss online: rows were learned as a set, without order, and none was predicted before it was learned"


@dataclass(frozen=True)
class Regret:
    """What the online model has cost, next to the best model in hindsight.

    Attributes
    ----------
    loss : float
        Prequential loss: each row under the model that was in force before it came; before the first one, by the mean
        of the targets or of the rows before it. The very first row costs nothing. For a loss of one's own and for
        densities, which nothing scores before the first model, loss, optimum, ``rows`` and ``weight`` are those of
        the rows that were scored.
    optimum : float
        Least loss of any single model on the same rows, or of the best one known.
    rows : int
        How many rows were scored.
    secondary_loss : float or None
        A second measure of the same rows under the same models, named by ``secondary_name``; None where there is none.
    error : float
        How far the least loss on all rows may be below the optimum, which is measured on the coreset: it is at least
        ``optimum / (1 + error)`` with a chance of 95 % (docs/theory.md). 0 where all rows are in it.
    shortfall : float
        How far it may be above: at most ``optimum * (1 + shortfall)`` with a chance of 95 %. Models are fitted to the
        rows of the coreset, so what they cost these rows is too low. Infinite where that is not known.
    total : float
        Loss of the simplest model, the mean, on the same rows: ``1 - loss / total`` is R2, or the share of variance
        kept. Not a number where it is not known.
    weight : float
        Weight of the rows that were scored.
    secondary_optimum : float or None
        Least secondary loss of any single model on the same rows; None where it is not known.
    secondary_name : str
        What the secondary loss sums: ``"absolute residual"`` for regression, ``"errors"`` (wrong labels) for
        classification, ``"distance"`` for clusters and subspaces, as sections 7 and 8 of the paper write the loss.
    resolution : float
        Losses up to this are rounding.
    half_life : int or None
        Where rows fade: loss and optimum both count a row half as much for every so many rows that came after it, the
        last row once. The optimum is then that of the best model for *these* weights, not of the best single model.
    reason : str
        Why there is no loss, where it is not a number: rows that were learned without order were never predicted before
        they were learned.
    """

    loss: float
    optimum: float
    rows: int
    secondary_loss: float | None = None
    error: float = 0.0
    shortfall: float = math.inf
    total: float = math.nan
    weight: float = math.nan
    secondary_optimum: float | None = None
    secondary_name: str = ""
    resolution: float = 0.0
    half_life: int | None = None
    reason: str = ""

    @property
    def is_exact_fit(self) -> bool:
        """Whether the best model leaves nothing but rounding: then there is nothing to compare with."""
        return self.optimum <= self.resolution

    @property
    def ratio(self) -> float:
        """``loss / optimum``; 1 where both are rounding, not a number where the optimum alone is."""
        if not self.is_exact_fit:
            return self.loss / self.optimum
        return 1.0 if self.loss <= self.resolution else math.nan

    @property
    def optimum_interval(self) -> tuple[float, float]:
        """Where the least loss on all rows is: each end holds with a chance of 95 %, infinite ones always do."""
        if not self.error:
            return self.optimum, self.optimum
        if not self.optimum > 0:  # shares of it mean nothing
            return -math.inf, math.inf
        return self.optimum / (1 + self.error), self.optimum * (1 + self.shortfall)

    @property
    def ratio_interval(self) -> tuple[float, float]:
        """Where the ratio to the least loss on all rows is; the lower end is 0 where only the upper one is known."""
        if self.is_exact_fit or not self.error:
            return self.ratio, self.ratio
        low, high = self.optimum_interval
        return self.loss / high, self.loss / low

    def _scaled(self, factor: float) -> Regret:
        """Return the same of rows with weights multiplied by this."""
        names = ("loss", "optimum", "secondary_loss", "total", "weight", "secondary_optimum", "resolution")
        known = {name: getattr(self, name) for name in names}
        return replace(self, **{name: value and value * factor for name, value in known.items()})

    def regret(self, epsilon: float = 0.0) -> float:
        """Return the epsilon-approximate regret ``loss - (1 + epsilon) * optimum``."""
        return self.loss - (1 + epsilon) * self.optimum


def regret_of(loss: float, second_loss: float, engine: Any) -> Regret:
    """Return the regret of an engine with these losses, in which no row waits."""
    unscored = engine.unscored
    known = engine.problem.hindsight(engine.construction, engine.model, *unscored.excluded)
    rows = (engine.n_learned if engine.window is None else engine.construction.n_rows) - unscored.rows
    regret = Regret(
        loss=loss,
        optimum=known.optimum,
        rows=rows,
        secondary_loss=second_loss,
        error=known.error,
        shortfall=known.shortfall,
        total=known.total,
        weight=float(engine.construction.weight - unscored.weight) if rows else 0.0,
        secondary_optimum=known.secondary,
        secondary_name=engine.problem.secondary_name,
        resolution=known.resolution,
        reason=UNORDERED if math.isnan(loss) else "",
    )
    decay = engine.construction.decay
    if decay is None or not regret.rows:
        return regret
    return replace(regret._scaled(1 / engine.construction.newest_weight), half_life=decay.half_life)
