"""What the command line asks of a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from batch2online import datasets
from batch2online._types import BoolArray, FloatArray
from batch2online.app.cli.settings import Settings
from batch2online.app.inputs import DataError
from batch2online.datasets import NamedTable, synthetic
from batch2online.frames.columns import ColumnType

_LINEAR = ("loss", "alpha", "l1_ratio", "quantile", "power", "delta", "class_weight")
Table = tuple[FloatArray, Any]
"""Rows, and their targets where the task has any."""


@dataclass(frozen=True)
class Task(ABC):
    """A kind of model, with the settings of one run. Settings that do not fit the task are refused at once.

    Attributes
    ----------
    name : str
        What ``--task`` calls it.
    has_targets : bool
        Whether a column is to be predicted, which ``--target`` names.
    has_intercept : bool
        Whether the model has a constant, so that the first level of a category needs no column of its own.
    labels : frozenset of ColumnType
        What the target may hold that is a label.
    takes : frozenset of str
        Settings of linear models that the task has.
    best : str
        What the loss is compared with.
    hindsight_note : str
        What a reader of the report must know of that comparison.
    unused_settings : frozenset of str
        Settings that say nothing about this task, left out of the report.
    """

    settings: Settings

    name: ClassVar[str]
    has_targets: ClassVar[bool] = False
    has_intercept: ClassVar[bool] = False
    labels: ClassVar[frozenset[ColumnType]] = frozenset()
    takes: ClassVar[frozenset[str]] = frozenset()
    best: ClassVar[str] = "model in hindsight"
    hindsight_note: ClassVar[str] = ""
    unused_settings: ClassVar[frozenset[str]] = frozenset({"z", "history"})

    def __post_init__(self) -> None:
        if self.has_targets and self.settings.target is None:
            raise DataError(f"--task {self.name} needs --target, the column to be predicted.")
        if not self.has_targets and self.settings.target is not None:
            raise DataError(f"--task {self.name} predicts no column: leave --target out.")
        if self.settings.missing == "keep" and not self.takes_gaps():
            raise DataError("--missing keep is for an --estimator that takes gaps, such as a booster.")
        for name in self.settings.linear(*_LINEAR):
            if name not in self.takes:
                raise DataError(f"--task {self.name} has no --{name.replace('_', '-')}: leave it out.")

    @abstractmethod
    def estimator(self) -> Any:
        """Return a fresh estimator with the settings of the run."""

    def takes_gaps(self) -> bool:
        """Whether rows may lack values."""
        return False

    @abstractmethod
    def title(self, width: int) -> str:
        """Return what the model of so many inputs is, in a few words."""

    @abstractmethod
    def loss(self) -> Any:
        """Return what learners are compared by, as ``evaluate.prequential`` takes it."""

    def refused(self, targets: Any) -> tuple[BoolArray, str]:
        """Return which targets the loss is not made for, and what they must be."""
        return np.zeros(0 if targets is None else len(targets), dtype=np.bool_), ""

    def count(self, y: Any) -> int:
        """Return the number of clusters, components or classes that learners of a comparison are told."""
        return self.settings.k or 0

    def comparable(self, X: FloatArray, y: Any) -> Table:
        """Return the same rows in a form that suits every learner of a comparison."""
        return X, y

    def check_width(self, width: int, name: str) -> None:
        """Refuse an input with so many columns of numbers, where the task cannot work on it."""
        if not width:
            raise DataError(f"{name} has no column besides the target.")

    @classmethod
    def real_datasets(cls) -> Mapping[str, Callable[[], Any]]:
        """Loaders of the real data sets that serve the task."""
        return datasets.ROWS

    @classmethod
    def synthetic_datasets(cls) -> Sequence[str]:
        """Names of the synthetic streams that serve the task."""
        return [name for name, tasks in synthetic.TASKS.items() if cls.name in tasks.split(", ")]

    @classmethod
    def dataset(cls, name: str, rows: int = synthetic.ROWS, seed: int = 0) -> NamedTable:
        """Return a data set with all its columns."""
        known = [*cls.real_datasets(), *cls.synthetic_datasets()]
        if name not in known:
            raise DataError(f"There is no data set {name!r} for {cls.name}: choose one of {', '.join(known)}.")
        return datasets.load_table(name, rows, seed)

    def used_columns(self, table: NamedTable) -> tuple[str, ...]:
        """Names of the columns of a data set that the task works on."""
        return table.rows


def needed_count(task: Task, counted: str) -> int:
    """Return the value of ``--k``, which the task cannot do without."""
    if task.settings.k is None:
        raise DataError(f"--task {task.name} needs --k, the number of {counted}.")
    return task.settings.k
