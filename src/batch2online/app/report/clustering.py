"""The section of a clustering: a card for each cluster, where centers lie; and why it changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.app.report import elements, models
from batch2online.app.report.context import Story
from batch2online.app.report.elements import escape, number
from batch2online.app.report.figures import GROUPS
from batch2online.app.report.text import why as reason
from batch2online.numerics.distances import nearest, squared_distances

TRAITS = TYPICAL = 3
MOST_CARDS = 30


def why(story: Story, event: Any) -> str:
    """Return the reason of a change, what became of which clusters, and how many labels changed."""
    said = [reason(event)]
    moved = sorted(event.matching or (), key=lambda change: -change.moved)
    said += [f"cluster {change.id} {_fate(story, change)}" for change in moved[:TRAITS] if change.moved > 0]
    if event.churn is not None:
        said.append(f"about {round(event.churn * event.at):,} rows ({event.churn:.2%}) changed their label")
    return "; ".join(said)


def _fate(story: Story, change: Any) -> str:
    if change.split_from is not None:
        return f"began anew as a part of {change.split_from}"
    if change.merged_into is not None:
        return f"went to {change.merged_into} for the most part"
    return f"moved by {story.length(change.moved)}"


def section(story: Story) -> str:
    """Return a card for each cluster, and where all centers lie."""
    model, coreset = story.model, story.model.coreset_
    centers = model.cluster_centers_
    labels = nearest(coreset.points, centers)[0]
    sizes = np.bincount(labels, weights=coreset.weights, minlength=len(centers))
    mean, spreads = models.spread(coreset)
    scaled = (centers - mean) / np.where(spreads > 0, spreads, 1.0)
    shares = sizes / (sizes.sum() or 1.0)
    cards = [_card(story, j, shares, scaled, mean, labels) for j in np.argsort(-sizes, kind="stable")[:MOST_CARDS]]
    alarm = models.drowning(spreads, story.names)
    ticks = [f"{j}: {share:.0%}" for j, share in enumerate(shares)]
    cells = models.matrix_figure(ticks, story.names, scaled, "Centers, one a row")
    note = models.note_of_columns(len(story.names), "Centers in spreads away from the mean of all rows.")
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


def _card(story: Story, j: int, shares: FloatArray, scaled: FloatArray, mean: FloatArray, labels: IntArray) -> str:
    traits = np.argsort(-np.abs(scaled[j]), kind="stable")[:TRAITS]
    centers = story.original(story.model.cluster_centers_)
    listed = "".join(f"<li>{escape(_trait(story, c, centers[j], scaled[j], mean))}</li>" for c in traits)
    rest = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(story.told(c, float(centers[j][c])))}</td></tr>"
        for c, name in enumerate(story.names)
    )
    return (
        f'<div class="cluster"><h3><i style="background:var(--group{j % len(GROUPS)})"></i>Cluster {j}</h3>'
        f"<p>about {round(float(shares[j]) * story.rows):,} rows, {shares[j]:.1%}</p><ul>{listed}</ul>"
        f"{_typical(story, j, traits, labels)}"
        f'<details><summary>Center</summary><div class="tall"><table><tbody>{rest}</tbody></table></div></details>'
        f"<p class=fate>{escape(_history(story, j))}</p></div>"
    )


def _trait(story: Story, column: int, center: FloatArray, scaled: FloatArray, mean: FloatArray) -> str:
    usual = float(story.original(mean[None])[0][column])
    side = "high" if scaled[column] >= 0 else "low"
    name = story.names[column]
    return f"{name} {side}: {story.told(column, float(center[column]))} (all rows: {story.told(column, usual)})"


def _typical(story: Story, j: int, columns: Any, labels: IntArray) -> str:
    """Return the rows of the coreset that are nearest to a center."""
    coreset = story.model.coreset_
    own = np.flatnonzero(labels == j)
    if not len(own):
        return ""
    distances = squared_distances(coreset.points[own], story.model.cluster_centers_[j : j + 1])[0]
    chosen = own[np.argsort(distances, kind="stable")[:TYPICAL]]
    values = story.original(coreset.points[chosen])
    head = "".join(f"<th>{escape(story.names[c])}</th>" for c in columns)
    lines = [
        [f"{int(coreset.ids[row]):,}", *(number(float(line[c])) for c in columns)]
        for row, line in zip(chosen, values, strict=True)
    ]
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return (
        f'<div class="typical"><table><thead><tr><th>typical rows</th>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def _history(story: Story, j: int) -> str:
    """Return what became of an id over all changes."""
    events = [(event.at, change) for event in story.model.changes_ for change in event.matching or () if change.id == j]
    notable = [f"{_fate(story, change)} at row {at:,}" for at, change in events if change.split_from is not None]
    moves = [(at, change) for at, change in events if change.moved > 0]
    if not moves:
        return "Its center has never moved."
    last = f"Its center moved {len(moves)} times, last at row {moves[-1][0]:,} by {story.length(moves[-1][1].moved)}."
    return f"{last} It {'; '.join(notable[-2:])}." if notable else last
