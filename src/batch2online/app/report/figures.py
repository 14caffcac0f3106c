"""Figures of every report, as SVG with the colours of the page: loss, regret, changes, coreset."""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from batch2online._types import FloatArray
from batch2online.app.report.formatting import visible
from batch2online.headline import HUGE
from batch2online.numerics.distances import nearest

INK, MUTED, GRID, ACCENT, SECOND, SURFACE = (f"#{n:02x}fe{n:02x}" for n in range(1, 7))
GROUPS = tuple(f"#{n:02x}fe{n:02x}" for n in range(7, 17))
"""Colours of clusters, reused if there are more."""
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    ACCENT: "var(--accent)",
    SECOND: "var(--second)",
    SURFACE: "var(--surface)",
} | {colour: f"var(--group{j})" for j, colour in enumerate(GROUPS)}
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "batch2online",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "patch.linewidth": 0.0,
    "figure.constrained_layout.use": True,
}


@contextmanager
def drawing(width: float = 5.2, height: float = 2.9) -> Iterator[tuple[Figure, Any]]:
    """Yield an empty figure in the style of the report; sizes are in inches of 72 CSS pixels."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        FigureCanvasSVG(figure)
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        yield figure, axes


def svg_of(figure: Figure, name: str, label: str, tips: Sequence[str] = ()) -> str:
    """Return the figure as an inline SVG element with unique identifiers and an accessible label.

    ``tips`` are the tooltips of the elements that were drawn with ``gid=tip-0``, ``tip-1``, ...
    """
    buffer = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style type=\"text/css\">.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"font: [^;\"]*?(\d+(?:\.\d+)?)px [^;\"]*", r"font-size: \1px", text)
    opening = (
        r'<svg viewBox="\1" role="img" aria-label="' + label.replace("\\", "") + '" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" stroke-linejoin="round">'
    )
    text = re.sub(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', opening, text, count=1)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    for j, tip in enumerate(tips):
        mark = f'<g id="{name}-tip-{j}">'
        text = text.replace(mark, f"{mark}<title>{html.escape(visible(tip))}</title>")
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def plain(name: str, most: int = 24) -> str:
    """Return a name as a label: control characters and ``$`` escaped, long names truncated."""
    shown = visible(name)
    short = shown if len(shown) <= most else shown[: most - 1] + "…"
    return short.replace("$", r"\$")


MAX_POINTS = 1500

_LEAST = 1e-6
"""Logarithmic axes end at this share of the largest value: what is below is rounding."""


def quality_figure(windows: list[dict[str, Any]], name: str, scale: float = 1.0) -> str:
    """Draw a measure of quality over windows of rows, beside that of the baseline."""
    stops = np.array([window["stop"] for window in windows], dtype=float)
    scale = scale if "distance" in name else 1.0
    with drawing() as (figure, axes):
        values = np.empty(0)
        for which, colour, label in (("baseline", SECOND, "baseline"), ("metrics", ACCENT, "model")):
            if name in windows[0][which]:
                drawn = scale * np.array([window[which][name] for window in windows])
                axes.plot(stops, drawn, "o-", color=colour, label=label, markersize=3)
                values = np.append(values, drawn)
        axes.set_xlim(0, stops[-1] * 1.02)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axes.set_xlabel("rows seen")
        is_share = name in ("accuracy", "error rate")
        _bounded(axes, values)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.3g} %" if is_share else _short(y)))
        axes.set_ylabel(name)
        if len(values) > len(stops):
            figure.legend(frameon=False, labelcolor=INK, loc="outside upper right", ncol=2)
        return svg_of(figure, f"quality-{name.replace(' ', '-')}", f"{name} over windows of rows")


def _bounded(axes: Any, values: FloatArray) -> None:
    """Limit the vertical axis to most values, if a few are far above: 1.2 times their 90 % quantile."""
    finite = values[np.isfinite(values)]
    if finite.size and finite.max() > 3 * np.quantile(finite, 0.9) > 0:
        axes.set_ylim(min(0.0, finite.min()), 1.2 * np.quantile(finite, 0.9))
    axes.yaxis.set_major_locator(MaxNLocator(5))


def loss_figure(curve: list[dict[str, Any]]) -> str:
    """Draw the mean loss per row, online and in hindsight."""
    rows, loss, optimum = (
        np.array([point[key] for point in curve], dtype=float) for key in ("rows", "loss", "optimum")
    )
    weight = np.array([point.get("weight", point["rows"]) for point in curve], dtype=float)
    with drawing() as (figure, axes):
        axes.plot(rows, optimum / weight, color=SECOND, label="best in hindsight")
        axes.plot(rows, loss / weight, color=ACCENT, label="online")
        rows_axis(axes, rows)
        values = np.concatenate([loss / weight, optimum / weight])
        if values.min() > 0 and values.max() > 20 * values.min():
            axes.set_yscale("log")
            axes.yaxis.set_minor_locator(NullLocator())
            axes.set_ylim(bottom=max(values.min(), values.max() * _LEAST) / 1.3)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axes.set_ylabel("mean loss per row")
        axes.legend(frameon=False, labelcolor=INK, loc="best")
        return svg_of(figure, "loss", "Mean loss per row, online and in hindsight, over the rows seen")


def ratio_figure(curve: list[dict[str, Any]]) -> str:
    """Draw the ratio of the loss to the optimum in hindsight."""
    rows = np.array([point["rows"] for point in curve], dtype=float)
    ratio = np.array([point["ratio"] if point["ratio"] <= HUGE else np.nan for point in curve], dtype=float)
    with drawing() as (figure, axes):
        axes.axhline(1, color=SECOND, linewidth=1.2)
        axes.plot(rows, ratio, color=ACCENT)
        rows_axis(axes, rows)
        finite = ratio[np.isfinite(ratio)]
        if finite.size and finite.max() > 1.5:
            axes.set_ylim(0.98, min(finite.max(), max(1.5, 1 + 8 * (finite[-1] - 1))) * 1.02)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axes.set_ylabel("loss / optimum")
        return svg_of(figure, "ratio", "Loss of all rows so far divided by the loss of the best model in hindsight")


def regret_figure(curve: list[dict[str, Any]]) -> str:
    """Draw the regret."""
    rows = np.array([point["rows"] for point in curve], dtype=float)
    regret = np.array([point["loss"] - point["optimum"] for point in curve])
    with drawing() as (figure, axes):
        axes.plot(rows, regret, color=ACCENT)
        axes.fill_between(rows, regret, color=ACCENT, alpha=0.12)
        rows_axis(axes, rows)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axes.set_ylabel("regret")
        return svg_of(figure, "regret", "Loss minus the loss of the best model in hindsight, over the rows seen")


def changes_figure(events: list[Any], n_rows: int, tips: Sequence[str]) -> str:
    """Draw the excess cost of the old model over the new one at each change, with a tooltip."""
    at = np.array([event.at for event in events], dtype=float)
    excess = np.array(  # in percent; 100 if the new model has no loss
        [100 * (max(0.0, event.excess) if math.isfinite(event.excess) else 1.0) for event in events]
    )
    with drawing(10.4, 2.6) as (figure, axes):
        axes.vlines(at, 1e-9, excess, color=ACCENT, linewidth=1.2)
        for j, (row, height) in enumerate(zip(at, excess, strict=True)):
            marks = {"color": ACCENT, "markeredgecolor": SURFACE, "markeredgewidth": 0.8, "zorder": 3}
            axes.plot([row], [height], "o", markersize=6, gid=f"tip-{j}", **marks)
        rows_axis(axes, np.array([max(1.0, at.min() * 0.8), n_rows]))
        if excess.max() > 50 * np.median(excess) > 0:
            axes.set_yscale("log")
            axes.yaxis.set_minor_locator(NullLocator())
            axes.set_ylim(max(excess.min(), 1e-3, excess.max() * _LEAST) / 2, excess.max() * 2)
        else:
            axes.set_ylim(0, max(excess.max() * 1.15, 1e-3))
            axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{_short(value)} %"))
        axes.set_ylabel("excess cost of the old model")
        return svg_of(figure, "changes", f"Timeline of {len(events)} model changes over the rows seen", tips)


def coreset_figure(points: FloatArray, weights: FloatArray, centers: FloatArray | None) -> tuple[str, float]:
    """Draw the coreset on its first two principal components; return the figure and their explained variance."""
    mean, axes_of_points, share = principal_components(points, weights)
    chosen = np.linspace(0, len(points) - 1, min(len(points), MAX_POINTS)).astype(int)
    flat = (points[chosen] - mean) @ axes_of_points.T
    labels = np.zeros(len(chosen), dtype=int) if centers is None else nearest(points[chosen], centers)[0]
    with drawing(5.2, 3.8) as (figure, axes):
        heaviness = np.sqrt(weights[chosen] / weights.max())
        for label in range(1 if centers is None else len(centers)):
            colour = ACCENT if centers is None else GROUPS[label % len(GROUPS)]
            for low, high, size in ((0.0, 0.4, 2.6), (0.4, 0.75, 4.2), (0.75, 2.0, 6.0)):
                some = flat[(low <= heaviness) & (heaviness < high) & (labels == label)]
                axes.plot(some[:, 0], some[:, 1], "o", color=colour, markersize=size, alpha=0.45, markeredgewidth=0)
        if centers is not None:
            for label, (x, y) in enumerate((centers - mean) @ axes_of_points.T):
                marks = {"color": SURFACE, "markeredgecolor": GROUPS[label % len(GROUPS)], "markeredgewidth": 1.8}
                axes.plot([x], [y], "o", markersize=15, zorder=4, **marks)
                axes.text(x, y, str(label), ha="center", va="center_baseline", fontsize=9, color=INK, zorder=5)
        axes.set_xlabel("first principal component")
        axes.set_ylabel("second principal component")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(5))
            axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axes.tick_params(colors=MUTED)
        return svg_of(figure, "coreset", "Coreset on its first two principal components"), share


def weights_figure(weights: FloatArray) -> str:
    """Draw a histogram of the weights of the coreset."""
    with drawing(5.2, 3.8) as (figure, axes):
        low, high = weights.min(), max(weights.max(), 1.5 * weights.min())
        if high > 10 * low:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
        axes.hist(weights, bins=np.geomspace(low, high, 25), color=ACCENT, alpha=0.85)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel("weight (number of rows represented)")
        axes.set_ylabel("rows of the coreset")
        return svg_of(figure, "weights", "Histogram of the weights of the coreset")


def principal_components(points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return the mean, the first two principal components, and their explained variance ratio."""
    mean = np.average(points, axis=0, weights=weights)
    centred = (points - mean) * np.sqrt(weights)[:, None]
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    two = np.zeros((2, points.shape[1]))
    two[: len(axes[:2])] = axes[:2]
    total = float((values**2).sum())
    return mean, two, float((values[:2] ** 2).sum()) / total if total else 1.0


def rows_axis(axes: Any, rows: FloatArray) -> None:
    """Format the horizontal axis of rows seen, logarithmic if their range is large."""
    if rows.max() > 20 * rows.min():
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=6))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlim(rows.min(), max(rows.max(), rows.min() + 1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.set_xlabel("rows seen")


def _short(value: float) -> str:
    """Return a number as a tick label.

    >>> [_short(value) for value in (0, 0.25, 1000, 2_500_000)]
    ['0', '0.25', '1k', '2.5M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size <= abs(value) < 1000 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
