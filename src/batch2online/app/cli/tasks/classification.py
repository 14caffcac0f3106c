"""``--task classification``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from batch2online import OnlineClassifier, datasets
from batch2online._types import FloatArray
from batch2online.app.cli.tasks.base import Table, Task
from batch2online.app.inputs import DataError, Kind
from batch2online.datasets import NamedTable
from batch2online.evaluate.log_loss import LogarithmicLoss


class ClassificationTask(Task):
    """The class of a row, text or a whole number, by the other columns."""

    name = "classification"
    has_targets = True
    has_intercept = True
    labels = frozenset({Kind.TEXT, Kind.NUMBER})
    takes = frozenset({"alpha", "l1_ratio", "class_weight"})

    def estimator(self) -> OnlineClassifier:
        return OnlineClassifier(**self.settings.linear(*self.takes), **self.settings.shared())

    def title(self, width: int) -> str:
        return f"logistic regression of {self.settings.target} on {width:,} inputs"

    def loss(self) -> LogarithmicLoss:
        return LogarithmicLoss()

    def count(self, y: Any) -> int:
        return len(np.unique(y))

    def comparable(self, X: FloatArray, y: Any) -> Table:
        """Labels as numbers from 0 on, which every learner takes."""
        labels, codes = np.unique(y, return_inverse=True)
        if len(labels) < 2:
            raise DataError(f"All rows have the same {self.settings.target}: there is nothing to compare.")
        return X, codes.astype(np.float64)

    @classmethod
    def real_datasets(cls) -> Mapping[str, Callable[[], Any]]:
        return datasets.CLASSIFICATION

    def used_columns(self, table: NamedTable) -> tuple[str, ...]:
        return (*(table.inputs or table.rows), str(table.label))
