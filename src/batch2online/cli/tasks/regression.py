"""``--task regression``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from batch2online import OnlineRegression, datasets
from batch2online._types import BoolArray, FloatArray
from batch2online.cli.tasks.base import Table, Task
from batch2online.datasets import NamedTable
from batch2online.readers import DataError

_RANGES = {"poisson": "0 or more", "gamma": "above 0", "tweedie": "0 or more"}
"""What targets of a loss must be."""


class RegressionTask(Task):
    """A linear prediction of one column by the others."""

    name = "regression"
    has_targets = True
    has_intercept = True
    takes = frozenset({"loss", "alpha", "l1_ratio", "quantile"})

    def __post_init__(self) -> None:
        super().__post_init__()
        settings = self.settings
        if settings.quantile is not None and settings.loss != "quantile":
            raise DataError("--quantile goes with --loss quantile.")
        if settings.l1_ratio is not None and settings.alpha is None:
            raise DataError("--l1-ratio shares out the penalty of --alpha: name that too.")

    def estimator(self) -> OnlineRegression:
        return OnlineRegression(**self.settings.linear(*self.takes), **self.settings.shared())

    def title(self, width: int) -> str:
        kind = "linear" if self.settings.loss is None else self._kind()
        return f"{kind} regression of {self.settings.target} on {width:,} inputs"

    def _kind(self) -> str:
        settings = self.settings
        return f"{settings.quantile or 0.5:g} quantile" if settings.loss == "quantile" else f"{settings.loss} loss"

    def refused(self, targets: Any) -> tuple[BoolArray, str]:
        allowed = _RANGES.get(str(self.settings.loss))
        if allowed is None or targets is None:
            return super().refused(targets)
        bad = targets < 0 if allowed == "0 or more" else targets <= 0
        return np.asarray(bad), f"{allowed} for --loss {self.settings.loss}"

    def loss(self) -> str:
        return "squared"

    def comparable(self, X: FloatArray, y: FloatArray | None) -> Table:
        """Targets standardised: methods that follow gradients need it."""
        assert y is not None
        if self.settings.loss not in (None, "squared"):
            raise DataError("Learners are compared by the squared loss: leave --loss out.")
        return X, np.asarray((y - y.mean()) / (y.std() or 1.0))

    @classmethod
    def real_datasets(cls) -> Mapping[str, Callable[[], Any]]:
        return datasets.REGRESSION

    def used_columns(self, table: NamedTable) -> tuple[str, ...]:
        inputs = table.inputs or tuple(name for name in table.columns if name != table.target)
        return (*inputs, str(table.target))
