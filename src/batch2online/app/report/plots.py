"""A figure of a model on matplotlib axes."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator, PercentFormatter

from batch2online._types import FloatArray
from batch2online.app.report.charts import Axis, truncated
from batch2online.app.report.context import ReportContext, model_context
from batch2online.app.report.figures import principal_components
from batch2online.app.report.model_figures import moments
from batch2online.app.report.regression import interval_widths
from batch2online.headline import count_of
from batch2online.numerics.distances import nearest

MAX_BARS = 15
INK, MUTED, LINE, ACCENT, SECOND = "#1b2430", "#5c6773", "#dfe3e8", "#1769aa", "#c2571a"
_GROUPS = ("#1769aa", "#c2571a", "#2e7d4f", "#8a4fa3", "#b8860b", "#c2185b", "#00838f", "#6d4c41", "#5c6bc0", "#7a8b00")
_MAP = LinearSegmentedColormap.from_list("signs", [SECOND, "white", ACCENT])


def plot(model: Any, axes: Any = None) -> Any:
    """Draw coefficients, clusters or explained variance of a model; for other models their quality over time."""
    axes = plt.figure(figsize=(8, 4.5), layout="constrained").add_subplot() if axes is None else axes
    context = model_context(model)
    draw = {"OnlineRegression": _regression, "OnlineClassifier": _classifier, "OnlineClustering": _clusters}
    draw |= {"OnlineLowRank": _shares}
    axes.grid(visible=True, color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=MUTED)
    for side in axes.spines.values():
        side.set_visible(False)
    (draw.get(type(model).__name__, _quality) if model.has_model_ else _quality)(context, axes)
    axes.xaxis.label.set_color(MUTED)
    axes.yaxis.label.set_color(MUTED)
    line = context.headline
    title = line.verdict or line.measures or line.changes or "no model yet"
    about = f"{type(model).__name__}, {count_of(context.rows, 'row')}, {count_of(model.n_changes_, 'model change')}"
    axes.set_title(f"{fill(title[:1].upper() + title[1:], 56)}\n", x=0, ha="left", color=INK, weight="bold", size=12)
    axes.annotate(about, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", color=MUTED, size=10)
    return axes


def _regression(context: ReportContext, axes: Any) -> None:
    coefficients, deviations = np.atleast_2d(context.model.coef_)[0], moments(context.model.coreset_)[1]
    widths = interval_widths(context.model) if np.ndim(context.model.coef_) == 1 else None
    _bars(context, axes, coefficients * deviations, None if widths is None else widths * deviations)
    axes.set_xlabel("effect on the prediction of one standard deviation")


def _classifier(context: ReportContext, axes: Any) -> None:
    effects = context.model.coef_ * moments(context.model.coreset_)[1]
    classes = context.model.classes_
    if len(effects) == 1:
        _bars(context, axes, effects[0])
        axes.set_xlabel(f"effect on the log odds of {classes[-1]} of one standard deviation")
        return
    strongest = np.sort(np.argsort(-np.abs(effects).max(axis=0), kind="stable")[:MAX_BARS])
    most = float(np.abs(effects).max()) or 1.0
    image = axes.imshow(effects[:, strongest], cmap=_MAP, vmin=-most, vmax=most, aspect="auto")
    axes.set_yticks(range(len(effects)), [truncated(str(label)) for label in classes[: len(effects)]])
    axes.set_xticks(range(len(strongest)), [truncated(context.names[j]) for j in strongest], rotation=40, ha="right")
    axes.grid(visible=False)
    axes.figure.colorbar(image, ax=axes, label="effect of one standard deviation").outline.set_visible(False)


def _bars(context: ReportContext, axes: Any, effects: FloatArray, errors: FloatArray | None = None) -> None:
    """Draw the strongest effects as bars, blue upwards and orange downwards, with intervals."""
    order = np.argsort(-np.abs(effects), kind="stable")[:MAX_BARS][::-1]
    colours = [ACCENT if effects[j] >= 0 else SECOND for j in order]
    axes.barh([truncated(context.names[j]) for j in order], effects[order], color=colours, height=0.65)
    if errors is not None:
        halves = np.where(np.isfinite(errors), errors, 0.0)[order]
        axes.errorbar(effects[order], range(len(order)), xerr=halves, fmt="none", ecolor=INK, elinewidth=1.3, capsize=3)
    axes.axvline(0, color=MUTED, linewidth=0.8)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", colors=INK)
    axes.margins(y=0.02)


def _clusters(context: ReportContext, axes: Any) -> None:
    coreset, centers = context.model.coreset_, context.model.cluster_centers_
    mean, directions, share = principal_components(coreset.points, coreset.weights)
    flat, marks = (coreset.points - mean) @ directions.T, (centers - mean) @ directions.T
    labels = nearest(coreset.points, centers)[0]
    sizes = np.bincount(labels, weights=coreset.weights, minlength=len(centers)) / coreset.weights.sum()
    for j, (x, y) in enumerate(marks):
        colour = _GROUPS[j % len(_GROUPS)]
        axes.scatter(*flat[labels == j].T, s=12, color=colour, alpha=0.45, linewidths=0)
        box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": colour, "linewidth": 1.6}
        axes.text(x, y, f"{j}: {sizes[j]:.0%}", ha="center", va="center", size=10, color=INK, bbox=box, zorder=5)
    for name, values, axis in zip("xy", flat.T, (axes.xaxis, axes.yaxis), strict=True):
        limits = Axis.of("", values)
        axes.set(**{f"{name}lim": (limits.low, limits.high)})
        axis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"first principal component (both explain {share:.0%} of the variance)")
    axes.set_ylabel("second principal component")


def _shares(context: ReportContext, axes: Any) -> None:
    shares = np.sort(context.model.explained_variance_ratio_)[::-1]
    places = np.arange(1, len(shares) + 1)
    drawn = axes.bar(places, shares, color=ACCENT, width=0.65, label="each component")
    axes.plot(places, np.cumsum(shares), "o-", color=SECOND, label="all up to it")
    if len(shares) <= MAX_BARS:
        axes.bar_label(drawn, [f"{share:.1%}" for share in shares], padding=3, color=INK, size=9)
    axes.set_ylim(0, 1.05)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("component")
    axes.set_ylabel("explained variance")
    axes.legend(frameon=False, labelcolor=INK, loc="best")


def _quality(context: ReportContext, axes: Any) -> None:
    """Draw a measure of quality over windows of rows beside the baseline, and where the model changed."""
    windows = context.model.window_metrics_
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("rows seen")
    for event in context.model.changes_:
        axes.axvline(event.at, color=MUTED, linewidth=0.6, alpha=0.5, zorder=1)
    if not windows:
        return
    name, stops = next(iter(windows[0]["metrics"])), [window["stop"] for window in windows]
    for which, colour, label in (("baseline", SECOND, "baseline"), ("metrics", ACCENT, "model")):
        if name in windows[0][which]:
            axes.plot(stops, [window[which][name] for window in windows], "o-", color=colour, label=label, markersize=4)
    if name in ("accuracy", "error rate"):
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g} %"))
    axes.set_ylabel(f"{name}, in windows of {count_of(windows[0]['rows'], 'row')}")
    axes.plot([], [], color=MUTED, linewidth=0.6, label="model change")
    axes.legend(frameon=False, labelcolor=INK, loc="best")
