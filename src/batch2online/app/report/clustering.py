"""The section of a clustering: a card for each cluster, and the centers."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.app.report.charts import N_GROUPS
from batch2online.app.report.context import ReportContext
from batch2online.app.report.elements import Part, Section, Table, escape, facts, note
from batch2online.app.report.formatting import reason
from batch2online.app.report.model_figures import dominance_warning, matrix_table, moments, note_of_columns
from batch2online.headline import count_of, number
from batch2online.numerics.distances import nearest, squared_distances
from batch2online.results import ChangeEvent

N_FEATURES = N_NEAREST = 3
MAX_CARDS = 30


def described(context: ReportContext, event: ChangeEvent) -> str:
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


def sections(context: ReportContext) -> list[Section]:
    """Return a card for each cluster, and a table of all centers."""
    model, coreset, names = context.model, context.model.coreset_, context.names
    centers = model.cluster_centers_
    labels = nearest(coreset.points, centers)[0]
    sizes = np.bincount(labels, weights=coreset.weights, minlength=len(centers))
    mean, deviations = moments(coreset)
    scaled = (centers - mean) / np.where(deviations > 0, deviations, 1.0)
    shares = sizes / (sizes.sum() or 1.0)
    largest = np.argsort(-sizes, kind="stable")[:MAX_CARDS]
    lead = f"{count_of(len(centers), 'cluster')}, largest first, with their most distinctive features and nearest rows."
    cards = [_card(context, int(j), float(shares[j]), scaled[j], mean, labels) for j in largest]
    about = "Centers in standard deviations from the mean of all rows: blue is above, orange below."
    heads = [f"{j}: {share:.0%}" for j, share in enumerate(shares)]
    parts: list[Part] = [
        note(dominance_warning(deviations, names), "warning"),
        f'<div class="cards">{"".join(cards)}</div>',
        note(about + note_of_columns(len(names))),
        matrix_table(heads, names, scaled),
    ]
    return [Section("Clusters", lead, parts)]


def _card(context: ReportContext, j: int, share: float, scaled: FloatArray, mean: FloatArray, labels: IntArray) -> str:
    """Return size, most distinctive features, nearest rows, center and history of a cluster."""
    columns = np.argsort(-np.abs(scaled), kind="stable")[:N_FEATURES].tolist()
    center = context.original(context.model.cluster_centers_)[j]
    values = [context.format_value(c, float(value)) for c, value in enumerate(center)]
    usual = context.original(mean[None])[0]
    features = [
        f"{context.names[c]} {'high' if scaled[c] >= 0 else 'low'}: {values[c]} (all rows: {number(float(usual[c]))})"
        for c in columns
    ]
    items = "".join(f"<li>{escape(each)}</li>" for each in features)
    nearest_rows = _nearest_rows(context, j, columns, labels)
    typical = f'<div class="typical">{nearest_rows.plain()}</div>' if nearest_rows.rows else ""
    rest = facts(zip(context.names, values, strict=True)).plain()
    return (
        f'<div class="cluster"><h3><i class="group{j % N_GROUPS}"></i>Cluster {j}</h3>'
        f"<p>about {round(share * context.rows):,} rows, {share:.1%}</p><ul>{items}</ul>{typical}"
        f'<details><summary>Center</summary><div class="tall">{rest}</div></details>'
        f'<p class="fate">{escape(_history(context, j))}</p></div>'
    )


def _nearest_rows(context: ReportContext, j: int, columns: list[int], labels: IntArray) -> Table:
    """Return the coreset rows nearest to a center."""
    coreset = context.model.coreset_
    own = np.flatnonzero(labels == j)
    distances = squared_distances(coreset.points[own], context.model.cluster_centers_[j : j + 1])[0]
    chosen = own[np.argsort(distances, kind="stable")[:N_NEAREST]]
    values = context.original(coreset.points[chosen])
    lines = [
        [f"{int(coreset.ids[row]):,}", *(number(float(line[c])) for c in columns)]
        for row, line in zip(chosen, values, strict=True)
    ]
    return Table(["nearest rows", *(context.names[c] for c in columns)], lines)


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
