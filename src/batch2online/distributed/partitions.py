"""Rows of a cluster as a list of partitions: what each holds, how many rows it has, which ids these get.

A row's id is its number among all rows of positive weight. Where a collection knows how long its partitions are,
nothing is computed; partitions of unknown length are counted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

    @property
    def first_id(self) -> int:
        return self.place.first_id

    @property
    def n_ids(self) -> int:
        return self.place.n_ids


@dataclass(frozen=True)
class Survey:
    """Size and columns of a partition before its rows are learned."""

    rows: int
    positive: int
    columns: tuple[Any, ...] | None


@dataclass(frozen=True)
class Table:
    """All partitions, and the columns that each must have; ``target`` is the column that holds the targets."""

    partitions: tuple[Partition, ...]
    columns: tuple[Any, ...] | None
    target: Any


def with_rows(table: Table) -> list[Partition]:
    """Return the partitions that have rows; refuse a table that has none."""
    parts = [part for part in table.partitions if part.n_ids]
    if not parts:
        raise PartitionError("There are no rows: all partitions are empty, or all weights are zero.")
    return parts


def table_of(X: Any, y: Any, sample_weight: Any, first_id: int) -> Table:
    """Return the partitions of rows, targets and weights, with ids from ``first_id`` on."""
    rows, lengths = _pieces(X, "X")
    target = y if isinstance(y, str | int) else None
    targets = _matching(None if target is not None else y, "y", rows, lengths)
    weights = _matching(sample_weight, "sample_weight", rows, lengths)
    surveys = _surveys(X, rows, weights, lengths)
    columns = next((survey.columns for survey in surveys if survey.columns is not None), None)
    return Table(tuple(numbered(rows, targets, weights, surveys, first_id)), columns, target)


def numbered(
    rows: list[Any], targets: list[Any], weights: list[Any], surveys: list[Survey], first_id: int
) -> Iterator[Partition]:
    """Yield partitions with their places among all rows."""
    first_rows = accumulate((survey.rows for survey in surveys), initial=0)
    first_ids = accumulate((survey.positive for survey in surveys), initial=first_id)
    places = (
        Place(number, first_row, start, survey.positive)
        for number, (survey, first_row, start) in enumerate(zip(surveys, first_rows, first_ids, strict=False))
    )
    return map(Partition, rows, targets, weights, places)


def _pieces(collection: Any, what: str) -> tuple[list[Any], list[int] | None]:
    """Return the tasks that compute the partitions, and their lengths if they are known."""
    if isinstance(collection, Sequence) and not isinstance(collection, str):
        return [part if isinstance(part, Delayed) else delayed(part) for part in collection], None
    if hasattr(collection, "chunks") and hasattr(collection, "to_delayed"):
        if collection.ndim == 2 and len(collection.chunks[1]) > 1:
            collection = collection.rechunk({1: -1})
        lengths = collection.chunks[0]
        known = None if any(np.isnan(length) for length in lengths) else [int(length) for length in lengths]
        return list(collection.to_delayed().reshape(-1)), known
    if hasattr(collection, "to_delayed"):
        return list(collection.to_delayed()), None
    raise TypeError(
        f"{what} must be a Dask array, a Dask DataFrame or a list of delayed chunks, got {type(collection).__name__}."
    )


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


def _surveys(X: Any, rows: list[Any], weights: list[Any], lengths: list[int] | None) -> list[Survey]:
    """Return the size and columns of each partition; partitions of unknown size are computed once, together."""
    if lengths is not None and all(own is None for own in weights):
        return [Survey(length, length, None) for length in lengths]
    columns = tuple(X.columns) if hasattr(X, "columns") else None
    if columns is not None and all(own is None for own in weights):
        found = X.map_partitions(len, meta=(None, "int64")).compute()
        return [Survey(int(length), int(length), columns) for length in found]
    looks = [
        delayed(surveyed)(own, its_weights, number)
        for number, (own, its_weights) in enumerate(zip(rows, weights, strict=True))
    ]
    return list(computed(*looks))


def surveyed(rows: Any, weights: Any, number: int) -> Survey:
    """Return how many rows there are, how many of positive weight, and the names of their columns."""
    n = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    positive = n
    if weights is not None:
        weights = np.asarray(weights)
        if weights.shape != (n,):
            raise PartitionError(f"Partition {number}: sample_weight must have shape ({n},), got {weights.shape}.")
        positive = int(np.count_nonzero(weights > 0))
    names = tuple(rows.columns) if hasattr(rows, "columns") and n else None
    return Survey(n, positive, names)
