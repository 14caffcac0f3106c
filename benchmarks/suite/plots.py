"""The figures of the pages: comparison with refits of README.md, growth, one file for each quantity, latency."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from batch2online.paper import theorem_plots

STYLE = {"svg.hashsalt": "batch2online", "font.size": 9, "svg.fonttype": "none"}
COLOURS = {"regression": "#0072b2", "lowrank": "#d55e00", "clustering": "#009e73"}
THEOREMS = "theorem-"
BESIDE_RESULTS = ("growth", "latency")
"""Beginnings of the names of figures in the folder of the results."""

PANELS = {"seconds": ("processor time, s", 1.0), "bytes": ("peak memory, MB", 1e-6)}


def file_of(axis: str) -> str:
    """The name of an axis's plot.

    >>> file_of("rows in a chunk")
    'growth-rows-in-a-chunk.svg'
    """
    return f"growth-{axis.replace(' ', '-')}.svg"


def digest(curves: list[dict[str, Any]]) -> str:
    """A short name of the numbers that a figure shows, which its file carries."""
    return hashlib.sha256(json.dumps(curves, sort_keys=True).encode()).hexdigest()[:16]


def figures(results: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The curves of all figures by the names of their files."""
    growth = results["speed"]["growth"] if "speed" in results else []
    found = {file_of(curve["axis"]): [c for c in growth if c["axis"] == curve["axis"]] for curve in growth}
    if "nightly_refits" in results:
        found["compare.svg"] = results["nightly_refits"]["tables"][0]["curves"]
    if "latency" in results:
        found["latency.svg"] = results["latency"]["tables"][0]["curves"]
    for name, (table, _) in theorem_plots.FIGURES.items():
        if f"theorems_{table}" in results:
            found[f"{THEOREMS}{name}.svg"] = results[f"theorems_{table}"]["tables"][0]["curves"]
    return found


def draw_all(results: dict[str, dict[str, Any]], folder: Path, beside: Path) -> None:
    """Draw the figures that are missing or show other numbers, some of them into the folder of the results."""
    for name, curves in figures(results).items():
        path = (beside if name.startswith(BESIDE_RESULTS) else folder) / name
        if not path.exists() or digest(curves) not in path.read_text(encoding="utf-8"):
            drawing(name)(curves, path)


def drawing(name: str) -> Callable[[list[dict[str, Any]], Path], None]:
    """The function that draws a file."""
    if name.startswith(THEOREMS):
        return lambda curves, path: draw_theorem(name.removeprefix(THEOREMS).removesuffix(".svg"), curves, path)
    return {"compare.svg": draw_comparison, "latency.svg": draw_latency}.get(name, draw)


def draw_theorem(name: str, curves: list[dict[str, Any]], path: Path) -> None:
    with mpl.rc_context({"svg.fonttype": "none"}):
        theorem_plots.save(name, curves, path, digest(curves))


def draw(curves: list[dict[str, Any]], path: Path) -> None:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.2))
        FigureCanvasSVG(figure)
        panels = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.08, right=0.98, top=0.96, bottom=0.16, wspace=0.25)
        for panel, (quantity, (label, factor)) in zip(panels, PANELS.items(), strict=True):
            for curve in curves:
                _plot(panel, curve, quantity, factor)
            panel.set(xscale="log", yscale="log", xlabel=curves[0]["axis"], ylabel=label)
            panel.grid(alpha=0.3)
            panel.legend(frameon=False, fontsize=8, loc="upper left")
        figure.savefig(path, metadata={"Date": None, "Description": digest(curves)})


def _plot(panel: Any, curve: dict[str, Any], quantity: str, factor: float) -> None:
    results = [value * factor for value in curve[quantity]]
    name = curve["problem"]
    panel.plot(
        curve["values"], results, "o-", color=COLOURS.get(name), label=f"{name}, slope {curve[f'slope_{quantity}']:.2f}"
    )


COMPARED = {
    "loss": "loss / hindsight",
    "labels": "labels changed a row",
    "kept": "rows kept",
    "seconds": "processor time, s",
}
LOOKS = (("#0072b2", "-"), ("#56b4e9", "-"), ("#d55e00", "--"), ("#e69f00", (0, (1, 1))), ("#777777", "-."))
"""Colours and dashes by the place of a learner: lines that coincide can be told apart."""
HIGHEST = 1.05
"""Where the panel of the loss ends."""


def draw_comparison(curves: list[dict[str, Any]], path: Path) -> None:
    """One panel a quantity, one colour a learner, one line a seed."""
    learners = list(dict.fromkeys(curve["learner"] for curve in curves))
    with mpl.rc_context(STYLE | {"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(10, 3.3), layout="constrained")
        FigureCanvasSVG(figure)
        panels = figure.subplots(1, len(COMPARED))
        for panel, (quantity, title) in zip(panels, COMPARED.items(), strict=True):
            for curve in curves:
                colour, dashes = LOOKS[learners.index(curve["learner"])]
                label = curve["learner"] if curve["seed"] == curves[0]["seed"] else None
                panel.plot(curve["rows"], curve[quantity], color=colour, linestyle=dashes, label=label, linewidth=1.4)
            panel.set(xscale="log", xlabel="rows seen", title=title)
            panel.grid(alpha=0.3)
        panels[0].set_ylim(top=min(HIGHEST, panels[0].get_ylim()[1]))
        panels[2].set(yscale="log", ylim=(100, None))
        panels[3].set_yscale("log")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(path, metadata={"Date": None, "Description": digest(curves)})


REFITS = {"ours": "#d55e00", "River": "#777777"}
DASHES = {"tight": "-", "paced": (0, (3, 1))}


def draw_latency(curves: list[dict[str, Any]], path: Path) -> None:
    """One panel an estimator: the share of calls that take longer, dashed where rows come at a rate."""
    names = list(dict.fromkeys(curve["estimator"] for curve in curves))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 1 + 2.4 * -(-len(names) // 3)), layout="constrained")
        FigureCanvasSVG(figure)
        panels = figure.subplots(-(-len(names) // 3), 3, squeeze=False, sharex=True, sharey=True).flat
        for panel, name in zip(panels, names, strict=False):
            for curve in (each for each in curves if each["estimator"] == name):
                seconds, shares = _shares_above(curve)
                label = f"{curve['refits']}, {curve['rows']}"
                colour, dashes = REFITS[curve["refits"]], DASHES[curve["rows"]]
                panel.step(seconds, shares, where="post", color=colour, linestyle=dashes, label=label)
            panel.set(xscale="log", yscale="log", xlabel="seconds", ylabel="calls that take longer", title=name)
            panel.grid(alpha=0.3)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(path, metadata={"Date": None, "Description": digest(curves)})


def _shares_above(curve: dict[str, Any]) -> tuple[list[float], list[float]]:
    """The edges of a histogram up to the longest call, and the share of the calls beyond each.

    >>> _shares_above({"histogram": [3, 1, 0], "histogram_log10_seconds": [-3, -2, -1, 0]})
    ([0.001, 0.01], [1.0, 0.25])
    """
    counts = curve["histogram"]
    beyond = [sum(counts[place:]) / sum(counts) for place in range(len(counts))]
    pairs = [
        (10.0**edge, share) for edge, share in zip(curve["histogram_log10_seconds"], beyond, strict=False) if share
    ]
    return [edge for edge, _ in pairs], [share for _, share in pairs]
