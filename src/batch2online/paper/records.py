"""Measurements as records: means over seeds, lines of a figure, CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from batch2online._types import FloatArray

Record = dict[str, Any]
"""One measurement: its settings, then its numbers."""

SETTINGS = frozenset({"data", "problem", "d", "k", "z", "epsilon", "algorithm", "coreset", "rows"})
SPREAD = frozenset({"ratio", "regret", "approximate_regret", "changes"})
"""Quantities whose standard deviation over seeds is given beside their mean."""


def lines_of(records: Iterable[Record], *names: str) -> Iterator[tuple[tuple[Any, ...], list[Record]]]:
    """Group records by the values of some columns, in order of appearance; columns that are absent do not count."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[name] for name in names if name in record), []).append(record)
    yield from groups.items()


def averaged(records: Iterable[Record], quantities: Sequence[str]) -> list[Record]:
    """Return one record for each setting: means over seeds, and ``_std``, the standard deviation.

    >>> averaged([{"rows": 9, "changes": 1.0}, {"rows": 9, "changes": 3.0}], ["changes"])
    [{'rows': 9, 'changes': 2.0, 'changes_std': 1.4142135623730951, 'seeds': 2}]
    """
    return [_mean(group, quantities) for _, group in lines_of(records, *SETTINGS)]


def _mean(group: list[Record], quantities: Sequence[str]) -> Record:
    found = dict(group[0])
    for name in quantities:
        values = column(group, name)
        found[name] = float(values.mean())
        if name in SPREAD:
            found[f"{name}_std"] = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return found | {"seeds": len(group)}


def column(records: list[Record], name: str) -> FloatArray:
    return np.array([record[name] for record in records], dtype=np.float64)


def write_csv(path: Path, records: list[Record]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, records[0].keys())
        writer.writeheader()
        writer.writerows(records)
    return path
