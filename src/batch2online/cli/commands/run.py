"""``batch2online run``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np

from batch2online.cli.files import json_text
from batch2online.cli.run import console
from batch2online.cli.run.learning import LearningLoop
from batch2online.cli.run.live import live_line
from batch2online.cli.run.result import result_of
from batch2online.cli.run.state import Kept, Unkept
from batch2online.cli.run.stream import ArraySource, Chunk, open_stream, source_of
from batch2online.cli.tasks.base import Task
from batch2online.readers import DataError, Source


@dataclass(frozen=True)
class Wishes:
    """The options of ``batch2online run`` that do not change its result."""

    out: Path | None = None
    state: Path | None = None
    state_every: float = 5.0
    chunk: int | None = None
    quiet: bool = False
    json: bool = False


def run(path: str | None, dataset: str | None, task: Task, wishes: Wishes) -> dict[str, Any]:
    """Stream an input through an online model; print, and write, what came of it."""
    _check_packages(wishes)
    source, name = open_input(path, dataset, task)
    stream = open_stream(source, name, task)
    with _keeper(task, name, wishes) as keeper:
        loop = LearningLoop(keeper)
        with live_line(name, wishes.quiet or wishes.json) as line:
            loop.learn(rechunked(stream.chunks(), wishes.chunk), line)
            rate = line.rate(loop.rows)
        if not loop.rows:
            raise DataError(f"{name} has no complete row.")
        result = result_of(loop, stream, task, task.settings.command(path, dataset))
        with _named(loop.model, stream.preparation.names):
            report_path = _write(wishes.out, loop.model, result, task)
    if wishes.json:
        click.echo(json_text(result))
    else:
        console.show_result(result, task.best, rate, report_path)
    return result


@contextmanager
def _named(model: Any, names: list[str]) -> Iterator[None]:
    """Give the inputs of the model their names for a while: in a state to be continued, rows come without names."""
    model.feature_names_in_ = np.asarray(names, dtype=object)
    try:
        yield
    finally:
        del model.feature_names_in_


def _keeper(task: Task, name: str, wishes: Wishes) -> Unkept | Kept:
    """Return what holds the model during the run."""
    if wishes.state is None:
        return Unkept(task.estimator())
    settings = {"source": name, **task.settings.as_dict()}
    return Kept(wishes.state, task.estimator(), settings, wishes.state_every)


def open_input(path: str | None, dataset: str | None, task: Task) -> tuple[Source, str]:
    """Return the reader of a file or of a named data set, and what errors call it."""
    if (path is None) == (dataset is None):
        raise DataError("Name one input: a FILE (- for standard input) or --dataset NAME.")
    if path is not None:
        return source_of(path, task.settings), "standard input" if path == "-" else Path(path).name
    assert dataset is not None
    return ArraySource(*task.dataset(dataset)), dataset


def rechunked(chunks: Iterator[Chunk], size: int | None) -> Iterator[Chunk]:
    """Cut the rows into chunks of at most this size; leave them as they come where no size is given."""
    for rows, targets in chunks:
        step = size or len(rows)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield rows[part], None if targets is None else targets[part]


def _check_packages(wishes: Wishes) -> None:
    if wishes.out is not None and find_spec("matplotlib") is None:
        raise DataError("The report of --out needs matplotlib: pip install 'batch2online[plot]'.")


def _write(out: Path | None, model: Any, result: dict[str, Any], task: Task) -> str | None:
    if out is None:
        return None
    from batch2online.cli.run.outputs import write_outputs  # needs matplotlib, which is optional

    return str(write_outputs(out, model, result, task))
