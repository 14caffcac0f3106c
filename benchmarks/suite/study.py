"""A question that takes longer than ``make bench`` may: a table for one of the pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from batch2online import datasets
from batch2online.evaluate import ClusteringLoss
from batch2online.evaluate.adapters import fresh

Rows = tuple[np.ndarray, np.ndarray | None]


@dataclass(frozen=True)
class Study:
    """A table and what is to be said about it.

    ``text`` says what it holds, ``note`` what is special about it. A record gives for each column text, a number, a
    :func:`cell`, or nothing; ``formats`` says how fractions of a column are written, with four digits unless told.
    ``curves`` are what a figure is drawn from (:mod:`~benchmarks.suite.plots`).
    """

    title: str
    text: str
    columns: list[str]
    records: list[dict[str, Any]]
    note: str = ""
    formats: dict[str, str] = field(default_factory=dict)
    curves: list[dict[str, Any]] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        return asdict(self)


class Kept:
    """Makes learners and keeps them, so that they can be asked after the evaluation."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._made: list[Any] = []

    def __call__(self, seed: int) -> Any:
        self._made.append(fresh(self.model, seed))
        return self._made[-1]

    @property
    def learned(self) -> list[Any]:
        """One learner a seed; ``prequential`` makes another before them, to see what it is."""
        return self._made[1:]

    def most_changes(self, after: int = 0) -> int:
        """Changes after so many rows, in the worst stream."""
        return max(sum(event.at > after for event in model.changes_) for model in self.learned)


@dataclass(frozen=True)
class Against(ClusteringLoss):
    """The loss of clustering where the best centers are known already."""

    best: Any = field(default=None, compare=False)

    def hindsight(self, X: np.ndarray, y: np.ndarray | None) -> np.ndarray:
        return self.losses(self.best, X, y)


def loaded(names: tuple[str, ...], *, targets: bool = False) -> Iterator[tuple[str, Rows]]:
    """Data sets by name; those whose files are missing are left out, with a word."""
    for name in names:
        try:
            yield name, datasets.load_regression(name) if targets else (datasets.load_rows(name), None)
        except datasets.MissingPackageError as missing:
            print(f"left out: {missing}", flush=True)


def cell(ratio: float, changes: float, deviation: float | None = None) -> dict[str, Any]:
    """Loss over hindsight, changes of the model, and the standard deviation of the loss."""
    return {"ratio": ratio, "changes": changes, "deviation": deviation}


def followed_cell(ratio: float, changes: float) -> str:
    """Loss over hindsight with as many digits as tell a percent from a tenth of it, and changes of the model.

    >>> followed_cell(0.95812, 1310), followed_cell(8.44e6, 2)
    ('0.9581 (1,310)', '8.44e+06 (2)')
    """
    return f"{ratio:.4f} ({changes:,.0f})" if ratio < 100 else f"{ratio:.3g} ({changes:,.0f})"
