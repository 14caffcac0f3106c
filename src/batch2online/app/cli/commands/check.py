"""``batch2online check``."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from batch2online.app.cli import terminal
from batch2online.app.cli.files import json_text
from batch2online.app.cli.run.source import encoded as encoded_rows
from batch2online.app.cli.run.source import open_input
from batch2online.app.cli.settings import Settings
from batch2online.app.cli.tasks import Task
from batch2online.drift.order_monitor import FREEZES, OrderMonitor, OrderVerdict
from batch2online.labels import encoded
from batch2online.rows import Rows, ones
from batch2online.tables.columns import ColumnType


class _AnyTarget(Task):
    """A target of numbers or strings."""

    @property
    def labels(self) -> frozenset[ColumnType]:
        return frozenset({ColumnType.STRING})


def check(file: str, as_json: bool, target: str | None, seed: int, **given: Any) -> None:
    """Test whether the rows of a file are in random order, and print the result."""
    # Categories are those of rows that are not ranked, so that the encoding of a later row depends on it alone.
    task = "lowrank" if target is None else "regression"
    learner = {"seed": seed} if target is not None else {"seed": seed, "k": 1}
    settings = Settings.written({"task": task, "target": target, **learner, "lookahead": FREEZES[0][1], **given})
    verdict = verdict_of(file, settings)
    if as_json:
        click.echo(json_text(as_dict(verdict)))
    else:
        strongest = f", strongest in the {verdict.score}" if verdict.score else ""
        lines: list[tuple[str, terminal.Value]] = [
            ("order", verdict.sentence()),
            ("rows", f"{verdict.rows:,}"),
            ("evidence", f"at most {verdict.e_value} against random order{strongest}; 1e3 raises an alarm"),
        ]
        terminal.print_apart(terminal.pairs(lines))


def verdict_of(path: str, settings: Settings) -> OrderVerdict:
    """Return the verdict on the rows of a file, which are read once and not stored."""
    task = Task(settings) if settings.target is None else _AnyTarget(settings)
    stream = open_input([path], None, task)
    monitor: OrderMonitor | None = None
    for points, targets in encoded_rows(stream, task.column_options(), task.has_intercept):
        values = np.empty((len(points), 0))
        if targets is not None:  # labels have the codes that classifiers give them
            values = (targets if targets.dtype.kind == "f" else encoded(targets, {})[0])[:, None]
        monitor = monitor or OrderMonitor.new(points.shape[1], values.shape[1])
        ids = np.arange(monitor.rows, monitor.rows + len(points))
        monitor = monitor.observe(Rows(points, values, ones(len(ids)), ids), settings.seed).with_bets()
    if monitor is None:
        raise stream.no_rows_error()
    return monitor.verdict()


def as_dict(verdict: OrderVerdict) -> dict[str, Any]:
    """Return the verdict as JSON values."""
    return {
        "order": verdict.sentence(),
        "rows": verdict.rows,
        "evidence": verdict.evidence,
        "alarm": verdict.alarm,
        "score": verdict.score,
        "scores": verdict.scores,
        "curve": [list(point) for point in zip(verdict.curve_rows.tolist(), verdict.curve.tolist(), strict=True)],
    }
