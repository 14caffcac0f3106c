"""Learning from files on a cluster: a partition for each row group of Parquet, and for each other file.

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

from batch2online.distributed.fitting import fit_table
from batch2online.distributed.partitions import Partitions, Survey, numbered, surveyed
from batch2online.distributed.running import Progress, computed
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
        As for :func:`batch2online.distributed.fit`.
    """
    sources = [source for path in found(paths) for source in _sources(path)]
    surveys = _surveys(sources, sample_weight)
    names = _names(surveys, target, columns, sample_weight)
    rows = [delayed(read, pure=False)(source, names) for source in sources]
    weights = [None if sample_weight is None else delayed(_column)(source, sample_weight) for source in sources]
    parts = numbered(rows, [None] * len(rows), weights, surveys, int(model.first_id))
    return fit_table(model, Partitions(parts, names, target), progress)


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


def _surveys(sources: list[Source], sample_weight: str | None) -> list[Survey]:
    """Return the size and columns of each partition: from the metadata of Parquet, or by reading other files once."""
    if sample_weight is None and all(group is not None for _, group in sources):
        return [_from_metadata(source) for source in sources]
    look = delayed(_looked_at, pure=False)
    return list(computed(*(look(source, sample_weight, number) for number, source in enumerate(sources))))


def _from_metadata(source: Source) -> Survey:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(source[0]) as file:
        n = file.metadata.row_group(source[1]).num_rows
        return Survey(n, n, tuple(file.schema_arrow.names))


def _looked_at(source: Source, sample_weight: str | None, number: int) -> Survey:
    rows = read(source, None)
    if sample_weight is None:
        return surveyed(rows, None, number)
    if sample_weight not in getattr(rows, "columns", ()):
        raise PartitionError(f"Partition {number}, {source[0]}: column {sample_weight!r}, the weights, is missing.")
    return surveyed(rows, rows[sample_weight].to_numpy(), number)


def _names(surveys: list[Survey], target: str | None, columns: Any, sample_weight: str | None) -> Any:
    """Return the columns to read, the target among them; None for files without names."""
    known = next((survey.columns for survey in surveys if survey.columns is not None), None)
    wanted = [name for name in (target, sample_weight, *(columns or ())) if name is not None]
    absent = [name for name in wanted if known is not None and name not in known]
    if absent:
        raise ValueError(f"No column is called {absent[0]!r}: the files have {list(known or ())}.")
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
