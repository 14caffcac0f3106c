"""Rows, and what rows are kept in."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.buffer import Buffer
from batch2online.core.history import History
from batch2online.core.registry import check_of, require
from batch2online.core.rows import Rows
from batch2online.core.validation import LARGEST_ID
from batch2online.coresets.antitone import Candidates
from batch2online.persistence.history_folder import FolderHistory


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


@check_of(
    History,
    {"block": int, "width": int, "n_targets": int, "blocks": list[Rows], "pieces": list[Rows], "rows": int},
)
def check_history(history: History) -> None:
    require(history.block > 0 <= history.n_targets, "a block has rows.")
    parts = [*history.blocks, *history.pieces]
    require(all(map(len, parts)), "no block of a history is empty.")
    check_ascending(parts)
    check_width(parts, history.width, history.n_targets, np.inf)
    numbers = [(int(rows.ids[0]) // history.block, int(rows.ids[-1]) // history.block) for rows in parts]
    require(all(first == last for first, last in numbers), "a block of a history reaches beyond its end.")
    closed, still_open = numbers[: len(history.blocks)], numbers[len(history.blocks) :]
    require(all(one < other for one, other in pairwise([*closed, *still_open[:1]])), "blocks of a history differ.")
    require(len(set(still_open)) <= 1, "only one block of a history is incomplete.")
    if type(history) is History:
        require(history.rows == sum(map(len, parts)), "a history holds as many rows as it claims.")


@check_of(
    FolderHistory,
    {"folder": str, "token": str, "generation": int, "is_in_checkpoint": bool, "stored": list[int]},
)
def check_folder_history(history: FolderHistory) -> None:
    stored = history.stored
    require(stored[:1] == [0] and all(one < other for one, other in pairwise(stored)), "blocks on disk hold rows.")
    require(not history.blocks and history.generation >= 0, "a history on disk keeps no blocks in memory.")
    require(history.rows == stored[-1] + sum(map(len, history.pieces)), "a history holds as many rows as it claims.")


@check_of(
    Buffer,
    {"width": int, "columns": int, "capacity": int, "count": int, "values": FloatArray, "weights": FloatArray},
)
def check_buffer(buffer: Buffer) -> None:
    require(buffer.width <= buffer.columns, "a buffer has room for its rows.")
    require(buffer.values.shape == (buffer.count, buffer.columns), "a buffer holds the rows it claims.")
    require(buffer.weights.shape == (buffer.count,), "rows that wait have one weight each.")
    require(is_finite(buffer.values, buffer.weights) and (buffer.weights > 0).all(), "rows that wait are finite.")
