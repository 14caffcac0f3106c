"""``batch2online run``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, fields
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from batch2online.app.cli.files import json_text
from batch2online.app.cli.run.chunks import Chunk
from batch2online.app.cli.run.cluster import cluster, learn_files
from batch2online.app.cli.run.loop import Emitter, LearningLoop, interruptible
from batch2online.app.cli.run.notes import noting
from batch2online.app.cli.run.result import result_of
from batch2online.app.cli.run.source import TableStream, open_input
from batch2online.app.cli.run.state import FileModel, MemoryModel
from batch2online.app.cli.settings import Settings
from batch2online.app.cli.tasks import Task
from batch2online.app.cli.terminal import progress_line, show_result
from batch2online.app.inputs import DataError
from batch2online.app.inputs.formats import name_of
from batch2online.app.inputs.source import paths_of


@dataclass(frozen=True)
class RunOptions:
    """The options of ``batch2online run`` that do not change its result."""

    out: Path | None = None
    state: Path | None = None
    state_every: float = 5.0
    chunk: int | None = None
    quiet: bool = False
    as_json: bool = False
    follow: bool = False
    flush: float = 0.5
    emit: str | None = None
    workers: int | None = None
    scheduler: str | None = None
    keep_formulas: bool = False

    @property
    def is_on_cluster(self) -> bool:
        """Whether files are learned in parallel, without order."""
        return self.workers is not None or self.scheduler is not None


def run(files: Sequence[str], dataset: str | None, **given: Any) -> None:
    """Stream an input through an online model; print and write the result."""
    options = RunOptions(**{each.name: given.pop(each.name) for each in fields(RunOptions)})
    learn_input(files, dataset, Task.of(Settings.written(given), dataset), options)


def learn_input(paths: Sequence[str], dataset: str | None, task: Task, options: RunOptions) -> None:
    """Stream files or a data set through the model of a task."""
    _check_options(options, task)
    name = name_of(paths[0]) if paths else dataset or "the query"
    with ExitStack() as stack:
        line = stack.enter_context(progress_line(name, options.quiet or options.as_json))
        stop = stack.enter_context(interruptible(options.follow))
        store, stream = _opened(stack, paths, dataset, task, options, stop)
        stream.on_note = line.note
        loop = LearningLoop(store, stream, Emitter(options.emit))
        if options.is_on_cluster:
            with cluster(options.workers, options.scheduler):
                model, rows, checksum = learn_files(paths, task, stream, line)
        else:
            chunks = rechunked(stream.chunks(), options.chunk)
            with noting(stream.note):
                loop.learn(chunks, lambda: line(loop.rows, stream.progress(loop.rows), *loop.progress()))
            model, rows, checksum = loop.model, loop.rows, loop.checksum
        rate = line.rate(rows)
        if not rows:
            raise stream.no_rows_error()
        stream.close()
        for note in model.stream.columns.notes:
            stream.note(note)
        if isinstance(store, FileModel):
            store.finish(paths_of(paths))
        line.end()
        curve = [] if options.is_on_cluster else loop.recorder.closed(model)
        result = result_of(model, checksum, curve, stream, task, task.settings.command(paths, dataset))
        report_path = _write(options, model, result, rows / rate)
    if options.as_json:
        click.echo(json_text(result))
    else:
        with redirect_stdout(sys.stderr if options.emit else sys.stdout):  # --emit: only JSON lines on stdout
            show_result(result, rate, report_path)


def _opened(
    stack: ExitStack,
    paths: Sequence[str],
    dataset: str | None,
    task: Task,
    options: RunOptions,
    stop: Callable[[], bool],
) -> tuple[MemoryModel | FileModel, TableStream]:
    """Return the model and the input; the model of an existing state determines the columns."""
    settings = {"source": name_of(paths[0]) if paths else dataset or "the query", **task.settings.as_dict()}
    live = {"follow": options.follow, "seconds": options.flush, "stopped": stop}
    if options.state is None:
        return MemoryModel(task.estimator()), open_input(paths, dataset, task, live)
    stored = options.state / "model.b2o" if options.state.is_dir() else options.state
    stream = None if stored.exists() else open_input(paths, dataset, task, live)
    store = stack.enter_context(FileModel(options.state, task.estimator(), settings, options.state_every))
    return store, stream or open_input(paths, dataset, task, live, store.model)


def rechunked(chunks: Iterator[Chunk], size: int | None) -> Iterator[Chunk]:
    """Split the rows into chunks of at most ``size`` rows; None keeps the chunks."""
    for rows, targets in chunks:
        step = size or len(rows)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield rows[part], None if targets is None else targets[part]


def _check_options(options: RunOptions, task: Task) -> None:
    if options.is_on_cluster:
        if find_spec("distributed") is None:
            raise DataError("--workers and --scheduler need Dask: pip install 'batch2online[dask]'.")
        given = {"--state": options.state, "--follow": options.follow, "--emit": options.emit, "--chunk": options.chunk}
        given |= {"--order": task.settings.order == "random", "--window": "window" in task.settings.learner}
        unsupported = next((name for name, value in given.items() if value), None)
        if unsupported is not None:
            raise DataError(f"On a cluster rows are learned without order: remove {unsupported}.")
    if options.follow and task.settings.order == "random":
        raise DataError("A file that grows has no random order: remove --follow or --order.")


def _write(options: RunOptions, model: Any, result: dict[str, Any], seconds: float) -> str | None:
    if options.out is None:
        return None
    from batch2online.app.cli.run.outputs import write_outputs
    from batch2online.app.report.context import RunTime

    run_time = RunTime(f"{datetime.now():%Y-%m-%d %H:%M}", seconds)
    return str(write_outputs(options.out, model, result, run_time, options.keep_formulas))
