"""Whether rows came in random order: the section of the report, and its figure."""

from __future__ import annotations

import numpy as np

from batch2online.app.report.elements import figure, section
from batch2online.app.report.figures import rows_axis
from batch2online.app.report.svg import ACCENT, SECOND, drawing, svg_of
from batch2online.drift.order_monitor import LEVEL
from batch2online.drift.order_verdict import OrderVerdict

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
