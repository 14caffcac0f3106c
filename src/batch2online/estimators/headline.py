"""How well a model does, in one line: in the user's units, against the best possible fit, how often it changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import silhouette_score

from batch2online._types import FloatArray
from batch2online.engine.regret import Regret
from batch2online.linalg.distances import nearest

HUGE = 1e4
"""Ratios above this are no measure of anything: hindsight fits nearly exactly."""

MEAN_DISTANCE, RMS_DISTANCE = "mean distance", "RMS distance"
SAMPLE = 1_000
"""Rows that a silhouette is measured on."""

Measure = tuple[str, str]
"""What is measured, and how much it is."""


@dataclass(frozen=True)
class Headline:
    """The parts of the line.

    Attributes
    ----------
    subject : what is predicted, or nothing
    quality : measures of quality, each row judged before it was learned
    distance : the loss relative to that of the best possible model, with its uncertainty
    changes : how often the model changed, and when last
    order : whether the rows looked as if they came in random order
    """

    subject: str
    quality: tuple[Measure, ...]
    distance: str
    changes: str
    order: str

    def __str__(self) -> str:
        measures = ", ".join(f"{name} {value}" for name, value in self.quality)
        named = ": ".join(part for part in (self.subject, measures) if part)
        return "; ".join(part for part in (named, self.distance, self.changes, self.order) if part)


def headline(model: Any, target: str | None = None, scale: float = 1.0, unit: str = "") -> Headline:
    """Return the headline of an online estimator, with the name of its target where it has one."""
    regret = model.regret_
    quality = list(model._quality(regret)) if regret.weight > 0 and not regret.reason else []
    order = model.order_
    return Headline(
        subject=target or "",
        quality=tuple(_in_unit(regret, measure, scale, unit) for measure in quality),
        distance=distance(regret, model._best + of_rows(model)) + _above(model)
        if model.has_model_
        else _waiting(model),
        changes=changes(model),
        order=order.sentence() if order.ranked or not regret.reason else "",
    )


def of_rows(model: Any) -> str:
    """Return which rows loss and optimum are of, where old ones are let go."""
    if getattr(model, "window", None) is not None:
        return f" for the last {model.regret_.rows:,} rows"
    half_life = model.regret_.half_life
    if half_life is not None:
        return f" for rows that fade with a half-life of {half_life:,}"
    return " for all rows, which no half-life fades for now" if getattr(model, "half_life", None) == "auto" else ""


def _above(model: Any) -> str:
    """Return how far the present model is estimated to be from the fit on all rows, where it knows."""
    error = float(getattr(model, "error_", 0.0))
    return f", the present model {excess(error)} above a fit on all its rows" if error > 0 else ""


def excess(error: float) -> str:
    """Return a share by which a model costs more, in words.

    >>> excess(0.0123), excess(1e-7)
    ('1.23 %', 'less than 0.01 %')
    """
    return f"{100 * error:.2f} %" if error >= 1e-4 else "less than 0.01 %"


def _in_unit(regret: Regret, measure: Measure, scale: float, unit: str) -> Measure:
    """Return a distance between rows in its unit; other measures as they are."""
    squared = max(0.0, regret.loss / regret.weight)
    known = {MEAN_DISTANCE: mean_secondary(regret), RMS_DISTANCE: math.sqrt(squared)}
    if measure[0] not in known:
        return measure
    return measure[0], f"{number(scale * known[measure[0]])} {unit}".strip()


def distance(regret: Regret, best: str) -> str:
    """Return how far the loss is from that of the best model, in words.

    >>> distance(Regret(102.0, 100.0, 50, 10.0), "linear fit")
    'loss 1.0200 times that of the best linear fit'
    >>> distance(Regret(98.0, 100.0, 50, 10.0, error=0.03), "fit")
    'loss 0.9800 (at most 1.0094) times that of the best fit (below 1: that is measured on the coreset alone)'
    >>> distance(Regret(102.0, 100.0, 50, 10.0, error=0.03, shortfall=0.05), "clustering known")
    'loss 1.0200 (0.9714 to 1.0506) times that of the best clustering known'
    >>> distance(Regret(98.0, 0.0, 50, 10.0), "linear fit")
    'exact fit: nothing to compare with'
    """
    if regret.reason:
        return regret.reason
    if math.isnan(regret.optimum):
        return "the best possible loss is not known"
    if min(regret.optimum, regret.loss) < 0:  # logarithms of densities: differences alone have a meaning
        return f"mean loss {number((regret.loss - regret.optimum) / regret.weight)} above that of the best {best}"
    if regret.is_exact_fit:
        return "exact fit: nothing to compare with"
    ratio = regret.ratio
    if ratio > HUGE:
        return f"loss more than {HUGE:,.0f} times that of the best {best}, which fits nearly exactly"
    uncertain = f" ({interval(regret, 4)})" if regret.error else ""
    return f"loss {ratio:.4f}{uncertain} times that of the best {best}{_below_one(regret)}"


def interval(regret: Regret, digits: int) -> str:
    """Return the interval of the ratio in words; each end holds with a chance of 95 %."""
    low, high = regret.ratio_interval
    return f"{low:.{digits}f} to {high:.{digits}f}" if low > 0 else f"at most {high:.{digits}f}"


def _below_one(regret: Regret) -> str:
    """Return why a ratio is below 1, where it is: one model for all rows cannot lose more than the best one."""
    if regret.ratio >= 1:
        return ""
    if regret.ratio_interval[1] >= 1:
        return " (below 1: that is measured on the coreset alone)"
    return " (below 1: the model changed along with the rows, which no single model can)"


def changes(model: Any) -> str:
    """Return how often the model changed, and when last."""
    events = model.changes_
    if not events:
        return "no change" if model.has_model_ else ""
    count = "1 change" if len(events) == 1 else f"{len(events):,} changes, the last"
    return f"{count} at row {events[-1].at:,}"


def _waiting(model: Any) -> str:
    engine = model._engine
    return f"no model yet: the first comes at row {engine.next_refresh:,}, {engine.n_seen:,} seen"


def number(value: float) -> str:
    """Return a number for a sentence.

    >>> number(1009660.3), number(0.04218), number(0.0)
    ('1,009,660', '0.04218', '0')
    """
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"


def regression_quality(regret: Regret) -> list[Measure]:
    """Return R2, root mean square and mean absolute error, in the units of the target."""
    explained = [("R2", f"{1 - regret.loss / regret.total:.4f}")] if regret.total > regret.resolution else []
    root, mean = math.sqrt(regret.loss / regret.weight), mean_secondary(regret)
    return [*explained, ("RMSE", number(root)), ("MAE", number(mean))]


def low_rank_quality(regret: Regret) -> list[Measure]:
    """Return the share of variance kept, and the root mean square distance to the subspace."""
    kept = [("variance kept", f"{1 - regret.loss / regret.total:.2%}")] if regret.total > regret.resolution else []
    return [*kept, (RMS_DISTANCE, number(math.sqrt(regret.loss / regret.weight)))]


def classification_quality(regret: Regret) -> list[Measure]:
    """Return the share of labels that were predicted, and the mean logarithmic loss."""
    right = 1 - mean_secondary(regret)
    return [("accuracy", f"{right:.2%}"), ("log loss", f"{regret.loss / regret.weight:.4f}")]


def clustering_quality(regret: Regret) -> list[Measure]:
    """Return the mean distance to the nearest center, in the units of the columns."""
    return [(MEAN_DISTANCE, number(mean_secondary(regret)))]


def silhouette(history: Any, centers: FloatArray) -> list[Measure]:
    """Return the mean silhouette of rows spread over a history, where there is one and several clusters are met."""
    if history is None or not any(map(len, history)):
        return []
    count = sum(map(len, history))
    rows = history.at(np.linspace(0, count - 1, min(count, SAMPLE)).astype(np.int64)).points
    labels = nearest(rows, centers)[0]
    if not 1 < len(np.unique(labels)) < len(rows):
        return []
    near_zero = rows - centers.mean(axis=0)  # scikit-learn's distances come from products
    return [("silhouette", f"{silhouette_score(near_zero, labels):.3f}")]


def mean_secondary(regret: Regret) -> float:
    """Return the mean secondary loss of a row."""
    return (regret.secondary_loss or 0.0) / regret.weight


def mean_loss(regret: Regret) -> list[Measure]:
    """Return the mean loss of a row."""
    return [("mean loss", number(regret.loss / regret.weight))]
