"""Results that estimators report: changes of the model, regret, and timings of fits."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from batch2online.numerics.matching import ClusterChange
from batch2online.schema import replace, storable

KEPT = 10_000
"""Number of changes that are stored, the newest ones; older ones are only counted."""

Counts = tuple[tuple[str, int], ...]
"""Number of changes of each kind, sorted by kind."""


Moved = tuple[int, float, float]
"""A column, and a number of it before and after a change."""

MOST_MOVED = 3
"""Number of columns that a change names."""


def most_moved(effects: Any, before: Any, after: Any) -> tuple[Moved, ...]:
    """Return the columns of the largest effects, with their numbers before and after a change.

    >>> most_moved(np.array([0.0, 3.0, 1.0]), [1.0, 2.0, 3.0], [1.0, 5.0, 4.0])
    ((1, 2.0, 5.0), (2, 3.0, 4.0))
    """
    strongest = np.argsort(-np.asarray(effects), kind="stable")[:MOST_MOVED]
    return tuple((int(j), float(before[j]), float(after[j])) for j in strongest if effects[j] > 0)


KINDS = ("scheduled", "loss_increase", "fit", "merged", "forgotten", "half_life")


@storable
@dataclass(frozen=True)
class ChangeEvent:
    """One change of the model: when, why, by how much.

    Attributes
    ----------
    at : int
        Rows seen when the new model became current.
    kind : {"scheduled", "loss_increase", "fit", "merged", "forgotten", "half_life"}
        What triggered the refit.
    magnitude : float
        Distance between the old and the new model, in the measure of the problem.
    cost_before, cost_after : float
        Cost of the old and of the new model on all rows seen: exact for least squares and low rank from sums, otherwise
        measured on the coreset; for clusters with all rows kept, ``cost_after`` is within a per cent or so.
    tolerance : float or None
        Share by which the old model could have cost more than the new one and been kept; None if the policy always
        replaces the model.
    rows : int or None
        Rows merged or forgotten; the half-life that became current, 0 for none.
    angle : float or None
        For subspaces: the largest principal angle between the old and the new one, in radians.
    matching : tuple of ClusterChange or None
        For clusters: the change of each cluster id.
    churn : float or None
        For clusters and classes: share of the weight of all rows whose label, or predicted class, changed; for classes
        and other fits of estimators measured on the coreset or a sample of it.
    n_fit_rows : int or None
        Rows that the new model was fitted to.
    seconds : float or None
        Time of the fit, if known; it differs from run to run and is not compared.
    coefficients : tuple of (int, float, float) or None
        The columns whose coefficients moved the predictions most, with their values before and after.
    coefficient_classes : tuple of float or None
        For classes: the code of the class whose log odds each of these coefficients is of.
    importances : tuple of (int, float, float) or None
        For estimators with ``feature_importances_``: the columns whose share of all importance moved most.
    prediction_change : float or None
        For numbers: root mean square change of the predictions, in the units of the target.
    trial : (int, float, float) or None
        Number of rows after the change on which both models were scored, at most 2,000, seen by neither; and the mean
        loss of the old and of the new model on them. None before the first such row, and where this is not measured.
    """

    at: int
    kind: str
    magnitude: float
    cost_before: float
    cost_after: float
    tolerance: float | None = None
    rows: int | None = None
    angle: float | None = None
    matching: tuple[ClusterChange, ...] | None = None
    churn: float | None = None
    coefficients: tuple[Moved, ...] | None = None
    coefficient_classes: tuple[float, ...] | None = None
    importances: tuple[Moved, ...] | None = None
    prediction_change: float | None = None
    trial: tuple[int, float, float] | None = None
    n_fit_rows: int | None = None
    seconds: float | None = field(default=None, compare=False, repr=False)

    @property
    def excess(self) -> float:
        """Share by which the old model costs more than the new one; infinite if the new one costs nothing."""
        if self.cost_after:
            return self.cost_before / self.cost_after - 1
        return math.inf if self.cost_before else 0.0

    @property
    def gain(self) -> float:
        """Share of the cost of the old model that the new one saves; what it costs in labels is ``churn``."""
        return 1 - self.cost_after / self.cost_before if self.cost_before else 0.0

    @property
    def reason(self) -> str:
        """Why the model was replaced, as a sentence."""
        where = f"at {self.at:,} rows"
        if self.kind == "scheduled":
            return f"scheduled refresh {where}" + (self.comparison and f": {self.comparison}")
        if self.kind == "loss_increase":
            return f"recent rows cost more than the first ones under the old model, {where}"
        if self.kind == "merged":
            return f"merged with {self.rows:,} rows"
        if self.kind == "half_life":
            better = f"a half-life of {self.rows:,} rows" if self.rows else "no half-life"
            return f"{better} has cost less lately"
        if self.kind == "forgotten":
            return f"{self.rows:,} rows forgotten"
        return f"{self.kind}: fitted to all rows"

    @property
    def comparison(self) -> str:
        """How the costs of both models compare, or an empty string if they were not compared.

        >>> ChangeEvent(70, "scheduled", 0.1, cost_before=102.0, cost_after=100.0, tolerance=0.01).comparison
        'the old model costs 2.00% more than the new one, tolerance 1.00%'
        >>> ChangeEvent(70, "scheduled", 0.1, cost_before=400.0, cost_after=100.0, tolerance=0.01).comparison
        'the old model costs 4 times as much as the new one, tolerance 1.00%'
        >>> ChangeEvent(70, "scheduled", 0.1, cost_before=1.0, cost_after=1e-20, tolerance=0.01).comparison
        'the new model fits the rows almost exactly, the old one does not'
        """
        if self.tolerance is None:
            return ""
        if self.excess > 1e6:
            return "the new model fits the rows almost exactly, the old one does not"
        more = f"{_percent(self.excess)} more than" if self.excess < 1 else f"{1 + self.excess:,.3g} times as much as"
        return f"the old model costs {more} the new one, tolerance {_percent(self.tolerance)}"


def _percent(share: float) -> str:
    """Return a share in percent, with two digits if it is small.

    >>> _percent(0.0215), _percent(0.0000321)
    ('2.15%', '0.0032%')
    """
    return f"{share:.2%}" if abs(share) >= 0.0005 or share == 0 else f"{100 * share:.2g}%"


def counted(counts: Counts, *events: ChangeEvent) -> Counts:
    """Return the counts with these changes.

    >>> counted((("merged", 1),), ChangeEvent(5, "fit", 0.0, 1.0, 1.0), ChangeEvent(9, "merged", 0.0, 1.0, 1.0))
    (('fit', 1), ('merged', 2))
    """
    return tuple(sorted((Counter(dict(counts)) + Counter(event.kind for event in events)).items()))


UNORDERED = "no loss online: rows were learned as a set, without order, and none was predicted before it was learned"


@dataclass(frozen=True)
class Regret:
    """Prequential loss of the online model, next to the loss of the best model in hindsight.

    Attributes
    ----------
    loss : float
        Prequential loss: each row under the model that was current before it came; before the first one, by the mean
        of the targets or of the rows before it. The very first row costs nothing. For a custom loss and for densities,
        rows before the first model are not scored: loss, optimum, ``rows`` and ``weight`` exclude them.
    optimum : float
        Least loss of any single model on the same rows, or of the best one known.
    rows : int
        How many rows were scored.
    secondary_loss : float or None
        A second measure of the same rows under the same models, named by ``secondary_name``; None where there is none.
    error : float
        How far the least loss on all rows may be below the optimum, which is measured on the coreset: it is at least
        ``optimum / (1 + error)`` with probability 95 % (docs/proofs.md). 0 where all rows are in it.
    shortfall : float
        How far it may be above: at most ``optimum * (1 + shortfall)`` with probability 95 %. Models are fitted to the
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
        With decay: the half-life by which loss and optimum weight the rows; the last row has weight one. The optimum is
        then that of the best model for *these* weights, not of the best single model.
    reason : str
        Why the loss is NaN: rows that were learned without order were never predicted before they were learned.
    out_of_sample : bool
        Whether the optimum is measured on rows that its model was not fitted to, as for flexible models.
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
    out_of_sample: bool = False

    @property
    def is_exact_fit(self) -> bool:
        """Whether the best model fits the rows up to rounding, so that there is nothing to compare with."""
        return self.optimum <= self.resolution

    @property
    def ratio(self) -> float:
        """``loss / optimum``; 1 where both are rounding, not a number where the optimum alone is."""
        if not self.is_exact_fit:
            return self.loss / self.optimum
        return 1.0 if self.loss <= self.resolution else math.nan

    @property
    def optimum_interval(self) -> tuple[float, float]:
        """Interval of the lowest loss on all rows; each end holds with probability 95 %, an infinite one always."""
        if not self.error:
            return self.optimum, self.optimum
        if not self.optimum > 0:  # shares of it mean nothing
            return -math.inf, math.inf
        return self.optimum / (1 + self.error), self.optimum * (1 + self.shortfall)

    @property
    def ratio_interval(self) -> tuple[float, float]:
        """Interval of the ratio to the lowest loss on all rows; the lower end is 0 if only the upper one is known."""
        if self.is_exact_fit or not self.error:
            return self.ratio, self.ratio
        low, high = self.optimum_interval
        return self.loss / high, self.loss / low

    def _scaled(self, factor: float) -> Regret:
        """Return the regret for weights multiplied by this factor."""
        names = ("loss", "optimum", "secondary_loss", "total", "weight", "secondary_optimum", "resolution")
        known = {name: getattr(self, name) for name in names}
        return replace(self, **{name: value and value * factor for name, value in known.items()})

    def regret(self, epsilon: float = 0.0) -> float:
        """Return the epsilon-approximate regret ``loss - (1 + epsilon) * optimum``."""
        return self.loss - (1 + epsilon) * self.optimum


def regret_of(problem: Any, state: Any, data: Any) -> Regret:
    """Return the regret of a stream so far, given its problem, its state and a snapshot of its rows."""
    unscored, totals = state.unscored, data.totals
    known = problem.hindsight(data, state.model, *unscored.excluded)
    rows = totals.n_rows - unscored.rows
    loss, secondary_loss = state.prequential_losses
    regret = Regret(
        loss=loss,
        optimum=known.optimum,
        rows=rows,
        secondary_loss=secondary_loss,
        error=known.error,
        shortfall=known.shortfall,
        total=known.total,
        weight=float(totals.weight - unscored.weight) if rows else 0.0,
        secondary_optimum=known.secondary,
        secondary_name=problem.secondary_name,
        resolution=known.resolution,
        reason=UNORDERED if math.isnan(loss) else "",
    )
    if state.decay is None or not regret.rows:
        return regret
    return replace(regret._scaled(1 / state.newest_weight), half_life=state.decay.half_life)


_MAX_POWER = 3.0
"""Seconds grow at most like this power of the rows, in estimates."""

_RECENT = 20
"""Number of latest fits that the estimate of :meth:`Timings.expected` is based on."""


class FitTiming(NamedTuple):
    """A fit that replaced the model: rows seen, rows fitted to, seconds."""

    at: int
    rows: int
    seconds: float


@dataclass(frozen=True)
class Timings:
    """Time spent in fits so far, and what refits on all rows would have taken.

    Attributes
    ----------
    solves, rows, seconds : int, int, float
        Number of fits, those that kept the current model included; rows fitted to and seconds in total.
    models : tuple of FitTiming
        The fits that replaced the model, the newest 10,000 of them.
    last : (int, float)
        Rows and seconds of the last fit.
    """

    solves: int = 0
    rows: int = 0
    seconds: float = 0.0
    models: tuple[FitTiming, ...] = ()
    last: tuple[int, float] = field(default=(0, 0.0), compare=False)

    def plus(self, rows: int, seconds: float) -> Timings:
        """Return the timings with one more fit."""
        return Timings(self.solves + 1, self.rows + rows, self.seconds + seconds, self.models, (rows, seconds))

    def with_model(self, at: int) -> Timings:
        """Return the timings where the last fit has replaced the model."""
        return replace(self, models=(*self.models, FitTiming(at, *self.last))[-KEPT:])

    def expected(self, rows: float) -> float:
        """Return the expected seconds of a fit to so many rows: a power of the rows.

        The power is estimated from the last fits, at least 1 and at most 3; 1 if they all had as many rows.

        >>> timings = Timings(2, 300, 0.05, (FitTiming(100, 100, 0.01), FitTiming(200, 200, 0.04)))
        >>> round(timings.expected(400), 6)
        0.16
        """
        if not self.models:
            return 0.0
        recent = self.models[-_RECENT:]
        largest = max(recent, key=lambda fit: fit.rows)
        sizes, seconds = np.array([(max(1, fit.rows), max(1e-9, fit.seconds)) for fit in recent]).T
        x, y = np.log(sizes), np.log(seconds)
        spread = float(np.square(x - x.mean()).sum())
        slope = float((x - x.mean()) @ (y - y.mean())) / spread if spread > 1e-9 else 1.0
        return largest.seconds * math.pow(rows / max(1, largest.rows), min(_MAX_POWER, max(1.0, slope)))

    def of_refits(self, rows: int, times: int = 30) -> float:
        """Return the estimated seconds of refits on all rows, one after each of ``times`` equal parts of them.

        As if the rows had come in so many days, with a refit each night. An estimate by :meth:`expected`.
        """
        return sum(self.expected(rows * night / times) for night in range(1, times + 1))
