"""``batch2online check``."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from batch2online._types import FloatArray
from batch2online.app.cli import tasks, terminal
from batch2online.app.cli.files import json_text
from batch2online.app.cli.run.source import open_input
from batch2online.app.cli.settings import Settings
from batch2online.app.cli.tasks.builtin import RegressionTask
from batch2online.drift.order_monitor import FREEZES, Monitor, OrderVerdict
from batch2online.frames.columns import ColumnType
from batch2online.labels import encoded
from batch2online.rows import Rows, ones


class _AnyTarget(RegressionTask):
    """A target of numbers or of text."""

    labels = frozenset({ColumnType.STRING})


def check(path: str, as_json: bool, target: str | None, **given: Any) -> None:
    """Print whether the rows of a file come in random order."""
    # Levels of text come from rows that are not ranked: what a later row is encoded as depends on itself alone.
    settings = Settings(
        task="lowrank" if target is None else "regression",
        k=1,
        target=target,
        lookahead=FREEZES[0][1],
        **given,
    )
    verdict = verdict_of(path, settings)
    if as_json:
        click.echo(json_text(as_dict(verdict)))
    else:
        terminal.print_apart(terminal.pairs(_lines(verdict)))


def verdict_of(path: str, settings: Settings) -> OrderVerdict:
    """Return the verdict on the rows of a file, which are read once and not kept."""
    task = tasks.task_for(settings) if settings.target is None else _AnyTarget(settings)
    stream = open_input([path], None, task).stream
    monitor: Monitor | None = None
    for points, targets in stream.chunks():
        values = _values(points, targets)
        monitor = monitor or Monitor.new(points.shape[1], values.shape[1])
        ids = np.arange(monitor.rows, monitor.rows + len(points))
        monitor = monitor.after(Rows(points, values, ones(len(ids)), ids), settings.seed)
    if monitor is None:
        raise stream.nothing_left()
    return monitor.verdict()


def _values(points: FloatArray, targets: Any) -> FloatArray:
    """Targets (n, m) as numbers; each label has its own, as classifiers have it."""
    if targets is None:
        return np.empty((len(points), 0))
    return (targets if targets.dtype.kind == "f" else encoded(targets, {})[0])[:, None]


def as_dict(verdict: OrderVerdict) -> dict[str, Any]:
    """Return the verdict as JSON knows it."""
    return {
        "order": verdict.sentence(),
        "rows": verdict.rows,
        "evidence": verdict.evidence,
        "alarm": verdict.alarm,
        "score": verdict.score,
        "scores": verdict.scores,
        "curve": [list(point) for point in zip(verdict.curve_rows.tolist(), verdict.curve.tolist(), strict=True)],
    }


def _lines(verdict: OrderVerdict) -> list[tuple[str, terminal.Value]]:
    shown = f", shown most clearly by the {verdict.score}" if verdict.score else ""
    return [
        ("order", verdict.sentence()),
        ("rows", f"{verdict.rows:,}"),
        ("evidence", f"{verdict.told} against random order at its highest{shown}; 1e3 raises an alarm"),
    ]
