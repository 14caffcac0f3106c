"""Curves of an evaluation, by matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online.evaluate.result import Result

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Okabe and Ito's palette, told apart with colour-blind eyes."""

LABELS = {
    "ratio": "loss / hindsight",
    "regret": "regret",
    "loss": "prequential loss",
    "changes": "model changes",
}


def pyplot() -> Any:
    """Return the pyplot module of matplotlib, or an error that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'batch2online[plot]'.") from error
    return plt


def plot_curves(result: Result, quantity: str = "ratio", axes: Any = None) -> Any:
    """Mean over seeds of a quantity for each learner, one standard deviation shaded; the axes are returned."""
    if axes is None:
        axes = pyplot().subplots(figsize=(6, 4), layout="constrained")[1]
    for number, model in enumerate(result.models):
        draw_curve(axes, *result.curve(model, quantity), label=model, color=COLOURS[number % len(COLOURS)])
    if quantity == "ratio":
        axes.axhline(1.0, color="0.4", linewidth=0.8, zorder=0)
    axes.set_xscale("log")
    axes.set_xlabel("rows")
    axes.set_ylabel(LABELS.get(quantity, quantity))
    axes.legend(frameon=False, fontsize=8)
    return axes


def draw_curve(axes: Any, at: Any, mean: Any, deviation: Any, **style: Any) -> None:
    """Draw a line with its standard deviation shaded, where both are finite."""
    known = np.isfinite(mean)
    at, mean, deviation = at[known], mean[known], deviation[known]
    (line,) = axes.plot(at, mean, **{"linewidth": 1.4} | style)
    axes.fill_between(at, mean - deviation, mean + deviation, color=line.get_color(), alpha=0.18, linewidth=0)
