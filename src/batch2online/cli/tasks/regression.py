"""``--task regression``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from batch2online import OnlineRegression, datasets
from batch2online._types import FloatArray
from batch2online.cli.tasks.base import Table, Task
from batch2online.datasets import NamedTable


class RegressionTask(Task):
    """A linear prediction of one column by the others."""

    name = "regression"
    has_targets = True
    has_intercept = True

    def estimator(self) -> OnlineRegression:
        return OnlineRegression(**self.settings.shared())

    def title(self, width: int) -> str:
        return f"linear regression of {self.settings.target} on {width:,} inputs"

    def loss(self) -> str:
        return "squared"

    def comparable(self, X: FloatArray, y: FloatArray | None) -> Table:
        """Targets standardised: methods that follow gradients need it."""
        assert y is not None
        return X, np.asarray((y - y.mean()) / (y.std() or 1.0))

    @classmethod
    def real_datasets(cls) -> Mapping[str, Callable[[], Any]]:
        return datasets.REGRESSION

    def used_columns(self, table: NamedTable) -> tuple[str, ...]:
        inputs = table.inputs or tuple(name for name in table.columns if name != table.target)
        return (*inputs, str(table.target))
