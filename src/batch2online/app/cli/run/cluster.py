"""A run on a Dask cluster: each file is a partition, read and encoded on a worker."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from batch2online.app.cli.run.source import TableStream, check_columns, checksum
from batch2online.app.cli.tasks import Task
from batch2online.app.features import ColumnFacts
from batch2online.app.inputs import DataError, open_sources, paths_of
from batch2online.tables.codec import Codec
from batch2online.tables.columns import EMPTY, NUMBER, Column, ColumnType, TypedTable


@dataclass(frozen=True)
class EncodedFile:
    """The rows of a file as features, and how many were dropped."""

    rows: Any
    targets: Any
    dropped: int
    notes: tuple[str, ...]


def read(path: str, task: Task, codec: Codec, has_labels: bool) -> EncodedFile:
    """Return the rows of a file, encoded as those of the first file."""
    kinds = {name: ColumnType(kind) for name, kind in zip(codec.table_names, codec.kinds, strict=True) if kind != EMPTY}
    try:
        source = open_sources([path], task.settings.layout(kinds=kinds))
        check_columns(source, codec.inputs, kinds)
        stream = TableStream(source, list(codec.inputs), task, ColumnFacts(task.settings.target), has_labels)
        chunks = [(codec.encode(codec.checked(rows)), targets) for rows, targets in stream.chunks()]
        stream.close()
    except DataError as error:
        raise DataError(str(error)) from None  # remedies cannot be pickled
    rows = np.concatenate([np.empty((0, codec.width)), *(rows for rows, _ in chunks)])
    has_targets = task.settings.target is not None and chunks
    targets = np.concatenate([targets for _, targets in chunks]) if has_targets else None
    return EncodedFile(rows, targets, stream.dropped, tuple(stream.notes))


def summary(part: EncodedFile) -> tuple[int, int, int, tuple[str, ...]]:
    """Return the number of rows of a file and of dropped rows, a checksum, and notes."""
    names = tuple(f"x{place}" for place in range(part.rows.shape[1]))
    columns = tuple(Column(NUMBER, np.ascontiguousarray(values)) for values in part.rows.T)
    return (
        len(part.rows),
        part.dropped,
        checksum((TypedTable(names, columns, len(part.rows)), part.targets)),
        part.notes,
    )


def learn_files(
    paths: Sequence[str], task: Task, stream: TableStream, progress: Callable[[int, float], None]
) -> tuple[Any, int, int]:
    """Learn all files; return the model, the number of rows and their checksum.

    Rows are counted first, since their positions are their ids.
    """
    from dask import delayed

    from batch2online.distributed.dask import Partition, computed, fit_partitions

    codec = _first_codec(stream, task)
    parts = [delayed(read, pure=False)(path, task, codec, stream.has_labels) for path in paths_of(paths)]
    counts = computed(*(delayed(summary)(part) for part in parts))
    model, n = task.estimator(), sum(rows for rows, *_ in counts)
    stream.dropped = sum(dropped for _, dropped, *_ in counts)
    stream.notes += [note for *_, notes in counts for note in notes if note not in stream.notes]
    if not n:
        raise stream.no_rows_error()
    has_targets = task.settings.target is not None
    placed = [
        Partition(part.rows, part.targets if has_targets else None, None, rows, rows)
        for part, (rows, *_) in zip(parts, counts, strict=True)
    ]
    try:
        fit_partitions(model, placed, progress=lambda done, of: progress(n, done / of))
    except ValueError as error:
        raise DataError(str(error)) from error
    model.stream = replace(model.stream, columns=codec)
    model.n_features_in_ = len(codec.table_names)
    model.feature_names_in_ = np.array(codec.table_names, dtype=object)
    return model, n, zlib.crc32(repr([check for _, _, check, _ in counts]).encode())


def _first_codec(stream: TableStream, task: Task) -> Codec:
    """Return how the columns of all files become features, by the first rows of the first one."""
    codec: Codec | None = None
    for rows, _ in stream.chunks():
        codec = codec or Codec.new(rows, task.column_options(), task.has_intercept)
        codec = codec.learn(codec.checked(rows), np.empty((len(rows), 0)), np.ones(len(rows)))
        if codec.is_settled:
            break
    if codec is None:
        raise stream.no_rows_error()
    stream.dropped = 0
    return codec if codec.is_settled else codec.learn(rows[:0], np.empty((0, 0)), np.empty(0), is_last=True)


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
