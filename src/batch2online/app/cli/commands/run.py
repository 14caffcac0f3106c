"""``batch2online run``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np

from batch2online.app.cli.files import json_text
from batch2online.app.cli.run import terminal
from batch2online.app.cli.run.cluster import ClusterRun, cluster, learned
from batch2online.app.cli.run.loop import Emitter, LearningLoop, Stop, stoppable
from batch2online.app.cli.run.result import result_of
from batch2online.app.cli.run.source import Chunk, Input, PreparedStream, open_input
from batch2online.app.cli.run.state import FileModel, MemoryModel
from batch2online.app.cli.run.terminal import live_line
from batch2online.app.cli.tasks.base import Task
from batch2online.app.inputs import DataError


@dataclass(frozen=True)
class RunOptions:
    """The options of ``batch2online run`` that do not change its result."""

    out: Path | None = None
    state: Path | None = None
    state_every: float = 5.0
    chunk: int | None = None
    quiet: bool = False
    json: bool = False
    follow: bool = False
    flush: float = 0.5
    emit: str | None = None
    workers: int | None = None
    scheduler: str | None = None
    keep_formulas: bool = False

    @property
    def is_on_cluster(self) -> bool:
        """Whether files are learned side by side, without order."""
        return self.workers is not None or self.scheduler is not None


def run(paths: Sequence[str], dataset: str | None, task: Task, options: RunOptions) -> dict[str, Any]:
    """Stream an input through an online model; print, and write, what came of it."""
    _check_options(options, task)
    with ExitStack() as stack:
        line = stack.enter_context(live_line(_name(paths, dataset), options.quiet or options.json))
        stop = stack.enter_context(stoppable(options.follow))
        keeper, given = _opened(stack, paths, dataset, task, options, stop)
        stream = given.stream
        stream.hear = line.say
        loop = (
            _on_cluster(paths, task, stream, line, options)
            if options.is_on_cluster
            else LearningLoop(keeper, stream.preparation, Emitter(options.emit))
        )
        if isinstance(loop, LearningLoop):
            chunks = rechunked(stream.chunks(), options.chunk)
            loop.learn(chunks, lambda learner: line(learner, stream.share(learner.rows)))
        rate = line.rate(loop.rows)
        if not loop.rows:
            raise stream.nothing_left()
        stream.close()
        line.end()
        result = result_of(loop, stream, task, task.settings.command(paths, dataset))
        model = _named(loop.model, stream.preparation.names)
        report_path = _write(options, model, result, loop.rows / rate)
    _show(result, task, rate, report_path, options)
    return result


def _on_cluster(paths: Sequence[str], task: Task, stream: PreparedStream, line: Any, options: RunOptions) -> ClusterRun:
    with cluster(options.workers, options.scheduler):
        return learned(paths, task, stream, line)


def _opened(
    stack: ExitStack, paths: Sequence[str], dataset: str | None, task: Task, options: RunOptions, stop: Stop
) -> tuple[MemoryModel | FileModel, Input]:
    """Return what holds the model, and the input. A state that is there says how the input is prepared."""
    settings = {"source": _name(paths, dataset), **task.settings.as_dict()}
    waiting = {"follow": options.follow, "seconds": options.flush, "is_over": stop}
    if options.state is None:
        return MemoryModel(task.estimator()), open_input(paths, dataset, task, waiting)
    if (options.state / "model.b2o" if options.state.is_dir() else options.state).exists():
        keeper = stack.enter_context(FileModel(options.state, task.estimator(), settings, options.state_every))
        return keeper, open_input(paths, dataset, task, waiting, keeper.start.preparation)
    given = open_input(paths, dataset, task, waiting)
    return stack.enter_context(FileModel(options.state, task.estimator(), settings, options.state_every)), given


def _name(paths: Sequence[str], dataset: str | None) -> str:
    """Return what the input is called, without a look at it."""
    from batch2online.app.inputs.source import name_of

    return name_of(paths[0]) if paths else str(dataset)


def _show(result: dict[str, Any], task: Task, rate: float, report_path: str | None, options: RunOptions) -> None:
    if options.json:
        click.echo(json_text(result))
        return
    with redirect_stdout(sys.stderr if options.emit else sys.stdout):  # --emit: JSON lines alone on stdout
        terminal.show_result(result, rate, report_path)


def _named(model: Any, names: list[str]) -> Any:
    """Return a model to read whose inputs have names: in a state to be continued, rows come without names."""
    named = object.__new__(type(model))
    vars(named).update(vars(model), feature_names_in_=np.asarray(names, dtype=object), _owner=None)
    return named


def rechunked(chunks: Iterator[Chunk], size: int | None) -> Iterator[Chunk]:
    """Cut the rows into chunks of at most this size; leave them as they come where no size is given."""
    for rows, targets in chunks:
        step = size or len(rows)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield rows[part], None if targets is None else targets[part]


def _check_options(options: RunOptions, task: Task) -> None:
    if options.out is not None and find_spec("matplotlib") is None:
        raise DataError("The report of --out needs matplotlib: pip install 'batch2online[plot]'.")
    if options.is_on_cluster:
        _check_on_cluster(options, task)
    if options.follow and task.settings.order == "random":
        raise DataError("A file that grows has no random order: leave --follow or --order out.")


def _check_on_cluster(options: RunOptions, task: Task) -> None:
    """Refuse what needs an order: on a cluster rows are learned as a set."""
    if find_spec("distributed") is None:
        raise DataError("--workers and --scheduler need Dask: pip install 'batch2online[dask]'.")
    given = {"--state": options.state, "--follow": options.follow, "--emit": options.emit, "--chunk": options.chunk}
    given |= {"--order": task.settings.order == "random", "--window": task.settings.window}
    unfit = next((name for name, value in given.items() if value), None)
    if unfit is not None:
        raise DataError(f"On a cluster rows are learned as a set, without order: leave {unfit} out.")


def _write(options: RunOptions, model: Any, result: dict[str, Any], seconds: float) -> str | None:
    if options.out is None:
        return None
    from batch2online.app.cli.run.outputs import write_outputs
    from batch2online.app.report.context import Ran

    ran = Ran(f"{datetime.now():%Y-%m-%d %H:%M}", seconds)
    return str(write_outputs(options.out, model, result, ran, options.keep_formulas))
