"""Learning from files by Dask: a partition for each row group of Parquet, and for each other file.

Workers read the files, so all of them must see the same paths. Rows are numbered in the order of the files' names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
from dask import delayed

from batch2online.distributed import shards
from batch2online.distributed.dask import Partition, Progress, computed, counted, fit_partitions
from batch2online.distributed.shards import Model, PartitionError

Source = tuple[str, int | None]
"""A file, and a row group of it where it has such."""


def fit_files(
    model: Model,
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    progress: Progress | None = None,
) -> Model:
    """Fit a model to the rows of files, and return it.

    Parameters
    ----------
    model : an estimator of batch2online
        Unchanged if anything fails.
    paths : str, path or several
        A pattern like ``"rows-*.parquet"``, a file or several: Parquet, CSV, or ``.npy`` arrays of rows.
    target, sample_weight : str, optional
        The columns that hold the targets and the weights of rows.
    columns : list of str, optional
        The columns to learn from; None is all others.
    progress : function, optional
        As for :func:`batch2online.dask.fit`.
    """
    shards.check_model(model)
    sources = [source for path in found(paths) for source in _sources(path)]
    counts = computed(*(delayed(_counted)(source, sample_weight, number) for number, source in enumerate(sources)))
    known = next((names for *_, names in counts if names is not None), None)
    names = _selected(known, target, columns, sample_weight)
    read_rows, read_weights = delayed(read, pure=False), delayed(_column, pure=False)
    partitions = [
        Partition(
            read_rows(source, names),
            None,
            None if sample_weight is None else read_weights(source, sample_weight),
            n_rows,
            n_ids,
        )
        for source, (n_rows, n_ids, _) in zip(sources, counts, strict=True)
    ]
    return fit_partitions(model, partitions, names, target, progress=progress)


def found(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the files that a pattern or several paths name, sorted; refuse what names none."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files = []
    for path in (os.fspath(one) for one in given):
        matches = sorted(glob(path)) if any(mark in path for mark in "*?[") else [path]
        if not matches or not all(map(os.path.exists, matches)):
            raise FileNotFoundError(f"No file is called {path}.")
        files += matches
    return files


def _sources(path: str) -> list[Source]:
    if Path(path).suffix != ".parquet":
        return [(path, None)]
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        return [(path, group) for group in range(file.num_row_groups)]


def _counted(source: Source, sample_weight: str | None, number: int) -> tuple[int, int, tuple[Any, ...] | None]:
    """Return the counts and names of :func:`counted`: from the metadata of Parquet, or by reading other files once."""
    path, group = source
    if group is not None and sample_weight is None:
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:
            n = file.metadata.row_group(group).num_rows
            return n, n, tuple(file.schema_arrow.names)
    rows = read(source, None)
    if sample_weight is None:
        return counted(rows, None, number)
    if sample_weight not in getattr(rows, "columns", ()):
        raise PartitionError(f"Partition {number}, {path}: column {sample_weight!r}, the weights, is missing.")
    return counted(rows, rows[sample_weight].to_numpy(), number)


def _selected(known: Any, target: str | None, columns: Any, sample_weight: str | None) -> Any:
    """Return the columns to read, the target among them; None for files without names."""
    for name in (target, sample_weight, *(columns or ())):
        if name is not None and known is not None and name not in known:
            raise ValueError(f"No column is called {name!r}: the files have {list(known)}.")
    if columns is None:
        return None if known is None else tuple(name for name in known if name != sample_weight)
    return (*columns, *(() if target is None or target in columns else (target,)))


def read(source: Source, names: Any) -> Any:
    """Return the rows of a file, or of a row group: a frame, or an array where columns have no names."""
    path, group = source
    if group is not None:
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:
            known = file.schema_arrow.names
            wanted = None if names is None else [name for name in names if name in known]
            return file.read_row_group(group, columns=wanted).to_pandas()
    if path.endswith(".npy"):
        return np.load(path, mmap_mode="r")
    import pandas as pd

    frame = pd.read_csv(path, float_precision="round_trip")
    return frame if names is None else frame[[name for name in names if name in frame.columns]]


def _column(source: Source, name: str) -> Any:
    return read(source, (name,))[name].to_numpy()
