"""Rows of a cluster as a list of partitions, numbered before any of them is learned.

A row's id is its number among all rows of positive weight. Where a collection knows how long its partitions are,
nothing is computed; other partitions are counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from dask import delayed
from dask.delayed import Delayed

from batch2online.distributed.running import computed
from batch2online.distributed.shards import PartitionError, Place


@dataclass(frozen=True)
class Partition:
    """Rows of a cluster: the tasks that compute rows, targets and weights, and their position among all rows."""

    rows: Any
    targets: Any
    weights: Any
    place: Place


@dataclass(frozen=True)
class Survey:
    """Number of rows of a partition, of those with positive weight, and names of the columns, if they have any."""

    rows: int
    positive: int
    columns: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Partitions:
    """The partitions with rows, and the columns that each must have; ``target`` is the column of the targets."""

    partitions: list[Partition]
    columns: tuple[Any, ...] | None = None
    target: Any = None


def table_of(X: Any, y: Any, sample_weight: Any, first_id: int) -> Partitions:
    """Return the partitions of rows, targets and weights, with ids from ``first_id`` on."""
    rows, lengths = _pieces(X, "X")
    target = y if isinstance(y, str | int) else None
    targets = _matching(None if target is not None else y, "y", rows, lengths)
    weights = _matching(sample_weight, "sample_weight", rows, lengths)
    if lengths is not None and sample_weight is None:
        surveys = [Survey(length, length) for length in lengths]
    else:
        count = delayed(surveyed)
        surveys = list(computed(*map(count, rows, weights, range(len(rows)))))
    columns = next((survey.columns for survey in surveys if survey.columns is not None), None)
    return Partitions(numbered(rows, targets, weights, surveys, first_id), columns, target)


def numbered(
    rows: list[Any], targets: list[Any], weights: list[Any], surveys: list[Survey], first_id: int
) -> list[Partition]:
    """Return the partitions that have rows, with their places among all rows."""
    first_rows = accumulate((survey.rows for survey in surveys), initial=0)
    first_ids = accumulate((survey.positive for survey in surveys), initial=first_id)
    numbers = [survey.positive for survey in surveys]
    places = map(Place, range(len(surveys)), first_rows, first_ids, numbers)
    found = [part for part in map(Partition, rows, targets, weights, places) if part.place.n_ids]
    if not found:
        raise PartitionError("There are no rows: all partitions are empty, or all weights are zero.")
    return found


def surveyed(rows: Any, weights: Any, number: int) -> Survey:
    """Return how many rows there are, how many of positive weight, and the names of their columns."""
    n = positive = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    if weights is not None:
        weights = np.asarray(weights)
        if weights.shape != (n,):
            raise PartitionError(f"Partition {number}: sample_weight must have shape ({n},), got {weights.shape}.")
        positive = int(np.count_nonzero(weights > 0))
    names = tuple(rows.columns) if hasattr(rows, "columns") and n else None
    return Survey(n, positive, names)


def _pieces(collection: Any, what: str) -> tuple[list[Any], list[int] | None]:
    """Return the tasks that compute the partitions, and their lengths if they are known."""
    if isinstance(collection, Sequence) and not isinstance(collection, str):
        return [part if isinstance(part, Delayed) else delayed(part) for part in collection], None
    if not hasattr(collection, "to_delayed"):
        raise TypeError(
            f"{what} must be a Dask array, a Dask DataFrame or a list of delayed chunks, got "
            f"{type(collection).__name__}."
        )
    if not hasattr(collection, "chunks"):
        return list(collection.to_delayed()), None
    if collection.ndim == 2 and len(collection.chunks[1]) > 1:
        collection = collection.rechunk({1: -1})
    lengths = collection.chunks[0]
    is_known = not any(np.isnan(length) for length in lengths)
    return list(collection.to_delayed().reshape(-1)), [int(length) for length in lengths] if is_known else None


def _matching(values: Any, what: str, rows: list[Any], lengths: list[int] | None) -> list[Any]:
    """Return the partitions of values that belong to rows: None for each where there are none."""
    if values is None:
        return [None] * len(rows)
    if hasattr(values, "rechunk") and lengths is not None and not np.isnan(values.shape[0]):
        _check_length(values.shape[0], what, sum(lengths))
        values = values.rechunk({0: tuple(lengths)})
    elif isinstance(values, np.ndarray):
        if lengths is None:
            raise TypeError(f"{what} is an array in memory, but the lengths of the partitions of X are unknown.")
        _check_length(len(values), what, sum(lengths))
        return [delayed(part) for part in np.split(values, np.cumsum(lengths)[:-1])]
    pieces, _ = _pieces(values, what)
    if len(pieces) != len(rows):
        raise ValueError(
            f"X has {len(rows)} partitions and {what} has {len(pieces)}: they must have the same partitions."
        )
    return pieces


def _check_length(found: int, what: str, expected: int) -> None:
    if found != expected:
        raise ValueError(f"X has {expected} rows and {what} has {found}: found inconsistent numbers of samples.")
