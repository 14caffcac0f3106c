"""The section of a linear regression: coefficients, residuals, quantiles, and why the model changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report import elements, models
from batch2online.app.report.context import ReportContext
from batch2online.app.report.figures import ACCENT, INK, MUTED, SECOND, drawing, svg_of
from batch2online.app.report.text import why as reason
from batch2online.headline import excess
from batch2online.methods.least_squares.problem import LeastSquares, standard_errors
from batch2online.methods.least_squares.solver import least_squares
from batch2online.methods.linear_losses.problem import LinearLossProblem

_BINS = 10
_SPREAD = (0.1, 0.5, 0.9)
_LOG = ("poisson", "gamma", "tweedie")


class JudgedNumbers(NamedTuple):
    """Rows of the coreset: predictions, targets, and how many rows each stands for, in the order of the predictions."""

    predicted: FloatArray
    targets: FloatArray
    weights: FloatArray

    def binned(self) -> list[JudgedNumbers]:
        """Return ten bins of equal weight, those that hold rows."""
        ends = np.cumsum(self.weights)
        bins = np.minimum((_BINS * (ends - self.weights / 2) / ends[-1]).astype(np.int64), _BINS - 1)
        return [JudgedNumbers(*(part[bins == b] for part in self)) for b in range(_BINS) if (bins == b).any()]


def judged(model: Any) -> JudgedNumbers:
    """Return the coreset as the present model sees it."""
    coreset = model.coreset_
    predicted = model._view().model.predictors(coreset.points)
    values = model._predictor_loss().mean(predicted)
    order = np.argsort(values, kind="stable")
    return JudgedNumbers(values[order], np.asarray(coreset.targets).reshape(-1)[order], coreset.weights[order])


def is_other(model: Any) -> bool:
    """Whether the model is one of another loss than squares, or has a penalty."""
    return isinstance(model._view().problem, LinearLossProblem)


def residual_section(context: ReportContext) -> str:
    """Return residuals and coverage, nothing for least squares."""
    model = context.model
    if not is_other(model) or len(model.coreset_) < _BINS:
        return ""
    found, target = judged(model), context.target or "the target"
    lead = (
        "How predictions hold on the rows of the coreset, which the model was solved on, by their weights: in ten bins "
        f"of equal weight, from the lowest predictions of {target} to the highest."
    )
    residuals = elements.figure(_residuals_figure(found), _residuals_note(model))
    return elements.section("Residuals", lead, elements.pair(residuals, _second(model, found, target)))


def _second(model: Any, found: JudgedNumbers, target: str) -> str:
    if model.loss in _LOG:
        note = f"Means of {target} against mean predictions in ten bins; on the line they agree."
        return elements.figure(_means_figure(found), note)
    share, level = below(found), _level(model)
    wanted = f", {level:.0%} would be the quantile" if _is_quantile(model) else "; half where residuals are symmetric"
    note = f"Share of targets below the prediction in ten bins: {share:.1%} in all{wanted}."
    return elements.figure(_coverage_figure(found, level), note.replace("%", " %"))


def below(found: JudgedNumbers) -> float:
    """Return the share of targets at or below their predictions."""
    return float(np.average(found.targets <= found.predicted, weights=found.weights))


def _is_quantile(model: Any) -> bool:
    return model.loss in ("quantile", "absolute")


def _level(model: Any) -> float:
    return float(model.quantile) if model.loss == "quantile" else 0.5


def _quantiles(values: FloatArray, weights: FloatArray) -> list[float]:
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order])
    places = np.searchsorted(share, np.array(_SPREAD) * share[-1]).clip(max=len(values) - 1)
    return [float(value) for value in values[order[places]]]


def _residuals_figure(found: JudgedNumbers) -> str:
    """Targets less predictions against predictions, with the median and the middle 80 % of each bin."""
    residuals = found.targets - found.predicted
    with drawing(5.2, 3.4) as (figure, axes):
        sizes = np.clip(14 * found.weights / found.weights.max(), 1.0, None)
        axes.scatter(found.predicted, residuals, s=sizes, color=ACCENT, alpha=0.25, linewidths=0)
        axes.axhline(0.0, color=MUTED, linewidth=0.8)
        bins = found.binned()
        at = [float(np.average(each.predicted, weights=each.weights)) for each in bins]
        low, middle, high = zip(
            *(_quantiles(each.targets - each.predicted, each.weights) for each in bins), strict=True
        )
        axes.vlines(at, low, high, color=INK, linewidth=1.2)
        axes.plot(at, middle, "o", color=SECOND, markersize=5)
        least, most = _quantile_range(residuals, found.weights)
        axes.set_ylim(min(least, *low), max(most, *high))
        axes.set_xlabel("prediction")
        axes.set_ylabel("target less prediction")
        return svg_of(figure, "residuals", "Residuals against predictions, with the middle of ten bins")


def _quantile_range(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return a range that holds all but one in a thousand of the weight on either side, and a little more."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    places = np.searchsorted(share, [0.001, 0.999]).clip(max=len(order) - 1)
    low, high = map(float, values[order[places]])
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _residuals_note(model: Any) -> str:
    kind = "Residuals of the means" if model.loss in _LOG else "Residuals"
    return (
        f"{kind}: dots are rows, larger the more they stand for; orange is the median of a bin, lines its middle 80 %."
    )


def _means_figure(found: JudgedNumbers) -> str:
    bins = found.binned()
    predicted, actual = (
        [float(np.average(part, weights=each.weights)) for each in bins for part in [each[k]]] for k in (0, 1)
    )
    with drawing(5.2, 3.4) as (figure, axes):
        ends = [min(predicted + actual), max(predicted + actual)]
        axes.plot(ends, ends, color=MUTED, linewidth=0.8)
        axes.plot(predicted, actual, "o-", color=ACCENT, markersize=5)
        axes.set_xlabel("mean prediction")
        axes.set_ylabel("mean target")
        return svg_of(figure, "means", "Mean targets against mean predictions, in ten bins")


def _coverage_figure(found: JudgedNumbers, level: float) -> str:
    shares = [below(each) for each in found.binned()]
    with drawing(5.2, 3.4) as (figure, axes):
        axes.bar(np.arange(1, len(shares) + 1), shares, color=ACCENT, width=0.7)
        axes.axhline(level, color=SECOND, linewidth=1.2)
        axes.set_ylim(0, 1)
        axes.set_xlabel("bin, from the lowest predictions to the highest")
        axes.set_ylabel("share of targets below")
        return svg_of(figure, "coverage", "Share of targets below the prediction, in ten bins")


_NORMAL = 1.96


def why(context: ReportContext, event: Any) -> str:
    """Return the reason of a change, and which coefficients moved by how much."""
    moved_by = elements.number(event.magnitude)
    if is_other(context.model):
        return f"{reason(event)}; the loss of a row moved by {moved_by} on average"
    said = f"{reason(event)}; predictions moved by {moved_by} (root mean square)"
    moved = [
        f"{name} from {elements.number(old / scale)} to {elements.number(new / scale)}"
        for name, scale, old, new in (
            (context.names[j], context.scales[j], old, new) for j, old, new in event.coefficients or ()
        )
    ]
    return f"{said}; coefficients: {', '.join(moved)}" if moved else said


def section(context: ReportContext) -> str:
    """Return what each input adds to the prediction, strongest first."""
    model = context.model
    if np.ndim(model.coef_) != 1:
        return _several_targets(context)
    _, spreads = models.spread(model.coreset_)
    errors = _half_widths(model)
    order = np.argsort(-np.abs(model.coef_ * spreads), kind="stable")
    drawn = models.coefficients_figure(
        context.names, model.coef_ * spreads, None if errors is None else errors * spreads
    )
    sum_of = "the intercept plus each coefficient times its input"
    says = f"exp of {sum_of}" if _is_log(model) else sum_of
    lead = f"Prediction of {context.target or 'the target'}: {says}.{_covered(model)}"
    lead += f" The {models.MOST_BARS} strongest are drawn." if len(context.names) > models.MOST_BARS else ""
    note = "Blue raises the prediction, orange lowers it."
    note += "" if errors is None else " Lines are each 95 % interval."
    picture = elements.figure(drawn, note)
    told = elements.section("Coefficients", lead, elements.pair(picture, _listed(context, order, errors)))
    return "\n".join(part for part in (residual_section(context), told) if part)


def _is_log(model: Any) -> bool:
    """Whether the model predicts the logarithm of the mean."""
    return getattr(model, "loss", "squared") in ("poisson", "gamma", "tweedie")


def _covered(model: Any) -> str:
    """Return how many targets lie below a quantile, and how far the model is from a fit on all its rows."""
    said, coreset = "", model.coreset_
    if getattr(model, "loss", "") == "quantile" and len(coreset):
        below = coreset.targets <= coreset.points @ model.coef_ + model.intercept_
        share = 100 * np.average(below, weights=coreset.weights)
        said = f" {share:.1f} % of the targets lie below it, by the weights of the coreset."
    error = float(getattr(model, "error_", 0.0))
    return f"{said} It is estimated to cost {excess(error)} more than a fit on all its rows." if error > 0 else said


def _listed(context: ReportContext, order: Any, errors: FloatArray | None) -> str:
    coefficients = context.model.coef_ / context.scales
    intercept = float(context.model.intercept_ - coefficients @ context.means)
    rows = [[elements.number(intercept), "", "intercept"]]
    for j in order:
        value, half = float(coefficients[j]), None if errors is None else float(errors[j] / context.scales[j])
        between = "" if half is None or not np.isfinite(half) else _between(value, half)
        rows.append([elements.number(value), between, context.names[j]])
    if errors is None:
        return elements.listing(["coefficient", "input"], [[row[0], row[2]] for row in rows], tall=True)
    return elements.listing(["coefficient", "95 % interval", "input"], rows, tall=True)


def _between(value: float, half: float) -> str:
    return f"{elements.number(value - half)} to {elements.number(value + half)}"


def _half_widths(model: Any) -> FloatArray | None:
    """Half the width of the interval of each coefficient, None where the problem is not least squares.

    Intervals are those of least squares on all rows, widened by how far the present model is from it.
    """
    now = model._view()
    if not isinstance(now.problem, LeastSquares) or not now.is_solved or now.problem != LeastSquares(now.problem.exact):
        return None
    best = least_squares(now.construction.statistics.moments).coefficients[0]
    return np.asarray(_NORMAL * standard_errors(now.construction)[0] + np.abs(best - model.coef_))


def _several_targets(context: ReportContext) -> str:
    cells = models.matrix_figure(
        [str(j) for j in range(len(context.model.coef_))],
        context.names,
        context.model.coef_,
        "Coefficients, a target a row",
    )
    return elements.section("Coefficients", "One row for each target.", elements.figure(cells, wide=True))
