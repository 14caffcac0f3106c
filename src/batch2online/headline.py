"""The headline of an estimator: quality in the units of the data, regret, number of changes, order of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from batch2online.metrics import MEAN_DISTANCE, RECALL, RMS_DISTANCE, Metrics
from batch2online.quality import ClassBaseline
from batch2online.record import Handful
from batch2online.results import Regret

HUGE = 1e4
"""Ratios above this are not reported: the best model in hindsight fits nearly exactly."""

Measure = tuple[str, str]
"""Name of a measure, and its formatted value."""

_FORMATS = {
    "R2": ".4f", "variance kept": ".2%", "accuracy": ".2%", "error rate": ".2%", "log loss": ".4f", "AUC": ".3f",
    "silhouette": ".3f",
}  # fmt: skip
"""Formats of measures that do not have four digits."""

_FREQUENT, _MEAN, _SEEDS = "most frequent class", "mean so far", "k-means++ seeds"
_BASELINES = {
    "accuracy": _FREQUENT, "error rate": _FREQUENT, "log loss": "class shares", MEAN_DISTANCE: _SEEDS,
}  # fmt: skip
"""What the baseline of a measure is, if not the mean so far."""


@dataclass(frozen=True)
class Headline:
    """The parts of the line.

    Attributes
    ----------
    subject : what is predicted, or nothing
    verdict : how much better than the baseline the model is, in words; empty where there is no baseline
    quality : measures of quality, plain averages over all rows, each predicted before it was learned
    beside : the same measures of the baseline, with the name of what they are of
    rows : how many rows these are, where old rows are forgotten; 0 where all rows count alike
    recent : the same measures of the last rows, where old rows are forgotten
    recent_rows : how many rows these are
    handful : the few rows that hold most of the loss, if there are any
    distance : the loss relative to that of the best possible model, with its uncertainty
    changes : how often the model changed, and when last
    order : whether the rows looked as if they came in random order
    """

    subject: str
    quality: tuple[Measure, ...]
    distance: str
    changes: str
    order: str
    rows: int = 0
    recent: tuple[Measure, ...] = ()
    recent_rows: int = 0
    handful: str = ""
    verdict: str = ""
    beside: tuple[Measure, ...] = ()

    @property
    def measures(self) -> str:
        """Quality in words: of all rows, and of the last ones."""
        beside = dict(self.beside)
        listed = ", ".join(
            f"{name} {value} ({beside[name]})" if name in beside else f"{name} {value}" for name, value in self.quality
        )
        recent = ", ".join(f"{name} {value}" for name, value in self.recent)
        over = f" over all {count_of(self.rows, 'row')}" if listed and self.rows else ""
        return f"{listed}{over}" + (f", over the last {count_of(self.recent_rows, 'row')} {recent}" if recent else "")

    @property
    def parts(self) -> dict[str, str]:
        """What follows the verdict, by name; empty parts are left out."""
        known = {
            "quality": self.measures,
            "large losses": self.handful,
            "hindsight": self.distance,
            "changes": self.changes,
            "order": self.order,
        }
        return {name: part for name, part in known.items() if part}

    def __str__(self) -> str:
        first, *rest = [part for part in (self.verdict, *self.parts.values()) if part] or [""]
        return "; ".join([": ".join(part for part in (self.subject, first) if part), *rest])


def headline(model: Any, target: str | None = None, scale: float = 1.0, unit: str = "") -> Headline:
    """Return the headline of an online estimator, with the name of its target where it has one."""
    regret, order, stream = model.regret_, model.order_, model.stream
    problem, performance = stream.problem, stream.performance()
    averages, recent = performance.averages, performance.recent
    quality = {} if averages is None else model.metrics_ | problem.further_metrics(stream.snapshot(), stream.model)
    beside = model.baseline_metrics_

    def shown(found: Metrics) -> tuple[Measure, ...]:
        return tuple((name, format_measure(name, value, scale, unit)) for name, value in found.items())

    if model.has_model_:
        error = float(getattr(model, "error_", 0.0))  # estimated distance to the fit on all rows
        above = f", the current model {excess(error)} above a fit on all its rows" if error > 0 else ""
        compared = distance(regret, best_of(model) + of_rows(model)) + above
    else:
        at = stream.current.refresh.next_check
        compared = f"no model yet: the first comes at row {at:,}, {model.n_seen_:,} seen"
    return Headline(
        subject=target or "",
        quality=shown(quality),
        verdict=verdict(model, quality, beside),
        beside=tuple((name, f"{baseline_of(name)}: {value}") for name, value in shown(beside) if name in quality),
        rows=averages.rows if averages is not None and forgets(model) else 0,
        recent=shown(performance.recent_metrics()),
        recent_rows=0 if recent is None else recent.rows,
        handful=of_handful(performance.handful, model.n_seen_),
        distance=compared,
        changes=changes(model),
        order=order.sentence() if order.ranked or not regret.reason else "",
    )


def verdict(model: Any, quality: Metrics, beside: Metrics) -> str:
    """Return in words whether the model is better than its baseline, and by how much."""
    stream = model.stream
    baseline, problem = stream.performance().baseline, stream.problem
    if isinstance(baseline, ClassBaseline):
        errors = _error_rate(quality), _error_rate(beside)
        log_losses = (quality.get("log loss"), beside.get("log loss"))
        return class_verdict(errors, log_losses, problem.label_of(baseline.most_frequent), model.n_seen_)
    if "R2" in quality:
        return explained_verdict(quality["R2"]) + _typically_off(quality["RMSE"], beside.get("RMSE"))
    if "variance kept" in quality:
        return f"keeps {_percent(quality['variance kept'])} of the variance"
    name = next((name for name in ("mean loss", "MAE") if name in quality and beside.get(name)), None)
    if name is not None:
        return _gained(name, quality[name], beside[name], "predicting the mean so far")
    gain = problem.gain_over_seeds(stream.snapshot(), stream.model) if stream.has_model else None
    return (
        ""
        if gain is None
        else f"squared distances {_percent(gain)} below those of k-means++ seeds alone, on the coreset"
    )


def _error_rate(found: Metrics) -> float:
    return found["error rate"] if "error rate" in found else 1 - found["accuracy"]


def class_verdict(
    errors: tuple[float, float], log_losses: tuple[float | None, float | None], frequent: Any, rows: int
) -> str:
    """Return how errors of a classifier compare with those of always saying the most frequent class.

    Differences within two standard errors count as none; then probabilities may still be better than class shares.

    >>> class_verdict((0.08, 0.27), (0.2, 0.6), "no", 10_000)
    "better than guessing, wrong on 8.0 % of rows, where always saying 'no' is wrong on 27.0 %"
    >>> class_verdict((0.02, 0.02), (0.1, 0.1), "no", 10_000)
    "no better than guessing, wrong on 2.0 % of rows, about as often as always saying 'no' (2.0 %)"
    """
    error, other = errors
    noise = 2 * math.sqrt((error * (1 - error) + other * (1 - other)) / max(1, rows))
    own = f"wrong on {_percent(error, 1)} of rows"
    saying = f"always saying {frequent!r}"
    if error < other - noise:
        return f"better than guessing, {own}, where {saying} is wrong on {_percent(other, 1)}"
    if error > other + noise:
        return f"worse than guessing, {own}, where {saying} is wrong on {_percent(other, 1)}"
    logs = [value for value in log_losses if value is not None]
    gain = 1 - logs[0] / logs[1] if len(logs) == 2 and logs[1] > 0 else 0.0
    better = f"; its probabilities are better: log loss {_percent(gain)} lower" if gain >= 0.005 else ""
    start = "" if better else "no better than guessing, "
    return f"{start}{own}, about as often as {saying} ({_percent(other, 1)}){better}"


def explained_verdict(r2: float) -> str:
    """Return the share of the variance that a regression explains.

    >>> explained_verdict(0.713), explained_verdict(-0.2)
    ('explains 71 % of the variance', 'worse than predicting the mean')
    """
    if r2 >= 0.005:
        return f"explains {_percent(r2)} of the variance"
    return "no better than predicting the mean" if r2 > -0.005 else "worse than predicting the mean"


def _typically_off(error: float, other: float | None) -> str:
    """Return a typical error beside that of the mean.

    >>> _typically_off(1359.2, 3989.0)
    '; typically off by 1,359, where the mean so far is off by 3,989'
    """
    return "" if not other else f"; typically off by {number(error)}, where the mean so far is off by {number(other)}"


def _gained(name: str, own: float, other: float, what: str) -> str:
    gain = 1 - own / other
    if abs(gain) < 0.005:
        return f"no better than {what}: {name} {number(own)}"
    better, lower = ("better", "lower") if gain > 0 else ("worse", "higher")
    return f"{better} than {what}: {name} {_percent(abs(gain))} {lower}"


def _percent(share: float, digits: int = 0) -> str:
    """Return a share in per cent; only what is everything is 100 %.

    >>> _percent(0.713), _percent(0.9999), _percent(0.27, 1)
    ('71 %', '99.99 %', '27.0 %')
    """
    shown = f"{100 * share:.{digits}f}"
    while share < 1 and float(shown) >= 100 and digits < 6:
        digits += 1
        shown = f"{100 * share:.{digits}f}"
    return f"{shown} %"


def best_of(model: Any) -> str:
    """Return the best model that the loss is compared with, in words."""
    if model.regret_.out_of_sample:
        return "model in hindsight, out of sample"
    name: str = model.stream.problem.best_model
    return name


def forgets(model: Any) -> bool:
    """Whether old rows count less, or not at all."""
    return getattr(model, "window", None) is not None or getattr(model, "half_life", None) is not None


def of_rows(model: Any) -> str:
    """Return which rows loss and optimum of ``regret_`` are of, where old ones are forgotten."""
    if getattr(model, "window", None) is not None:
        return f" for the last {model.regret_.rows:,} rows"
    half_life = model.regret_.half_life
    if half_life is not None:
        return f" for rows weighted by a half-life of {half_life:,}"
    return " for all rows, unweighted: no half-life is active" if getattr(model, "half_life", None) == "auto" else ""


def of_handful(found: Handful | None, rows: int) -> str:
    """Return that a few rows hold most of the loss, where they do.

    >>> of_handful(Handful(2, 0.813, (17, 2029)), 5000)
    '2 of 5,000 rows hold 81 % of the loss (ids 17, 2029)'
    """
    if found is None:
        return ""
    holds, ids = "holds" if found.rows == 1 else "hold", "id" if found.rows == 1 else "ids"
    share = min(99, round(100 * found.share)) if found.share < 1 else 100
    return f"{found.rows} of {rows:,} rows {holds} {share} % of the loss ({ids} {', '.join(map(str, found.ids))})"


def excess(error: float) -> str:
    """Return a relative excess of the loss as a string.

    >>> excess(0.0123), excess(1e-7)
    ('1.23 %', 'less than 0.01 %')
    """
    return f"{100 * error:.2f} %" if error >= 1e-4 else "less than 0.01 %"


def baseline_of(name: str) -> str:
    """Return what the baseline of a measure is."""
    return _BASELINES.get(name, _MEAN)


def format_measure(name: str, value: float, scale: float = 1.0, unit: str = "") -> str:
    """Return the value of a measure as it is shown; a distance between rows in its unit.

    >>> format_measure("accuracy", 0.9123), format_measure("mean distance", 2.0, scale=3.0, unit="mm")
    ('91.23%', '6 mm')
    """
    if name in (MEAN_DISTANCE, RMS_DISTANCE):
        return f"{number(scale * value)} {unit}".strip()
    form = ".1%" if name.startswith(RECALL) else _FORMATS.get(name)
    return number(value) if form is None else format(value, form)


def distance(regret: Regret, best: str) -> str:
    """Return how far the loss is from that of the best model, ``Problem.best_model``, in words.

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
    """Return the interval of the ratio in words; each end holds with probability 95 %."""
    low, high = regret.ratio_interval
    return f"{low:.{digits}f} to {high:.{digits}f}" if low > 0 else f"at most {high:.{digits}f}"


def _below_one(regret: Regret) -> str:
    """Return why a ratio is below 1, where it is: one model for all rows cannot lose more than the best one."""
    if regret.ratio >= 1:
        return ""
    if regret.out_of_sample:
        return " (below 1: in hindsight each half of the rows is predicted by a model of the other half)"
    if regret.ratio_interval[1] >= 1:
        return " (below 1: that is measured on the coreset alone)"
    return " (below 1: the model changed along with the rows, which no single model can)"


def changes(model: Any) -> str:
    """Return the number of changes of the model, and the row of the last one."""
    n_changes = model.n_changes_
    if not n_changes:
        return "no change" if model.has_model_ else ""
    count = "1 change" if n_changes == 1 else f"{n_changes:,} changes, the last"
    return f"{count} at row {model.changes_[-1].at:,}"


def count_of(n: int, noun: str) -> str:
    """Return a number of things in words.

    >>> count_of(1, "row"), count_of(2_000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def number(value: float) -> str:
    """Return a number for a sentence.

    >>> number(1009660.3), number(0.04218), number(0.0)
    ('1,009,660', '0.04218', '0')
    """
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"
