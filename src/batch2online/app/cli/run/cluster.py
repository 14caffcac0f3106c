"""A run on a Dask cluster: each file is a partition, read and prepared on a worker."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from batch2online.app.cli.run.result import Recorder
from batch2online.app.cli.run.source import PreparedStream, open_input
from batch2online.app.cli.run.state import checksum
from batch2online.app.cli.tasks import Task
from batch2online.app.inputs import DataError, paths_of
from batch2online.app.inputs.preparation import Preparation


@dataclass
class ClusterRun:
    """A model, and the attributes of :class:`LearningLoop` that the progress line and the result use."""

    model: Any
    rows: int = 0
    checksum: int = 0
    resumed_at: int = 0
    recorder: Recorder = field(default_factory=Recorder)


@dataclass(frozen=True)
class PreparedFile:
    """The prepared rows of a file, and how many were dropped."""

    rows: Any
    targets: Any
    dropped: int
    notes: tuple[str, ...]


def read(path: str, task: Task, preparation: Preparation) -> PreparedFile:
    """Return the rows of a file, prepared as those of the first file."""
    try:
        stream = open_input([path], None, task, known=preparation)
        chunks = list(stream.chunks())
        stream.close()
    except DataError as error:
        raise DataError(str(error)) from None  # remedies cannot be pickled
    width = len(preparation.names)
    rows = np.concatenate([np.empty((0, width)), *(rows for rows, _ in chunks)])
    has_targets = preparation.target is not None and chunks
    targets = np.concatenate([targets for _, targets in chunks]) if has_targets else None
    return PreparedFile(rows, targets, stream.dropped, tuple(stream.notes))


def summary(part: PreparedFile) -> tuple[int, int, int, tuple[str, ...]]:
    """Return the number of rows of a file and of dropped rows, a checksum, and notes."""
    return len(part.rows), part.dropped, checksum((part.rows, part.targets), 0), part.notes


def learn_files(
    paths: Sequence[str], task: Task, stream: PreparedStream, progress: Callable[[ClusterRun, float], None]
) -> ClusterRun:
    """Learn all files; rows are counted first, since their positions are their ids."""
    from dask import delayed

    from batch2online.distributed.fitting import fit_table
    from batch2online.distributed.partitions import Partitions, Survey, numbered
    from batch2online.distributed.running import computed

    parts = [delayed(read, pure=False)(path, task, stream.preparation) for path in paths_of(paths)]
    counts = computed(*(delayed(summary)(part) for part in parts))
    run = ClusterRun(task.estimator(), sum(rows for rows, *_ in counts))
    stream.dropped = sum(dropped for _, dropped, *_ in counts)
    stream.notes += [note for *_, notes in counts for note in notes if note not in stream.notes]
    run.checksum = zlib.crc32(repr([check for _, _, check, _ in counts]).encode())
    if not run.rows:
        raise stream.no_rows_error()
    surveys = [Survey(rows, rows) for rows, *_ in counts]
    targets = [None if stream.preparation.target is None else part.targets for part in parts]
    placed = numbered([part.rows for part in parts], targets, [None] * len(parts), surveys, 0)
    try:
        fit_table(run.model, Partitions(placed), lambda done, of: progress(run, done / of))
    except ValueError as error:
        raise DataError(str(error)) from error
    return run


@contextmanager
def cluster(workers: int | None, scheduler: str | None) -> Iterator[None]:
    """Connect to the scheduler at an address, or start a local cluster of ``workers`` processes."""
    from distributed import Client, LocalCluster

    try:
        if scheduler is not None:
            client = Client(scheduler, timeout="10s")
        else:
            own = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50)
            client = Client(own)
    except (OSError, ValueError) as error:
        raise DataError(f"Cannot connect to a scheduler at {scheduler}: {error}") from error
    try:
        yield
    finally:
        client.close()
        if scheduler is None:
            own.close()
