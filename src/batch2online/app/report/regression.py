"""The section of a linear regression: residuals and coefficients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report import elements, model_figures
from batch2online.app.report.charts import Axis, Chart, Series
from batch2online.app.report.context import ReportContext, described
from batch2online.app.report.figures import MAX_POINTS, diagonal
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
    values = model._predictor_loss().mean(model.stream_.view().model.predictors(coreset.points))
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
    return isinstance(model.stream_.view().problem, LinearLossProblem)


def describe(context: ReportContext, event: Any) -> str:
    """Return the reason of a change, and how much predictions and coefficients changed."""
    return described(context, event)


def section(context: ReportContext) -> str:
    """Return residuals, and coefficients by decreasing effect."""
    model = context.model
    if np.ndim(model.coef_) != 1:
        targets = [f"target {j}" for j in range(len(model.coef_))]
        cells = model_figures.matrix_table(targets, context.names, model.coef_)
        return elements.section(
            "Coefficients", f"One column per target.{model_figures.note_of_columns(len(context.names))}", cells
        )
    linear = "the intercept plus the sum of coefficients times features"
    formula = f"exp of {linear}" if model.loss in _LOG else linear
    widths = interval_widths(model)
    lead = (
        f"Prediction of {context.target or 'the target'}: {formula}.{_accuracy(model)} The effect is the coefficient "
        "times the standard deviation: blue increases the prediction, orange decreases it"
        f"{'' if widths is None else '; lines show the 95 % interval'}."
    )
    coefficients = elements.section("Coefficients", lead, _coefficients(context, widths))
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
    note = f"{kind}: dots are rows of the coreset; orange is the median of a bin, grey its central 80 %."
    residuals = elements.figure(_residuals_chart(rows), note)
    if model.loss in _LOG:
        note = f"Mean {target} against the mean prediction in ten bins; on the diagonal they agree."
        return elements.section("Residuals", lead, elements.pair(residuals, elements.figure(_means_chart(rows), note)))
    level = float(model.quantile) if model.loss == "quantile" else 0.5
    wanted = f"; the quantile is {level:.0%}" if model.loss in ("quantile", "absolute") else ""
    note = f"Fraction of targets below the prediction in ten bins: {below(rows):.1%} in total{wanted}."
    coverage = elements.figure(_coverage_chart(rows, level), note.replace("%", " %"))
    return elements.section("Residuals", lead, elements.pair(residuals, coverage))


def _residuals_chart(rows: PredictedRows) -> Chart:
    """Draw residuals against predictions, with the median and the central 80 % of each bin."""
    residuals, bins = rows.targets - rows.predicted, rows.binned()
    at = [float(np.average(each.predicted, weights=each.weights)) for each in bins]
    quantiles = [weighted_quantiles(each.targets - each.predicted, each.weights, _QUANTILES) for each in bins]
    some = np.linspace(0, len(residuals) - 1, min(len(residuals), MAX_POINTS)).astype(int)
    series = [Series("residual", rows.predicted[some].tolist(), residuals[some].tolist(), "dots")]
    for level, colour, values in zip(
        _QUANTILES, ("muted", "second", "muted"), zip(*quantiles, strict=True), strict=True
    ):
        series.append(Series("median" if level == 0.5 else f"{level:.0%} quantile", at, values, "both", colour))
    ends = weighted_quantiles(residuals, rows.weights, (0.001, 0.999))
    x, y = Axis.of("prediction", rows.predicted), Axis.of("residual", [*ends, *quantiles[0], *quantiles[-1]])
    return Chart("Residuals against predictions, with the median of ten bins", x, y, series, height=300)


def _means_chart(rows: PredictedRows) -> Chart:
    bins = rows.binned()
    predicted = [float(np.average(each.predicted, weights=each.weights)) for each in bins]
    actual = [float(np.average(each.targets, weights=each.weights)) for each in bins]
    series = [Series("mean target", predicted, actual, "both"), diagonal(min(predicted), max(predicted))]
    x, y = Axis.of("mean prediction", predicted), Axis.of("mean target", [*predicted, *actual])
    return Chart("Mean targets against mean predictions, in ten bins", x, y, series, height=300)


def _coverage_chart(rows: PredictedRows, level: float) -> Chart:
    fractions = [below(each) for each in rows.binned()]
    bars = Series("fraction below", list(range(1, len(fractions) + 1)), fractions, "bars")
    x, y = Axis("bin, by increasing prediction", 0.4, len(fractions) + 0.6), Axis("fraction of targets below", 0.0, 1.0)
    wanted = Series("", [x.low, x.high], [level, level], "guide", "second")
    return Chart("Fraction of targets below the prediction, in ten bins", x, y, [bars, wanted], height=300)


def _accuracy(model: Any) -> str:
    """Return the coverage of a quantile, and the estimated excess loss over a fit on all rows."""
    shown, error = "", float(getattr(model, "error_", 0.0))
    if model.loss == "quantile" and len(model.coreset_):
        shown = f" {100 * below(predicted_coreset(model)):.1f} % of the targets are below it, on the weighted coreset."
    return f"{shown} Its estimated loss is {excess(error)} above that of a fit on all rows." if error > 0 else shown


def _coefficients(context: ReportContext, widths: FloatArray | None) -> str:
    """Return the coefficients in the units of the columns, by decreasing effect, with their intervals."""
    coefficients, deviations = context.model.coef_, model_figures.moments(context.model.coreset_)[1]
    values = coefficients / context.scales
    first = ["intercept", number(float(context.model.intercept_ - values @ context.means))]
    heads, columns = ["feature", "effect", "coefficient"], [[number(float(value)) for value in values]]
    if widths is not None:
        halves = widths / context.scales
        heads.append("95 % interval")
        first.append("")
        columns.append(
            [
                f"{number(value - half)} to {number(value + half)}" if np.isfinite(half) else ""
                for value, half in zip(values.tolist(), halves.tolist(), strict=True)
            ]
        )
    errors = None if widths is None else widths * deviations
    return model_figures.bar_table(heads, context.names, coefficients * deviations, columns, errors, first)


def interval_widths(model: Any) -> FloatArray | None:
    """Return half the width of the confidence interval of each coefficient; None for other losses.

    Intervals are those of least squares on all rows, widened by the distance of the current model from it.
    """
    now = model.stream_.view()
    if not isinstance(now.problem, LeastSquares) or not now.has_model or now.problem != LeastSquares(now.problem.exact):
        return None
    best = least_squares(now.sketch.moments).coefficients[0]
    return np.asarray(_NORMAL * standard_errors(now.snapshot())[0] + np.abs(best - model.coef_))
