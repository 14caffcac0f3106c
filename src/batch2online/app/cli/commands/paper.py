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
from batch2online.evaluate.paper import paper_figure


def paper(out: Path, full: bool, rows: int | None, seeds: int, jobs: int, as_json: bool) -> None:
    """Run the experiment of the paper, draw its figure, and print the final loss and changes of each curve."""
    progress = sys.stderr.isatty() and not as_json
    figure = paper_figure(out, quick=not full, rows=rows, seeds=seeds, jobs=jobs, progress=progress)
    if as_json:
        click.echo(json_text(figure.table))
        return
    screen = terminal.console(soft_wrap=True)
    screen.print()
    screen.print(_table(figure.table))
    screen.print("\n  Loss / optimum in hindsight, with the number of model changes in parentheses.", style="dim")
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
        cells.setdefault(key, []).append(f"{line['ratio']:.4f} ({line['changes']:,.0f})")
    for key, values in cells.items():
        table.add_row(*key, *values)
    return table
