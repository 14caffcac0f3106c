"""The page of a report: its title, its summary, and its sections in order; each kind of model has its own."""

from __future__ import annotations

from collections.abc import Iterator
from string import Template
from types import ModuleType
from typing import Any

import batch2online
from batch2online.app import web
from batch2online.app.report import classification, clustering, low_rank, overview, regression, wrapped
from batch2online.app.report.charts import asset
from batch2online.app.report.context import ReportContext, RunTime, described, model_context, run_context
from batch2online.app.report.elements import Section, capitalized, escape, tile, with_tooltips
from batch2online.headline import HUGE, best_of, count_of, interval, of_rows

MAX_TILES = 4
_TIMES = "\N{MULTIPLICATION SIGN}"

KINDS: dict[str, ModuleType] = {
    "OnlineClassifier": classification,
    "OnlineRegression": regression,
    "OnlineLowRank": low_rank,
    "OnlineClustering": clustering,
    "BatchToOnline": wrapped,
}
"""Modules with ``sections``, and ``described`` where changes are described in other words, by estimator."""


def run_report(model: Any, result: dict[str, Any], run_time: RunTime | None = None) -> str:
    """Return the report of a run as one page: the model at its end, and the content of ``result.json``."""
    return page(run_context(model, result, run_time))


def model_report(model: Any, target: str | None = None) -> str:
    """Return the report of a model without a run: all but the learning curve."""
    return page(model_context(model, target))


def page(context: ReportContext) -> str:
    """Return the page of a context; its policy allows its own style and its script, and nothing from elsewhere."""
    html, css, script = map(asset, ("page.html", "report.css", "report.js"))
    inline = {"style": f"<style>{asset('charts.css')}{css}</style>", "script": f"<script>{script}</script>"}
    return Template(html).substitute(
        inline,
        policy=escape(web.policy("".join(inline.values()))),
        title=escape(capitalized(context.title)),
        subtitle=escape(f"{context.rows:,} rows from {context.source}"),
        verdict=with_tooltips(_verdict(context)),
        summary=with_tooltips(summary(context)),
        tiles="\n".join(tile(value, meaning) for value, meaning in _tiles(context)),
        sections="\n".join(each.html() for each in sections(context)),
        footer=escape(f"batch2online {batch2online.__version__}. Computed in one pass over the rows."),
    )


def sections(context: ReportContext) -> Iterator[Section]:
    """Yield the sections of a report in their order."""
    kind = KINDS.get(type(context.model).__name__)
    yield from overview.quality_section(context)
    yield overview.changes_section(context, getattr(kind, "described", described))
    yield from overview.fit_times_section(context)
    if kind is not None and context.model.has_model_:
        yield from kind.sections(context)
    yield overview.data_section(context)
    yield overview.order_section(context.model.order_)
    yield from overview.loss_section(context)
    yield from overview.coreset_section(context.model)
    yield overview.settings_section(context)


def _verdict(context: ReportContext) -> str:
    """Return the verdict as a sentence, with the name of the target; nothing where there is no baseline."""
    line = context.headline
    named = f"{line.subject}: {line.verdict}" if line.subject else capitalized(line.verdict)
    return f"{named}." if line.verdict else ""


def summary(context: ReportContext) -> str:
    """Return the headline after the verdict as sentences."""
    line = context.headline
    subject = "" if line.verdict else line.subject
    about = f"{subject}: {line.measures}" if subject and line.measures else line.measures
    first = f"{about}, each row predicted before it was learned" if about else "No row was predicted"
    rest = [capitalized(part) for part in (line.handful, line.distance, line.changes, line.order) if part]
    return ". ".join([first if subject else capitalized(first), *rest]) + "."


def _tiles(context: ReportContext) -> Iterator[tuple[str, str]]:
    """Yield large numbers and what they mean."""
    model, regret, line = context.model, context.model.regret_, context.headline
    of = f" of {context.target}" if context.target else ""
    beside = dict(line.beside)
    for name, value in line.quality[:MAX_TILES]:
        over = f", over all {count_of(line.rows, 'row')}" if line.rows else ""
        yield value, f"{name}{of}{over}" + (f" ({beside[name]})" if name in beside else "")
    for name, value in line.recent[:1]:
        yield value, f"{name}{of}, over the last {count_of(line.recent_rows, 'row')}"
    if regret.reason:
        yield "unordered", "rows were learned without order: none was predicted before it was learned"
    elif regret.ratio <= HUGE and not regret.is_exact_fit:
        error = f" ({interval(regret, 3)})" if regret.error else ""
        yield f"{regret.ratio:.3f} {_TIMES}", f"the loss of the best {best_of(model)}{of_rows(model)}{error}"
    else:
        yield "exact fit", "the best model in hindsight has no loss"
    changed = "model change" if model.n_changes_ == 1 else "model changes"
    yield f"{model.n_changes_:,}", f"{changed} in {count_of(context.rows, 'row')}"
