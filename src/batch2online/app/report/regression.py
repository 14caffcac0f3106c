"""The section of a linear regression: residuals and coefficients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report import elements, model_figures
from batch2online.app.report.context import ReportContext, described
from batch2online.app.report.figures import ACCENT, INK, MUTED, SECOND, drawing, svg_of
from batch2online.app.report.model_figures import N_BINS, equal_weight_bins
from batch2online.headline import excess, number
from batch2online.methods.least_squares.problem import LeastSquares, standard_errors
from batch2online.methods.least_squares.solver import least_squares
from batch2online.methods.linear_losses.problem import LinearLossProblem

_QUANTILES = (0.1, 0.5, 0.9)
_LOG = ("poisson", "gamma", "tweedie")
_NORMAL = 1.96


class PredictedRows(NamedTuple):
    """Predictions, targets and weights of the coreset, sorted by prediction."""

    predicted: FloatArray
    targets: FloatArray
    weights: FloatArray

    def binned(self) -> list[PredictedRows]:
        """Return ten bins of equal weight, without empty ones."""
        bins = equal_weight_bins(self.weights)
        return [PredictedRows(*(part[bins == b] for part in self)) for b in range(N_BINS) if (bins == b).any()]


def predicted_coreset(model: Any) -> PredictedRows:
    """Return the coreset with predictions of the current model."""
    coreset = model.coreset_
    values = model._predictor_loss().mean(model._view().model.predictors(coreset.points))
    order = np.argsort(values, kind="stable")
    return PredictedRows(values[order], np.asarray(coreset.targets).reshape(-1)[order], coreset.weights[order])


def below(rows: PredictedRows) -> float:
    """Return the weighted fraction of targets at or below their predictions."""
    return float(np.average(rows.targets <= rows.predicted, weights=rows.weights))


def weighted_quantiles(values: FloatArray, weights: FloatArray, levels: Any) -> list[float]:
    """Return quantiles of weighted values."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    places = np.searchsorted(sums, np.array(levels) * sums[-1]).clip(max=len(values) - 1)
    return [float(value) for value in values[order[places]]]


def has_other_loss(model: Any) -> bool:
    """Whether the model has another loss than least squares, or a penalty."""
    return isinstance(model._view().problem, LinearLossProblem)


def describe(context: ReportContext, event: Any) -> str:
    """Return the reason of a change, and how much predictions and coefficients changed."""
    return described(context, event)


def section(context: ReportContext) -> str:
    """Return residuals, and coefficients by decreasing effect."""
    model = context.model
    if np.ndim(model.coef_) != 1:
        rows = [str(j) for j in range(len(model.coef_))]
        cells = model_figures.matrix_figure(rows, context.names, model.coef_, "Coefficients, one target per row")
        return elements.section("Coefficients", "One row per target.", elements.figure(cells, wide=True))
    deviations, widths = model_figures.moments(model.coreset_)[1], _interval_widths(model)
    effects = model.coef_ * deviations
    drawn = model_figures.coefficients_figure(context.names, effects, None if widths is None else widths * deviations)
    linear = "the intercept plus the sum of coefficients times features"
    formula = f"exp of {linear}" if model.loss in _LOG else linear
    lead = f"Prediction of {context.target or 'the target'}: {formula}.{_accuracy(model)}"
    note = "Blue increases the prediction, orange decreases it."
    note += "" if widths is None else " Lines show each 95 % interval."
    listed = _coefficients(context, np.argsort(-np.abs(effects), kind="stable"), widths)
    both = elements.pair(elements.figure(drawn, note), listed)
    coefficients = elements.section("Coefficients", lead + model_figures.note_of_bars(len(context.names)), both)
    return "\n".join(filter(None, (_residuals(context), coefficients)))


def _residuals(context: ReportContext) -> str:
    """Return the section of residuals, nothing for least squares."""
    model = context.model
    if not has_other_loss(model) or len(model.coreset_) < N_BINS:
        return ""
    rows, target = predicted_coreset(model), context.target or "the target"
    lead = (
        "Residuals of the current model on the weighted coreset, which it was fitted on, in ten bins of equal weight "
        f"by the prediction of {target}."
    )
    kind = "Residuals of means" if model.loss in _LOG else "Residuals"
    note = f"{kind}: dots are rows, sized by weight; orange is the median of a bin, lines its central 80 %."
    residuals = elements.figure(_residuals_figure(rows), note)
    if model.loss in _LOG:
        note = f"Mean {target} against the mean prediction in ten bins; on the diagonal they agree."
        return elements.section("Residuals", lead, elements.pair(residuals, elements.figure(_means_figure(rows), note)))
    level = float(model.quantile) if model.loss == "quantile" else 0.5
    wanted = f"; the quantile is {level:.0%}" if model.loss in ("quantile", "absolute") else ""
    note = f"Fraction of targets below the prediction in ten bins: {below(rows):.1%} in total{wanted}."
    coverage = elements.figure(_coverage_figure(rows, level), note.replace("%", " %"))
    return elements.section("Residuals", lead, elements.pair(residuals, coverage))


def _residuals_figure(rows: PredictedRows) -> str:
    """Draw residuals against predictions, with the median and the central 80 % of each bin."""
    residuals = rows.targets - rows.predicted
    with drawing(5.2, 3.4) as (figure, axes):
        sizes = np.clip(14 * rows.weights / rows.weights.max(), 1.0, None)
        axes.scatter(rows.predicted, residuals, s=sizes, color=ACCENT, alpha=0.25, linewidths=0)
        axes.axhline(0.0, color=MUTED, linewidth=0.8)
        bins = rows.binned()
        at = [float(np.average(each.predicted, weights=each.weights)) for each in bins]
        quantiles = [weighted_quantiles(each.targets - each.predicted, each.weights, _QUANTILES) for each in bins]
        low, middle, high = zip(*quantiles, strict=True)
        axes.vlines(at, low, high, color=INK, linewidth=1.2)
        axes.plot(at, middle, "o", color=SECOND, markersize=5)
        least, most = weighted_quantiles(residuals, rows.weights, (0.001, 0.999))
        margin = 0.05 * (most - least) or 1.0
        axes.set_ylim(min(least - margin, *low), max(most + margin, *high))
        axes.set_xlabel("prediction")
        axes.set_ylabel("residual")
        return svg_of(figure, "residuals", "Residuals against predictions, with the median of ten bins")


def _means_figure(rows: PredictedRows) -> str:
    bins = rows.binned()
    predicted = [float(np.average(each.predicted, weights=each.weights)) for each in bins]
    actual = [float(np.average(each.targets, weights=each.weights)) for each in bins]
    with drawing(5.2, 3.4) as (figure, axes):
        ends = [min(predicted + actual), max(predicted + actual)]
        axes.plot(ends, ends, color=MUTED, linewidth=0.8)
        axes.plot(predicted, actual, "o-", color=ACCENT, markersize=5)
        axes.set_xlabel("mean prediction")
        axes.set_ylabel("mean target")
        return svg_of(figure, "means", "Mean targets against mean predictions, in ten bins")


def _coverage_figure(rows: PredictedRows, level: float) -> str:
    fractions = [below(each) for each in rows.binned()]
    with drawing(5.2, 3.4) as (figure, axes):
        axes.bar(np.arange(1, len(fractions) + 1), fractions, color=ACCENT, width=0.7)
        axes.axhline(level, color=SECOND, linewidth=1.2)
        axes.set_ylim(0, 1)
        axes.set_xlabel("bin, by increasing prediction")
        axes.set_ylabel("fraction of targets below")
        return svg_of(figure, "coverage", "Fraction of targets below the prediction, in ten bins")


def _accuracy(model: Any) -> str:
    """Return the coverage of a quantile, and the estimated excess loss over a fit on all rows."""
    shown, error = "", float(getattr(model, "error_", 0.0))
    if model.loss == "quantile" and len(model.coreset_):
        shown = f" {100 * below(predicted_coreset(model)):.1f} % of the targets are below it, on the weighted coreset."
    return f"{shown} Its estimated loss is {excess(error)} above that of a fit on all rows." if error > 0 else shown


def _coefficients(context: ReportContext, order: Any, widths: FloatArray | None) -> str:
    values = context.model.coef_ / context.scales
    intercept = float(context.model.intercept_ - values @ context.means)
    rows = [[number(intercept), "", "intercept"]]
    for j in order:
        value, half = float(values[j]), np.nan if widths is None else float(widths[j] / context.scales[j])
        ends = f"{number(value - half)} to {number(value + half)}" if np.isfinite(half) else ""
        rows.append([number(value), ends, context.names[j]])
    if widths is None:
        return elements.listing(["coefficient", "feature"], [[row[0], row[2]] for row in rows], tall=True)
    return elements.listing(["coefficient", "95 % interval", "feature"], rows, tall=True)


def _interval_widths(model: Any) -> FloatArray | None:
    """Return half the width of the confidence interval of each coefficient; None for other losses.

    Intervals are those of least squares on all rows, widened by the distance of the current model from it.
    """
    now = model._view()
    if not isinstance(now.problem, LeastSquares) or not now.has_model or now.problem != LeastSquares(now.problem.exact):
        return None
    best = least_squares(now.sketch.moments).coefficients[0]
    return np.asarray(_NORMAL * standard_errors(now.snapshot())[0] + np.abs(best - model.coef_))
