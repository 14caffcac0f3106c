"""The section of the data: how many rows and columns, what was left out, when, and what the columns hold."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from batch2online.app.report import models
from batch2online.app.report.elements import listing, number, pair, section, table
from batch2online.app.report.numeric import numeric_coreset
from batch2online.app.report.story import Ran, Story

MOST_COLUMNS = 200
_GAPS = {"refuse": "none allowed", "drop": "rows with one are left out", "mean": "filled with the mean", "keep": "kept"}


def data_section(told: Story) -> str:
    """Return what was learned from."""
    lead = f"{told.rows:,} rows of {len(told.names):,} inputs{f', and {told.target}' if told.target else ''}."
    return section("Data", lead, pair(table(list(_facts(told))), _columns(told)))


def _facts(told: Story) -> Iterable[tuple[str, str]]:
    result = told.result
    yield "source", told.source
    yield "rows learned", f"{told.rows:,}"
    if result:
        yield "rows left out", f"{result['rows_dropped']:,}"
        prepared = result["preparation"]
        yield "gaps", _GAPS.get(prepared["missing"], prepared["missing"])
        yield "columns of text", ", ".join(prepared["levels"]) or "none"
        yield "scaled", "yes, shown in original units" if prepared["standardised"] else "no"
        yield from (("note", str(note)) for note in result.get("notes", ()))
    if told.ran is not None:
        yield from _times(told.ran)


def _times(ran: Ran) -> Iterable[tuple[str, str]]:
    yield "date", ran.date
    yield "duration", f"{ran.seconds:,.1f} s" if ran.seconds < 120 else f"{ran.seconds / 60:,.1f} min"


def _columns(told: Story) -> str:
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


def _named(told: Story, column: int) -> str:
    unit = told.units.get(told.names[column])
    return f"{told.names[column]} ({unit})" if unit else told.names[column]
