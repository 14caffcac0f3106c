"""The live line of a run (rows, rows a second, time left, loss, changes), and the table at its end."""

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
from batch2online.app.cli.run.result import ratio_text


def show_result(result: dict[str, Any], rate: float | None, report_path: str | None) -> None:
    """Print the headline and the closing table."""
    rows = list(_lines(result, rate))
    if report_path is not None:
        rows.append(("report", terminal.unbroken(report_path, style="cyan")))
    screen = terminal.console(soft_wrap=True)
    screen.print()
    screen.print(terminal.shown(f" {result['headline']}", style="bold"))
    screen.print()
    terminal.print_paragraphs(terminal.pairs(rows), screen)
    screen.print()


def _lines(result: dict[str, Any], rate: float | None) -> Iterator[tuple[str, terminal.Value]]:
    yield "model", terminal.unbroken(f"{result['title']} from {result['source']}")
    dropped = f", {result['rows_dropped']:,} more left out" if result["rows_dropped"] else ""
    speed = f" at {rate:,.0f} rows/s" if rate else ""
    yield "rows", f"{result['rows']:,}{speed}{dropped}"
    yield "last model", f"loss {ratio_text(result['last_model']['ratio'])}, on {result['regret_of']}"
    share = result["coreset_size"] / max(1, result["rows"])
    yield "coreset", f"{result['coreset_size']:,} rows, {share:.1%} of all"


_RECENT = 5.0
_PER_SECOND = 8


class LiveLine:
    """What stands in the live line. It is drawn by a clock of its own, so it moves while a long step is under way.

    Parameters
    ----------
    name : str
        What the input is called.
    quiet : bool
        Whether nothing is to be said.
    """

    def __init__(self, name: str, quiet: bool = False) -> None:
        self._name, self._is_quiet = name, quiet
        self._learner: LearningLoop | ClusterRun | None = None
        self._started = time.monotonic()
        self._counts: deque[tuple[float, int]] = deque()
        self.share: float | None = None
        self._live: Live | None = None

    def __call__(self, learner: LearningLoop | ClusterRun, share: float | None = None) -> None:
        """Take note of where the run is, and which share of the input has been read, where that is known."""
        is_first, self._learner, self.share = self._learner is None, learner, share
        self._count(time.monotonic(), learner.rows)
        if is_first and self._live is not None:
            self._live.refresh()

    def say(self, note: str) -> None:
        """Print a note above the line."""
        if not self._is_quiet:
            text = terminal.shown(f"Note: {note}.", style="dim")
            console = terminal.console(stderr=True, soft_wrap=True) if self._live is None else self._live.console
            console.print(text)

    def end(self) -> None:
        """Take the line away."""
        if self._live is not None:
            self._live.stop()

    def _count(self, now: float, rows: int) -> None:
        self._counts.append((now, rows))
        while len(self._counts) > 2 and self._counts[1][0] < now - _RECENT:
            self._counts.popleft()

    def rate(self, rows: int) -> float:
        """Rows a second since the start."""
        return rows / max(time.monotonic() - self._started, 1e-9)

    def recent_rate(self) -> float:
        """Rows a second in the last seconds."""
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
        learner = self._learner
        if learner is None:
            yield Text(f"waiting for rows, {time.monotonic() - self._started:.0f} s", style="dim")
        else:
            yield Text(f"{learner.rows:,} rows", style="bold")
            yield Text(f"{self.recent_rate():,.0f} rows/s", style="dim")
            yield from self._time_left()
            yield from _losses(learner)
        yield terminal.shown(self._name, style="dim")

    def _time_left(self) -> Iterator[Any]:
        share = self.share
        if share:
            spent = time.monotonic() - self._started
            yield ProgressBar(total=1.0, completed=min(1.0, share), width=16)
            yield Text(f"{share:.0%}, {_duration(spent * (1 / share - 1))} left", style="dim")


def _losses(learner: LearningLoop | ClusterRun) -> Iterator[Text]:
    if learner.rows < learner.resumed_at:
        yield Text("reading what was learned before", style="dim")
        return
    last = learner.recorder.last
    if last is not None:
        weighted = f", half-life {last['half_life']:,}" if last.get("half_life") else ""
        yield Text(f"loss {ratio_text(last['ratio'])}{weighted}", style="cyan")
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
def live_line(name: str, quiet: bool) -> Iterator[LiveLine]:
    """Show a live line on standard error, where that is a terminal."""
    console = terminal.console(stderr=True)
    line = LiveLine(name, quiet)
    if quiet or not console.is_terminal:
        yield line
        return
    with Live(line, console=console, transient=True, refresh_per_second=_PER_SECOND) as live:
        line._live = live
        yield line
