"""Charts: one description, drawn by uPlot in a browser, and as SVG for print and where scripts are off."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from batch2online.app.report.formatting import visible

N_GROUPS = 10
"""Number of colours of groups; further groups reuse them."""

MAX_DECADES = 6
"""Logarithmic axes end this many decades below the largest value: what is below is rounding."""

_WIDTH, _WIDE, _TOP, _BOTTOM, _LETTER = 520, 1040, 10, 48, 7.5
_DIGITS, _DIGITS_OF_DOTS = 5, 3
_LINEAR_UP_TO = 10.0


@dataclass(frozen=True)
class Axis:
    """An axis: its label, its limits, its scale (``linear``, ``log`` or ``asinh``) and the unit of its ticks."""

    label: str
    low: float
    high: float
    scale: str = "linear"
    unit: str = ""

    @classmethod
    def of(cls, label: str, values: Any, scale: str = "linear", unit: str = "", zero: bool = False) -> Axis:
        """Return an axis of these values; of positive ones it leaves out those above three times the 90 % quantile.

        >>> Axis.of("loss", [1e-64, 1.0, 5.0], "log")
        Axis(label='loss', low=4.5e-06, high=5.5, scale='log', unit='')
        """
        array = np.asarray(values, dtype=np.float64)
        known = array[np.isfinite(array) & ((array > 0) | (scale != "log"))]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.1, 1.0)
        if scale == "log":
            low, high = 0.9 * max(low, high * 10.0**-MAX_DECADES), 1.1 * high
            return cls(label, low, high, scale, unit)
        if scale == "asinh":
            ends = np.arcsinh(np.array([low, high]) / _LINEAR_UP_TO)
            low, high = map(float, _LINEAR_UP_TO * np.sinh(ends + 0.05 * np.array([-1, 1]) * (ends[1] - ends[0])))
            return cls(label, low, high, scale, unit)
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
        scale = "log" if low > 0 and high > 20 * low else "linear"
        return cls("rows seen", low, max(high, low + 1), scale)

    def place(self, values: Any) -> Any:
        """Return values as positions, 0 at the lower and 1 at the upper end."""
        low, high = self._moved(self.low), self._moved(self.high)
        return (self._moved(values) - low) / (high - low)

    def ticks(self, about: int = 5) -> list[float]:
        """Return round values between the ends.

        >>> Axis("", 0.0, 1.1).ticks(), Axis("", 50.0, 2e5, "log").ticks()
        ([0.0, 0.25, 0.5, 0.75, 1.0], [100.0, 1000.0, 10000.0, 100000.0])
        """
        if self.scale == "linear":
            found = _round_steps(self.low, self.high, about)
        elif self.scale == "asinh":
            ends = range(1, 1 + math.ceil(math.log10(max(abs(self.low), abs(self.high), 10.0))))
            found = [0.0, *(sign * 10.0**power for power in ends for sign in (-1, 1))]
        else:
            powers = range(math.floor(math.log10(self.low)), 1 + math.ceil(math.log10(self.high)))
            parts = (1, 2, 5) if self.high < 100 * self.low else (1,)
            every = math.ceil(len(powers) / (about + 2)) if parts == (1,) else 1
            found = [part * 10.0**power for power in powers[::every] for part in parts]
        return [tick for tick in found if self.low <= tick <= self.high]

    def shown(self, tick: float) -> str:
        return short(tick) + (f" {self.unit}" if self.unit else "")

    def _moved(self, values: Any) -> Any:
        if self.scale == "log":
            return np.log10(np.maximum(values, 1e-300))
        return np.arcsinh(np.asarray(values) / _LINEAR_UP_TO) if self.scale == "asinh" else values


@dataclass(frozen=True)
class Series:
    """Points of one kind: ``line``, ``dots``, ``both``, ``stems``, ``bars``, ``guide`` or ``marks`` (labelled dots)."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    draw: str = "line"
    colour: str = "accent"
    tips: Sequence[str] = ()


@dataclass(frozen=True)
class Chart:
    """Series over a common pair of axes; ``title`` describes the chart to those who cannot see it."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    wide: bool = False
    height: int = 250

    def json(self) -> str:
        """Return the description as JSON for a script element: numbers with five digits, those of dots with three."""
        first = self.series[0].x
        lines = []
        for each in self.series:
            line: dict[str, Any] = {"label": visible(each.label), "draw": each.draw, "colour": each.colour}
            digits = _DIGITS_OF_DOTS if each.draw == "dots" else _DIGITS
            line["y"] = _plain(each.y, self.y.scale, digits)
            if each.x is not first:
                line["x"] = _plain(each.x, self.x.scale, digits)
            if each.tips:
                line["tips"] = list(map(visible, each.tips))
            lines.append(line)
        axes = {name: _axis(axis) for name, axis in (("x", self.x), ("y", self.y))}
        found = {
            "title": visible(self.title),
            "axes": axes,
            "height": self.height,
            "x": _plain(first, self.x.scale, _DIGITS),
        }
        return json.dumps(found | {"series": lines}, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")

    def svg(self) -> str:
        """Return the chart as an SVG element, coloured by the classes of the page."""
        width = _WIDE if self.wide else _WIDTH
        ticks = [(tick, self.y.shown(tick)) for tick in self.y.ticks()]
        left = 32 + _LETTER * max([len(shown) for _, shown in ticks], default=0)
        area = (width - left - 14, float(self.height - _TOP - _BOTTOM))
        parts = [
            f'<svg viewBox="0 0 {width} {self.height}" role="img" aria-label="{escape(visible(self.title))}">',
            *(_text(left - 6, _TOP + area[1] * (1 - self.y.place(tick)) + 4, shown, "end") for tick, shown in ticks),
            *self._below(left, area),
            f'<text class="name" transform="translate(13 {_TOP + area[1] / 2:.0f}) rotate(-90)">{_name(self.y)}</text>',
            f'<svg x="{left:.0f}" y="{_TOP}" width="{area[0]:.0f}" height="{area[1]:.0f}"><path class="grid" d="',
            "".join(f"M0 {area[1] * (1 - self.y.place(tick)):.0f}h{area[0]:.0f}" for tick, _ in ticks),
            '"/>',
            *(self._drawn(each, area) for each in self.series),
            "</svg>",
            *self._legend(left, width),
            "</svg>",
        ]
        return "".join(parts)

    def _below(self, left: float, area: tuple[float, float]) -> Iterable[str]:
        bottom = _TOP + area[1]
        for tick in self.x.ticks(9 if self.wide else 5):
            yield _text(left + area[0] * self.x.place(tick), bottom + 17, self.x.shown(tick))
        yield f'<text class="name" x="{left + area[0] / 2:.0f}" y="{bottom + 38:.0f}">{_name(self.x)}</text>'

    def _drawn(self, each: Series, area: tuple[float, float]) -> str:
        """Return the points of a series as SVG; dots are lines of length zero with round ends."""
        known = np.isfinite(np.asarray(each.x, dtype=float)) & np.isfinite(np.asarray(each.y, dtype=float))
        x = area[0] * self.x.place(np.asarray(each.x, dtype=float)[known])
        y = area[1] * np.clip(1 - self.y.place(np.asarray(each.y, dtype=float)[known]), -9, 9)
        digits = 0 if each.draw == "dots" else 1
        places = [f"{a:.{digits}f} {b:.{digits}f}" for a, b in zip(x, y, strict=True)]
        if each.draw in ("stems", "bars"):
            zero = area[1] * float(np.clip(1 - self.y.place(0.0), 0, 1)) if self.y.scale != "log" else area[1]
            path = "".join(f"M{place}V{zero:.0f}" for place in places)
        else:
            path = "M" + "L".join(places) if each.draw in ("line", "both", "guide") else ""
        drawn = f'<path class="{each.draw} {each.colour}" d="{path}"/>' if path and places else ""
        if each.draw in ("dots", "both", "marks", "stems"):
            kind = each.draw if each.draw == "marks" else "dots"
            drawn += f'<path class="{kind} {each.colour}" d="{"".join(f"M{place}h0" for place in places)}"/>'
        if each.draw == "marks":
            drawn += "".join(_text(a, b + 4, tip, "ink") for a, b, tip in zip(x, y, each.tips, strict=True))
        return drawn

    def _legend(self, left: float, width: float) -> Iterable[str]:
        named = [each for each in self.series if each.draw in ("line", "both", "bars") and each.label]
        x = width - 14 - sum(30 + _LETTER * len(each.label) for each in named)
        for each in named if len(named) > 1 else ():
            yield f'<path class="line {each.colour}" d="M{x:.0f} 6h16"/>' + _text(x + 22, 10, each.label, "start")
            x += 30 + _LETTER * len(each.label)


def short(value: float) -> str:
    """Return a number as a tick label.

    >>> [short(value) for value in (0, 0.25, 1000, 2_500_000)]
    ['0', '0.25', '1k', '2.5M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size <= abs(value) < 1000 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def truncated(name: str, most: int = 24) -> str:
    """Return a name as a label: control characters escaped, long names truncated."""
    shown = visible(name)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _round_steps(low: float, high: float, about: int) -> list[float]:
    rough = (high - low) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(part * size for part in (1, 2, 2.5, 5, 10) if part * size >= rough)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(k * step, digits) + 0.0 for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _plain(values: Sequence[float], scale: str, digits: int) -> list[float | int | None]:
    """Return values with a few digits; None where there is nothing to draw."""
    kept = [float(f"{v:.{digits}g}") if math.isfinite(v) and (v > 0 or scale != "log") else None for v in values]
    return [int(v) if v is not None and v == int(v) else v for v in kept]


def _axis(axis: Axis) -> dict[str, Any]:
    low, high = (float(f"{end:.{_DIGITS}g}") for end in (axis.low, axis.high))
    return {"label": visible(axis.label), "low": low, "high": high, "scale": axis.scale, "unit": axis.unit}


def _name(axis: Axis) -> str:
    return escape(visible(axis.label))


def _text(x: float, y: float, content: str, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x:.0f}" y="{y:.0f}">{escape(visible(content))}</text>'
