"""``batch2online compare``."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any

import click
import numpy as np

from batch2online import evaluate
from batch2online._types import FloatArray
from batch2online.app.cli import terminal
from batch2online.app.cli.run.source import encoded, open_input
from batch2online.app.cli.settings import Settings
from batch2online.app.cli.tasks import Task
from batch2online.app.inputs import DataError
from batch2online.baselines import FollowTheLeader
from batch2online.baselines.peers import COMPARE, OURS, PEERS, Peer, PeerSettings, learners, of_loss
from batch2online.headline import HUGE

_SCALE = 0.1
"""Scale of the Huber loss, for targets of standard deviation 1."""


def competitors(task: Task, X: FloatArray, y: Any) -> dict[str, Any]:
    """Return learners by name, ours first; a uniform sample has as many rows as our coreset of these rows."""
    ours, settings = task.estimator(), task.settings
    if task.is_wrapped:
        return {OURS: ours, "refit on all rows, at doublings": FollowTheLeader(task.batch(), growth=2.0)}
    size = max(1, len(task.estimator().partial_fit(X, *(() if y is None else (y,))).coreset_))
    if task.loss not in (None, "squared"):
        return {OURS: ours, **of_loss(task.loss, size, **settings.given("quantile", "power", "delta"))}
    n_classes = len(np.unique(y)) if settings.task == "classification" else 0
    facts = PeerSettings(k=settings.learner.get("k", n_classes), size=size)
    return {OURS: ours, **learners(settings.task, facts, COMPARE, peers=(*PEERS, *_installed_peers()))}


def loss_of(task: Task) -> Any:
    """Return the loss by which learners are compared, as ``evaluate.prequential`` accepts it."""
    settings = task.settings
    if settings.task == "classification":
        return evaluate.losses.LogarithmicLoss()
    if settings.task == "clustering":
        return ("kmeans", settings.learner.get("z", 2.0))
    if settings.task == "lowrank":
        return "lowrank"
    if settings.task != "regression":
        raise DataError(f"--task {settings.task} has no other learners to compare with.")
    if task.loss in (None, "squared"):
        return "squared"
    given = settings.given("loss", "alpha", "l1_ratio", "quantile", "power", "delta")
    return evaluate.losses.of_regression(scale=_SCALE, **given)


def comparable(task: Task, X: FloatArray, y: Any) -> tuple[FloatArray, Any]:
    """Return the rows in a form that suits every learner.

    Labels are numbers from 0. Targets of a regression are standardized, as gradient methods need it, those with a
    domain only scaled. Rows of a low-rank problem are centered, as IncrementalPCA centers them.
    """
    if task.settings.task == "classification":
        labels, codes = np.unique(y, return_inverse=True)
        if len(labels) < 2:
            raise DataError(f"All rows have the same {task.settings.target}: two classes are needed.")
        return X, codes.astype(np.float64)
    if task.settings.task == "lowrank":
        return X - X.mean(axis=0), y
    if task.settings.task != "regression" or task.is_wrapped:
        return X, y
    return X, y / (y.mean() or 1.0) if math.isfinite(task.least_target) else (y - y.mean()) / (y.std() or 1.0)


def _installed_peers() -> list[Peer]:
    """Return the peers of installed packages: entry points of the group ``batch2online.peers``."""
    return [entry.load() for entry in entry_points(group="batch2online.peers")]


def compare(
    files: Sequence[str], dataset: str | None, seeds: int, chunk: int | None, as_json: bool, **given: Any
) -> None:
    """Stream the same rows through our learner and others, and print the loss of each."""
    task = Task.of(Settings.written(given), dataset)
    settings = task.settings
    reading = _for_reading(task)
    stream = open_input(files, dataset, reading)
    name, parts = stream.name, list(encoded(stream, reading.column_options(), reading.has_intercept))
    if not parts:
        raise stream.no_rows_error()
    targets = None if parts[0][1] is None else np.concatenate([part[1] for part in parts])
    X, y = comparable(task, np.concatenate([part[0] for part in parts]), targets)
    chunk = chunk or max(1, min(1000, len(X) // 10))
    if len(X) < 2 * chunk:
        raise DataError(f"{name} has {len(X):,} rows, too few for chunks of {chunk:,}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # learners that do not converge are shown as they are
        result = evaluate.prequential(
            competitors(task, X, y),
            X,
            y,
            loss=loss_of(task),
            order=settings.order,
            seeds=seeds,
            chunk=chunk,
            warmup=chunk,
            progress=sys.stderr.isatty() and not as_json,
        )
    if as_json:
        click.echo(result.to_json())
    else:
        orders = "1 seed" if seeds == 1 else f"{seeds} seeds"
        about = [name, f"{len(X):,} rows", f"{settings.order} order", orders, f"chunks of {chunk:,}"]
        _show(result, about, has_labels=settings.task == "clustering")


def _for_reading(task: Task) -> Task:
    """Return the task with settings to read all rows in order; features are standardized for gradient methods."""
    standardize = task.settings.standardize or task.has_targets
    settings = replace(task.settings, standardize=standardize, lookahead=sys.maxsize, order="given")
    return replace(task, settings=settings)


def _show(result: Any, about: list[str], has_labels: bool = False) -> None:
    """Print the table; for clusters also how often the label of a row changes in all."""
    table = terminal.listing("model")
    labels = ("churn",) if has_labels else ()
    for head in ("loss / optimum", "changes", *labels, "rows/s"):
        table.add_column(head, justify="right", no_wrap=True)
    for line in result.summary():
        style = "bold" if line["model"] == OURS else ""
        ratio = f"{line['ratio']:.4f}" if line["ratio"] <= HUGE else "exact fit in hindsight"
        moved = (f"{line['churn']:.2f}",) if has_labels else ()
        cells = (ratio, f"{line['changes']:,.0f}", *moved, f"{line['rows_per_second']:,.0f}")
        table.add_row(terminal.printable(line["model"]), *cells, style=style)
    screen = terminal.console()
    screen.print()
    screen.print(table)
    note = "Losses and changes of every model are counted per chunk, from the second chunk on."
    note += " Churn: how often the label of a row changes, in all." if has_labels else ""
    screen.print()
    terminal.print_paragraphs([terminal.paragraph(about), terminal.paragraph(note)], screen)
    screen.print()
