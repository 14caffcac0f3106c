"""The page around the figures."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from string import Template
from typing import Any, Protocol

from batch2online.engine.changes import ChangeEvent
from batch2online.report import figures
from batch2online.report.elements import escape, figure, number, pair, section, table, tile
from batch2online.report.order import order_section
from batch2online.report.text import why

MOST_EVENTS = 12
_TIMES = "\N{MULTIPLICATION SIGN}"


class Subject(Protocol):
    """What a report says of one kind of model alone."""

    @property
    def best(self) -> str:
        """What the loss is compared with."""

    @property
    def hindsight_note(self) -> str:
        """What must be known of that comparison, or nothing."""

    @property
    def unused_settings(self) -> frozenset[str]:
        """Settings that say nothing about this kind of model."""

    def report_section(self, model: Any, result: dict[str, Any]) -> str:
        """Return the section that shows the model."""


def html(model: Any, result: dict[str, Any], subject: Subject) -> str:
    """Return the report of a run as one self-contained page.

    Parameters
    ----------
    model : online estimator
        The model at the end of the run.
    result : dict
        The content of ``result.json``.
    subject : Subject
        What is particular to this kind of model.
    """
    template = Template(files("batch2online.report").joinpath("template.html").read_text(encoding="utf-8"))
    sections = [
        _loss(result, subject),
        order_section(model.order_),
        _changes(model, result),
        _coreset(model),
        subject.report_section(model, result),
        _settings(result, subject),
    ]
    return template.substitute(
        title=escape(_sentence(result["title"])),
        subtitle=escape(f"{result['rows']:,} rows from {result['source']}"),
        tiles="\n".join(_tiles(result, subject)),
        sections="\n".join(sections),
        footer=escape(f"batch2online {result['versions']['batch2online']}. Made by one pass over the rows."),
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _tiles(result: dict[str, Any], subject: Subject) -> Iterable[str]:
    yield tile(f"{result['ratio']:.3f} {_TIMES}", f"loss online, relative to the best {subject.best}")
    yield tile(f"{result['changes']:,}", f"changes of the model in {result['rows']:,} rows")
    yield tile(
        f"{result['last_model']['ratio']:.3f} {_TIMES}", "cost of the last model on all rows, relative to the best"
    )
    share = result["coreset_size"] / max(1, result["rows"])
    yield tile(f"{result['coreset_size']:,}", f"rows in the coreset that the model rests on, {share:.1%} of all")


def _loss(result: dict[str, Any], subject: Subject) -> str:
    curve = result["curve"]
    lead = (
        "Each row is first scored by the model in force, then learned. Hindsight is the best single model for the "
        f"same rows, computed once they are all known. {subject.hindsight_note}"
    )
    final = f"Mean loss of a row. In all {number(result['loss'])} online, {number(result['optimum'])} in hindsight."
    both = pair(
        figure(figures.loss_figure(curve), final),
        figure(
            figures.ratio_figure(curve), "Loss of all rows so far over that of hindsight; 1 is as good as knowing all."
        ),
    )
    return section("Loss against hindsight", lead.strip(), both)


def _changes(model: Any, result: dict[str, Any]) -> str:
    events = model.changes_
    regret = f"Regret, loss online minus loss in hindsight: {number(result['regret'])} in all."
    regret = figure(figures.regret_figure(result["curve"]), regret)
    if not events:
        return section("Regret and changes", "The model has not changed since the first one was solved.", regret)
    lead = (
        f"{len(events):,} changes, the last of them at row {events[-1].at:,}. Between changes the model stays as it is."
    )
    note = "Each change of the model, and how much more than the new one the old one costs on all rows so far."
    both = pair(regret, figure(figures.changes_figure(events, result["rows"]), note))
    latest = _event_table(events[-MOST_EVENTS:][::-1])
    more = []
    if len(events) > MOST_EVENTS:
        older = _event_table(events[:-MOST_EVENTS][::-1])
        more = [f"<details><summary>Earlier changes: {len(events) - MOST_EVENTS:,}</summary>{older}</details>"]
    return section("Regret and changes", lead, both, latest, *more)


def _event_table(events: list[ChangeEvent]) -> str:
    has_churn = any(event.churn is not None for event in events)
    heads = ["at row", "moved", *(["churn"] if has_churn else []), "why"]
    body = []
    for event in events:
        cells = [f"{event.at:,}", f"{event.magnitude:.3g}"]
        cells += [f"{event.churn:.2%}" if event.churn is not None else ""] if has_churn else []
        numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        body.append(f"<tr>{numbers}<td>{escape(why(event))}</td></tr>")
    numbers = "".join(f'<th class="number">{head}</th>' for head in heads[:-1])
    head = f"<thead><tr>{numbers}<th>{heads[-1]}</th></tr></thead>"
    return f'<div class="card"><table>{head}<tbody>{"".join(body)}</tbody></table></div>'


def _coreset(model: Any) -> str:
    coreset = model.coreset_
    total = number(coreset.weights.sum())
    lead = f"{len(coreset):,} rows with weights that add up to {total}: the model is solved on these alone."
    if coreset.points.shape[1] == 1:
        return section("Coreset", lead, figure(figures.weights_figure(coreset.weights)))
    centers = getattr(model, "cluster_centers_", None)
    scatter, share = figures.coreset_figure(coreset.points, coreset.weights, centers)
    note = f"The two axes hold {share:.0%} of the variance; larger dots weigh more."
    note += " Crosses are the centers." if centers is not None else ""
    if len(coreset) > figures.MOST_POINTS:
        note += f" {figures.MOST_POINTS:,} of the points are drawn."
    weights = figure(figures.weights_figure(coreset.weights), "A weight of 1 is a row that stands for itself.")
    return section("Coreset", lead, pair(figure(scatter, note), weights))


def _settings(result: dict[str, Any], subject: Subject) -> str:
    used = {name: value for name, value in result["settings"].items() if name not in subject.unused_settings}
    facts = {name: value for name, value in used.items() if value not in (None, [], False)}
    facts |= {"rows left out": result["rows_dropped"], "checksum of the rows": result["rows_checksum"]}
    facts["versions"] = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    command = f'<div class="card"><pre>{escape(result["command"])}</pre></div>'
    lead = "The same rows, settings and seed give the same model, whatever the size of the chunks."
    return section("How to reproduce", lead, command, table([(name, _told(value)) for name, value in facts.items()]))


def _told(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "yes" if value is True else str(value)
