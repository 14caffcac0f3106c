"""What commands print with. A name, a value or a path is text: it is never read as markup or as a control sequence."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from batch2online.report.text import visible


def console(*, stderr: bool = False, soft_wrap: bool = False) -> Console:
    """Return a console that takes strings as they are."""
    return Console(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)


def shown(text: object, style: str = "") -> Text:
    """Return a text of any origin, safe to print."""
    return Text(visible(text), style=style)


def pairs(rows: list[tuple[str, Text | str]]) -> Table:
    """Names and values, without lines."""
    table = Table.grid(padding=(0, 2), pad_edge=True)
    table.add_column(style="dim", justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(shown(name), value if isinstance(value, Text) else shown(value))
    return table


def listing(*heads: str, padding: int = 2) -> Table:
    """Return an empty table with a head, without lines; further columns are added by the caller."""
    table = Table(box=None, padding=(0, padding), header_style="dim")
    for head in heads:
        table.add_column(shown(head), no_wrap=True)
    return table


def print_apart(*tables: Table) -> None:
    """Print tables with a blank line before, between and after them."""
    screen = console()
    for table in tables:
        screen.print()
        screen.print(table)
    screen.print()
