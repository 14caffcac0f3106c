"""Charts as data: pages show them as SVG, without a script; papers draw them on matplotlib axes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from batch2online.app.report.formatting import visible

N_GROUPS = 10
"""Number of colours of groups; further groups reuse them."""

MAX_DECADES = 6
"""Logarithmic axes end this many decades below the largest value: what is below is rounding."""

_ABOVE, _BELOW = 20, 42
"""Margins above and below the area of the points, in pixels, about as in ``charts.css``."""

Scale = Literal["linear", "log"]
Draw = Literal["line", "both", "guide", "dots", "marks", "stems", "bars"]


@dataclass(frozen=True)
class Axis:
    """An axis: its label, its limits, its scale, and the unit of its ticks.

    Its values may be whole numbers alone; ``names`` are those of the places 0, 1, ..., if they have any.
    """

    label: str
    low: float
    high: float
    scale: Scale = "linear"
    unit: str = ""
    is_whole: bool = False
    names: Sequence[str] = ()

    @classmethod
    def of(cls, label: str, values: Any, scale: Scale = "linear", unit: str = "", zero: bool = False) -> Axis:
        """Return an axis of these values; of positive ones it leaves out those above three times the 90 % quantile.

        >>> Axis.of("loss", [1e-64, 1.0, 5.0], "log")
        Axis(label='loss', low=4.5e-06, high=5.5, scale='log', unit='', is_whole=False, names=())
        """
        array = np.asarray(values, dtype=np.float64)
        known = array[np.isfinite(array) & ((array > 0) | (scale != "log"))]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.1, 1.0)
        if scale == "log":
            return cls(label, 0.9 * max(low, high * 10.0**-MAX_DECADES), 1.1 * high, scale, unit)
        usual = float(np.quantile(known, 0.9)) if known.size else 0.0
        if low >= 0 and high > 3 * usual > 0:
            high = 1.2 * usual
        low = min(low, 0.0) if zero else low
        room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        return cls(label, low if zero and low == 0 else low - room, high + room, scale, unit)

    @classmethod
    def of_rows(cls, rows: Any) -> Axis:
        """Return the axis of rows seen, logarithmic if their range is large."""
        low, high = float(np.min(rows)), float(np.max(rows))
        return cls("rows seen", low, max(high, low + 1), "log" if low > 0 and high > 20 * low else "linear")

    @classmethod
    def of_names(cls, label: str, names: Sequence[str]) -> Axis:
        """Return an axis with a place for each name, the first one at 0."""
        return cls(label, -0.6, len(names) - 0.4, names=list(map(truncated, names)))

    def place(self, values: Any) -> Any:
        """Return values as positions, 0 at the lower and 1 at the upper end."""
        low, high = self._moved(self.low), self._moved(self.high)
        return (self._moved(values) - low) / (high - low)

    def ticks(self, about: int = 5) -> list[float]:
        """Return round values between the ends.

        >>> Axis("", 0.0, 1.1).ticks(), Axis("", 50.0, 2e5, "log").ticks()
        ([0.0, 0.25, 0.5, 0.75, 1.0], [100.0, 1000.0, 10000.0, 100000.0])
        """
        if self.names:
            return list(map(float, range(len(self.names))))
        if self.scale == "linear":
            found = _round_steps(self.low, self.high, about, self.is_whole)
        else:
            powers = range(math.floor(math.log10(self.low)), 1 + math.ceil(math.log10(self.high)))
            parts = (1, 2, 5) if self.high < 100 * self.low else (1,)
            every = math.ceil(len(powers) / (about + 2)) if parts == (1,) else 1
            found = [part * 10.0**power for power in powers[::every] for part in parts]
        return [tick for tick in found if self.low <= tick <= self.high]

    def shown(self, tick: float, _place: int | None = None) -> str:
        """Return the label of a tick; matplotlib passes its place too."""
        if self.names:
            return self.names[round(tick)] if 0 <= round(tick) < len(self.names) else ""
        digits = 3
        if self.scale == "linear":
            digits = max(3, 2 + math.ceil(math.log10(max(abs(self.low), abs(self.high)) / (self.high - self.low))))
        return f"{short(tick, digits)} {self.unit}".strip()

    def _moved(self, values: Any) -> Any:
        return np.log10(np.maximum(values, 1e-300)) if self.scale == "log" else values


@dataclass(frozen=True)
class Series:
    """Points of one kind, and what each of them says when it is pointed at: its values, if no ``tips`` are given.

    ``marks`` show their tips as text; a ``guide`` is a dashed line that says nothing.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    draw: Draw = "line"
    colour: str = "accent"
    tips: Sequence[str] = ()


@dataclass(frozen=True)
class Chart:
    """Series over a common pair of axes; ``title`` describes the chart to those who cannot see it."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    note: str = ""
    wide: bool = False
    height: int = 250

    def svg(self) -> str:
        """Return the chart as an SVG element as wide as its parent; ``charts.css`` has its margins and colours."""
        height = self.height - _ABOVE - _BELOW
        levels = [(height * (1 - float(self.y.place(tick))), self.y.shown(tick)) for tick in self.y.ticks()]
        parts = [
            f'<svg class="plot" height="{height}" role="img" aria-label="{_safe(self.title)}">',
            *(f'<text class="end" x="-7" y="{at + 4:.0f}">{_safe(shown)}</text>' for at, shown in levels),
            '<g class="ticks">',
            *(
                f'<text x="{100 * float(self.x.place(tick)):.1f}%" y="{height + 16}">{_safe(self.x.shown(tick))}</text>'
                for tick in self.x.ticks(9 if self.wide else 5)
            ),
            f'</g><text x="50%" y="{height + 36}">{_safe(self.x.label)}</text>',
            f'<text transform="translate(-52 {height / 2:.0f}) rotate(-90)">{_safe(self.y.label)}</text>',
            self._legend(),
            f'<svg height="{height}">',
            f'<g class="grid">{_stretched("".join(f"M0 {at:.1f}h1000" for at, _ in levels), height)}</g>',
            *(f'<g class="{each.draw} {each.colour}">{"".join(self._drawn(each, height))}</g>' for each in self.series),
            "</svg></svg>",
        ]
        return "".join(parts)

    def _drawn(self, each: Series, height: int) -> Iterator[str]:
        """Yield a series as a line and as points with tooltips; places are percents across and pixels down."""
        x, y = (np.asarray(values, dtype=np.float64) for values in (each.x, each.y))
        known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        across, down = 100 * self.x.place(x[known]), height * np.clip(1 - self.y.place(y[known]), -9, 9)
        lowest = self.y.low if self.y.scale == "log" else max(self.y.low, 0.0)
        zero = height * (1 - float(self.y.place(lowest)))
        if each.draw == "stems":
            path = "".join(f"M{10 * a:.1f} {b:.1f}V{zero:.1f}" for a, b in zip(across, down, strict=True))
            yield _stretched(path, height)
        elif each.draw in ("line", "both", "guide"):
            pens = np.where(np.diff(known, prepend=-2) > 1, "M", "L")  # the pen is lifted at a gap
            path = "".join(f"{pen}{10 * a:.1f} {b:.1f}" for pen, a, b in zip(pens, across, down, strict=True))
            yield _stretched(path, height)
        for i, a, b in zip(known.tolist(), across, down, strict=True) if each.draw != "guide" else ():
            values = (
                f"{each.label} {y[i]:.5g} {self.y.unit}".strip(),
                f"{self.x.label} {x[i]:,.6g} {self.x.unit}".strip(),
            )
            tip = _safe(each.tips[i] if each.tips else ", ".join(values))
            if each.draw == "marks":
                yield f'<text x="{a:.1f}%" y="{b + 4:.1f}">{tip}</text>'
            elif each.draw == "bars":
                half, top = 30 / (self.x.high - self.x.low), min(b, zero)
                place = f'x="{a - half:.2f}%" y="{top:.1f}" width="{2 * half:.2f}%" height="{abs(zero - b):.1f}"'
                yield f"<rect {place}><title>{tip}</title></rect>"
            else:
                yield f'<circle cx="{a:.1f}%" cy="{b:.1f}"><title>{tip}</title></circle>'

    def _legend(self) -> str:
        kinds = {each.draw for each in self.series} - {"guide"}
        lines = kinds if kinds == {"dots"} else {"line", "both", "bars"}
        named = [each for each in self.series if each.label and each.draw in lines]
        if len(named) < 2:
            return ""
        entries = (f'<tspan class="{each.colour}" dx="10">●</tspan> {_safe(each.label)}' for each in named)
        return f'<text class="end" x="100%" y="-7">{"".join(entries)}</text>'

    def on_axes(self, axes: Any) -> Any:
        """Draw the chart on matplotlib axes, which are returned."""
        colours = palette()
        for each in self.series:
            look: dict[str, Any] = {"color": colours[each.colour], "label": each.label or None}
            if each.draw == "bars":
                axes.bar(each.x, each.y, width=0.65, **look)
            elif each.draw == "stems":
                axes.vlines(each.x, max(self.y.low, 0.0), each.y, **look)
            elif each.draw == "marks":
                box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": colours["muted"]}
                for x, y, tip in zip(each.x, each.y, each.tips, strict=True):
                    axes.text(x, y, tip, ha="center", va="center", color=colours["ink"], bbox=box, zorder=5)
            else:
                kinds = {"line": "-", "both": "o-", "guide": "--", "dots": "o"}
                width = 1 if each.draw == "guide" else 2
                axes.plot(each.x, each.y, kinds[each.draw], markersize=4, linewidth=width, **look)
        for axis, own, name, about in ((axes.xaxis, self.x, "x", 5 + 4 * self.wide), (axes.yaxis, self.y, "y", 5)):
            axes.set(**{f"{name}scale": own.scale, f"{name}label": own.label, f"{name}lim": (own.low, own.high)})
            axis.set_ticks(own.ticks(about))
            axis.set_ticks([], minor=True)
            axis.set_major_formatter(own.shown)
        if self._legend():
            axes.legend(frameon=False, labelcolor=colours["ink"])
        return axes


@cache
def asset(name: str) -> str:
    """Return a file of this folder: the style of charts, or style, script and template of the page."""
    return files("batch2online.app.report").joinpath(name).read_text(encoding="utf-8")


def palette() -> dict[str, str]:
    """Return the colours of the light theme by name."""
    return dict(reversed(re.findall(r"--(\w+): (#\w+)", asset("charts.css"))))


def diagonal(ends: Sequence[float]) -> Series:
    """Return the line on which both axes agree."""
    return Series("", [min(ends), max(ends)], [min(ends), max(ends)], "guide", "muted")


def level(x: Sequence[float], at: float, colour: str = "muted") -> Series:
    """Return a horizontal line."""
    return Series("", [min(x), max(x)], [at, at], "guide", colour)


def short(value: float, digits: int = 3) -> str:
    """Return a number as a tick label.

    >>> [short(value) for value in (0, 0.25, 1000, 2_500_000)]
    ['0', '0.25', '1k', '2.5M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size <= abs(value) < 1000 * size:
            return f"{value / size:.{digits}g}{letter}"
    return f"{value:.{digits}g}"


def truncated(name: str, most: int = 24) -> str:
    """Return a name as a label: control characters escaped, long names truncated."""
    shown = visible(name)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _round_steps(low: float, high: float, about: int, is_whole: bool) -> list[float]:
    rough = max((high - low) / about, 1.0 if is_whole else 0.0)
    size = 10.0 ** math.floor(math.log10(rough))
    parts = (1, 2, 5, 10) if is_whole else (1, 2, 2.5, 5, 10)
    step = next(part * size for part in parts if part * size >= 0.95 * rough)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(k * step, digits) + 0.0 for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _safe(content: str) -> str:
    return escape(visible(content))


def _stretched(path: str, height: int) -> str:
    """Return a path over places of 0 to 1000 from left to right, stretched to the width of the chart."""
    box = f'viewBox="0 0 1000 {height}" preserveAspectRatio="none"'
    return f'<svg {box}><path d="{path}"/></svg>'
