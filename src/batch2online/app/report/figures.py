"""Charts of every report: quality, loss, regret, changes, coreset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report.charts import N_GROUPS, Axis, Chart, Series
from batch2online.headline import HUGE
from batch2online.numerics.distances import nearest

MAX_POINTS = 400


def quality_chart(windows: list[dict[str, Any]], name: str, scale: float = 1.0, wide: bool = False) -> Chart:
    """Draw a measure of quality over windows of rows, beside that of the baseline."""
    stops = [window["stop"] for window in windows]
    is_share = name in ("accuracy", "error rate")
    factor = 100.0 if is_share else scale if "distance" in name else 1.0
    series = [
        Series(label, stops, [factor * window[which][name] for window in windows], "both", colour)
        for which, colour, label in (("baseline", "second", "baseline"), ("metrics", "accent", "model"))
        if name in windows[0][which]
    ]
    x = Axis("rows seen", 0.0, stops[-1] * 1.02)
    y = Axis.of(name, np.concatenate([each.y for each in series]), unit="%" if is_share else "")
    return Chart(f"{name} over windows of rows", x, y, series, wide)


def loss_chart(curve: list[dict[str, Any]]) -> Chart:
    """Draw the mean loss per row, online and in hindsight."""
    rows = [point["rows"] for point in curve]
    online, best = ([point[key] / point["weight"] for point in curve] for key in ("loss", "optimum"))
    series = [Series("best in hindsight", rows, best, colour="second"), Series("online", rows, online)]
    values = np.array([*online, *best])
    scale = "log" if values.min() > 0 and values.max() > 20 * values.min() else "linear"
    title = "Mean loss per row, online and in hindsight, over the rows seen"
    return Chart(title, Axis.of_rows(rows), Axis.of("mean loss per row", values, scale), series)


def ratio_chart(curve: list[dict[str, Any]]) -> Chart:
    """Draw the ratio of the loss to the optimum in hindsight."""
    rows = [point["rows"] for point in curve]
    ratio = np.array([point["ratio"] if point["ratio"] <= HUGE else np.nan for point in curve])
    y = Axis.of("loss / optimum", [*ratio, 1.0])
    if np.isfinite(ratio[-1]) and y.high > 1.5:
        y = Axis("loss / optimum", 0.98, min(y.high, max(1.5, 1 + 8 * (float(ratio[-1]) - 1)) * 1.02))
    series = [Series("ratio", rows, ratio.tolist()), _level(rows, 1.0)]
    return Chart(
        "Loss of all rows so far divided by the loss of the best model in hindsight", Axis.of_rows(rows), y, series
    )


def regret_chart(curve: list[dict[str, Any]]) -> Chart:
    """Draw the regret."""
    rows, regret = [point["rows"] for point in curve], [point["loss"] - point["optimum"] for point in curve]
    title = "Loss minus the loss of the best model in hindsight, over the rows seen"
    return Chart(title, Axis.of_rows(rows), Axis.of("regret", regret, zero=True), [Series("regret", rows, regret)])


def changes_chart(events: list[Any], n_rows: int, tips: Sequence[str]) -> Chart:
    """Draw the excess cost of the old model over the new one at each change, with its reason."""
    at = [event.at for event in events]
    excess = np.array(  # in percent; 100 if the new model has no loss
        [100 * (max(0.0, event.excess) if math.isfinite(event.excess) else 1.0) for event in events]
    )
    is_uneven = excess.max() > 50 * np.median(excess) > 0
    label, high = "excess cost", float(excess.max())
    y = (
        Axis(label, float(np.maximum(excess, high / 1000).min()) / 3, 1.5 * high, "log", "%")
        if is_uneven
        else Axis(label, 0, 1.15 * high or 1, unit="%")
    )
    title = f"Timeline of {len(events)} model changes over the rows seen"
    x = Axis.of_rows([max(1.0, min(at) * 0.8), n_rows])
    return Chart(title, x, y, [Series("excess cost", at, excess.tolist(), "stems", tips=tips)], wide=True, height=220)


def evidence_chart(rows: FloatArray, evidence: FloatArray, alarm: float) -> Chart:
    """Draw the evidence against random order."""
    scale = "asinh" if evidence.max() > 100 else "linear"
    y = Axis.of("evidence (log10)", [*evidence, alarm * 1.1, -1.0], scale)
    title = f"Evidence against random order over the rows seen; {alarm:.3g} raises an alarm"
    series = [Series("evidence", rows.tolist(), evidence.tolist()), _level(rows.tolist(), alarm, "second")]
    return Chart(title, Axis.of_rows(rows), y, series, wide=True)


def coreset_chart(points: FloatArray, weights: FloatArray, centers: FloatArray | None) -> tuple[Chart, float]:
    """Draw the coreset on its first two principal components; return the chart and their explained variance."""
    mean, axes, share = principal_components(points, weights)
    chosen = np.linspace(0, len(points) - 1, min(len(points), MAX_POINTS)).astype(int)
    flat = (points[chosen] - mean) @ axes.T
    if centers is None:
        series = [_scatter("rows", flat, "dots", "accent")]
    else:
        labels = nearest(points[chosen], centers)[0]
        numbers, flat_centers = list(map(str, range(len(centers)))), (centers - mean) @ axes.T
        series = [
            _scatter(f"cluster {j}", flat[labels == j], "dots", f"group{j % N_GROUPS}") for j in range(len(centers))
        ]
        series.append(_scatter("centers", flat_centers, "marks", "ink", numbers))
    x, y = (
        Axis.of(f"{name} principal component", each) for name, each in zip(("first", "second"), flat.T, strict=True)
    )
    return Chart("Coreset on its first two principal components", x, y, series, wide=True, height=380), share


def principal_components(points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return the mean, the first two principal components, and their explained variance ratio."""
    mean = np.average(points, axis=0, weights=weights)
    centred = (points - mean) * np.sqrt(weights)[:, None]
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    two = np.zeros((2, points.shape[1]))
    two[: len(axes[:2])] = axes[:2]
    total = float((values**2).sum())
    return mean, two, float((values[:2] ** 2).sum()) / total if total else 1.0


def diagonal(low: float, high: float) -> Series:
    """Return the line on which both axes agree."""
    return Series("", [low, high], [low, high], "guide", "muted")


def _level(rows: Sequence[float], level: float, colour: str = "muted") -> Series:
    return Series("", [min(rows), max(rows)], [level, level], "guide", colour)


def _scatter(label: str, points: FloatArray, draw: str, colour: str, tips: Sequence[str] = ()) -> Series:
    return Series(label, points[:, 0].tolist(), points[:, 1].tolist(), draw, colour, tips)
