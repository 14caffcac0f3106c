"""Sections on the order of rows and on forgetting: evidence against random order, and which rows count."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from batch2online.app.report.elements import figure, section
from batch2online.app.report.figures import ACCENT, SECOND, drawing, rows_axis, svg_of
from batch2online.drift.order_monitor import LEVEL, OrderVerdict

_MEANING = (
    "In random order, the evidence ever reaches 3 in at most one stream of a thousand. It comes from ranks of each "
    "row among those before, under a model that was frozen after the first rows."
)


def order_section(verdict: OrderVerdict) -> str:
    """Return the verdict, and how the evidence has grown."""
    words = verdict.sentence()
    shown = f" The {verdict.score} shows it most clearly." if verdict.score else ""
    drawn = [] if len(verdict.curve) < 2 else [figure(_evidence_figure(verdict), _MEANING, wide=True)]
    return section("Order of the rows", f"{words[:1].upper()}{words[1:]}.{shown}", *drawn)


def _evidence_figure(verdict: OrderVerdict) -> str:
    rows, evidence = verdict.curve_rows.astype(float), verdict.curve
    with drawing(width=10.4) as (drawn, axes):
        axes.axhline(-np.log10(LEVEL), color=SECOND, linewidth=1.2)
        axes.plot(rows, evidence, color=ACCENT)
        if evidence.max() > 100:
            axes.set_yscale("symlog", linthresh=10)
        rows_axis(axes, rows)
        axes.set_ylabel("evidence, powers of ten")
        return svg_of(drawn, "order", "Evidence against random order over the rows seen; an alarm is raised at 3")


MOST = 6
"""Switches that are told one by one."""


def rows(model: Any) -> str:
    """Return which rows count, in words."""
    if _window(model):
        return "the rows in the window"
    half_life = model.regret_.half_life
    return "all rows so far" if half_life is None else f"rows so far, weighted by a half-life of {half_life:,}"


def lead(model: Any) -> str:
    """Return what loss and hindsight stand for where old rows are let go."""
    if _window(model):
        return f" Both are those of the last {model.regret_.rows:,} rows: older ones are not kept."
    half_life = model.regret_.half_life
    if half_life is None:
        return ""
    return (
        f" Both count a row half as much for every {half_life:,} rows that came after it, the last one once: hindsight "
        "is the best model for these weights. One that changes with the rows may well cost less than any single model."
    )


def switches(model: Any) -> str:
    """Return which half-life was in force when, where several compete."""
    if getattr(model, "half_life", None) != "auto":
        return ""
    known = [(0, 0), *((event.at, event.rows) for event in model.changes_ if event.kind == "half_life")]
    if len(known) == 1:
        return " All rows have counted alike: no half-life was better."
    told = [f"{_named(rows)} from row {at:,}" if at else f"{_named(rows)} at first" for at, rows in known]
    if len(told) > MOST:
        longest: dict[int, int] = {}
        for (at, rows_), (stop, _) in pairwise([*known, (int(model.n_seen_), 0)]):
            longest[rows_] = longest.get(rows_, 0) + stop - at
        most = max(longest, key=lambda each: longest[each])
        share = f"; {_named(most)} for {longest[most] / model.n_seen_:.0%} of the rows"
        return f" Half-lives have changed {len(known) - 1:,} times, last to {told[-1]}{share}."
    return f" Half-life: {', '.join(told)}."


def _named(half_life: int) -> str:
    return f"{half_life:,}" if half_life else "none"


def _window(model: Any) -> bool:
    return getattr(model, "window", None) is not None
