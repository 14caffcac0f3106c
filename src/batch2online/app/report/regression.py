"""The sections of a linear regression: residuals and coefficients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report.charts import Axis, Chart, Series, diagonal, level
from batch2online.app.report.context import ReportContext
from batch2online.app.report.elements import Section, Table
from batch2online.app.report.model_figures import (
    N_BINS,
    bar_table,
    binned_means,
    equal_weight_bins,
    matrix_table,
    moments,
    note_of_columns,
)
from batch2online.app.report.overview import MAX_POINTS
from batch2online.headline import excess, number
from batch2online.methods.least_squares.problem import LeastSquares, standard_errors
from batch2online.methods.least_squares.solver import least_squares
from batch2online.methods.linear_losses.problem import LinearLossProblem
from batch2online.methods.losses import REGRESSION_LOSSES

_QUANTILES = (0.1, 0.5, 0.9)
_NORMAL = 1.96


class PredictedRows(NamedTuple):
    """Predictions, targets and weights of the coreset, sorted by prediction."""

    predicted: FloatArray
    targets: FloatArray
    weights: FloatArray


def predicted_coreset(model: Any) -> PredictedRows:
    """Return the coreset with predictions of the current model."""
    coreset = model.coreset_
    values = model.predictor_loss().mean(model.stream.view().model.predictors(coreset.points))
    order = np.argsort(values, kind="stable")
    return PredictedRows(values[order], np.asarray(coreset.targets).reshape(-1)[order], coreset.weights[order])


def below(rows: PredictedRows) -> float:
    """Return the weighted fraction of targets at or below their predictions."""
    return float(np.average(rows.targets <= rows.predicted, weights=rows.weights))


def weighted_quantiles(values: FloatArray, weights: FloatArray, levels: Sequence[float]) -> list[float]:
    """Return quantiles of weighted values."""
    found: list[float] = np.quantile(values, levels, weights=weights, method="inverted_cdf").tolist()
    return found


def sections(context: ReportContext) -> list[Section]:
    """Return residuals unless the loss is that of least squares, and coefficients."""
    model = context.model
    if np.ndim(model.coef_) != 1:
        targets = [f"target {j}" for j in range(len(model.coef_))]
        lead = f"One column per target.{note_of_columns(len(context.names))}"
        return [Section("Coefficients", lead, [matrix_table(targets, context.names, model.coef_)])]
    linear = "the intercept plus the sum of coefficients times features"
    formula = f"exp of {linear}" if REGRESSION_LOSSES[model.loss].has_log_link else linear
    widths = interval_widths(model)
    lead = (
        f"Prediction of {context.target or 'the target'}: {formula}.{_accuracy(model)} The effect is the coefficient "
        "times the standard deviation: blue increases the prediction, orange decreases it"
        f"{'' if widths is None else '; lines show the 95 % interval'}."
    )
    return [*_residuals(context), Section("Coefficients", lead, [_coefficients(context, widths)])]


def _residuals(context: ReportContext) -> Iterator[Section]:
    """Yield residuals, and means or coverage by bins; nothing for least squares."""
    model = context.model
    if not isinstance(model.stream.view().problem, LinearLossProblem) or len(model.coreset_) < N_BINS:
        return
    rows, target = predicted_coreset(model), context.target or "the target"
    lead = (
        "Residuals of the current model on the weighted coreset, which it was fitted on, in ten bins of equal weight "
        f"by the prediction of {target}."
    )
    of_means = REGRESSION_LOSSES[model.loss].has_log_link
    beside = _means_chart(rows, target) if of_means else _coverage_chart(rows, model)
    yield Section("Residuals", lead, [_residuals_chart(rows, of_means), beside])


def _residuals_chart(rows: PredictedRows, of_means: bool) -> Chart:
    """Draw residuals against predictions, with the median and the central 80 % of each bin."""
    residuals, bins = rows.targets - rows.predicted, equal_weight_bins(rows.weights)
    at = binned_means(*rows)[0].tolist()
    quantiles = [weighted_quantiles(residuals[bins == b], rows.weights[bins == b], _QUANTILES) for b in np.unique(bins)]
    some = np.linspace(0, len(residuals) - 1, min(len(residuals), MAX_POINTS)).astype(int)
    series = [Series("residual", rows.predicted[some].tolist(), residuals[some].tolist(), "dots")]
    labels = {"10% quantile": "muted", "median": "second", "90% quantile": "muted"}
    for (label, colour), values in zip(labels.items(), zip(*quantiles, strict=True), strict=True):
        series.append(Series(label, at, values, "both", colour))
    ends = weighted_quantiles(residuals, rows.weights, (0.001, 0.999))
    x, y = Axis.of("prediction", rows.predicted), Axis.of("residual", [*ends, *quantiles[0], *quantiles[-1]])
    kind = "Residuals of means" if of_means else "Residuals"
    note = f"{kind}: dots are rows of the coreset; orange is the median of a bin, grey its central 80 %."
    return Chart("Residuals against predictions, with the median of ten bins", x, y, series, note, height=300)


def _means_chart(rows: PredictedRows, target: str) -> Chart:
    predicted, actual = (means.tolist() for means in binned_means(*rows))
    series = [Series("mean target", predicted, actual, "both"), diagonal(predicted)]
    x, y = Axis.of("mean prediction", predicted), Axis.of("mean target", [*predicted, *actual])
    note = f"Mean {target} against the mean prediction in ten bins; on the diagonal they agree."
    return Chart("Mean targets against mean predictions, in ten bins", x, y, series, note, height=300)


def _coverage_chart(rows: PredictedRows, model: Any) -> Chart:
    at = float(model.quantile) if model.loss == "quantile" else 0.5
    fractions = binned_means(rows.predicted, rows.targets <= rows.predicted, rows.weights)[1].tolist()
    bars = Series("fraction below", list(range(1, len(fractions) + 1)), fractions, "bars")
    x, y = (
        Axis("bin, by increasing prediction", 0.4, len(fractions) + 0.6, is_whole=True),
        Axis("fraction of targets below", 0.0, 1.0),
    )
    wanted = f"; the quantile is {at:.0%}" if model.loss in ("quantile", "absolute") else ""
    note = f"Fraction of targets below the prediction in ten bins: {below(rows):.1%} in total{wanted}."
    series = [bars, level([x.low, x.high], at, "second")]
    title = "Fraction of targets below the prediction, in ten bins"
    return Chart(title, x, y, series, note.replace("%", " %"), height=300)


def _accuracy(model: Any) -> str:
    """Return the coverage of a quantile, and the estimated excess loss over a fit on all rows."""
    shown, error = "", float(getattr(model, "error_", 0.0))
    if model.loss == "quantile" and len(model.coreset_):
        shown = f" {100 * below(predicted_coreset(model)):.1f} % of the targets are below it, on the weighted coreset."
    return f"{shown} Its estimated loss is {excess(error)} above that of a fit on all rows." if error > 0 else shown


def _coefficients(context: ReportContext, widths: FloatArray | None) -> Table:
    """Return the coefficients in the units of the columns, by decreasing effect, with their intervals."""
    coefficients, deviations = context.model.coef_, moments(context.model.coreset_)[1]
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
    return bar_table(heads, context.names, coefficients * deviations, columns, errors, first)


def interval_widths(model: Any) -> FloatArray | None:
    """Return half the width of the confidence interval of each coefficient; None for other losses.

    Intervals are those of least squares on all rows, widened by the distance of the current model from it.
    """
    now = model.stream.view()
    if not isinstance(now.problem, LeastSquares) or not now.has_model:
        return None
    best = least_squares(now.sketch.moments).coefficients[0]
    errors = standard_errors(now.snapshot(), now.current.newest_weight)[0]
    return np.asarray(_NORMAL * errors + np.abs(best - model.coef_))
