"""The pictures of :mod:`~batch2online.paper.theorems`: two columns at most, so that a telephone can show them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from batch2online.evaluate.result import COLOURS, draw_curve, pyplot
from batch2online.paper.records import Record, column, lines_of

_STYLE = {
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "legend.fontsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "batch2online",
}
_WIDTH = 5.6
_BOUND: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 1.0, "alpha": 0.9}


def draw(tables: dict[str, list[Record]], folder: Path) -> list[Path]:
    """Draw all pictures of the three tables, each as SVG and PNG."""
    files = []
    for name, (table, _) in FIGURES.items():
        for suffix in ("svg", "png"):
            files.append(folder / f"{name}.{suffix}")
            save(name, tables[table], files[-1])
    return files


def save(name: str, records: list[Record], path: Path, description: str = "") -> None:
    """Draw one picture to a file; an SVG carries the description."""
    plt = pyplot()
    with plt.rc_context(_STYLE):
        figure = FIGURES[name][1](records)
        about = {"Date": None, "Description": description} if path.suffix == ".svg" else None
        figure.savefig(path, dpi=160, metadata=about)
        plt.close(figure)


def _curve(axes: Any, points: list[Record], quantity: str, **style: Any) -> None:
    draw_curve(axes, column(points, "rows"), column(points, quantity), column(points, f"{quantity}_std"), **style)


def _epsilon_label(epsilon: Any) -> str:
    if isinstance(epsilon, float):
        return rf"$\epsilon = {epsilon:g}$"
    return r"$\epsilon$ auto" if epsilon == "auto" else str(epsilon)


def _decades(axes: Any, which: str = "xy") -> None:
    """Label whole powers of ten alone, and end at one of them."""
    for name in which:
        axis, (low, high) = getattr(axes, f"{name}axis"), getattr(axes, f"get_{name}lim")()
        if name == "y":
            axes.set_ylim(10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high)))
        axis.set_minor_formatter("")


def _legend(figure: Any, axes: Any, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


# -- regret ------------------------------------------------------------------------------------------------


def _main(records: list[Record]) -> dict[str, list[Record]]:
    """Return the first setting of each problem, the one with all accuracies."""
    found: dict[str, list[Record]] = {}
    for (problem, *_), points in lines_of(records, "problem", "d", "k", "z"):
        found.setdefault(problem, points)
    return found


def regret(records: list[Record]) -> Any:
    """Draw a line of panels for each problem: regret on the left, approximate regret with its bounds on the right."""
    main = _main(records)
    figure, panels = pyplot().subplots(len(main), 2, figsize=(_WIDTH, 2.3 * len(main) + 0.7), layout="constrained")
    for (left, right), (problem, points) in zip(panels, main.items(), strict=True):
        for number, ((epsilon,), line) in enumerate(lines_of(points, "epsilon")):
            style = {"color": COLOURS[number], "label": _epsilon_label(epsilon)}
            _curve(left, line, "regret", **style)
            if isinstance(epsilon, float):
                _curve(right, line, "approximate_regret", **style)
                right.plot(column(line, "rows"), column(line, "bound"), color=COLOURS[number], **_BOUND)
            elif epsilon == "exact":
                left.plot(column(line, "rows"), column(line, "bound"), color=COLOURS[number], **_BOUND)
        left.set(xscale="log", yscale="log", title=f"{problem}: regret")
        right.set(xscale="log", title=r"$\epsilon$-approximate regret")
        right.set_yscale("symlog", linthresh=100)
        right.set_yticks([-(10**6), -(10**4), 0, 10**4, 10**6])
        _decades(left)
        right.axhline(0, color="0.6", linewidth=0.7, zorder=0)
    for axes in panels[-1]:
        axes.set_xlabel("rows n")
    panels[0, 0].plot([], [], color="0.3", label="bound", **_BOUND)
    _legend(figure, panels[0, 0], 3)
    return figure


_SWEEPS = (
    ("clustering", "z"),
    ("clustering", "k"),
    ("clustering", "d"),
    ("low rank", "k"),
    ("low rank", "d"),
    ("regression", "d"),
)


def sweeps(records: list[Record]) -> Any:
    """Regret in units of the mean loss of a row, for other z, k and d: epsilon = 0.1 and auto."""
    main = _main(records)
    figure, panels = pyplot().subplots(3, 2, figsize=(_WIDTH, 7.2), layout="constrained", sharex=True)
    for axes, (problem, name) in zip(panels.ravel(), _SWEEPS, strict=True):
        base = main[problem][0]
        others = [other for other in ("d", "k", "z") if other != name]
        own = [r for r in records if r["problem"] == problem and all(r[other] == base[other] for other in others)]
        values = sorted({record[name] for record in own})
        for number, value in enumerate(values):
            for epsilon, dashes in ((0.1, "-"), ("auto", (0, (2, 1)))):
                line = [r for r in own if r[name] == value and r["epsilon"] == epsilon]
                unit = column(line, "optimum") / column(line, "rows")
                label = f"{name} = {value:g}" if epsilon == 0.1 else None
                style: dict[str, Any] = {"color": COLOURS[number], "linestyle": dashes, "label": label}
                mean, deviation = (column(line, quantity) / unit for quantity in ("regret", "regret_std"))
                draw_curve(axes, column(line, "rows"), mean, deviation, **style)
        axes.set(xscale="log", yscale="log", title=f"{problem}, {name}")
        _decades(axes)
        axes.legend(frameon=False, handlelength=1.2)
    for axes in panels[-1]:
        axes.set_xlabel("rows n")
    for axes in panels[:, 0]:
        axes.set_ylabel("regret / mean loss")
    line_of = pyplot().Line2D
    handles = [
        line_of([], [], color="0.3", label=r"$\epsilon = 0.1$"),
        line_of([], [], color="0.3", linestyle=(0, (2, 1)), label=r"$\epsilon$ auto"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure


# -- changes -----------------------------------------------------------------------------------------------


_ALGORITHMS = {"transport": "the paper's, transported", "OnChange": "OnChange", "Geometric": "Geometric(1.2)"}


def changes(records: list[Record]) -> Any:
    """Draw a panel for each problem, with dashed bounds."""
    problems = list(lines_of(records, "problem"))
    figure, panels = pyplot().subplots(
        len(problems), 1, figsize=(_WIDTH, 2.2 * len(problems) + 0.7), layout="constrained", sharex=True
    )
    for axes, ((problem,), points) in zip(panels, problems, strict=True):
        for number, ((algorithm,), line) in enumerate(lines_of(points, "algorithm")):
            label = _ALGORITHMS.get(algorithm, algorithm)
            _curve(axes, line, "changes", color=COLOURS[number], label=label)
            axes.plot(column(line, "rows"), column(line, "bound"), color=COLOURS[number], **_BOUND)
        axes.set(xscale="log", yscale="log", title=problem, ylabel="changes", ylim=(1.0, axes.get_ylim()[1]))
        _decades(axes)
    panels[-1].set_xlabel("rows n")
    panels[0].plot([], [], color="0.3", label="bound", **_BOUND)
    _legend(figure, panels[0], 3)
    return figure


# -- average sensitivity -----------------------------------------------------------------------------------


_PAIRS = (("Uniform", "Leverage"), ("RidgeLeverage", "Sensitivity, Lewis"), ("Clustering", "Clustering, two stages"))


def sensitivity(records: list[Record]) -> Any:
    """Two coresets a line of panels: over the number of rows on the left, over 1 / epsilon on the right."""
    figure, panels = pyplot().subplots(len(_PAIRS), 2, figsize=(_WIDTH, 7.2), layout="constrained", sharey="row")
    middle = max({r["rows"] for r in records}, key=lambda n: sum(r["rows"] == n for r in records))
    common = max({r["epsilon"] for r in records}, key=lambda e: sum(r["epsilon"] == e for r in records))
    for (left, right), names in zip(panels, _PAIRS, strict=True):
        for number, name in enumerate(names):
            own = [record for record in records if record["coreset"] == name]
            over_rows = sorted((r for r in own if r["epsilon"] == common), key=lambda r: r["rows"])
            over_epsilon = sorted((r for r in own if r["rows"] == middle), key=lambda r: -r["epsilon"])
            style = {"color": COLOURS[number], "label": name}
            _interval(left, column(over_rows, "rows"), over_rows, style)
            _interval(right, 1 / column(over_epsilon, "epsilon"), over_epsilon, style)
        for axes in (left, right):
            axes.set(xscale="log", yscale="log", ylim=(1e-3, 1.2))
            _decades(axes, "x")
        left.set_ylabel("average sensitivity")
        left.legend(frameon=False, handlelength=1.2, loc="lower left")
    panels[0, 0].set_title(rf"$\epsilon = {common:g}$")
    panels[0, 1].set_title(f"n = {middle:,}")
    panels[-1, 0].set_xlabel("rows n")
    panels[-1, 1].set_xlabel(r"$1 / \epsilon$")
    handles = [pyplot().Line2D([], [], color="0.3", label="bound", **_BOUND)]
    figure.legend(handles=handles, loc="outside lower center", frameon=False)
    return figure


def _interval(axes: Any, x: Any, points: list[Record], style: dict[str, Any]) -> None:
    mean, low, high = (column(points, name) for name in ("sensitivity", "low", "high"))
    axes.plot(x, np.where(mean > 0, mean, np.nan), "o-", markersize=3, linewidth=1.4, **style)
    axes.fill_between(x, np.maximum(low, 1e-9), high, color=style["color"], alpha=0.18, linewidth=0)
    axes.plot(x, column(points, "bound"), color=style["color"], **_BOUND)


FIGURES: dict[str, tuple[str, Callable[[list[Record]], Any]]] = {
    "regret": ("regret", regret),
    "regret_sweeps": ("regret", sweeps),
    "changes": ("changes", changes),
    "sensitivity": ("sensitivity", sensitivity),
}
"""The table and the function of each picture."""
