"""The page of a report: its sections in order. Each kind of model has a module with ``section`` and ``describe``."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from string import Template
from types import ModuleType
from typing import Any

import numpy as np

import batch2online
from batch2online.app import web
from batch2online.app.report import (
    classification,
    clustering,
    figures,
    low_rank,
    model_figures,
    regression,
    wrapped,
)
from batch2online.app.report.context import (
    ReportContext,
    RunTime,
    model_context,
    numeric_coreset,
    run_context,
    shared_scale,
)
from batch2online.app.report.drift_section import counted_rows, forgetting, order_section, switches
from batch2online.app.report.elements import escape, figure, fold, listing, pair, section, table, tile, with_tooltips
from batch2online.headline import (
    HUGE,
    baseline_of,
    best_of,
    changes,
    count_of,
    format_measure,
    interval,
    number,
    of_rows,
)

MAX_COLUMNS, MAX_EVENTS, MAX_TILES = 200, 5, 4
_N_REFITS = 30
_TIMES = "\N{MULTIPLICATION SIGN}"
_MISSING = {"refuse": "not allowed", "drop": "rows dropped", "mean": "imputed by the mean", "keep": "passed as NaN"}
_NO_SETTING: tuple[Any, ...] = (None, [], False, {}, ())

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<link rel="icon" href="data:,">
$head
</head>
<body>
<main>
<header>
<p>batch2online report</p>
<h1>$title</h1>
<p>$subtitle</p>
<p class="verdict">$verdict</p>
<p class="summary">$summary</p>
</header>
<section class="tiles" aria-label="Summary">
$tiles
</section>
$sections
<footer>$footer</footer>
</main>
<script type="text/plain" id="uplot">$uplot</script>
$tail
</body>
</html>
""")

KINDS: dict[str, ModuleType] = {
    "OnlineClassifier": classification,
    "OnlineRegression": regression,
    "OnlineLowRank": low_rank,
    "OnlineClustering": clustering,
    "BatchToOnline": wrapped,
}
"""Modules by the name of the estimator; other estimators have no section of their own."""


def run_report(model: Any, result: dict[str, Any], run_time: RunTime | None = None) -> str:
    """Return the report of a run as one self-contained page.

    Parameters
    ----------
    model : online estimator
        The model at the end of the run.
    result : dict
        The content of ``result.json``.
    run_time : RunTime, optional
        Date and duration of the run.
    """
    return page(run_context(model, result, run_time))


def model_report(model: Any, target: str | None = None) -> str:
    """Return the report of a model without a run: all but the learning curve."""
    return page(model_context(model, target))


def page(context: ReportContext) -> str:
    """Return the page of a context; its policy allows its own style and scripts, and nothing from elsewhere."""
    kind = KINDS.get(type(context.model).__name__)
    sections = [
        _quality_over_time(context),
        _changes(context),
        _fit_times(context),
        kind.section(context) if kind is not None and context.model.has_model_ else "",
        _data(context),
        order_section(context.model.order_),
        _loss(context),
        _coreset(context.model),
        _settings(context),
    ]
    style, script = (files("batch2online.app.report").joinpath(f"report.{kind}").read_text() for kind in ("css", "js"))
    head = f"<style>{web.asset('uplot.css')}\n{style}</style>"
    tail = f"<script>{script}</script>"
    return _PAGE.substitute(
        policy=escape(web.policy(head + tail, web.asset("uplot.js"))),
        head=head,
        tail=tail,
        uplot=web.packed("uplot.js"),
        title=escape(_sentence(context.title)),
        subtitle=escape(f"{context.rows:,} rows from {context.source}"),
        verdict=with_tooltips(escape(_verdict(context))),
        summary=with_tooltips(escape(summary(context))),
        tiles="\n".join(_tiles(context)),
        sections="\n".join(filter(None, sections)),
        footer=escape(f"batch2online {batch2online.__version__}. Computed in one pass over the rows."),
    )


def _verdict(context: ReportContext) -> str:
    """Return the verdict as a sentence, with the name of the target; nothing where there is no baseline."""
    line = context.headline
    named = f"{line.subject}: {line.verdict}" if line.subject else _sentence(line.verdict)
    return f"{named}." if line.verdict else ""


def summary(context: ReportContext) -> str:
    """Return the headline after the verdict as sentences."""
    line = context.headline
    subject = "" if line.verdict else line.subject
    about = f"{subject}: {line.measures}" if subject and line.measures else line.measures
    first = f"{about}, each row predicted before it was learned" if about else "No row was predicted"
    rest = [_sentence(part) for part in (line.handful, line.distance, line.changes, line.order) if part]
    return ". ".join([first if subject else _sentence(first), *rest]) + "."


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _tiles(context: ReportContext) -> Iterable[str]:
    model, regret, line = context.model, context.model.regret_, context.headline
    of = f" of {context.target}" if context.target else ""
    beside = dict(line.beside)
    for name, value in line.quality[:MAX_TILES]:
        over = f", over all {count_of(line.rows, 'row')}" if line.rows else ""
        yield tile(value, f"{name}{of}{over}" + (f" ({beside[name]})" if name in beside else ""))
    for name, value in line.recent[:1]:
        yield tile(value, f"{name}{of}, over the last {count_of(line.recent_rows, 'row')}")
    if regret.reason:
        yield tile("unordered", "rows were learned without order: none was predicted before it was learned")
    elif regret.ratio <= HUGE and not regret.is_exact_fit:
        error = f" ({interval(regret, 3)})" if regret.error else ""
        yield tile(f"{regret.ratio:.3f} {_TIMES}", f"the loss of the best {best_of(model)}{of_rows(model)}{error}")
    else:
        yield tile("exact fit", "the best model in hindsight has no loss")
    changed = "model change" if model.n_changes_ == 1 else "model changes"
    yield tile(f"{model.n_changes_:,}", f"{changed} in {count_of(context.rows, 'row')}")


def _quality_over_time(context: ReportContext) -> str:
    """Return the measures of quality over windows of rows, beside those of the baseline."""
    windows = context.model.window_metrics_
    if len(windows) > 2 and 2 * windows[-1]["rows"] < windows[0]["rows"]:
        windows = windows[:-1]  # too few rows to be compared with the others
    if len(windows) < 2:
        return ""
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
    factor = scale.get("scale", 1.0)
    wide = len(names) == 1
    drawn = [figure(figures.quality_chart(windows, name, factor, wide), _note_of(name, windows)) for name in names]
    return section("Quality over time", lead, pair(*drawn))


def _note_of(name: str, windows: list[dict[str, Any]]) -> str:
    beside = f", beside that of the baseline ({baseline_of(name)})" if name in windows[0]["baseline"] else ""
    return f"{_sentence(name)} in each window of rows{beside}."


def _loss(context: ReportContext) -> str:
    curve, regret = context.result.get("curve"), context.model.regret_
    if not curve:
        return ""
    lead = (
        "Each row is predicted by the current model before it is learned; before the first model, by the mean of the "
        "rows so far. Hindsight is the best single model for the same rows, computed once they are all known."
    )
    lead += forgetting(context.model)
    if regret.error:
        lead += f" It is measured on the coreset: the ratio is {interval(regret, 3)}, each bound with probability 95 %."
    rows = counted_rows(context.model)
    totals = f"In total {number(regret.loss)} online, {number(regret.optimum)} in hindsight."
    loss = figure(figures.loss_chart(curve), f"Mean loss per row, on {rows}. {totals}")
    ratio = figure(figures.ratio_chart(curve), f"Online loss divided by the optimum in hindsight, on {rows}.")
    note = f"Regret: online loss minus loss in hindsight, on {rows}; {number(regret.regret())} in total."
    regrets = figure(figures.regret_chart(curve), note)
    return section("Online loss and hindsight", lead, fold("Loss, ratio and regret", pair(loss, ratio, regrets)))


def _changes(context: ReportContext) -> str:
    model, rows = context.model, counted_rows(context.model)
    if not model.changes_:
        return section("Model changes", "The model has not changed since the first fit.")
    describe = KINDS.get(type(model).__name__, wrapped).describe
    lines = [[f"{event.at:,}", describe(context, event)] for event in model.changes_]
    lead = f"{_sentence(changes(model))}. Between changes the model is constant.{switches(model)}"
    note = f"Cost of the old model above that of the new one at each change, on {rows}. Hover for the reason."
    tips = [f"row {at}: {reason}" for at, reason in lines]
    drawn = figure(figures.changes_chart(model.changes_, context.rows, tips), note)
    heads, latest = ["at row", "reason"], lines[::-1]
    more = []
    if len(latest) > MAX_EVENTS:
        more = [fold(f"Earlier changes: {len(latest) - MAX_EVENTS:,}", listing(heads, latest[MAX_EVENTS:]))]
    return section("Model changes", lead, drawn, listing(heads, latest[:MAX_EVENTS]), *more)


def _fit_times(context: ReportContext) -> str:
    """Return the fit times of a wrapped estimator, compared with refits on all rows."""
    timings = context.model.timings_
    if not timings.solves or not hasattr(context.model, "estimator"):
        return ""
    times = "once" if timings.solves == 1 else f"{timings.solves:,} times"
    lead = (
        f"Fitted {times}, on {timings.rows:,} rows in total, in {timings.seconds:.2g} s. {_N_REFITS} refits on all "
        f"rows so far, after equal parts of the stream, would have taken about "
        f"{timings.of_refits(context.rows, _N_REFITS):.2g} s, extrapolated from these fits."
    )
    rows = [[f"{fit.at:,}", f"{fit.rows:,}", f"{fit.seconds:.2g}"] for fit in timings.models[::-1]]
    return section("Fit times", lead, listing(["at row", "rows fitted", "seconds"], rows[:MAX_EVENTS]))


def _data(context: ReportContext) -> str:
    lead = (
        f"{context.rows:,} rows of {len(context.names):,} features{f' and {context.target}' if context.target else ''}."
    )
    return section("Data", lead, pair(table(list(_facts(context))), _columns(context)))


def _facts(context: ReportContext) -> Iterable[tuple[str, str]]:
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


def _columns(context: ReportContext) -> str:
    """Return mean and standard deviation of each feature, by the weights of the coreset."""
    coreset, places = numeric_coreset(context.model)
    if not len(coreset):
        return ""
    mean, deviations = model_figures.moments(coreset)
    means = mean * context.scales[places] + context.means[places]
    widths = deviations * np.abs(context.scales[places])
    known = {place: [number(float(means[j])), number(float(widths[j]))] for j, place in enumerate(places)}
    rows = []
    for j, name in enumerate(context.names[:MAX_COLUMNS]):
        unit = context.units.get(name)
        rows.append([f"{name} ({unit})" if unit else name, *known.get(j, ["", ""])])
    return listing(["feature", "mean", "standard deviation"], rows, tall=True)


def _coreset(model: Any) -> str:
    coreset, _ = numeric_coreset(model)
    if not len(coreset):
        return ""
    weights = coreset.weights
    lead = (
        f"{len(coreset):,} rows with a total weight of {number(weights.sum())} represent all rows: half of them stand "
        f"for at most {number(float(np.median(weights)))} rows each, the heaviest for {number(weights.max())}."
        if weights.max() > 1
        else f"All {len(coreset):,} rows are kept."
    )
    if coreset.points.shape[1] <= 1:
        return section("Coreset", lead)
    centers = getattr(model, "cluster_centers_", None)
    scatter, ratio = figures.coreset_chart(coreset.points, weights, centers)
    note = f"The first two principal components explain {ratio:.0%} of the variance."
    note += " Colours are clusters, circles their centers." if centers is not None else ""
    if len(coreset) > figures.MAX_POINTS:
        note += f" {figures.MAX_POINTS:,} of the rows are drawn."
    return section("Coreset", lead, figure(scatter, note))


def _settings(context: ReportContext) -> str:
    result = context.result
    if not result:
        settings = {name: repr(value) for name, value in context.model.get_params(deep=False).items()}
        return section("Settings", "The parameters of the estimator.", table(list(settings.items())))
    unused = set() if hasattr(context.model, "cluster_centers_") else {"z", "history"}
    facts = {n: value for n, value in result["settings"].items() if value not in _NO_SETTING and n not in unused}
    facts |= {"checksum of the rows": result["rows_checksum"]}
    facts["versions"] = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    command = f'<div class="card"><pre>{escape(result["command"])}</pre></div>'
    lead = "The same rows, settings and seed give the same model for any chunk size."
    lines = []
    for name, value in facts.items():
        listed = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        lines.append((name, "yes" if value is True else listed))
    return section("Reproduce this run", lead, command, fold("Settings and versions", table(lines)))
