"""What a person sees: a live line while rows come in, a short table at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.text import Text

from batch2online.cli import terminal
from batch2online.cli.run.learning import LearningLoop


class LiveLine:
    """The live line: rows, rows a second, loss against hindsight, changes."""

    def __init__(self, live: Live | None, name: str) -> None:
        self._live, self._name = live, name
        self._started = self._shown = time.monotonic()

    def __call__(self, learner: LearningLoop) -> None:
        now = time.monotonic()
        if self._live is not None and now - self._shown >= 0.1:
            self._shown = now
            self._live.update(self._line(learner, now - self._started), refresh=True)

    def _line(self, learner: LearningLoop, seconds: float) -> Text:
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f" {learner.rows:,} rows", style="bold")
        line.append(f"  {learner.rows / seconds:,.0f} rows/s", style="dim")
        last = learner.recorder.last
        if last is not None and learner.rows >= learner.resumed_at:
            line.append(f"  loss {_ratio(last['loss'], last['optimum'])} times hindsight", style="cyan")
            line.append(f"  {last['changes']} changes")
        else:
            line.append("  reading what was learned before", style="dim")
        line.append_text(terminal.shown(f"  {self._name}", style="dim"))
        return line

    def rate(self, rows: int) -> float:
        """Rows a second since the start."""
        return rows / max(time.monotonic() - self._started, 1e-9)


@contextmanager
def live_line(name: str, quiet: bool) -> Iterator[LiveLine]:
    """Show a live line on standard error, where that is a terminal."""
    console = terminal.console(stderr=True)
    if quiet or not console.is_terminal:
        yield LiveLine(None, name)
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield LiveLine(live, name)


def show_result(result: dict[str, Any], best: str, rate: float | None, report_path: str | None) -> None:
    """Print the closing table; the loss is compared with the best of what ``best`` names."""
    rows = list(_lines(result, best, rate))
    if report_path is not None:
        rows.append(("report", terminal.shown(report_path, style="cyan")))
    screen = terminal.console(soft_wrap=True)
    screen.print()
    screen.print(terminal.pairs(rows))
    screen.print()


def _lines(result: dict[str, Any], best: str, rate: float | None) -> Iterator[tuple[str, Text | str]]:
    yield "model", f"{result['title']} from {result['source']}"
    dropped = f", {result['rows_dropped']:,} more left out" if result["rows_dropped"] else ""
    speed = f" at {rate:,.0f} rows/s" if rate else ""
    yield "rows", f"{result['rows']:,}{speed}{dropped}"
    yield "loss online", Text.assemble((_ratio(result["loss"], result["optimum"]), "bold"), f" times the best {best}")
    yield "last model", Text.assemble((f"{result['last_model']['ratio']:.4f}", "bold"), " times the best, on all rows")
    yield "changes", Text.assemble((f"{result['changes']:,}", "bold"), _last_change(result))
    share = result["coreset_size"] / max(1, result["rows"])
    yield "coreset", f"{result['coreset_size']:,} rows, {share:.1%} of all"


def _last_change(result: dict[str, Any]) -> str:
    at = result.get("last_change")
    return f" of the model, the last at row {at:,}" if at else " of the model"


def _ratio(loss: float, optimum: float) -> str:
    return f"{loss / optimum:.4f}" if optimum > 0 else "1.0000" if loss == 0 else "infinite"
