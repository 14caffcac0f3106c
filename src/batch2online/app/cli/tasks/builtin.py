"""``--task regression``, ``classification``, ``clustering`` and ``lowrank``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from batch2online import OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, datasets
from batch2online._types import BoolArray, FloatArray
from batch2online.app.cli.tasks.base import Table, Task, needed_count
from batch2online.app.inputs import DataError
from batch2online.datasets import NamedTable
from batch2online.evaluate.losses import LogarithmicLoss, PredictorLosses
from batch2online.frames.columns import ColumnType

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


class ClassificationTask(Task):
    """The class of a row, text or a whole number, by the other columns."""

    name = "classification"
    has_targets = True
    has_intercept = True
    labels = frozenset({ColumnType.STRING, ColumnType.NUMBER})
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


class ClusteringTask(Task):
    """Centers that rows lie near to."""

    name = "clustering"
    best = "clustering known, by the coreset"
    hindsight_note = (
        "For clusters it is the best solution known, its cost measured on the coreset: allow for a few percent."
    )
    unused_settings = frozenset()

    def __post_init__(self) -> None:
        super().__post_init__()
        needed_count(self, "clusters")

    def estimator(self) -> OnlineClustering:
        settings = self.settings
        k = needed_count(self, "clusters")
        return OnlineClustering(k, z=settings.z, history=settings.history, **settings.shared())

    def title(self, width: int) -> str:
        return f"{self.settings.k} clusters (z = {self.settings.z:g}) in {width:,} columns"

    def loss(self) -> tuple[str, float]:
        return ("kmeans", self.settings.z)


class LowRankTask(Task):
    """A few directions that hold most of the rows."""

    name = "lowrank"

    def __post_init__(self) -> None:
        super().__post_init__()
        needed_count(self, "components")

    def estimator(self) -> OnlineLowRank:
        return OnlineLowRank(needed_count(self, "components"), **self.settings.shared())

    def title(self, width: int) -> str:
        return f"rank {self.settings.k} approximation of {width:,} columns"

    def loss(self) -> str:
        return "lowrank"

    def comparable(self, X: FloatArray, y: FloatArray | None) -> Table:
        """Columns centred, as IncrementalPCA does anyway."""
        return X - X.mean(axis=0), y

    def check_width(self, width: int, name: str) -> None:
        super().check_width(width, name)
        if needed_count(self, "components") > width:
            raise DataError(f"--k {self.settings.k} is more than the {width} columns of {name}.")
