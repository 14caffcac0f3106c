"""A figure of a model on matplotlib axes."""

from __future__ import annotations

import math
from dataclasses import replace
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report.charts import N_GROUPS, Axis, Chart, Series, palette
from batch2online.app.report.context import ReportContext, model_context
from batch2online.app.report.low_rank import explained_variance_chart
from batch2online.app.report.model_figures import moments
from batch2online.app.report.overview import coreset_chart, quality_chart
from batch2online.app.report.regression import interval_widths
from batch2online.headline import count_of

MAX_FEATURES = 15


def plot(model: Any, axes: Any = None) -> Any:
    """Draw coefficients, clusters or explained variance of a model; for other models their quality over time."""
    axes = plt.figure(figsize=(8, 4.5), layout="constrained").add_subplot() if axes is None else axes
    context, colours = model_context(model), palette()
    axes.grid(visible=True, color=colours["line"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=colours["muted"])
    for side in axes.spines.values():
        side.set_visible(False)
    chart = model_chart(context)
    if chart is not None:
        chart.on_axes(axes)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(colours["muted"])
    line = context.headline
    title = line.verdict or line.measures or line.changes or "no model yet"
    about = f"{type(model).__name__}, {count_of(context.rows, 'row')}, {count_of(model.n_changes_, 'model change')}"
    axes.set_title(
        f"{fill(title[:1].upper() + title[1:], 56)}\n", x=0, ha="left", color=colours["ink"], weight="bold", size=12
    )
    place = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(about, (0, 1), (0, 8), color=colours["muted"], size=10, **place)
    return axes


def model_chart(context: ReportContext) -> Chart | None:
    """Return the chart of a model; None before its quality is known."""
    model, kind = context.model, type(context.model).__name__ if context.model.has_model_ else ""
    if kind == "OnlineRegression":
        return _effects_of_regression(context)
    if kind == "OnlineClassifier":
        effects = model.coef_ * moments(model.coreset_)[1]
        what = "the log odds" if len(effects) == 1 else "the logit"
        return _effects_chart(context, effects, list(map(str, model.classes_[-len(effects) :])), what)
    if kind == "OnlineClustering":
        return coreset_chart(model.coreset_, model.cluster_centers_)
    if kind == "OnlineLowRank":
        return explained_variance_chart(np.sort(model.explained_variance_ratio_)[::-1])
    return _quality_over_changes(model) if model.window_metrics_ else None


def _quality_over_changes(model: Any) -> Chart:
    """Draw the first measure of quality over windows of rows, and a vertical line at each change of the model."""
    windows = model.window_metrics_
    chart = quality_chart(windows, next(iter(windows[0]["metrics"])))
    at = [place for event in model.changes_ for place in (event.at, event.at, math.nan)]
    changes = Series("model change", at, [chart.y.low, chart.y.high, math.nan] * len(model.changes_), "guide", "muted")
    return replace(chart, series=[changes, *chart.series])


def _effects_of_regression(context: ReportContext) -> Chart:
    coefficients, deviations = np.atleast_2d(context.model.coef_), moments(context.model.coreset_)[1]
    widths = interval_widths(context.model) if len(coefficients) == 1 and context.model.coef_.ndim == 1 else None
    labels = [f"target {j}" for j in range(len(coefficients))] if len(coefficients) > 1 else ["coefficient"]
    errors = None if widths is None else widths * deviations
    return _effects_chart(context, coefficients * deviations, labels, "the prediction", errors)


def _effects_chart(
    context: ReportContext, effects: FloatArray, labels: list[str], what: str, errors: FloatArray | None = None
) -> Chart:
    """Draw the strongest effects as dots, one series for each row of effects, with intervals if there are errors."""
    strongest = np.argsort(-np.abs(effects).max(axis=0), kind="stable")[:MAX_FEATURES][::-1]
    places = list(range(len(strongest)))
    x = f"effect on {what} of one standard deviation"
    y = Axis.of_names("", [context.names[j] for j in strongest])
    halves = np.zeros(len(strongest)) if errors is None else np.where(np.isfinite(errors), errors, 0.0)[strongest]
    ends = np.array([effects[0, strongest] - halves, effects[0, strongest] + halves, np.full(len(halves), np.nan)])
    series = [Series("", [0.0, 0.0], [y.low, y.high], "guide", "muted")]
    if errors is not None:
        series.append(Series("", ends.T.ravel().tolist(), np.repeat(places, 3).tolist(), "line", "muted"))
    for j, (label, values) in enumerate(zip(labels, effects, strict=True)):
        series.append(Series(label, values[strongest].tolist(), places, "dots", f"group{j % N_GROUPS}"))
    return Chart("Effects", Axis.of(x, [*ends[:2].ravel(), *effects[:, strongest].ravel(), 0.0]), y, series)
