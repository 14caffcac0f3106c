"""``batch2online paper``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from batch2online.app.cli import terminal
from batch2online.app.cli.files import json_text
from batch2online.paper.figure import paper_figure
from batch2online.paper.theorems import slopes, theorem_figures


def paper(
    out: Path, theorems: bool, full: bool, quick: bool, rows: int | None, seeds: int | None, jobs: int, as_json: bool
) -> None:
    """Run the experiment of the paper, or measure its theorems."""
    if theorems:
        measure_theorems(out, quick, rows, seeds or (3 if quick else 5), jobs, as_json)
    else:
        repeat_experiment(out, full, rows, seeds or (5 if full else 3), jobs, as_json)


def repeat_experiment(out: Path, full: bool, rows: int | None, seeds: int, jobs: int, as_json: bool) -> None:
    """Run the experiment of the paper, draw its figure, and print the final loss and regret of each curve."""
    progress = sys.stderr.isatty() and not as_json
    figure = paper_figure(out, quick=not full, rows=rows, seeds=seeds, jobs=jobs, progress=progress)
    if as_json:
        click.echo(json_text(figure.table))
        return
    screen = terminal.console(soft_wrap=True)
    screen.print()
    screen.print(_table(figure.table))
    screen.print("\n  Loss / optimum in hindsight, with the regret in parentheses.", style="dim")
    path = terminal.printable(figure.png, style="cyan")
    screen.print(Text.assemble("\n  figure  ", path, ", also as .svg and .csv\n"))


def _table(lines: list[dict[str, Any]]) -> Table:
    """Return a table with a line for each panel and epsilon, and a column for each algorithm."""
    algorithms = list(dict.fromkeys(line["algorithm"] for line in lines))
    table = terminal.listing("problem", "data", padding=1)
    for head in ("epsilon", *algorithms):
        table.add_column(head, justify="right")
    cells: dict[tuple[str, str, str], list[str]] = {}
    for line in lines:
        key = (line["problem"], line["data"], f"{line['epsilon']:g}")
        cells.setdefault(key, []).append(f"{line['ratio']:.4f} ({line['regret']:,.0f})")
    for key, values in cells.items():
        table.add_row(*key, *values)
    return table


def measure_theorems(out: Path, quick: bool, rows: int | None, seeds: int, jobs: int, as_json: bool) -> None:
    """Measure regret, changes and average sensitivity, draw them, and print the slope and the bound of each regret."""
    progress = sys.stderr.isatty() and not as_json
    figures = theorem_figures(out, quick=quick, rows=rows, seeds=seeds, jobs=jobs, progress=progress)
    lines = slopes(figures.regret)
    if as_json:
        click.echo(json_text(lines))
        return
    screen = terminal.console(soft_wrap=True)
    screen.print()
    screen.print(_slopes(lines))
    screen.print(
        "\n  Slope: log-log, of the regret over the last decade. Bound: of the approximate regret, and of the regret"
        " itself for auto and exact.",
        style="dim",
    )
    names = ", ".join(path.name for path in figures.files)
    screen.print(Text.assemble("\n  figures  ", terminal.printable(out, style="cyan"), f": {names}\n"))


def _slopes(lines: list[dict[str, Any]]) -> Table:
    names = ("problem", "d", "k", "z", "epsilon", "rows")
    table = terminal.listing("problem", padding=1)
    for head in (*names[1:], "regret", "slope", "bound"):
        table.add_column(head, justify="right")
    for line in lines:
        own = [f"{line[name]:,}" if isinstance(line[name], int) else str(line[name]) for name in names]
        bound = "" if line["bound"] != line["bound"] else f"{line['bound']:,.0f}"
        table.add_row(*own, f"{line['regret']:,.0f}", f"{line['slope']:.2f}", bound)
    return table
