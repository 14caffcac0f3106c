"""Growth as log-log plots: one file for each quantity, time on the left, memory on the right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {"regression": "#0072b2", "lowrank": "#d55e00", "clustering": "#009e73"}
PANELS = {"seconds": ("processor time, s", 1.0), "bytes": ("peak memory, MB", 1e-6)}


def file_of(axis: str) -> str:
    """The name of an axis's plot.

    >>> file_of("rows in a chunk")
    'growth-rows-in-a-chunk.svg'
    """
    return f"growth-{axis.replace(' ', '-')}.svg"


def draw(curves: list[dict[str, Any]], folder: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "batch2online", "font.size": 9, "svg.fonttype": "none"}):
        for axis in dict.fromkeys(curve["axis"] for curve in curves):
            figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.2))
            figure.subplots_adjust(left=0.08, right=0.98, top=0.96, bottom=0.16, wspace=0.25)
            for panel, (quantity, (label, factor)) in zip(panels, PANELS.items(), strict=True):
                for curve in (curve for curve in curves if curve["axis"] == axis):
                    _plot(panel, curve, quantity, factor)
                panel.set(xscale="log", yscale="log", xlabel=axis, ylabel=label)
                panel.grid(alpha=0.3)
                panel.legend(frameon=False, fontsize=8, loc="upper left")
            figure.savefig(folder / file_of(axis), metadata={"Date": None})
            pyplot.close(figure)


def _plot(panel: Any, curve: dict[str, Any], quantity: str, factor: float) -> None:
    results = [value * factor for value in curve[quantity]]
    name = curve["problem"]
    panel.plot(
        curve["values"], results, "o-", color=COLOURS.get(name), label=f"{name}, slope {curve[f'slope_{quantity}']:.2f}"
    )
