"""The page of a report: its sections in order. Each kind of model has a module with ``section`` and ``why``."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from string import Template
from types import ModuleType
from typing import Any

import numpy as np

import batch2online
from batch2online.app.report import (
    classification,
    clustering,
    context,
    drift_section,
    figures,
    low_rank,
    models,
    other,
    regression,
    wrapped,
)
from batch2online.app.report.context import ReportContext, RunTime, numeric_coreset
from batch2online.app.report.drift_section import order_section
from batch2online.app.report.elements import escape, explained, figure, listing, number, pair, section, table, tile
from batch2online.headline import HUGE, changes, interval, of_rows

MOST_COLUMNS = 200
_GAPS = {"refuse": "none allowed", "drop": "rows with one are left out", "mean": "filled with the mean", "keep": "kept"}


def data_section(told: ReportContext) -> str:
    """Return what was learned from."""
    lead = f"{told.rows:,} rows of {len(told.names):,} inputs{f', and {told.target}' if told.target else ''}."
    return section("Data", lead, pair(table(list(_facts(told))), _columns(told)))


def _facts(told: ReportContext) -> Iterable[tuple[str, str]]:
    result = told.result
    yield "source", told.source
    yield "rows learned", f"{told.rows:,}"
    if result:
        yield "rows left out", f"{result['rows_dropped']:,}"
        prepared = result["preparation"]
        yield "gaps", _GAPS.get(prepared["missing"], prepared["missing"])
        yield "columns of text", ", ".join(prepared["categories"]) or "none"
        yield "scaled", "yes, shown in original units" if prepared["standardised"] else "no"
        yield from (("note", str(note)) for note in result.get("notes", ()))
    if told.run_time is not None:
        yield from _times(told.run_time)


def _times(run_time: RunTime) -> Iterable[tuple[str, str]]:
    yield "date", run_time.date
    yield "duration", f"{run_time.seconds:,.1f} s" if run_time.seconds < 120 else f"{run_time.seconds / 60:,.1f} min"


def _columns(told: ReportContext) -> str:
    """Mean and spread of each input, by the weights of the coreset."""
    coreset, places = numeric_coreset(told.model)
    if not len(coreset):
        return ""
    mean, spreads = models.spread(coreset)
    means = mean * told.scales[places] + told.means[places]
    widths = spreads * np.abs(told.scales[places])
    known = {place: [number(float(means[j])), number(float(widths[j]))] for j, place in enumerate(places)}
    rows = [[*known.get(j, ["", ""]), _named(told, j)] for j in range(len(told.names))]
    return listing(["mean", "spread", "input"], rows[:MOST_COLUMNS], tall=True)


def _named(told: ReportContext, column: int) -> str:
    unit = told.units.get(told.names[column])
    return f"{told.names[column]} ({unit})" if unit else told.names[column]


KINDS: dict[str, ModuleType] = {
    "OnlineClassifier": classification,
    "OnlineRegression": regression,
    "OnlineLowRank": low_rank,
    "OnlineClustering": clustering,
    "BatchToOnline": wrapped,
}
"""Modules by the name of the estimator; a further one is an entry here."""


def kind_of(model: Any) -> ModuleType:
    """Return the module that tells of a model."""
    return KINDS.get(type(model).__name__, other)


MOST_EVENTS = 12
_NIGHTS = 30
_TIMES = "\N{MULTIPLICATION SIGN}"
_NO_SETTING: tuple[Any, ...] = (None, [], False, {}, ())


def html(model: Any, result: dict[str, Any], run_time: RunTime | None = None) -> str:
    """Return the report of a run as one self-contained page.

    Parameters
    ----------
    model : online estimator
        The model at the end of the run.
    result : dict
        The content of ``result.json``.
    run_time : RunTime, optional
        When the run took place, and how long it took.
    """
    return page(context.of_run(model, result, run_time))


def of_model(model: Any, target: str | None = None) -> str:
    """Return the report of a model alone: all but the curve of its loss."""
    return page(context.of_model(model, target))


def page(told: ReportContext) -> str:
    """Return the page of a context."""
    template = Template(files("batch2online.app.report").joinpath("template.html").read_text(encoding="utf-8"))
    sections = [
        _loss(told),
        _changes(told),
        _costs(told),
        kind_of(told.model).section(told) if told.model.has_model_ else "",
        data_section(told),
        order_section(told.model.order_),
        _coreset(told.model),
        _settings(told),
    ]
    return template.substitute(
        title=escape(_sentence(told.title)),
        subtitle=escape(f"{told.rows:,} rows from {told.source}"),
        verdict=explained(escape(verdict(told))),
        tiles="\n".join(_tiles(told)),
        sections="\n".join(part for part in sections if part),
        footer=escape(f"batch2online {batch2online.__version__}. Made by one pass over the rows."),
    )


def verdict(told: ReportContext) -> str:
    """Return the headline in whole sentences."""
    line = told.headline
    about = f"{line.subject}: {line.measures}" if line.subject and line.measures else line.measures
    judged = f"{about}, each row judged before it was learned" if about else "No row was judged"
    rest = [_sentence(part) for part in (line.handful, line.distance, line.changes, line.order) if part]
    return ". ".join([_sentence(judged) if not line.subject else judged, *rest]) + "."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _tiles(told: ReportContext) -> Iterable[str]:
    model, regret = told.model, told.model.regret_
    line = told.headline
    for name, value in line.quality[:2]:
        yield tile(value, _meaning(name, told.target, f"all {line.rows:,} rows" if line.rows else ""))
    for name, value in line.recent[:1]:
        yield tile(value, _meaning(name, told.target, f"the last {line.recent_rows:,} rows"))
    if regret.reason:
        yield tile("a set", "rows were learned without order: none was predicted before it was learned")
    elif regret.ratio <= HUGE and not regret.is_exact_fit:
        error = f"{interval(regret, 3)}, " if regret.error else ""
        best = f"{model._best}{of_rows(model)}"
        yield tile(f"{regret.ratio:.3f} {_TIMES}", f"{error}loss relative to that of the best {best}")
    else:
        yield tile("exact", "the best model leaves nothing to compare with")
    yield tile(f"{model.n_changes_:,}", f"changes of the model in {told.rows:,} rows")


def _meaning(name: str, target: str | None, rows: str) -> str:
    """Return what a measure is of."""
    return name + (f" of {target}" if target else "") + (f", over {rows}" if rows else "")


def _loss(told: ReportContext) -> str:
    curve, regret = told.result.get("curve"), told.model.regret_
    if not curve:
        return ""
    lead = (
        "Each row is first scored by the model in force, then learned. Before the first model it is scored by the mean "
        "of those before it. Hindsight is the best single model for the same rows, computed once they are all known."
    )
    lead += drift_section.lead(told.model)
    if regret.error:
        lead += f" It is measured on the coreset: the ratio is {interval(regret, 3)}, each bound with a chance of 95 %."
    counted = drift_section.rows(told.model)
    final = (
        f"Mean loss of a row, on {counted}. In all {number(regret.loss)} online, {number(regret.optimum)} in hindsight."
    )
    ratio = f"Loss over that of hindsight, on {counted}; 1 is as good as knowing all."
    both = pair(figure(figures.loss_figure(curve), final), figure(figures.ratio_figure(curve), ratio))
    return section("Loss against hindsight", lead.strip(), both)


def _changes(told: ReportContext) -> str:
    events, why = told.model.changes_, kind_of(told.model).why
    curve, regret = told.result.get("curve"), told.model.regret_
    drawn = []
    if curve:
        counted = drift_section.rows(told.model)
        note = f"Regret, loss online minus loss in hindsight, on {counted}: {number(regret.regret())} in all."
        drawn.append(figure(figures.regret_figure(curve), note))
    if not events:
        return section("Why it changed", "The model has not changed since the first one was solved.", *drawn)
    reasons = [why(told, event) for event in events]
    half_lives = drift_section.switches(told.model)
    lead = f"{_sentence(changes(told.model))}. Between changes the model stays as it is.{half_lives}"
    counted = drift_section.rows(told.model)
    note = f"Each change, and how much more the old model costs than the new one, on {counted}. Rest on one: why."
    tips = [f"row {event.at:,}: {reason}" for event, reason in zip(events, reasons, strict=True)]
    drawn.insert(0, figure(figures.changes_figure(events, told.rows, tips), note))
    rows = [[f"{event.at:,}", reason] for event, reason in zip(events, reasons, strict=True)][::-1]
    more = []
    if len(rows) > MOST_EVENTS:
        older = listing(["at row", "why"], rows[MOST_EVENTS:])
        more = [f"<details><summary>Earlier changes: {len(rows) - MOST_EVENTS:,}</summary>{older}</details>"]
    return section("Why it changed", lead, pair(*drawn), listing(["at row", "why"], rows[:MOST_EVENTS]), *more)


def _costs(told: ReportContext) -> str:
    """Return what solves of any estimator have cost, and refits on all rows would have; our own solves take no time."""
    timings = told.model.timings_
    if not timings.solves or not hasattr(told.model, "estimator"):
        return ""
    times = "once" if timings.solves == 1 else f"{timings.solves:,} times"
    lead = f"Solved {times}, on {timings.rows:,} rows in all, in {timings.seconds:.2g} s."
    refits = timings.of_refits(told.rows, _NIGHTS)
    lead += (
        f" Refits on all rows, one after each of {_NIGHTS} equal parts of them as if each were a day, would have taken "
        f"about {refits:.2g} s, by how these solves took longer on more rows."
    )
    rows = [[f"{fit.at:,}", f"{fit.rows:,}", f"{fit.seconds:.2g}"] for fit in timings.models[::-1]]
    return section("What it cost", lead, listing(["at row", "solved on rows", "seconds"], rows[:MOST_EVENTS]))


def _coreset(model: Any) -> str:
    coreset, _ = numeric_coreset(model)
    if not len(coreset):
        return ""
    lead = f"{len(coreset):,} rows with weights that add up to {number(coreset.weights.sum())} stand for all rows."
    if coreset.points.shape[1] <= 1:
        return section("Coreset", lead, figure(figures.weights_figure(coreset.weights)))
    centers = getattr(model, "cluster_centers_", None)
    scatter, share = figures.coreset_figure(coreset.points, coreset.weights, centers)
    note = f"The two principal axes hold {share:.0%} of the variance; larger dots weigh more."
    note += " Each cluster has its colour, circles are the centers." if centers is not None else ""
    if len(coreset) > figures.MOST_POINTS:
        note += f" {figures.MOST_POINTS:,} of the points are drawn."
    weights = figure(figures.weights_figure(coreset.weights), "A weight of 1 is a row that stands for itself.")
    return section("Coreset", lead, pair(figure(scatter, note), weights))


def _settings(told: ReportContext) -> str:
    result = told.result
    if not result:
        settings = {name: repr(value) for name, value in told.model.get_params(deep=False).items()}
        return section("Settings", "The parameters of the estimator.", table(list(settings.items())))
    unused = set() if hasattr(told.model, "cluster_centers_") else {"z", "history"}
    facts = {n: value for n, value in result["settings"].items() if value not in _NO_SETTING and n not in unused}
    facts |= {"checksum of the rows": result["rows_checksum"]}
    facts["versions"] = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    command = f'<div class="card"><pre>{escape(result["command"])}</pre></div>'
    lead = "The same rows, settings and seed give the same model, whatever the size of the chunks."
    return section("How to reproduce", lead, command, table([(name, _told(value)) for name, value in facts.items()]))


def _told(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "yes" if value is True else str(value)
