"""The progress line of a run (rows, rows per second, time left, loss, changes), and the summary at its end."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from batch2online.app.cli import terminal
from batch2online.app.cli.run.cluster import ClusterRun
from batch2online.app.cli.run.loop import LearningLoop
from batch2online.app.cli.run.result import format_ratio

_RECENT = 5.0
_PER_SECOND = 8


def show_result(result: dict[str, Any], rate: float, report_path: str | None) -> None:
    """Print the headline and the summary of a run."""
    dropped = f", {result['rows_dropped']:,} more dropped" if result["rows_dropped"] else ""
    share = result["coreset_size"] / max(1, result["rows"])
    lines: list[tuple[str, terminal.Value]] = [
        ("model", terminal.unbroken(f"{result['title']} from {result['source']}")),
        ("rows", f"{result['rows']:,} at {rate:,.0f} rows/s{dropped}"),
        ("final model", f"loss {format_ratio(result['last_model']['ratio'])}, on {result['regret_of']}"),
        ("coreset", f"{result['coreset_size']:,} rows, {share:.1%} of all"),
    ]
    if report_path is not None:
        lines.append(("report", terminal.unbroken(report_path, style="cyan")))
    screen = terminal.console(soft_wrap=True)
    screen.print()
    screen.print(terminal.printable(f" {result['headline']}", style="bold"))
    screen.print()
    terminal.print_paragraphs(terminal.pairs(lines), screen)
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
        self._live: Live | None = None

    def __call__(self, learner: LearningLoop | ClusterRun, fraction: float | None = None) -> None:
        """Update the line; ``fraction`` is the part of the input that has been learned, if that is known."""
        is_first, self._learner, self.fraction = self._learner is None, learner, fraction
        now = time.monotonic()
        self._counts.append((now, learner.rows))
        while len(self._counts) > 2 and self._counts[1][0] < now - _RECENT:
            self._counts.popleft()
        if is_first and self._live is not None:
            self._live.refresh()

    def note(self, note: str) -> None:
        """Print a note above the line."""
        if not self._is_quiet:
            console = terminal.console(stderr=True, soft_wrap=True) if self._live is None else self._live.console
            console.print(terminal.printable(f"Note: {note}.", style="dim"))

    def end(self) -> None:
        """Remove the line."""
        if self._live is not None:
            self._live.stop()

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
        line = Table.grid(padding=(0, 2), pad_edge=True)
        cells = list(self._cells())
        for _ in cells:
            line.add_column(no_wrap=True, overflow="ellipsis")
        line.add_row(*cells)
        return line

    def _cells(self) -> Iterator[Any]:
        learner, fraction = self._learner, self.fraction
        spent = time.monotonic() - self._started
        if learner is None:
            yield Text(f"waiting for rows, {spent:.0f} s", style="dim")
        else:
            yield Text(f"{learner.rows:,} rows", style="bold")
            yield Text(f"{self.recent_rate():,.0f} rows/s", style="dim")
            if fraction:
                yield ProgressBar(total=1.0, completed=min(1.0, fraction), width=16)
                yield Text(f"{fraction:.0%}, {_duration(spent * (1 / fraction - 1))} left", style="dim")
            yield from _losses(learner)
        yield terminal.printable(self._name, style="dim")


def _losses(learner: LearningLoop | ClusterRun) -> Iterator[Text]:
    last = learner.recorder.last
    if learner.rows < learner.resumed_at:
        yield Text("reading rows learned before", style="dim")
    elif last is not None:
        weighted = f", half-life {last['half_life']:,}" if last.get("half_life") else ""
        yield Text(f"loss {format_ratio(last['ratio'])}{weighted}", style="cyan")
        yield Text(f"{last['changes']} changes")


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
    console = terminal.console(stderr=True)
    line = ProgressLine(name, quiet)
    if quiet or not console.is_terminal:
        yield line
        return
    with Live(line, console=console, transient=True, refresh_per_second=_PER_SECOND) as live:
        line._live = live
        yield line
