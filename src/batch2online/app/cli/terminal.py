"""Terminal output: tables and paragraphs, and the progress line and summary of a run.

Strings are printed literally, never interpreted as markup or control sequences.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from batch2online.app.report.formatting import visible
from batch2online.headline import HUGE, count_of

if TYPE_CHECKING:
    from batch2online.app.cli.run.cluster import ClusterRun
    from batch2online.app.cli.run.loop import LearningLoop

_RECENT = 5.0
_PER_SECOND = 8
_BAR = 8
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
        words = (value.plain,) if value.no_wrap else _words(value.plain)
        return Paragraph(words, before, str(value.style))
    if isinstance(value, str):
        return Paragraph(_words(visible(value)), before)
    return Paragraph((*(f"{visible(part)}," for part in value[:-1]), *map(visible, value[-1:])), before)


def _words(sentence: str) -> tuple[str, ...]:
    """Return the words of a sentence; a number and its percent sign are one."""
    return tuple(re.split(" (?!%)", sentence))


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


def format_ratio(ratio: float) -> str:
    """Return the ratio of a loss to the optimum as a string.

    >>> format_ratio(1.02), format_ratio(float("nan"))
    ('1.0200 times the optimum', 'with an exact fit in hindsight')
    """
    return f"{ratio:.4f} times the optimum" if ratio <= HUGE else "with an exact fit in hindsight"


def show_result(result: dict[str, Any], rate: float, report_path: str | None) -> None:
    """Print the headline and the summary of a run."""
    dropped = f", {result['rows_dropped']:,} more dropped" if result["rows_dropped"] else ""
    share = result["coreset_size"] / max(1, result["rows"])
    lines: list[tuple[str, Value]] = [
        *result["summary"].items(),
        ("model", unbroken(f"{result['title']} from {result['source']}")),
        ("rows", f"{result['rows']:,} at {rate:,.0f} rows/s{dropped}"),
        ("final model", f"loss {format_ratio(result['last_model']['ratio'])}, on {result['regret_of']}"),
        ("coreset", f"{count_of(result['coreset_size'], 'row')}, {share:.1%} of all"),
    ]
    if report_path is not None:
        lines.append(("report", unbroken(report_path, style="cyan")))
    screen = console(soft_wrap=True)
    screen.print()
    about = ": ".join(part for part in (result["settings"].get("target"), result["verdict"]) if part)
    if about:
        print_paragraphs([paragraph(printable(about, style="bold"), Text(" "))], screen)
        screen.print()
    print_paragraphs(pairs(lines), screen)
    screen.print()


class ProgressLine:
    """The progress line. A thread draws it, so that it moves during a long step.

    Parameters
    ----------
    name : str
        Name of the input.
    quiet : bool
        Whether to print nothing.
    """

    def __init__(self, name: str, quiet: bool = False) -> None:
        self._name, self._is_quiet = name, quiet
        self._learner: LearningLoop | ClusterRun | None = None
        self._started = time.monotonic()
        self._counts: deque[tuple[float, int]] = deque()
        self.fraction: float | None = None
        self.live: Live | None = None

    def __call__(self, learner: LearningLoop | ClusterRun, fraction: float | None = None) -> None:
        """Update the line; ``fraction`` is the part of the input that has been learned, if that is known."""
        is_first, self._learner, self.fraction = self._learner is None, learner, fraction
        now = time.monotonic()
        self._counts.append((now, learner.rows))
        while len(self._counts) > 2 and self._counts[1][0] < now - _RECENT:
            self._counts.popleft()
        if is_first and self.live is not None:
            self.live.refresh()

    def note(self, note: str) -> None:
        """Print a note above the line."""
        if not self._is_quiet:
            screen = console(stderr=True, soft_wrap=True) if self.live is None else self.live.console
            screen.print(printable(f"Note: {note}.", style="dim"))

    def end(self) -> None:
        """Remove the line."""
        if self.live is not None:
            self.live.stop()

    def rate(self, rows: int) -> float:
        """Return the rows per second since the start."""
        return rows / max(time.monotonic() - self._started, 1e-9)

    def recent_rate(self) -> float:
        """Return the rows per second of the last seconds."""
        (since, before), (_, rows) = self._counts[0], self._counts[-1]
        if len(self._counts) == 1:
            return self.rate(rows)
        return (rows - before) / max(time.monotonic() - since, 1e-9)

    def __rich__(self) -> Any:
        line = Table.grid(padding=(0, 2, 0, 0))
        cells = [Text(), *self._cells()]
        for cell in cells:  # a narrow terminal cuts the line at its end
            line.add_column(no_wrap=True, min_width=cell.cell_len if isinstance(cell, Text) else _BAR)
        line.add_row(*cells)
        return line

    def _cells(self) -> Iterator[Any]:
        learner, fraction = self._learner, self.fraction
        spent = time.monotonic() - self._started
        if learner is None:
            yield Text(f"waiting for rows, {spent:.0f} s", style="dim")
        else:
            yield Text(f"{learner.rows:,} rows", style="bold")
            yield Text(f"{self.recent_rate():,.0f}/s", style="dim")
            if fraction:
                yield ProgressBar(total=1.0, completed=min(1.0, fraction), width=_BAR)
                yield Text(f"{fraction:.0%}, {_duration(spent * (1 / fraction - 1))} left", style="dim")
            yield from _losses(learner)
        yield printable(self._name, style="dim")


def _losses(learner: LearningLoop | ClusterRun) -> Iterator[Text]:
    last = learner.recorder.last
    if learner.rows < learner.resumed_at:
        yield Text("reading rows learned before", style="dim")
    elif last is not None:
        weighted = f", half-life {last['half_life']:,}" if last.get("half_life") else ""
        ratio = f"{last['ratio']:.4f} x optimum" if last["ratio"] <= HUGE else "exact fit in hindsight"
        yield Text(f"{ratio}{weighted}", style="cyan")
        yield Text(count_of(last["changes"], "change"))


def _duration(seconds: float) -> str:
    """Return a time as minutes and seconds.

    >>> _duration(75.2), _duration(7300)
    ('1:15', '2:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def progress_line(name: str, quiet: bool) -> Iterator[ProgressLine]:
    """Show a progress line on standard error if that is a terminal."""
    screen = console(stderr=True)
    line = ProgressLine(name, quiet)
    if quiet or not screen.is_terminal:
        yield line
        return
    with Live(line, console=screen, transient=True, refresh_per_second=_PER_SECOND) as live:
        line.live = live
        yield line
