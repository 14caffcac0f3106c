"""The section on the order of rows, and sentences on forgetting."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from batch2online.app.report.elements import figure, section
from batch2online.app.report.figures import evidence_chart
from batch2online.drift.order_monitor import LEVEL, OrderVerdict

MAX_SWITCHES = 6
"""Maximum number of switches to list."""


def order_section(verdict: OrderVerdict) -> str:
    """Return the verdict and the evidence over the rows."""
    sentence = verdict.sentence()
    strongest = f" The evidence is strongest in the {verdict.score}." if verdict.score else ""
    lead = f"{sentence[:1].upper()}{sentence[1:]}.{strongest}"
    if len(verdict.curve) < 2:
        return section("Order of the rows", lead)
    picture = evidence_chart(verdict.curve_rows.astype(float), verdict.curve, -math.log10(LEVEL))
    note = (
        "In random order the evidence ever reaches 3 with probability at most 0.001. It is computed from ranks of each "
        "row among those before it, under a model that is fixed after the first rows."
    )
    return section("Order of the rows", lead, figure(picture, note))


def counted_rows(model: Any) -> str:
    """Return which rows the loss refers to."""
    if _has_window(model):
        return "the rows in the window"
    half_life = model.regret_.half_life
    return "all rows so far" if half_life is None else f"rows so far, weighted by a half-life of {half_life:,}"


def forgetting(model: Any) -> str:
    """Return how old rows count in loss and hindsight, if they are forgotten."""
    if _has_window(model):
        return f" Both refer to the last {model.regret_.rows:,} rows: older ones are forgotten."
    half_life = model.regret_.half_life
    if half_life is None:
        return ""
    return (
        f" In both the weight of a row halves every {half_life:,} rows: hindsight is the best model for these weights. "
        "An online model may have a smaller loss than any single model."
    )


def switches(model: Any) -> str:
    """Return the half-lives over the rows, if they were selected automatically."""
    if getattr(model, "half_life", None) != "auto":
        return ""
    known = [(0, 0), *((event.at, event.rows) for event in model.changes_ if event.kind == "half_life")]
    if len(known) == 1:
        return " All rows have the same weight: no half-life was better."
    listed = [f"{_named(rows)} from row {at:,}" if at else f"{_named(rows)} at first" for at, rows in known]
    if len(listed) <= MAX_SWITCHES:
        return f" Half-life: {', '.join(listed)}."
    active: dict[int, int] = {}
    for (at, half_life), (stop, _) in pairwise([*known, (int(model.n_seen_), 0)]):
        active[half_life] = active.get(half_life, 0) + stop - at
    most = max(active, key=lambda each: active[each])
    share = f"{_named(most)} was active for {active[most] / model.n_seen_:.0%} of the rows"
    return f" The half-life changed {len(known) - 1:,} times, last to {listed[-1]}; {share}."


def _named(half_life: int) -> str:
    return f"{half_life:,}" if half_life else "none"


def _has_window(model: Any) -> bool:
    return getattr(model, "window", None) is not None
