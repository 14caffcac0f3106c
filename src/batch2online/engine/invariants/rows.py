"""Rows, and what rows are kept in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.decay import ForwardDecay
from batch2online.history import History
from batch2online.rows import Queue, Rows
from batch2online.schema import check_of, require
from batch2online.sketches.candidates import Candidates
from batch2online.storage.disk_history import DiskHistory
from batch2online.storage.model_file import HistoryPlace
from batch2online.validation import LARGEST_ID


def is_finite(*arrays: Any) -> bool:
    return all(bool(np.isfinite(array).all()) for array in arrays)


@check_of(Rows)
def check_rows(rows: Rows) -> None:
    n = len(rows.ids) if rows.ids.ndim == 1 else -1
    is_table = rows.points.ndim == rows.targets.ndim == 2
    require(is_table and len(rows.points) == len(rows.targets) == n, "the parts of rows differ in their numbers.")
    require(rows.weights.shape == (n,), "rows have one weight each.")
    require(is_finite(rows.points, rows.targets, rows.weights), "rows hold finite numbers.")
    require((rows.weights >= 0).all(), "weights are not negative.")
    require(((rows.ids >= 0) & (rows.ids <= LARGEST_ID)).all(), f"ids are between 0 and {LARGEST_ID}.")


@check_of(ForwardDecay)
def check_decay(decay: ForwardDecay) -> None:
    require(decay.half_life >= 1, "a half-life is at least one row.")
    is_multiple = decay.reference % (2 * decay.half_life) == 0
    require(0 <= decay.reference <= LARGEST_ID and is_multiple, "a reference is a multiple of two half-lives.")


@check_of(Candidates)
def check_candidates(candidates: Candidates) -> None:
    shape = (len(candidates.rows),)
    require(candidates.words.shape == candidates.limits.shape == shape, "candidates have a word and a limit each.")
    require(((candidates.limits > 0) & (candidates.limits <= 1)).all(), "limits are probabilities above 0.")
    check_ascending([candidates.rows])


def check_ascending(parts: Iterable[Rows]) -> None:
    """Rows of all parts together are in ascending ids, and each weighs something."""
    last = -1
    for rows in parts:
        require((np.diff(rows.ids) > 0).all() and (rows.weights > 0).all(), "ids ascend, and weights are positive.")
        if len(rows):
            require(rows.ids[0] > last, "ids ascend from part to part.")
            last = int(rows.ids[-1])


def check_width(parts: Iterable[Rows], width: int, n_targets: int | None, largest: float) -> None:
    """All parts have as many columns, of values up to the largest."""
    for rows in parts:
        require(rows.points.shape[1] == width, "rows are as wide as all others.")
        require(n_targets in (None, rows.targets.shape[1]), "rows have as many targets as all others.")
        require((np.abs(rows.points) <= largest).all(), f"magnitudes are at most {largest:g}.")


@check_of(History, {"block": int, "width": int, "n_targets": int, "segments": list[Rows]})
def check_history(history: History) -> None:
    require(history.block > 0 <= history.n_targets, "a block has rows.")
    if history.is_in_memory:
        check_segments(list(history), history.block, history.width, history.n_targets)


@check_of(DiskHistory)
def check_disk_history(history: DiskHistory) -> None:
    require(history.width >= 0 <= history.branch, "a history on disk lies in a branch of its file.")


def check_segments(parts: list[Rows], block: int, width: int, n_targets: int) -> None:
    """Check that the segments of a history hold rows, in ascending ids, each of one block."""
    require(all(map(len, parts)), "no segment of a history is empty.")
    check_ascending(parts)
    check_width(parts, width, n_targets, np.inf)
    is_within = all(int(rows.ids[0]) // block == int(rows.ids[-1]) // block for rows in parts)
    require(is_within, "a segment of a history reaches beyond its block.")


@check_of(HistoryPlace)
def check_history_place(place: HistoryPlace) -> None:
    counts = (place.width, place.n_targets, place.branch, place.segments, place.rows)
    require(place.block > 0 and min(counts) >= 0, "counts are not negative.")


@check_of(Queue, {"width": int, "columns": int, "block": int, "values": FloatArray, "weights": FloatArray | None})
def check_queue(queue: Queue) -> None:
    rows = queue.rows(0)
    require(queue.width <= queue.columns and queue.block >= 0, "a queue has room for its rows.")
    require(is_finite(rows.points, rows.targets, rows.weights), "rows that wait are finite.")
    require((rows.weights > 0).all(), "rows that wait weigh something.")
