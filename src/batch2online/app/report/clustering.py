"""The section of a clustering: a card for each cluster, where centers lie; and why it changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.app.report import elements, models
from batch2online.app.report.context import ReportContext
from batch2online.app.report.elements import escape, number
from batch2online.app.report.figures import GROUPS
from batch2online.app.report.text import why as reason
from batch2online.numerics.distances import nearest, squared_distances

TRAITS = TYPICAL = 3
MOST_CARDS = 30


def why(context: ReportContext, event: Any) -> str:
    """Return the reason of a change, what became of which clusters, and how many labels changed."""
    said = [reason(event)]
    moved = sorted(event.matching or (), key=lambda change: -change.moved)
    said += [f"cluster {change.id} {_fate(context, change)}" for change in moved[:TRAITS] if change.moved > 0]
    if event.churn is not None:
        said.append(f"about {round(event.churn * event.at):,} rows ({event.churn:.2%}) changed their label")
    return "; ".join(said)


def _fate(context: ReportContext, change: Any) -> str:
    if change.split_from is not None:
        return f"began anew as a part of {change.split_from}"
    if change.merged_into is not None:
        return f"went to {change.merged_into} for the most part"
    return f"moved by {context.length(change.moved)}"


def section(context: ReportContext) -> str:
    """Return a card for each cluster, and where all centers lie."""
    model, coreset = context.model, context.model.coreset_
    centers = model.cluster_centers_
    labels = nearest(coreset.points, centers)[0]
    sizes = np.bincount(labels, weights=coreset.weights, minlength=len(centers))
    mean, spreads = models.spread(coreset)
    scaled = (centers - mean) / np.where(spreads > 0, spreads, 1.0)
    shares = sizes / (sizes.sum() or 1.0)
    cards = [_card(context, j, shares, scaled, mean, labels) for j in np.argsort(-sizes, kind="stable")[:MOST_CARDS]]
    alarm = models.drowning(spreads, context.names)
    ticks = [f"{j}: {share:.0%}" for j, share in enumerate(shares)]
    cells = models.matrix_figure(ticks, context.names, scaled, "Centers, one a row")
    note = models.note_of_columns(len(context.names), "Centers in spreads away from the mean of all rows.")
    most = float(np.abs(scaled).max())
    lead = f"{len(centers)} clusters, the largest first: how many rows, what sets each apart, and rows typical of it."
    return elements.section(
        "Clusters",
        lead,
        *([elements.warning(alarm)] if alarm else []),
        elements.card_grid(cards),
        elements.figure(cells, note, wide=True),
        elements.scale(f"{most:.1f} spreads below the mean", f"{most:.1f} above"),
    )


def _card(
    context: ReportContext, j: int, shares: FloatArray, scaled: FloatArray, mean: FloatArray, labels: IntArray
) -> str:
    traits = np.argsort(-np.abs(scaled[j]), kind="stable")[:TRAITS]
    centers = context.original(context.model.cluster_centers_)
    listed = "".join(f"<li>{escape(_trait(context, c, centers[j], scaled[j], mean))}</li>" for c in traits)
    rest = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(context.told(c, float(centers[j][c])))}</td></tr>"
        for c, name in enumerate(context.names)
    )
    return (
        f'<div class="cluster"><h3><i style="background:var(--group{j % len(GROUPS)})"></i>Cluster {j}</h3>'
        f"<p>about {round(float(shares[j]) * context.rows):,} rows, {shares[j]:.1%}</p><ul>{listed}</ul>"
        f"{_typical(context, j, traits, labels)}"
        f'<details><summary>Center</summary><div class="tall"><table><tbody>{rest}</tbody></table></div></details>'
        f"<p class=fate>{escape(_history(context, j))}</p></div>"
    )


def _trait(context: ReportContext, column: int, center: FloatArray, scaled: FloatArray, mean: FloatArray) -> str:
    usual = float(context.original(mean[None])[0][column])
    side = "high" if scaled[column] >= 0 else "low"
    name = context.names[column]
    return f"{name} {side}: {context.told(column, float(center[column]))} (all rows: {context.told(column, usual)})"


def _typical(context: ReportContext, j: int, columns: Any, labels: IntArray) -> str:
    """Return the rows of the coreset that are nearest to a center."""
    coreset = context.model.coreset_
    own = np.flatnonzero(labels == j)
    if not len(own):
        return ""
    distances = squared_distances(coreset.points[own], context.model.cluster_centers_[j : j + 1])[0]
    chosen = own[np.argsort(distances, kind="stable")[:TYPICAL]]
    values = context.original(coreset.points[chosen])
    head = "".join(f"<th>{escape(context.names[c])}</th>" for c in columns)
    lines = [
        [f"{int(coreset.ids[row]):,}", *(number(float(line[c])) for c in columns)]
        for row, line in zip(chosen, values, strict=True)
    ]
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return (
        f'<div class="typical"><table><thead><tr><th>typical rows</th>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def _history(context: ReportContext, j: int) -> str:
    """Return what became of an id over all changes."""
    events = [
        (event.at, change) for event in context.model.changes_ for change in event.matching or () if change.id == j
    ]
    notable = [f"{_fate(context, change)} at row {at:,}" for at, change in events if change.split_from is not None]
    moves = [(at, change) for at, change in events if change.moved > 0]
    if not moves:
        return "Its center has never moved."
    last = f"Its center moved {len(moves)} times, last at row {moves[-1][0]:,} by {context.length(moves[-1][1].moved)}."
    return f"{last} It {'; '.join(notable[-2:])}." if notable else last
