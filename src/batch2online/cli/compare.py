"""``batch2online compare``."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from batch2online import evaluate
from batch2online._types import FloatArray
from batch2online.cli.rivals import OURS, contestants, loss_for
from batch2online.cli.run import open_input
from batch2online.cli.settings import Settings
from batch2online.cli.stream import Chunk, open_stream
from batch2online.readers import DataError


@dataclass(frozen=True)
class Trial:
    """How learners are compared."""

    seeds: int = 5
    chunk: int | None = None
    json: bool = False


def compare(path: str | None, dataset: str | None, settings: Settings, trial: Trial) -> None:
    """Stream the same rows through our learner and its rivals, and print what each cost."""
    reading = _reading(settings, is_file=path is not None)
    source, name = open_input(path, dataset, reading)
    X, y = _all_rows(open_stream(source, name, reading).chunks())
    X, y = _fair(X, y, settings.task)
    chunk = trial.chunk or max(1, min(1000, len(X) // 10))
    if len(X) < 2 * chunk:
        raise DataError(f"{name} has {len(X):,} rows, too few for chunks of {chunk:,}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rivals that do not converge are to be shown as they are
        result = evaluate.prequential(
            contestants(settings),
            X,
            y,
            loss=loss_for(settings),
            order=settings.order,
            seeds=trial.seeds,
            chunk=chunk,
            warmup=chunk,
            progress=sys.stderr.isatty() and not trial.json,
        )
    if trial.json:
        click.echo(result.to_json())
    else:
        _show(result, f"{name}, {len(X):,} rows, {settings.order} order, {trial.seeds} seeds, chunks of {chunk:,}")


def _all_rows(chunks: Any) -> Chunk:
    parts = list(chunks)
    targets = [part[1] for part in parts]
    rows = np.concatenate([part[0] for part in parts])
    return rows, None if targets[0] is None else np.concatenate(targets)


def _reading(settings: Settings, is_file: bool) -> Settings:
    """Read all rows as they stand; numbers of a regression standardised, which gradient methods need."""
    standardize = settings.standardize or (is_file and settings.task == "regression")
    return replace(settings, standardize=standardize, lookahead=sys.maxsize, order="given")


def _fair(X: FloatArray, y: FloatArray | None, task: str) -> Chunk:
    """Targets standardised too; columns of a low rank problem centred, as IncrementalPCA does anyway."""
    if y is not None:
        return X, np.asarray((y - y.mean()) / (y.std() or 1.0))
    return (X - X.mean(axis=0) if task == "lowrank" else X), None


def _show(result: Any, about: str) -> None:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("model")
    for head in ("loss / hindsight", "changes", "rows/s"):
        table.add_column(head, justify="right", no_wrap=True)
    for line in result.summary():
        style = "bold" if line["model"] == OURS else ""
        cells = (f"{line['ratio']:.4f}", f"{line['changes']:,.0f}", f"{line['rows_per_second']:,.0f}")
        table.add_row(line["model"], *cells, style=style)
    console = Console(highlight=False)
    console.print()
    console.print(table)
    note = f"{about}; the first chunk is learned, not scored."
    console.print(Padding(note, (1, 2), style="dim"))
