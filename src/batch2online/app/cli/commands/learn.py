"""``batch2online learn``: append files to the model of a run, as settings, columns and categories of the model say."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from batch2online.answers import losses_of_answers
from batch2online.app.cli.alarms import KINDS, alarms_of, check_webhook, send
from batch2online.app.cli.files import json_text, valid
from batch2online.app.cli.run.chunks import Chunk
from batch2online.app.cli.run.notes import in_options, noting, placed
from batch2online.app.cli.run.result import change_record
from batch2online.app.cli.run.source import TableStream, open_input
from batch2online.app.cli.run.state import APPENDED, INPUT, content_key, facts_in
from batch2online.app.cli.settings import Settings
from batch2online.app.cli.tasks import Task
from batch2online.app.cli.terminal import console, pairs, print_paragraphs, printable, progress_line, unbroken
from batch2online.app.features import Features
from batch2online.app.inputs import DataError
from batch2online.app.inputs.formats import name_of
from batch2online.app.inputs.source import paths_of
from batch2online.app.report.context import shared_scale
from batch2online.durable import Durable
from batch2online.headline import count_of, format_measure
from batch2online.record import Averages, Record, Spread
from batch2online.rows import Rows
from batch2online.storage.model_file import sources_in
from batch2online.tables.columns import ColumnError

ALARM = 3
"""Exit code of a night that was learned with an alarm."""


def learn(
    model: Path,
    files: Sequence[str],
    again: bool,
    alarms: str | None,
    alarm_excess: float,
    webhook: str | None,
    on_alarm: str | None,
    query: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Learn the rows of files as one transaction; print what they brought, and return the exit code."""
    check_webhook(webhook)
    kinds = KINDS if alarms is None else tuple(each.strip() for each in alarms.split(","))
    for kind in kinds:
        if kind not in (*KINDS, "none"):
            raise DataError(f"--alarms {kind} is unknown: give order, changes or none.")
    started, paths = time.monotonic(), paths_of(files)
    file = model / "model.b2o" if model.is_dir() else model
    names = [name_of(each) for each in paths]
    with progress_line(names[0], quiet or as_json) as line, _opened(file) as durable:
        task = _task_of(durable, query)
        keys = _new_keys(durable, paths, query, again)
        stream = open_input(paths, None, task, model=durable.model)
        stream.on_note = line.note
        night = Night(durable.model)
        with noting(stream.note):
            durable.batch(lambda: _learn_night(durable, stream, night, keys, line))
        line.end()
        result = _result(durable, stream, night, task) | {"files": names}
        found = alarms_of(kinds, durable.order_, night.first, night.events(), alarm_excess)
    result |= {"alarms": found, "seconds": time.monotonic() - started}
    if as_json:
        click.echo(json_text(result))
    else:
        _show(result, file)
    if found:
        send(valid(result), webhook, on_alarm, lambda note: click.echo(f"Note: {note}.", err=True))
    return ALARM if found else 0


# -- the model ----------------------------------------------------------------------------------------------


def _opened(file: Path) -> Durable:
    """Open the model of a run."""
    if not file.is_file():
        raise DataError(f"{file} is no model: batch2online run FILE --state {file} creates one.")
    position = sources_in(file).get(INPUT)
    if not isinstance(position, dict):
        return Durable.open(file)
    return Durable(file, Task(_settings_of(file, position)).estimator())


def _settings_of(file: Path, position: Any) -> Settings:
    """Return the settings of the run that has created a file."""
    try:
        return Settings.written(position["settings"])
    except (TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{file} has settings of a run that this version does not know.") from error


def _task_of(durable: Durable, query: str | None) -> Task:
    """Return the task of a model."""
    position = durable.positions.get(INPUT)
    if not isinstance(position, dict) or position.get("facts") is None:
        raise DataError(f"{durable.path} was not written by a run: batch2online run FILE --state creates such a model.")
    settings = _settings_of(durable.path, position)
    if not position.get("finished", True):
        raise DataError(
            f"{durable.path} has learned {position['settings'].get('source')} in part: end that run first, by the same "
            "command as before."
        )
    settings = settings if query is None else replace(settings, query=query)
    return Task(settings)


def _new_keys(durable: Durable, paths: Sequence[str], query: str | None, again: bool) -> list[str]:
    """Return keys of the contents of files; refuse a content that was learned before, or is given twice."""
    known: dict[str, str] = {}
    for path in paths:
        key = content_key(path, query)
        if key is None:
            continue
        if not again and key in known:
            raise DataError(f"{name_of(path)} has the same content as {name_of(known[key])}: give one.")
        if not again and durable.has_key(key):
            raise DataError(
                f"{name_of(path)} was learned before: {durable.path.name} knows its content. --again learns it again."
            )
        known[key] = path
    return list(known)


# -- the night ----------------------------------------------------------------------------------------------


@dataclass
class Night:
    """Rows of a night under the model before it."""

    model: Any
    rows: int = 0
    loss: float = 0.0
    secondary: float = 0.0
    spread: Spread | None = None

    def __post_init__(self) -> None:
        stream = self.model.stream
        self.first = int(stream.n_seen)
        self._answerer = stream.answerer if stream.has_model else None
        self._codec = stream.columns.settled()
        self._record = _record_of(self.model)
        self.usual = self.model.metrics_

    def add(self, chunk: Chunk) -> None:
        """Score rows that are not learned yet under the model before the night."""
        rows, targets = chunk
        self.rows += len(rows)
        if self._answerer is None:
            return
        prepared = self.model.prepare(rows, targets, None)
        problem = prepared.problem or self.model.stream.problem
        for _, y, weights in prepared.batches:
            points = self._codec.encode(self._codec.checked(rows))
            losses, secondary = losses_of_answers(problem, self._answerer, points, y)
            self.loss, self.secondary = self.loss + float(losses.sum()), self.secondary + float(secondary.sum())
            values = problem.spread_of(Rows(points, y, weights, np.arange(len(points))))
            if values is not None:
                self.spread = (self.spread or Spread()).plus(values, weights)

    def quality_before(self) -> dict[str, float]:
        """Return measures of the night under the model before it; none if there was no model."""
        if self._answerer is None or not self.rows:
            return {}
        found = Averages(self.rows, float(self.rows), self.loss, self.secondary, self._total())
        return dict(self.model.stream.problem.quality(found))

    def quality_learning(self) -> dict[str, float]:
        """Return measures of the night in which each row was predicted just before it was learned."""
        now, before = _record_of(self.model), self._record
        codec = self.model.stream.columns
        if now is None or before is None or not now.weight > before.weight or not codec.continues(self._codec):
            return {}
        sums = now.loss - before.loss, now.secondary_loss - before.secondary_loss
        found = Averages(now.rows - before.rows, now.weight - before.weight, *sums, self._total())
        return dict(self.model.stream.problem.quality(found))

    def _total(self) -> float:
        """Return the loss of the mean of the night."""
        if self.spread is None:
            return float("nan")
        return self.spread.total(around_zero=not getattr(self.model.stream.sketch, "intercept", True))

    def events(self) -> list[Any]:
        """Return the changes of the night, at most 10,000."""
        return [event for event in self.model.changes_ if event.at > self.first]


def _record_of(model: Any) -> Record | None:
    record: Record | None = model.stream.view().current.observer(Record)
    return record


def _learn_night(durable: Durable, stream: TableStream, night: Night, keys: Sequence[str], line: Any) -> None:
    """Score and learn all rows of an input, and store what was learned; called inside a transaction."""
    for rows, targets in stream.chunks():
        try:
            night.add((rows, targets))
            durable.partial_fit(rows, targets)
        except ColumnError as error:
            raise placed(error, stream.place) from error
        except ValueError as error:
            raise DataError(in_options(str(error))) from error
        line(night.rows, stream.progress(night.rows))
    stream.close()
    for key in keys:
        durable.note(key=key)
    before = durable.positions.get(APPENDED, {"nights": 1, "rows": 0})
    position = {"nights": before["nights"] + 1, "rows": before["rows"] + night.rows, "last": stream.name}
    durable.note(source=(APPENDED, position))


def _result(durable: Durable, stream: TableStream, night: Night, task: Task) -> dict[str, Any]:
    """Return what the night has brought."""
    order, events = durable.order_, night.events()
    features = Features.of(durable.model, facts_in(durable.positions[INPUT]))
    prepared = asdict(features) | {"standardised": features.is_standardised}
    headline = durable.headline(task.settings.target, **shared_scale(prepared))
    return {
        "model": str(durable.path),
        "night": durable.positions[APPENDED]["nights"],
        "rows": night.rows,
        "rows_dropped": stream.dropped,
        "rows_seen": int(durable.n_seen_),
        "quality_before": night.quality_before(),
        "quality_learning": night.quality_learning(),
        "quality_of_earlier_rows": night.usual,
        "changes": [change_record(event) for event in events],
        "order": {
            "verdict": order.sentence(),
            "looks_random": order.looks_random,
            "evidence": order.evidence,
            "alarm": order.alarm,
        },
        "headline": str(headline),
        "notes": list(stream.notes),
    }


# -- output -------------------------------------------------------------------------------------------------


def _show(result: dict[str, Any], file: Path) -> None:
    changes, dropped = result["changes"], result["rows_dropped"]
    unknown = "not known: the night changed the features" if result["quality_before"] else "not scored"
    count = f"{len(changes):,}, the last: " if len(changes) > 1 else ""
    lines: list[tuple[str, Any]] = [
        ("model", unbroken(f"{file}, {count_of(result['rows_seen'], 'row')}")),
        ("night", count_of(result["rows"], "row") + (f", {dropped:,} more dropped" if dropped else "")),
        ("before it", _measures(result["quality_before"]) or "no model yet"),
        ("learning it", _measures(result["quality_learning"]) or unknown),
        ("earlier rows", _measures(result["quality_of_earlier_rows"]) or "not scored"),
        ("changes", f"{count}{changes[-1]['reason']}" if changes else "none"),
        ("order", result["order"]["verdict"]),
    ]
    lines += [("alarm", printable(alarm, style="bold red")) for alarm in result["alarms"]]
    screen = console(soft_wrap=True)
    screen.print()
    screen.print(printable(f" {', '.join(result['files'][:3])}: night {result['night']:,}", style="bold"))
    screen.print()
    print_paragraphs(pairs(lines), screen)
    screen.print()
    sys.stdout.flush()


def _measures(quality: dict[str, float]) -> str:
    return ", ".join(f"{name} {format_measure(name, value)}" for name, value in quality.items())
