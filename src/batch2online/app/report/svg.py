"""Figures as SVG that takes its colours from the page, so that one figure serves light and dark."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from batch2online.app.report.text import visible

INK, MUTED, GRID, ACCENT, SECOND, SURFACE = (f"#{n:02x}fe{n:02x}" for n in range(1, 7))
GROUPS = tuple(f"#{n:02x}fe{n:02x}" for n in range(7, 17))
"""Colours of clusters; after the last, the first again."""
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    ACCENT: "var(--accent)",
    SECOND: "var(--second)",
    SURFACE: "var(--surface)",
} | {colour: f"var(--group{j})" for j, colour in enumerate(GROUPS)}
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "batch2online",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "patch.linewidth": 0.0,
    "figure.constrained_layout.use": True,
}


@contextmanager
def drawing(width: float = 5.2, height: float = 2.9) -> Iterator[tuple[Figure, Any]]:
    """Give an empty figure in the report's style; sizes are in inches of 72 CSS pixels."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        FigureCanvasSVG(figure)
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        yield figure, axes


def svg_of(figure: Figure, name: str, label: str, tips: Sequence[str] = ()) -> str:
    """Return the figure as an inline element, with identifiers of its own and a text for those who cannot see it.

    ``tips`` are shown where the mouse rests on what was drawn with ``gid=tip-0``, ``tip-1``, ...
    """
    buffer = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style type=\"text/css\">.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"font: [^;\"]*?(\d+(?:\.\d+)?)px [^;\"]*", r"font-size: \1px", text)
    text = re.sub(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', _opening(label), text, count=1)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    for j, tip in enumerate(tips):
        mark = f'<g id="{name}-tip-{j}">'
        text = text.replace(mark, f"{mark}<title>{html.escape(visible(tip))}</title>")
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def _opening(label: str) -> str:
    label = label.replace("\\", "")
    return (
        r'<svg viewBox="\1" role="img" aria-label="' + label + '" xmlns="http://www.w3.org/2000/svg" '
        'xmlns:xlink="http://www.w3.org/1999/xlink" stroke-linejoin="round">'
    )


def plain(text: str, most: int = 24) -> str:
    """Return a name for a label: nothing in it but what can be seen, no mathematics, and not too long."""
    shown = visible(text)
    short = shown if len(shown) <= most else shown[: most - 1] + "…"
    return short.replace("$", r"\$")
