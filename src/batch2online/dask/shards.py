"""What a worker does with one partition: a shard that has learned its rows, or one error that says where it failed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from batch2online.dask.partitions import PartitionError, Place
from batch2online.engine.shard import Shard

_T = TypeVar("_T")


def shard_of(template: Any, rows: Any, targets: Any, weights: Any, part: Place, names: Any, target: Any) -> Any:
    """Return an estimator that has learned the rows of a partition."""
    return located(part, lambda: _learned(template, rows, targets, weights, part, names, target))


def located(part: Place, work: Callable[[], _T]) -> _T:
    """Return what work on a partition gives; an error says which partition it was, and which rows it has."""
    try:
        return work()
    except PartitionError:
        raise
    except Exception as error:
        place = f"Partition {part.number}, which begins with row {part.first_row:,} of all"
        raise PartitionError(f"{place}: {error}") from error


def _learned(template: Any, rows: Any, targets: Any, weights: Any, part: Place, names: Any, target: Any) -> Any:
    shard = template._fresh()
    shard.first_id = part.first_id
    rows, targets = in_columns(rows, targets, names, target)
    shard.partial_fit(rows, targets, sample_weight=_values(weights))
    check_count(shard._engine, part)
    if isinstance(shard._engine, Shard):
        shard._engine = shard._engine.compact()
    return shard


def check_count(engine: Any, part: Place) -> None:
    """Refuse rows that are not as many as were counted: ids of later partitions rest on it."""
    if engine.n_seen != part.n_ids:
        raise ValueError(f"{part.n_ids} rows were counted and {engine.n_seen} came: the data changed meanwhile.")


def in_columns(rows: Any, targets: Any, names: Any, target: Any) -> tuple[Any, Any]:
    """Return rows with their columns in the order of ``names``, and the targets, which one of them may be."""
    if names is not None:
        missing = [name for name in names if name not in getattr(rows, "columns", ())]
        if missing:
            raise ValueError(f"column {missing[0]!r} is missing: it must have the columns {list(names)}.")
        further = [name for name in rows.columns if name not in names]
        if further:
            raise ValueError(f"column {further[0]!r} is not in the other partitions: these have {list(names)}.")
        rows = rows[list(names)]
    if isinstance(target, int):
        rows, targets = np.delete(rows, target, axis=1), rows[:, target]
    elif target is not None:
        if target not in getattr(rows, "columns", ()):
            raise ValueError(f"column {target!r}, the target, is missing.")
        rows, targets = rows.drop(columns=[target]), rows[target]
    return rows, _values(targets)


def _values(values: Any) -> Any:
    return None if values is None else np.asarray(values)


def merged(shards: list[Any]) -> Any:
    """Return one shard that has seen what all have. The shards stay as they are: a task may have to run again."""
    result = copy.copy(shards[0])
    for shard in shards[1:]:
        result.merge(shard)
    return result
