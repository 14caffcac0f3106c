"""Chunks of rows: their checksum, and their rows in random order."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.tables.columns import EMPTY, NUMBER, STRING, Column, TypedTable, common

Chunk = tuple[TypedTable, Any]
"""Rows, and their targets: numbers, labels or None."""

ROWS = 1 << 16


def numbers_of(table: TypedTable, of_words: Callable[[str], float]) -> FloatArray:
    """Return a table as numbers, given the number of a string; missing values are NaN."""
    columns = (c.mapped([*map(of_words, c.words)]) if c.kind == STRING else c.values for c in table.columns)
    numbers = np.column_stack([*columns])
    numbers[np.isnan(numbers)] = np.nan  # of one kind
    return numbers


def checksum(chunk: Chunk, before: int = 0) -> int:
    """Return the checksum of all rows up to the end of this chunk; ``before`` is that of the chunks before it.

    The lower 32 bits are the CRC-32 of the rows, the upper 32 bits that of the targets. A CRC can be continued, so the
    checksum does not depend on how rows are split into chunks.
    """
    rows, targets = chunk
    upper = 0
    if targets is not None:
        is_string = targets.dtype.kind == "U"
        content = "".join(f"{label}\0" for label in targets.tolist()).encode() if is_string else None
        upper = zlib.crc32(np.ascontiguousarray(targets).data if content is None else content, before >> 32)
    numbers = numbers_of(rows, lambda word: float(zlib.crc32(word.encode())))
    return (upper << 32) + zlib.crc32(numbers.data, before & 0xFFFFFFFF)


def shuffled(chunks: Iterator[Chunk], seed: int) -> Iterator[Chunk]:
    """Yield the same rows in random order, by way of a temporary file: memory holds the different strings alone."""
    codes: dict[Any, float] = {}  # of strings and labels, which the file holds as numbers
    names: tuple[str, ...] = ()
    kinds: list[str] = []
    has_targets = has_labels = False
    with tempfile.TemporaryFile() as file:
        for rows, targets in chunks:
            values = numbers_of(rows, lambda word: codes.setdefault(word, float(len(codes))))
            if targets is not None:
                has_targets, has_labels = True, targets.dtype.kind != "f"
                if has_labels:
                    targets = [codes.setdefault(label, float(len(codes))) for label in targets.tolist()]
                values = np.column_stack([values, targets])
            own = [column.kind for column in rows.columns]
            pairs = zip(rows.names, kinds or own, own, strict=True)
            names, kinds = rows.names, [common(name, pair) for name, *pair in pairs]
            file.write(values.tobytes())
        file.flush()
        if not names:
            return
        words, labels = tuple(map(str, codes)), list(codes)
        table = np.memmap(file, dtype=np.float64, mode="r").reshape(-1, len(names) + has_targets)
        order = np.random.default_rng(seed).permutation(len(table))
        for start in range(0, len(table), ROWS):
            piece = np.asarray(table[order[start : start + ROWS]])
            columns = [_column(kind, values, words) for kind, values in zip(kinds, piece.T, strict=False)]
            targets = piece[:, -1].copy() if has_targets else None
            if has_labels:
                targets = np.array([labels[int(code)] for code in piece[:, -1].tolist()])
            yield TypedTable(names, tuple(columns), len(piece)), targets


def _column(kind: str, values: FloatArray, words: tuple[str, ...]) -> Column:
    if kind != STRING:
        return Column(EMPTY if kind == NUMBER and np.isnan(values).all() else kind, np.ascontiguousarray(values))
    return Column(STRING, values, words).some(slice(None))
