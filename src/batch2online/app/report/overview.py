"""The sections that a report has for every model: quality, changes, fit times, data, order, loss, coreset, settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report.charts import N_GROUPS, Axis, Chart, Draw, Series, level
from batch2online.app.report.context import ReportContext, numeric_coreset, shared_scale
from batch2online.app.report.elements import Part, Section, Table, capitalized, escape, facts, fold
from batch2online.app.report.model_figures import moments
from batch2online.drift.order_monitor import LEVEL, OrderVerdict
from batch2online.headline import HUGE, baseline_of, changes, count_of, format_measure, interval, number
from batch2online.numerics.distances import nearest
from batch2online.results import ChangeEvent

MAX_POINTS, MAX_COLUMNS, MAX_EVENTS, MAX_SWITCHES = 400, 200, 5, 6
_N_REFITS = 30
_MISSING = {
    "indicator": "the mean, with a feature that says where",
    "refuse": "not allowed",
    "drop": "rows dropped",
    "mean": "imputed by the mean",
    "keep": "passed as NaN",
}
_NO_SETTING: tuple[Any, ...] = (None, [], False, {}, ())


def quality_section(context: ReportContext) -> Iterator[Section]:
    """Yield the measures of quality over windows of rows, beside those of the baseline."""
    windows = context.model.window_metrics_
    if len(windows) > 2 and 2 * windows[-1]["rows"] < windows[0]["rows"]:
        windows = windows[:-1]  # too few rows to be compared with the others
    if len(windows) < 2:
        return
    last, names = windows[-1], [name for name in windows[0]["metrics"] if name in windows[-1]["metrics"]][:2]
    scale = shared_scale(context.result.get("preparation"))
    shown = []
    for name in names:
        own, other = (format_measure(name, last[which][name], **scale) if name in last[which] else ""
                      for which in ("metrics", "baseline"))  # fmt: skip
        shown.append(f"{name} {own} ({baseline_of(name)}: {other})" if other else f"{name} {own}")
    lead = (
        f"Windows of {count_of(windows[0]['rows'], 'row')}, each row predicted before it was learned. "
        f"In the last of them: {', '.join(shown)}."
    )
    factor, is_wide = scale.get("scale", 1.0), len(names) == 1
    yield Section("Quality over time", lead, [quality_chart(windows, name, factor, is_wide) for name in names])


def quality_chart(windows: list[dict[str, Any]], name: str, scale: float = 1.0, wide: bool = False) -> Chart:
    """Draw a measure of quality over windows of rows, beside that of the baseline."""
    stops, is_share = [window["stop"] for window in windows], name in ("accuracy", "error rate")
    factor = 100.0 if is_share else scale if "distance" in name else 1.0
    series = [
        Series(label, stops, [factor * window[which][name] for window in windows], "both", colour)
        for which, colour, label in (("baseline", "second", "baseline"), ("metrics", "accent", "model"))
        if name in windows[0][which]
    ]
    x = Axis("rows seen", 0.0, stops[-1] * 1.02)
    y = Axis.of(name, np.concatenate([each.y for each in series]), unit="%" if is_share else "")
    beside = f", beside that of the baseline ({baseline_of(name)})" if len(series) > 1 else ""
    note = f"{capitalized(name)} in each window of rows{beside}."
    return Chart(f"{name} over windows of rows", x, y, series, note, wide)


def changes_section(context: ReportContext, reason: Callable[[ReportContext, ChangeEvent], str]) -> Section:
    """Return the changes of the model on a timeline and in a table, the latest first."""
    model = context.model
    if not model.changes_:
        return Section("Model changes", "The model has not changed since the first fit.")
    lines = [[f"{event.at:,}", reason(context, event)] for event in model.changes_]
    lead = f"{capitalized(changes(model))}. Between changes the model is constant.{switches(model)}"
    heads, latest = ["at row", "reason"], lines[::-1]
    parts: list[Part] = [_timeline(context, lines), Table(heads, latest[:MAX_EVENTS])]
    if len(latest) > MAX_EVENTS:
        earlier = f"Earlier changes: {len(latest) - MAX_EVENTS:,}"
        parts.append(fold(earlier, Table(heads, latest[MAX_EVENTS:])))
    return Section("Model changes", lead, parts)


def _timeline(context: ReportContext, lines: list[list[str]]) -> Chart:
    """Draw the excess cost of the old model at each change, in percent of that of the new one; 100 if that is zero."""
    events = context.model.changes_
    at = [event.at for event in events]
    excess = np.array([100 * (max(0.0, event.excess) if math.isfinite(event.excess) else 1.0) for event in events])
    label, high = "excess cost", float(excess.max())
    if high > 50 * np.median(excess) > 0:
        y = Axis(label, float(np.maximum(excess, high / 1000).min()) / 3, 1.5 * high, "log", "%")
    else:
        y = Axis(label, 0, 1.15 * high or 1, unit="%")
    tips = [f"row {row}: {reason}" for row, reason in lines]
    title, x = f"Timeline of {len(events)} model changes", Axis.of_rows([max(1.0, min(at) * 0.8), context.rows * 1.02])
    rows = counted_rows(context.model)
    note = f"Cost of the old model above that of the new one at each change, on {rows}. Hover for the reason."
    return Chart(title, x, y, [Series(label, at, excess.tolist(), "stems", tips=tips)], note, wide=True, height=220)


def fit_times_section(context: ReportContext) -> Iterator[Section]:
    """Yield the fit times of a wrapped estimator, compared with refits on all rows."""
    timings = context.model.timings_
    if not timings.solves or not hasattr(context.model, "estimator"):
        return
    times = "once" if timings.solves == 1 else f"{timings.solves:,} times"
    lead = (
        f"Fitted {times}, on {timings.rows:,} rows in total, in {timings.seconds:.2g} s. {_N_REFITS} refits on all "
        f"rows so far, after equal parts of the stream, would have taken about "
        f"{timings.of_refits(context.rows, _N_REFITS):.2g} s, extrapolated from these fits."
    )
    rows = [[f"{fit.at:,}", f"{fit.rows:,}", f"{fit.seconds:.2g}"] for fit in timings.models[::-1]]
    yield Section("Fit times", lead, [Table(["at row", "rows fitted", "seconds"], rows[:MAX_EVENTS])])


def data_section(context: ReportContext) -> Section:
    """Return where the rows came from, and mean and standard deviation of each feature."""
    target = f" and {context.target}" if context.target else ""
    lead = f"{context.rows:,} rows of {len(context.names):,} features{target}."
    return Section("Data", lead, [facts(_facts(context), wide=False), *_columns(context)])


def _facts(context: ReportContext) -> Iterator[tuple[str, str]]:
    result, run_time = context.result, context.run_time
    yield "source", context.source
    yield "rows learned", f"{context.rows:,}"
    if result:
        yield "rows dropped", f"{result['rows_dropped']:,}"
        prepared = result["preparation"]
        yield "missing values", _MISSING.get(prepared["missing"], prepared["missing"])
        yield "string columns", ", ".join(prepared["categories"]) or "none"
        yield "standardized", "yes, shown in original units" if prepared["standardised"] else "no"
        yield from (("note", str(note)) for note in result.get("notes", ()))
    if run_time is not None:
        seconds = run_time.seconds
        yield "date", run_time.date
        yield "duration", f"{seconds:,.1f} s" if seconds < 120 else f"{seconds / 60:,.1f} min"


def _columns(context: ReportContext) -> Iterator[Table]:
    """Yield mean and standard deviation of each feature, by the weights of the coreset."""
    coreset, places = numeric_coreset(context.model)
    if not len(coreset):
        return
    mean, deviations = moments(coreset)
    means = mean * context.scales[places] + context.means[places]
    widths = deviations * np.abs(context.scales[places])
    known = {place: [number(float(means[j])), number(float(widths[j]))] for j, place in enumerate(places)}
    rows = []
    for j, name in enumerate(context.names[:MAX_COLUMNS]):
        unit = context.units.get(name)
        rows.append([f"{name} ({unit})" if unit else name, *known.get(j, ["", ""])])
    yield Table(["feature", "mean", "standard deviation"], rows, tall=True, wide=False)


def order_section(verdict: OrderVerdict) -> Section:
    """Return whether the order of the rows looks random, and the evidence over the rows."""
    strongest = f" The evidence is strongest in the {verdict.score}." if verdict.score else ""
    lead = f"{capitalized(verdict.sentence())}.{strongest}"
    if len(verdict.curve) < 2:
        return Section("Order of the rows", lead)
    rows, curve, alarm = verdict.curve_rows.astype(float).tolist(), verdict.curve, -math.log10(LEVEL)
    y = Axis.of("evidence (log10)", [*curve, alarm * 1.1, -1.0])
    title = f"Evidence against random order over the rows seen; {alarm:.3g} raises an alarm"
    note = (
        "In random order the evidence ever reaches 3 with probability at most 0.001. It is computed from ranks of each "
        "row among those before it, under a model that is fixed after the first rows."
    )
    series = [Series("evidence", rows, curve.tolist()), level(rows, alarm, "second")]
    return Section("Order of the rows", lead, [Chart(title, Axis.of_rows(rows), y, series, note, wide=True)])


def loss_section(context: ReportContext) -> Iterator[Section]:
    """Yield loss, ratio and regret over the rows of a run."""
    curve, regret = context.result.get("curve"), context.model.regret_
    if not curve:
        return
    lead = (
        "Each row is predicted by the current model before it is learned; before the first model, by the mean of the "
        "rows so far. Hindsight is the best single model for the same rows, computed once they are all known."
        f"{forgetting(context.model)}"
    )
    if regret.error:
        lead += f" It is measured on the coreset: the ratio is {interval(regret, 3)}, each bound with probability 95 %."
    of = counted_rows(context.model)
    rows, x = [point["rows"] for point in curve], Axis.of_rows([point["rows"] for point in curve])
    online, best = ([point[key] / point["weight"] for point in curve] for key in ("loss", "optimum"))
    values = np.array([*online, *best])
    y = Axis.of("mean loss per row", values, "log" if 0 < 20 * values.min() < values.max() else "linear")
    series = [Series("best in hindsight", rows, best, colour="second"), Series("online", rows, online)]
    totals = f"In total {number(regret.loss)} online, {number(regret.optimum)} in hindsight."
    means = Chart("Mean loss per row", x, y, series, f"Mean loss per row, on {of}. {totals}")
    total = [point["loss"] - point["optimum"] for point in curve]
    note = f"Regret: online loss minus loss in hindsight, on {of}; {number(regret.regret())} in total."
    y = Axis.of("regret", total, zero=True)
    regrets = Chart("Loss minus loss in hindsight", x, y, [Series("regret", rows, total)], note)
    charts = fold("Loss, ratio and regret", means, _ratio_chart(curve, of), regrets)
    yield Section("Online loss and hindsight", lead, [charts])


def _ratio_chart(curve: list[dict[str, Any]], of: str) -> Chart:
    rows = [point["rows"] for point in curve]
    ratio = np.array([point["ratio"] if point["ratio"] <= HUGE else np.nan for point in curve])
    y = Axis.of("loss / optimum", [*ratio, 1.0])
    if np.isfinite(ratio[-1]) and y.high > 1.5:
        y = Axis("loss / optimum", 0.98, min(y.high, max(1.5, 1 + 8 * (float(ratio[-1]) - 1)) * 1.02))
    series = [Series("ratio", rows, ratio.tolist()), level(rows, 1.0)]
    note = f"Online loss divided by the optimum in hindsight, on {of}."
    return Chart("Loss divided by loss in hindsight", Axis.of_rows(rows), y, series, note)


def coreset_section(model: Any) -> Iterator[Section]:
    """Yield the weights of the coreset, and its rows on their first two principal components."""
    coreset, _ = numeric_coreset(model)
    if not len(coreset):
        return
    weights = coreset.weights
    lead = (
        f"{len(coreset):,} rows with a total weight of {number(weights.sum())} represent all rows: half of them stand "
        f"for at most {number(float(np.median(weights)))} rows each, the heaviest for {number(weights.max())}."
        if weights.max() > 1
        else f"All {len(coreset):,} rows are kept."
    )
    drawn = coreset.points.shape[1] > 1
    yield Section("Coreset", lead, [coreset_chart(coreset, getattr(model, "cluster_centers_", None))] if drawn else [])


def coreset_chart(coreset: Any, centers: FloatArray | None) -> Chart:
    """Draw some rows of the coreset on its first two principal components, and the centers of clusters."""
    points, weights = coreset.points, coreset.weights
    mean, axes, share = principal_components(points, weights)
    some = np.linspace(0, len(points) - 1, min(len(points), MAX_POINTS)).astype(int)
    flat = (points[some] - mean) @ axes.T
    tips = np.array([f"row {coreset.ids[i]:,}, weight {weights[i]:.4g}" for i in some])
    note = f"The first two principal components explain {share:.0%} of the variance."
    if centers is None:
        series = [_scatter("rows", flat, "dots", "accent", tips.tolist())]
    else:
        labels = nearest(points, centers)[0]
        sizes = np.bincount(labels, weights=weights, minlength=len(centers)) / weights.sum()
        series = [
            _scatter(f"cluster {j}", flat[own], "dots", f"group{j % N_GROUPS}", tips[own].tolist())
            for j, own in enumerate(labels[some] == np.arange(len(centers))[:, None])
        ]
        names = [f"{j}: {size:.0%}" for j, size in enumerate(sizes)]
        series.append(_scatter("centers", (centers - mean) @ axes.T, "marks", "ink", names))
        note += " Colours are clusters, numbers their centers and shares of the rows."
    if len(points) > MAX_POINTS:
        note += f" {MAX_POINTS:,} of the rows are drawn."
    x, y = (Axis.of(f"{name} principal component", at) for name, at in zip(("first", "second"), flat.T, strict=True))
    return Chart("Coreset on its first two principal components", x, y, series, note, wide=True, height=380)


def _scatter(label: str, points: FloatArray, draw: Draw, colour: str, tips: list[str]) -> Series:
    return Series(label, points[:, 0].tolist(), points[:, 1].tolist(), draw, colour, tips)


def principal_components(points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return the mean, the first two principal components, and their explained variance ratio."""
    mean = np.average(points, axis=0, weights=weights)
    _, values, axes = np.linalg.svd((points - mean) * np.sqrt(weights)[:, None], full_matrices=False)
    axes = np.vstack([axes[:2], np.zeros((2 - len(axes[:2]), points.shape[1]))])
    total = float((values**2).sum())
    return mean, axes, float((values[:2] ** 2).sum()) / total if total else 1.0


def settings_section(context: ReportContext) -> Section:
    """Return the command and the settings of a run, or the parameters of a model without a run."""
    result = context.result
    if not result:
        params = [(name, repr(value)) for name, value in context.model.get_params(deep=False).items()]
        return Section("Settings", "The parameters of the estimator.", [facts(params)])
    unused = set() if hasattr(context.model, "cluster_centers_") else {"z", "history"}
    given = {n: value for n, value in result["settings"].items() if value not in _NO_SETTING and n not in unused}
    given["checksum of the rows"] = result["rows_checksum"]
    given["versions"] = [f"{name} {version}" for name, version in result["versions"].items()]
    listed = {n: ", ".join(map(str, value)) if isinstance(value, list | tuple) else value for n, value in given.items()}
    lines = [(name, "yes" if value is True else str(value)) for name, value in listed.items()]
    lead = "The same rows, settings and seed give the same model for any chunk size."
    command = f'<div class="card"><pre>{escape(result["command"])}</pre></div>'
    return Section("Reproduce this run", lead, [command, fold("Settings and versions", facts(lines))])


def counted_rows(model: Any) -> str:
    """Return which rows the loss refers to."""
    if _has_window(model):
        return "the rows in the window"
    half_life = model.regret_.half_life
    return "all rows so far" if half_life is None else f"rows so far, weighted by a half-life of {half_life:,}"


def forgetting(model: Any) -> str:
    """Return how old rows count in loss and hindsight, if they are forgotten."""
    if _has_window(model):
        return f" Both refer to the last {model.regret_.rows:,} rows: older ones are forgotten."
    half_life = model.regret_.half_life
    if half_life is None:
        return ""
    return (
        f" In both the weight of a row halves every {half_life:,} rows: hindsight is the best model for these weights. "
        "An online model may have a smaller loss than any single model."
    )


def switches(model: Any) -> str:
    """Return the half-lives over the rows, if they were selected automatically."""
    if getattr(model, "half_life", None) != "auto":
        return ""
    known = [(0, 0), *((event.at, event.rows) for event in model.changes_ if event.kind == "half_life")]
    if len(known) == 1:
        return " All rows have the same weight: no half-life was better."
    listed = [f"{_named(rows)} from row {at:,}" if at else f"{_named(rows)} at first" for at, rows in known]
    if len(listed) <= MAX_SWITCHES:
        return f" Half-life: {', '.join(listed)}."
    active: dict[int, int] = {}
    for (at, half_life), (stop, _) in pairwise([*known, (int(model.n_seen_), 0)]):
        active[half_life] = active.get(half_life, 0) + stop - at
    most = max(active, key=lambda each: active[each])
    share = f"{_named(most)} was active for {active[most] / model.n_seen_:.0%} of the rows"
    return f" The half-life changed {len(known) - 1:,} times, last to {listed[-1]}; {share}."


def _named(half_life: int) -> str:
    return f"{half_life:,}" if half_life else "none"


def _has_window(model: Any) -> bool:
    return getattr(model, "window", None) is not None
