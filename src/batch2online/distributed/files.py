"""Learning from files by Dask: a partition for each row group of Parquet, and for each other file.

Workers read the files, so all of them must see the same paths. Rows are numbered in the order of the files' names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from glob import glob
from typing import Any

import numpy as np
from dask import delayed

from batch2online.distributed import shards
from batch2online.distributed.dask import Names, Partition, Progress, computed, counted, fit_partitions
from batch2online.distributed.shards import Chunk, Model, PartitionError

Piece = Any
"""A part of a file: a fragment of a data set of Arrow, or the path of an array."""


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
    pieces = [piece for path in _found(paths) for piece in _pieces(path)]
    counts = computed(*(delayed(_counted)(piece, sample_weight, number) for number, piece in enumerate(pieces)))
    known = next((names for *_, names in counts if names is not None), None)
    names = _selected(known, target, columns, sample_weight)
    rows, weights = delayed(_rows, pure=False), delayed(_column, pure=False)
    partitions = [
        Partition(rows(piece, names), None, sample_weight and weights(piece, sample_weight), n_rows, n_ids)
        for piece, (n_rows, n_ids, _) in zip(pieces, counts, strict=True)
    ]
    return fit_partitions(model, partitions, names, target, progress=progress)


def _found(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the files that a pattern or several paths name, sorted; refuse what names none."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files = []
    for path in (os.fspath(one) for one in given):
        matches = sorted(glob(path)) if any(mark in path for mark in "*?[") else [path]
        if not matches or not all(map(os.path.exists, matches)):
            raise FileNotFoundError(f"No file is called {path}.")
        files += matches
    return files


def _pieces(path: str) -> list[Piece]:
    """Return the row groups of a Parquet file or the whole of another: fragments of Arrow, or the path of an array."""
    if path.endswith(".npy"):
        return [path]
    from pyarrow.dataset import dataset

    is_parquet = path.endswith(".parquet")
    (fragment,) = dataset(path, format="parquet" if is_parquet else "csv").get_fragments()
    return list(fragment.split_by_row_group()) if is_parquet else [fragment]


def _counted(piece: Piece, sample_weight: str | None, number: int) -> tuple[int, int, Names]:
    """Return the counts and names of :func:`counted`; of Parquet the metadata have the number of rows."""
    if isinstance(piece, str):
        return counted(_rows(piece, None), None, number)
    names = tuple(piece.physical_schema.names)
    if sample_weight is None:
        groups = getattr(piece, "row_groups", None)
        n_rows = int(piece.count_rows() if groups is None else sum(group.num_rows for group in groups))
        return n_rows, n_rows, names
    if sample_weight not in names:
        message = f"Partition {number}, {piece.path}: column {sample_weight!r}, the weights, is missing."
        raise PartitionError(message)
    weights = _column(piece, sample_weight)
    return len(weights), int(np.count_nonzero(weights > 0)), names


def _selected(known: Names, target: str | None, columns: Sequence[str] | None, sample_weight: str | None) -> Names:
    """Return the columns to read, the target among them; None for files without names."""
    for name in (target, sample_weight, *(columns or ())):
        if name is not None and known is not None and name not in known:
            raise ValueError(f"No column is called {name!r}: the files have {list(known)}.")
    if columns is None:
        return None if known is None else tuple(name for name in known if name != sample_weight)
    return (*columns, *(() if target is None or target in columns else (target,)))


def _rows(piece: Piece, names: Names) -> Chunk:
    """Return the rows of a piece: a frame, or an array where columns have no names."""
    if isinstance(piece, str):
        return np.load(piece, mmap_mode="r")
    known = piece.physical_schema.names
    return piece.to_table(columns=None if names is None else [name for name in names if name in known]).to_pandas()


def _column(piece: Piece, name: str) -> Chunk:
    return _rows(piece, (name,))[name].to_numpy()
