"""Printing of tables and paragraphs. Strings are never interpreted as markup or control sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from batch2online.app.report.formatting import visible

Value = Text | str | Sequence[str]
"""A styled string, a string, or items of a list; a ``Text`` with ``no_wrap`` and each item are never wrapped."""


def console(*, stderr: bool = False, soft_wrap: bool = False) -> Console:
    """Return a console that prints strings literally."""
    return Console(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)


def printable(value: object, style: str = "") -> Text:
    """Return a value with control characters escaped."""
    return Text(visible(value), style=style)


def unbroken(value: object, style: str = "") -> Text:
    """Return a value that is never wrapped, such as a path to copy."""
    return Text(visible(value), style=style, no_wrap=True, overflow="ignore")


@dataclass(frozen=True)
class Paragraph:
    """Words after a head, wrapped at the width of the terminal; a longer word is not broken."""

    words: tuple[str, ...]
    head: Text
    style: str = ""

    def __rich_console__(self, screen: Console, options: ConsoleOptions) -> Iterator[Text]:
        head = self.head
        for line in _lines(self.words, options.max_width - self.head.cell_len):
            yield Text.assemble(head, (line, self.style), no_wrap=True, overflow="ignore")
            head = Text(" " * self.head.cell_len)


def _lines(words: Sequence[str], width: int) -> list[str]:
    """Wrap words at this width; a line is longer only if a single word is.

    >>> _lines(["a", "long", "/path/to/a", "file"], 8)
    ['a long', '/path/to/a', 'file']
    """
    lines = [""]
    for word in words:
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_len(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def paragraph(value: Value, head: Text | None = None) -> Paragraph:
    """Return a value as a paragraph, after a head or an indent."""
    before = Text("  ") if head is None else head
    if isinstance(value, Text):
        words = (value.plain,) if value.no_wrap else tuple(value.plain.split(" "))
        return Paragraph(words, before, str(value.style))
    if isinstance(value, str):
        return Paragraph(tuple(visible(value).split(" ")), before)
    return Paragraph((*(f"{visible(part)}," for part in value[:-1]), *map(visible, value[-1:])), before)


def pairs(rows: Sequence[tuple[str, Value]]) -> list[Paragraph]:
    """Return names and values as paragraphs with aligned heads."""
    width = max(cell_len(visible(name)) for name, _ in rows)
    return [paragraph(value, Text(f"  {visible(name):>{width}}  ", style="dim")) for name, value in rows]


def listing(*heads: str, padding: int = 2) -> Table:
    """Return an empty table without borders; the caller may add further columns."""
    table = Table(box=None, padding=(0, padding), header_style="dim")
    for head in heads:
        table.add_column(printable(head), no_wrap=True)
    return table


def print_apart(*parts: Table | list[Paragraph]) -> None:
    """Print tables and paragraphs, separated by blank lines."""
    screen = console()
    for part in parts:
        screen.print()
        if isinstance(part, Table):
            screen.print(part)
        else:
            print_paragraphs(part, screen)
    screen.print()


def print_paragraphs(paragraphs: Sequence[Paragraph], screen: Console) -> None:
    """Print paragraphs without truncating them."""
    for each in paragraphs:
        screen.print(each, soft_wrap=True)
