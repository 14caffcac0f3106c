"""Rows learned since the state of a file was written: one record for each call."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.rows import all_ones, ones
from batch2online.storage.database import Database, packed, unpacked
from batch2online.storage.errors import StoreCorrupted

Given = tuple[FloatArray, FloatArray, FloatArray]


def append(database: Database, pieces: list[Given], model: Any) -> None:
    """Write the rows of one call, and what stands beside them, labels and texts, inside a transaction."""
    number, rows = database.meta["tail"], database.meta["tail_rows"]
    points, targets, weights = (np.concatenate(parts) for parts in zip(*pieces, strict=True)) if pieces else _NOTHING
    own = np.empty(0) if all_ones(weights) else weights
    labels = json.dumps(model._stored_beside(points))
    shape, content, crc = packed(_place(number, labels), points, targets, own)
    row = (number, shape, labels, content, crc)
    database.run("INSERT INTO tail VALUES (?, ?, ?, ?, ?)", row)
    database.meta |= {"tail": number + 1, "tail_rows": rows + len(points)}


def learn_again(database: Database, model: Any) -> int:
    """Let a model learn what stands after its state; return how many rows that was."""
    total = 0
    stored = database.select("SELECT number FROM tail ORDER BY number")
    if [number for (number,) in stored] != list(range(database.meta.get("tail", 0))):
        raise StoreCorrupted(
            f"{database.path} has lost rows: {len(stored)} of {database.meta['tail']} calls are there."
        )
    for (number,) in stored:
        statement = "SELECT shape, labels, content, crc FROM tail WHERE number = ?"
        ((shape, labels, content, crc),) = database.select(statement, (number,))
        points, targets, weights = unpacked(_place(number, labels), shape, content, crc)
        given = points, targets, weights if len(weights) else ones(len(points))
        model._learn_again(given, json.loads(labels))
        total += len(points)
    if total != database.meta.get("tail_rows", 0):
        raise StoreCorrupted(f"{database.path} has lost rows: {total} of {database.meta['tail_rows']} are there.")
    return total


def _place(number: int, labels: str) -> str:
    return f"tail {number} with labels {labels}"


_NOTHING = (np.empty((0, 0)), np.empty((0, 0)), np.empty(0))
