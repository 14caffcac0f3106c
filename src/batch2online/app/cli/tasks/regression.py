"""``--task regression``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from batch2online import OnlineRegression, datasets
from batch2online._types import BoolArray, FloatArray
from batch2online.app.cli.tasks.base import Table, Task
from batch2online.app.inputs import DataError
from batch2online.datasets import NamedTable
from batch2online.evaluate.predictor_loss import PredictorLosses

_RANGES = {"poisson": "0 or more", "gamma": "above 0", "tweedie": "0 or more"}
"""What targets of a loss must be."""


_SCALE = 0.1
"""The scale of Huber's loss in a comparison, where targets have a standard deviation of one."""

_BELONGS = {"quantile": "quantile", "power": "tweedie", "delta": "huber"}
"""Settings that one loss alone has."""


class RegressionTask(Task):
    """A linear prediction of one column by the others."""

    name = "regression"
    has_targets = True
    has_intercept = True
    takes = frozenset({"loss", "alpha", "l1_ratio", "quantile", "power", "delta"})

    def __post_init__(self) -> None:
        super().__post_init__()
        settings = self.settings
        for name, loss in _BELONGS.items():
            if getattr(settings, name) is not None and settings.loss != loss:
                raise DataError(f"--{name} goes with --loss {loss}.")
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

    def loss(self) -> Any:
        """Return the squared loss, or the one that was asked for."""
        if not self._is_other:
            return "squared"
        return PredictorLosses(scale=_SCALE, **self.settings.linear(*self.takes))

    @property
    def _is_other(self) -> bool:
        return self.settings.loss not in (None, "squared")

    def comparable(self, X: FloatArray, y: FloatArray | None) -> Table:
        """Targets standardised: methods that follow gradients need it. Those with a range keep it."""
        assert y is not None
        if self.settings.loss in _RANGES:
            return X, np.asarray(y / (y.mean() or 1.0))
        return X, np.asarray((y - y.mean()) / (y.std() or 1.0))

    @classmethod
    def real_datasets(cls) -> Mapping[str, Callable[[], Any]]:
        return datasets.REGRESSION

    def used_columns(self, table: NamedTable) -> tuple[str, ...]:
        inputs = table.inputs or tuple(name for name in table.columns if name != table.target)
        return (*inputs, str(table.target))
