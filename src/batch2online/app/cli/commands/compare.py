"""``batch2online compare``."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np

from batch2online import evaluate
from batch2online.app.cli import terminal
from batch2online.app.cli.rivals import OURS, contestants
from batch2online.app.cli.run.inputs import open_input
from batch2online.app.cli.run.stream import Chunk
from batch2online.app.cli.tasks.base import Task
from batch2online.app.inputs import DataError
from batch2online.headline import HUGE


@dataclass(frozen=True)
class Trial:
    """How learners are compared."""

    seeds: int = 5
    chunk: int | None = None
    json: bool = False


def compare(paths: Sequence[str], dataset: str | None, task: Task, trial: Trial) -> None:
    """Stream the same rows through our learner and its rivals, and print what each cost."""
    settings = task.settings
    stream = open_input(paths, dataset, _reading(task)).stream
    name = stream.name
    X, y = task.comparable(*_all_rows(stream.chunks()))
    chunk = trial.chunk or max(1, min(1000, len(X) // 10))
    if len(X) < 2 * chunk:
        raise DataError(f"{name} has {len(X):,} rows, too few for chunks of {chunk:,}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rivals that do not converge are to be shown as they are
        result = evaluate.prequential(
            contestants(settings, X, y),
            X,
            y,
            loss=task.loss(),
            order=settings.order,
            seeds=trial.seeds,
            chunk=chunk,
            warmup=chunk,
            progress=sys.stderr.isatty() and not trial.json,
        )
    if trial.json:
        click.echo(result.to_json())
    else:
        about = [name, f"{len(X):,} rows", f"{settings.order} order", f"{trial.seeds} seeds", f"chunks of {chunk:,}"]
        _show(result, about)


def _all_rows(chunks: Any) -> Chunk:
    parts = list(chunks)
    targets = [part[1] for part in parts]
    rows = np.concatenate([part[0] for part in parts])
    return rows, None if targets[0] is None else np.concatenate(targets)


def _reading(task: Task) -> Task:
    """Return the task set to read all rows as they stand; inputs beside a target are standardised for gradients."""
    standardize = task.settings.standardize or task.has_targets
    settings = replace(task.settings, standardize=standardize, lookahead=sys.maxsize, order="given")
    return replace(task, settings=settings)


def _show(result: Any, about: list[str]) -> None:
    table = terminal.listing("model")
    for head in ("loss / hindsight", "changes", "rows/s"):
        table.add_column(head, justify="right", no_wrap=True)
    for line in result.summary():
        style = "bold" if line["model"] == OURS else ""
        cells = (_ratio(line["ratio"]), f"{line['changes']:,.0f}", f"{line['rows_per_second']:,.0f}")
        table.add_row(terminal.shown(line["model"]), *cells, style=style)
    screen = terminal.console()
    screen.print()
    screen.print(table)
    note = "Losses and changes of all alike are counted from the second chunk on, chunk by chunk."
    screen.print()
    terminal.print_paragraphs([terminal.paragraph(about), terminal.paragraph(note)], screen)
    screen.print()


def _ratio(ratio: float) -> str:
    return f"{ratio:.4f}" if ratio <= HUGE else "exact fit in hindsight"
