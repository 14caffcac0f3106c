"""What a person sees at the end of a run: a headline and a short table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batch2online.app.cli import terminal
from batch2online.app.cli.run.recorder import ratio_text


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
