"""The page around the figures."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from batch2online.report import figures, models

MOST_EVENTS = 12
_TIMES = "\N{MULTIPLICATION SIGN}"


def html(model: Any, result: dict[str, Any]) -> str:
    """The report of a run as one self-contained page.

    Parameters
    ----------
    model : online estimator
        The model at the end of the run.
    result : dict
        The content of ``result.json``.
    """
    template = Template(files("batch2online.report").joinpath("template.html").read_text(encoding="utf-8"))
    parts = [_loss(result), _changes(model, result), _coreset(model), _model(model, result), _settings(result)]
    return template.substitute(
        title=escape(_sentence(result["title"])),
        subtitle=escape(f"{result['rows']:,} rows from {result['source']}"),
        tiles="\n".join(_tiles(result)),
        sections="\n".join(parts),
        footer=escape(f"batch2online {result['versions']['batch2online']}. Made by one pass over the rows."),
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _number(value: float) -> str:
    """A number for a sentence.

    >>> _number(1009660.3), _number(0.04218)
    ('1,009,660', '0.04218')
    """
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"


def _tiles(result: dict[str, Any]) -> Iterable[str]:
    best = "clustering known" if result["task"] == "clustering" else "single model in hindsight"
    yield _tile(f"{result['ratio']:.3f} {_TIMES}", f"loss online, relative to the best {best}")
    yield _tile(f"{result['changes']:,}", f"changes of the model in {result['rows']:,} rows")
    yield _tile(
        f"{result['last_model']['ratio']:.3f} {_TIMES}", "cost of the last model on all rows, relative to the best"
    )
    share = result["coreset_size"] / max(1, result["rows"])
    yield _tile(f"{result['coreset_size']:,}", f"rows in the coreset that the model rests on, {share:.1%} of all")


def _tile(number: str, meaning: str) -> str:
    return f'<div class="tile"><b>{escape(number)}</b><span>{escape(meaning)}</span></div>'


def _section(title: str, lead: str, *content: str) -> str:
    return "\n".join(["<section>", f"<h2>{escape(title)}</h2>", f"<p>{escape(lead)}</p>", *content, "</section>"])


def _figure(svg: str, caption: str = "", wide: bool = False) -> str:
    under = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="wide">{svg}{under}</figure>' if wide else f"<figure>{svg}{under}</figure>"


def _pair(*parts: str) -> str:
    return f'<div class="pair">{"".join(parts)}</div>'


def _loss(result: dict[str, Any]) -> str:
    curve = result["curve"]
    lead = (
        "Each row is first scored by the model in force, then learned. Hindsight is the best single model for the "
        "same rows, computed once they are all known."
    )
    if result["task"] == "clustering":
        lead += (
            " For clusters it is the best solution known, its cost measured on the coreset: allow for a few percent."
        )
    final = f"Mean loss of a row. In all {_number(result['loss'])} online, {_number(result['optimum'])} in hindsight."
    pair = _pair(
        _figure(figures.loss_figure(curve), final),
        _figure(
            figures.ratio_figure(curve), "Loss of all rows so far over that of hindsight; 1 is as good as knowing all."
        ),
    )
    return _section("Loss against hindsight", lead, pair)


def _changes(model: Any, result: dict[str, Any]) -> str:
    events = model.changes_
    regret = f"Regret, loss online minus loss in hindsight: {_number(result['regret'])} in all."
    regret = _figure(figures.regret_figure(result["curve"]), regret)
    if not events:
        return _section("Regret and changes", "The model has not changed since the first one was solved.", regret)
    lead = (
        f"{len(events):,} changes, the last of them at row {events[-1].at:,}. Between changes the model stays as it is."
    )
    note = "Each change of the model, and how much dearer the old one was on all rows so far."
    pair = _pair(regret, _figure(figures.changes_figure(events, result["rows"]), note))
    latest = _event_table(events[-MOST_EVENTS:][::-1])
    more = []
    if len(events) > MOST_EVENTS:
        older = _event_table(events[:-MOST_EVENTS][::-1])
        more = [f"<details><summary>Earlier changes: {len(events) - MOST_EVENTS:,}</summary>{older}</details>"]
    return _section("Regret and changes", lead, pair, latest, *more)


def _event_table(events: list[Any]) -> str:
    has_churn = any(getattr(event, "churn", None) is not None for event in events)
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


def why(event: Any) -> str:
    """The reason of a change, less the row count that stands beside it.

    >>> from types import SimpleNamespace
    >>> why(SimpleNamespace(reason="scheduled refresh at 70 rows: the old model costs 2% more than the new one"))
    'the old model costs 2% more than the new one'
    """
    return str(event.reason).partition(" rows: ")[2] or str(event.reason)


def _coreset(model: Any) -> str:
    coreset = model.coreset_
    total = _number(coreset.weights.sum())
    lead = f"{len(coreset):,} rows with weights that add up to {total}: the model is solved on these alone."
    if coreset.points.shape[1] == 1:
        return _section("Coreset", lead, _figure(figures.weights_figure(coreset.weights)))
    centers = getattr(model, "cluster_centers_", None)
    scatter, share = figures.coreset_figure(coreset.points, coreset.weights, centers)
    note = f"The two axes hold {share:.0%} of the variance; larger dots weigh more."
    note += " Crosses are the centers." if centers is not None else ""
    if len(coreset) > figures.MOST_POINTS:
        note += f" {figures.MOST_POINTS:,} of the points are drawn."
    weights = _figure(figures.weights_figure(coreset.weights), "A weight of 1 is a row that stands for itself.")
    return _section("Coreset", lead, _pair(_figure(scatter, note), weights))


def _model(model: Any, result: dict[str, Any]) -> str:
    names = result["inputs"]
    if result["task"] == "regression":
        return _regression(model, result)
    if result["task"] == "lowrank":
        labels = [f"{j + 1}" for j in range(len(model.components_))]
        shares = model.explained_variance_ratio_
        cells = models.matrix_figure(labels, names, model.components_, "Components, one a row")
        lead = f"{len(labels)} components, which explain {shares.sum():.1%} of the sum of squares of all rows."
        note = _strongest(len(names), "Blue is positive, orange negative.")
        return _section(
            "Components", lead, _figure(models.shares_figure(shares), wide=True), _figure(cells, note, wide=True)
        )
    return _clusters(model, names)


def _regression(model: Any, result: dict[str, Any]) -> str:
    names, coreset = result["inputs"], model.coreset_
    mean = np.average(coreset.points, axis=0, weights=coreset.weights)
    spreads = np.sqrt(np.average((coreset.points - mean) ** 2, axis=0, weights=coreset.weights))
    picture = models.coefficients_figure(names, model.coef_, spreads)
    rows = [("intercept", model.intercept_), *zip(names, model.coef_, strict=True)]
    body = "".join(f"<tr><th>{escape(name)}</th><td>{value:.6g}</td></tr>" for name, value in rows)
    table = f'<div class="card tall"><table><tbody>{body}</tbody></table></div>'
    shown = f"The {models.MOST_BARS} strongest are drawn." if len(names) > models.MOST_BARS else ""
    lead = f"Prediction of {result['settings']['target']}: the intercept plus each coefficient times its input. {shown}"
    picture = _figure(picture, "Blue raises the prediction, orange lowers it.")
    return _section("Coefficients", lead, _pair(picture, table))


def _clusters(model: Any, names: list[str]) -> str:
    coreset, centers = model.coreset_, model.cluster_centers_
    labels = np.argmin([((coreset.points - center) ** 2).sum(axis=1) for center in centers], axis=0)
    sizes = np.bincount(labels, weights=coreset.weights, minlength=len(centers))
    mean = np.average(coreset.points, axis=0, weights=coreset.weights)
    spreads = np.sqrt(np.average((coreset.points - mean) ** 2, axis=0, weights=coreset.weights))
    scaled = (centers - mean) / np.where(spreads > 0, spreads, 1.0)
    ticks = [f"{j}: {sizes[j] / sizes.sum():.0%}" for j in range(len(centers))]
    cells = models.matrix_figure(ticks, names, scaled, "Centers, one a row")
    lead = f"{len(centers)} centers with the share of rows nearest to each, as spreads away from the mean of all rows."
    note = _strongest(len(names), "Blue is above the mean, orange below.")
    return _section("Centers", lead, _figure(cells, note, wide=True))


def _strongest(n_columns: int, note: str) -> str:
    shown = f" The {models.MOST_COLUMNS} strongest of {n_columns:,} columns are drawn."
    return note + (shown if n_columns > models.MOST_COLUMNS else "")


def _settings(result: dict[str, Any]) -> str:
    idle = {"z", "history"} if result["task"] != "clustering" else set()
    shown = {k: v for k, v in result["settings"].items() if v not in (None, [], False) and k not in idle}
    facts = {**shown, "rows left out": result["rows_dropped"], "checksum of the rows": result["rows_checksum"]}
    facts["versions"] = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    body = "".join(f"<tr><th>{escape(str(k))}</th><td>{escape(_told(v))}</td></tr>" for k, v in facts.items())
    command = f'<div class="card"><pre>{escape(result["command"])}</pre></div>'
    lead = "The same rows, settings and seed give the same model, whatever the size of the chunks."
    table = f'<div class="card"><table><tbody>{body}</tbody></table></div>'
    return _section("How to reproduce", lead, command, table)


def _told(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "yes" if value is True else str(value)
