"""What happened when a model changed, and why."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np

from batch2online.numerics.matching import ClusterChange
from batch2online.schema import Count, one_of, require, storable

KEPT = 10_000
"""Changes that an engine holds, the newest ones; of the others it holds the number."""

Counts = tuple[tuple[str, int], ...]
"""How many changes there were of each kind, sorted by kind."""


KINDS = ("scheduled", "costlier", "fit", "merged", "forgotten", "half_life")


@storable
@dataclass(frozen=True)
class ChangeEvent:
    """One change of the model.

    Attributes
    ----------
    at : int
        Rows seen when the new model came into force.
    kind : {"scheduled", "costlier", "fit", "merged", "forgotten", "half_life"}
        What made the engine solve again.
    magnitude : float
        How far the model moved, in the problem's own measure.
    cost_before, cost_after : float
        Cost of the old and of the new model on all rows seen.
    allowed : float or None
        Share by which the old model might have cost more than the new one and stayed; None where the policy allows
        nothing.
    rows : int or None
        Rows merged or forgotten; the half-life that has come into force, 0 for none.
    angle : float or None
        For subspaces: the largest angle between the old and the new one, in radians.
    matching : tuple of ClusterChange or None
        For clusters: what became of each id.
    churn : float or None
        For clusters: share of the weight of all rows whose label has changed.
    solved_on : int or None
        Rows that the new model was solved on.
    seconds : float or None
        What that took, where it is known; it differs from run to run, and takes no part in comparisons.
    coefficients : tuple of (int, float, float) or None
        For one target: the columns whose coefficients moved the predictions most, with their values before and after.
    """

    at: Count
    kind: Annotated[str, one_of(*KINDS)]
    magnitude: float
    cost_before: float
    cost_after: float
    allowed: float | None = None
    rows: Count | None = None
    angle: float | None = None
    matching: tuple[ClusterChange, ...] | None = None
    churn: float | None = None
    coefficients: tuple[tuple[Count, float, float], ...] | None = None
    solved_on: int | None = None
    seconds: float | None = field(default=None, compare=False, repr=False)

    def validate(self) -> None:
        has_rows = self.kind not in ("scheduled", "costlier", "fit")
        require(self.rows is not None or not has_rows, f"rows: found none for a change of kind {self.kind!r}")

    @property
    def excess(self) -> float:
        """Share by which the old model costs more than the new one; infinite where the new one costs nothing."""
        if self.cost_after:
            return self.cost_before / self.cost_after - 1
        return math.inf if self.cost_before else 0.0

    @property
    def reason(self) -> str:
        """Why the model was replaced, in a sentence."""
        if self.kind == "scheduled":
            return f"scheduled refresh at {self.at:,} rows{self._comparison}"
        if self.kind == "costlier":
            return f"recent rows cost more than the first ones under the old model, at {self.at:,} rows"
        if self.kind == "merged":
            return f"merged with {self.rows:,} rows"
        if self.kind == "half_life":
            better = f"a half-life of {self.rows:,} rows" if self.rows else "no half-life"
            return f"{better} has cost less lately"
        if self.kind == "forgotten":
            return f"{self.rows:,} rows forgotten"
        return f"{self.kind}: solved on all rows"

    @property
    def _comparison(self) -> str:
        if self.allowed is None:
            return ""
        more = "more than the new one, which costs nothing"
        if math.isfinite(self.excess):
            more = f"{self.excess:.2%} more than the new one"
        return f": the old model costs {more}, {self.allowed:.2%} was allowed"


def counted(counts: Counts, *events: ChangeEvent) -> Counts:
    """Return the counts with these changes.

    >>> counted((("merged", 1),), ChangeEvent(5, "fit", 0.0, 1.0, 1.0), ChangeEvent(9, "merged", 0.0, 1.0, 1.0))
    (('fit', 1), ('merged', 2))
    """
    return tuple(sorted((Counter(dict(counts)) + Counter(event.kind for event in events)).items()))


UNORDERED = "no loss online: rows were learned as a set, without order, and none was predicted before it was learned"


@dataclass(frozen=True)
class Regret:
    """What the online model has cost, next to the best model in hindsight.

    Attributes
    ----------
    loss : float
        Prequential loss: each row under the model that was current before it came; before the first one, by the mean
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


def regret_of(state: Any) -> Regret:
    """Return the regret on the rows of a stream, given its state."""
    unscored, sketch = state.unscored, state.sketch
    known = state.problem.hindsight(sketch, state.model, *unscored.excluded)
    rows = sketch.n_rows - unscored.rows
    regret = Regret(
        loss=state.loss,
        optimum=known.optimum,
        rows=rows,
        secondary_loss=state.secondary_loss,
        error=known.error,
        shortfall=known.shortfall,
        total=known.total,
        weight=float(sketch.weight - unscored.weight) if rows else 0.0,
        secondary_optimum=known.secondary,
        secondary_name=state.problem.secondary_name,
        resolution=known.resolution,
        reason=UNORDERED if math.isnan(state.loss) else "",
    )
    if sketch.decay is None or not regret.rows:
        return regret
    return replace(regret._scaled(1 / sketch.newest_weight), half_life=sketch.decay.half_life)


_STEEPEST = 3.0
"""Seconds grow like this power of the rows at most, where they are foretold."""


class Solve(NamedTuple):
    """A solve that brought a model: rows seen, rows solved on, seconds."""

    at: int
    rows: int
    seconds: float


@dataclass(frozen=True)
class Costs:
    """What solves have cost so far.

    Attributes
    ----------
    solves, rows, seconds : int, int, float
        How many there were, with those that left the model in place; rows solved on and seconds in all.
    models : tuple of Solve
        Those that brought a model, the newest 10,000 of them.
    last : (int, float)
        Rows and seconds of the last one.
    """

    solves: int = 0
    rows: int = 0
    seconds: float = 0.0
    models: tuple[Solve, ...] = ()
    last: tuple[int, float] = field(default=(0, 0.0), compare=False)

    def after(self, rows: int, seconds: float) -> Costs:
        """Return the costs with one more solve."""
        return Costs(self.solves + 1, self.rows + rows, self.seconds + seconds, self.models, (rows, seconds))

    def with_model(self, at: int) -> Costs:
        """Return the costs with the note that the last solve has brought a model."""
        return replace(self, models=(*self.models, Solve(at, *self.last))[-KEPT:])

    def expected(self, rows: float) -> float:
        """Return the seconds that a solve on so many rows is expected to take: a power of the rows.

        The power is that of the solves so far, at least 1 and at most 3; 1 where they were all on as many rows.

        >>> costs = Costs(2, 300, 0.05, (Solve(100, 100, 0.01), Solve(200, 200, 0.04)))
        >>> round(costs.expected(400), 6)
        0.16
        """
        if not self.models:
            return 0.0
        last = max(self.models[-_MANY:], key=lambda solve: solve.rows)
        return last.seconds * math.pow(rows / max(1, last.rows), self._power())

    def _power(self) -> float:
        sizes, seconds = np.array([(max(1, s.rows), max(1e-9, s.seconds)) for s in self.models[-_MANY:]]).T
        x, y = np.log(sizes), np.log(seconds)
        spread = float(np.square(x - x.mean()).sum())
        slope = float((x - x.mean()) @ (y - y.mean())) / spread if spread > 1e-9 else 1.0
        return min(_STEEPEST, max(1.0, slope))

    def of_refits(self, rows: int, times: int = 30) -> float:
        """Return the seconds that refits on all rows, after each of ``times`` equal parts of them, would have taken.

        As if the rows had come in so many days, with a refit each night. An estimate by :meth:`expected`.
        """
        return sum(self.expected(rows * night / times) for night in range(1, times + 1))

    def affords(self, rows_seen: int, size: float, per_million: float) -> bool:
        """Whether one more solve on so many rows keeps within a budget of seconds for a million rows seen."""
        expected = self.expected(size)
        return math.isfinite(expected) and self.seconds + expected <= per_million * rows_seen / 1e6


_MANY = 20
"""The last so many solves tell how seconds grow with rows."""
