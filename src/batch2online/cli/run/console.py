"""What a person sees at the end of a run: a short table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from batch2online.cli import terminal
from batch2online.cli.run.recorder import ratio_text


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
    yield (
        "loss online",
        Text.assemble((ratio_text(result["loss"], result["optimum"]), "bold"), f" times the best {best}"),
    )
    yield "last model", Text.assemble((f"{result['last_model']['ratio']:.4f}", "bold"), " times the best, on all rows")
    yield "changes", Text.assemble((f"{result['changes']:,}", "bold"), _last_change(result))
    share = result["coreset_size"] / max(1, result["rows"])
    yield "coreset", f"{result['coreset_size']:,} rows, {share:.1%} of all"


def _last_change(result: dict[str, Any]) -> str:
    at = result.get("last_change")
    return f" of the model, the last at row {at:,}" if at else " of the model"
