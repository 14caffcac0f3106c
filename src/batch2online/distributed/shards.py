"""What a worker does with one partition: a shard that has learned its rows, or one error that says where it failed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

_T = TypeVar("_T")

TOGETHER = 8
"""Shards that one task merges."""


class PartitionError(ValueError):
    """A partition that cannot be learned: the message names it, its row and its column."""


@dataclass(frozen=True)
class Place:
    """Where a partition stands among all: its number, its first row, and its ids."""

    number: int
    first_row: int
    first_id: int
    n_ids: int


@dataclass(frozen=True)
class Piece:
    """Rows of a partition with ids from ``start`` to ``stop``; with ``ends`` they are the last ones of their shard."""

    place: Place
    start: int
    stop: int
    ends: bool = True

    @classmethod
    def all_of(cls, place: Place) -> Piece:
        return cls(place, place.first_id, place.first_id + place.n_ids)

    @property
    def is_all(self) -> bool:
        """Whether these are all rows of the partition."""
        return self.stop - self.start == self.place.n_ids


def shard_of(
    template: Any, known: Any, rows: Any, targets: Any, weights: Any, piece: Piece, names: Any, target: Any
) -> Any:
    """Return an estimator that has learned a piece of a partition, after all that is known already."""

    def work() -> Any:
        given = (*in_columns(rows, targets, names, target), _values(weights))
        return _learned(template, known, given, piece)

    return located(piece.place, work)


def located(part: Place, work: Callable[[], _T]) -> _T:
    """Return what work on a partition gives; an error says which partition it was, and which rows it has."""
    try:
        return work()
    except PartitionError:
        raise
    except Exception as error:
        place = f"Partition {part.number}, which begins with row {part.first_row:,} of all"
        raise PartitionError(f"{place}: {error}") from error


def _learned(template: Any, known: Any, given: tuple[Any, Any, Any], piece: Piece) -> Any:
    shard = begun(template, piece.start) if known is None else copy.copy(known)
    before = 0 if known is None else known._stream.n_seen
    try:
        shard.partial_fit(*_between(*given, piece))
    except Exception:
        if not piece.is_all:
            begun(template, piece.place.first_id).partial_fit(*given)  # its error counts the rows of the partition
        raise
    check_count(shard, before + piece.stop - piece.start)
    return compact(shard) if piece.ends else shard


def _between(rows: Any, targets: Any, weights: Any, piece: Piece) -> tuple[Any, Any, Any]:
    """Return the rows of a piece, and those of weight zero behind them; before them as well in the first piece."""
    if piece.is_all:
        return rows, targets, weights
    n = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    places = range(n) if weights is None else np.flatnonzero(weights > 0)
    start, stop = piece.start - piece.place.first_id, piece.stop - piece.place.first_id
    last = n if stop >= min(piece.place.n_ids, len(places)) else int(places[stop])
    own = slice(int(places[start]) if start else 0, last)
    taken = rows.iloc[own] if hasattr(rows, "iloc") else rows[own]
    return taken, *(None if values is None else values[own] for values in (targets, weights))


def begun(template: Any, first_id: int) -> Any:
    shard = template._unfitted_copy()
    shard.first_id = first_id
    return shard


def check_count(shard: Any, expected: int) -> None:
    """Refuse rows that are not as many as were counted: ids of later partitions rest on it."""
    found = shard._stream.n_seen
    if found != expected:
        raise ValueError(
            f"{expected} rows were counted and {found} came: the data changed meanwhile, or class_weight is 0."
        )


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


def merged(*shards: Any) -> Any:
    """Return one shard with the rows of all. The shards stay as they are: a task may have to run again."""
    result = copy.copy(shards[0])
    for shard in shards[1:]:
        result.merge(shard)
    return compact(result)


def compact(shard: Any) -> Any:
    if not shard._stream.ordered:
        shard._stream = shard._stream.compact()
    return shard
