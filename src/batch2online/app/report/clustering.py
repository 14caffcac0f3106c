"""The section of a clustering: a card for each cluster, and the centers."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.app.report import elements, model_figures
from batch2online.app.report.charts import N_GROUPS
from batch2online.app.report.context import ReportContext
from batch2online.app.report.elements import escape
from batch2online.app.report.formatting import reason
from batch2online.headline import count_of, number
from batch2online.numerics.distances import nearest, squared_distances

N_FEATURES = N_NEAREST = 3
MAX_CARDS = 30


def describe(context: ReportContext, event: Any) -> str:
    """Return the reason of a change, the centers that moved most, and how many labels changed."""
    parts = [reason(event)]
    moved = sorted(event.matching or (), key=lambda change: -change.moved)
    parts += [f"cluster {change.id} {_movement(context, change)}" for change in moved[:N_FEATURES] if change.moved > 0]
    if event.churn is not None:
        parts.append(f"about {count_of(round(event.churn * event.at), 'row')} ({event.churn:.2%}) changed their label")
        parts.append(f"gain {event.gain:.2%} of the loss")
    return "; ".join(parts)


def _movement(context: ReportContext, change: Any) -> str:
    if change.split_from is not None:
        return f"was split from cluster {change.split_from}"
    if change.merged_into is not None:
        return f"was mostly merged into cluster {change.merged_into}"
    return f"moved by {context.format_distance(change.moved)}"


def section(context: ReportContext) -> str:
    """Return a card for each cluster, and a figure of all centers."""
    model, coreset = context.model, context.model.coreset_
    centers = model.cluster_centers_
    labels = nearest(coreset.points, centers)[0]
    sizes = np.bincount(labels, weights=coreset.weights, minlength=len(centers))
    mean, deviations = model_figures.moments(coreset)
    scaled = (centers - mean) / np.where(deviations > 0, deviations, 1.0)
    shares = sizes / (sizes.sum() or 1.0)
    largest = np.argsort(-sizes, kind="stable")[:MAX_CARDS]
    heads = [f"{j}: {share:.0%}" for j, share in enumerate(shares)]
    lead = f"{count_of(len(centers), 'cluster')}, largest first, with their most distinctive features and nearest rows."
    note = "Centers in standard deviations from the mean of all rows: blue is above, orange below."
    return elements.section(
        "Clusters",
        lead,
        elements.warning(model_figures.dominance_warning(deviations, context.names)),
        elements.card_grid([_card(context, j, shares, scaled, mean, labels) for j in largest]),
        elements.note(note + model_figures.note_of_columns(len(context.names))),
        model_figures.matrix_table(heads, context.names, scaled),
    )


def _card(
    context: ReportContext, j: int, shares: FloatArray, scaled: FloatArray, mean: FloatArray, labels: IntArray
) -> str:
    columns = np.argsort(-np.abs(scaled[j]), kind="stable")[:N_FEATURES]
    center = context.original(context.model.cluster_centers_)[j]
    usual = context.original(mean[None])[0]
    features = []
    for c in columns:
        side = "high" if scaled[j][c] >= 0 else "low"
        own, overall = context.format_value(c, float(center[c])), number(float(usual[c]))
        features.append(f"<li>{escape(f'{context.names[c]} {side}: {own} (all rows: {overall})')}</li>")
    rest = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(context.format_value(c, float(center[c])))}</td></tr>"
        for c, name in enumerate(context.names)
    )
    return (
        f'<div class="cluster"><h3><i class="group{j % N_GROUPS}"></i>Cluster {j}</h3>'
        f"<p>about {round(float(shares[j]) * context.rows):,} rows, {shares[j]:.1%}</p><ul>{''.join(features)}</ul>"
        f"{_nearest_rows(context, j, columns, labels)}"
        f'<details><summary>Center</summary><div class="tall"><table><tbody>{rest}</tbody></table></div></details>'
        f"<p class=fate>{escape(_history(context, j))}</p></div>"
    )


def _nearest_rows(context: ReportContext, j: int, columns: Any, labels: IntArray) -> str:
    """Return the coreset rows nearest to a center, as a table."""
    coreset = context.model.coreset_
    own = np.flatnonzero(labels == j)
    if not len(own):
        return ""
    distances = squared_distances(coreset.points[own], context.model.cluster_centers_[j : j + 1])[0]
    chosen = own[np.argsort(distances, kind="stable")[:N_NEAREST]]
    values = context.original(coreset.points[chosen])
    head = "".join(f"<th>{escape(context.names[c])}</th>" for c in columns)
    lines = [
        [f"{int(coreset.ids[row]):,}", *(number(float(line[c])) for c in columns)]
        for row, line in zip(chosen, values, strict=True)
    ]
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return (
        f'<div class="typical"><table><thead><tr><th>nearest rows</th>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def _history(context: ReportContext, j: int) -> str:
    """Return how often the center of a cluster moved, and the last splits."""
    events = [
        (event.at, change) for event in context.model.changes_ for change in event.matching or () if change.id == j
    ]
    splits = [f"{_movement(context, change)} at row {at:,}" for at, change in events if change.split_from is not None]
    moves = [(at, change) for at, change in events if change.moved > 0]
    if not moves:
        return "The center has not moved."
    at, last = moves[-1]
    times = "once, at" if len(moves) == 1 else f"{len(moves):,} times, last at"
    shown = f"The center moved {times} row {at:,} by {context.format_distance(last.moved)}."
    return f"{shown} It {'; '.join(splits[-2:])}." if splits else shown
