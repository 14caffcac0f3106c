"""What the command line needs to know about a task, and the tasks of our own estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import batch2online
from batch2online import datasets
from batch2online._types import BoolArray, FloatArray
from batch2online.app.cli.settings import Settings
from batch2online.app.inputs import DataError
from batch2online.datasets import NamedTable, synthetic
from batch2online.frames.columns import ColumnType

_LINEAR = ("loss", "alpha", "l1_ratio", "quantile", "power", "delta", "class_weight")
Table = tuple[FloatArray, Any]
"""Rows, and their targets if the task has any."""


@dataclass(frozen=True)
class Task(ABC):
    """A learning task with the settings of one run. Settings that do not fit the task raise an error.

    Attributes
    ----------
    name : str
        Value of ``--task``.
    has_targets : bool
        Whether the task needs ``--target``.
    has_intercept : bool
        Whether the model has an intercept, so that the first category needs no column.
    labels : frozenset of ColumnType
        Column types that the task accepts as class labels.
    params : frozenset of str
        Parameters of some tasks that this one accepts.
    """

    settings: Settings

    name: ClassVar[str]
    has_targets: ClassVar[bool] = False
    has_intercept: ClassVar[bool] = False
    labels: ClassVar[frozenset[ColumnType]] = frozenset()
    params: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if self.has_targets and self.settings.target is None:
            raise DataError(f"--task {self.name} needs --target, the column to predict.")
        if not self.has_targets and self.settings.target is not None:
            raise DataError(f"--task {self.name} has no target: remove --target.")
        if self.settings.missing == "keep" and not self.accepts_missing():
            raise DataError("--missing keep needs an --estimator that accepts missing values.")
        for name in self.settings.given(*_LINEAR, "memory", "churn_price"):
            if name not in self.params:
                raise DataError(f"--task {self.name} has no --{name.replace('_', '-')}: remove it.")

    @abstractmethod
    def estimator(self) -> Any:
        """Return an unfitted estimator with the settings of the run."""

    def accepts_missing(self) -> bool:
        """Whether rows may contain NaN."""
        return False

    @abstractmethod
    def title(self, width: int) -> str:
        """Return a short description of the model of ``width`` features."""

    @abstractmethod
    def loss(self) -> Any:
        """Return the loss by which learners are compared, as ``evaluate.prequential`` accepts it."""

    def invalid_targets(self, targets: Any) -> tuple[BoolArray, str]:
        """Return a mask of the targets outside the domain of the loss, and a description of the domain."""
        return np.zeros(0 if targets is None else len(targets), dtype=np.bool_), ""

    def count(self, y: Any) -> int:
        """Return the number of clusters, components or classes for the learners of a comparison."""
        return self.settings.k or 0

    def comparable(self, X: FloatArray, y: Any) -> Table:
        """Return the rows in a form that suits every learner of a comparison."""
        return X, y

    def check_width(self, width: int, name: str) -> None:
        """Raise an error if the task cannot work on this number of numeric columns."""
        if not width:
            raise DataError(f"{name} has no columns besides the target.")

    @classmethod
    def real_datasets(cls) -> Mapping[str, Callable[[], Any]]:
        """Return the loaders of the real data sets of the task, by name."""
        return datasets.ROWS

    @classmethod
    def synthetic_datasets(cls) -> Sequence[str]:
        """Return the names of the synthetic data sets of the task."""
        return [name for name, tasks in synthetic.TASKS.items() if cls.name in tasks.split(", ")]

    @classmethod
    def dataset(cls, name: str, rows: int = synthetic.ROWS, seed: int = 0) -> NamedTable:
        """Return a data set with all its columns."""
        known = [*cls.real_datasets(), *cls.synthetic_datasets()]
        if name not in known:
            raise DataError(f"There is no data set {name!r} for {cls.name}: choose one of {', '.join(known)}.")
        return datasets.load_table(name, rows, seed)

    def used_columns(self, table: NamedTable) -> tuple[str, ...]:
        """Return the names of the columns of a data set that the task uses."""
        return table.rows

    def _k(self, counted: str) -> int:
        if self.settings.k is None:
            raise DataError(f"--task {self.name} needs --k, the number of {counted}.")
        return self.settings.k


_RANGES = {"poisson": "0 or more", "gamma": "above 0", "tweedie": "0 or more"}
"""Domains of targets."""

_SCALE = 0.1
"""Scale of the Huber loss in a comparison, whose targets have standard deviation 1."""

_LOSS_OF = {"quantile": "quantile", "power": "tweedie", "delta": "huber"}
"""Parameters of a single loss."""


class RegressionTask(Task):
    """Linear regression."""

    name = "regression"
    has_targets = True
    has_intercept = True
    params = frozenset({"loss", "alpha", "l1_ratio", "quantile", "power", "delta"})

    def __post_init__(self) -> None:
        super().__post_init__()
        settings = self.settings
        for name, loss in _LOSS_OF.items():
            if getattr(settings, name) is not None and settings.loss != loss:
                raise DataError(f"--{name} needs --loss {loss}.")
        if settings.l1_ratio is not None and settings.alpha is None:
            raise DataError("--l1-ratio needs --alpha, the regularization strength.")

    def estimator(self) -> batch2online.OnlineRegression:
        return batch2online.OnlineRegression(**self.settings.given(*self.params), **self.settings.shared())

    def title(self, width: int) -> str:
        loss, level = self.settings.loss, self.settings.quantile or 0.5
        kind = "linear" if loss is None else f"{level:g} quantile" if loss == "quantile" else f"{loss} loss"
        return f"{kind} regression of {self.settings.target} on {width:,} features"

    def invalid_targets(self, targets: Any) -> tuple[BoolArray, str]:
        domain = _RANGES.get(str(self.settings.loss))
        if domain is None or targets is None:
            return super().invalid_targets(targets)
        bad = targets < 0 if domain == "0 or more" else targets <= 0
        return np.asarray(bad), f"{domain} for --loss {self.settings.loss}"

    def loss(self) -> Any:
        if self.settings.loss in (None, "squared"):
            return "squared"
        return batch2online.evaluate.losses.of_regression(scale=_SCALE, **self.settings.given(*self.params))

    def comparable(self, X: FloatArray, y: FloatArray | None) -> Table:
        """Standardize targets, as gradient methods need it; targets with a domain are only scaled."""
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
    """Logistic regression on classes that are strings or integers."""

    name = "classification"
    has_targets = True
    has_intercept = True
    labels = frozenset({ColumnType.STRING, ColumnType.NUMBER})
    params = frozenset({"alpha", "l1_ratio", "class_weight"})

    def estimator(self) -> batch2online.OnlineClassifier:
        return batch2online.OnlineClassifier(**self.settings.given(*self.params), **self.settings.shared())

    def title(self, width: int) -> str:
        return f"logistic regression of {self.settings.target} on {width:,} features"

    def loss(self) -> Any:
        return batch2online.evaluate.losses.LogarithmicLoss()

    def count(self, y: Any) -> int:
        return len(np.unique(y))

    def comparable(self, X: FloatArray, y: Any) -> Table:
        """Encode labels as numbers from 0, which every learner accepts."""
        labels, codes = np.unique(y, return_inverse=True)
        if len(labels) < 2:
            raise DataError(f"All rows have the same {self.settings.target}: two classes are needed.")
        return X, codes.astype(np.float64)

    @classmethod
    def real_datasets(cls) -> Mapping[str, Callable[[], Any]]:
        return datasets.CLASSIFICATION

    def used_columns(self, table: NamedTable) -> tuple[str, ...]:
        return (*(table.inputs or table.rows), str(table.label))


class ClusteringTask(Task):
    """k-means, or clustering with another power of the distance."""

    name = "clustering"
    params = frozenset({"churn_price"})

    def __post_init__(self) -> None:
        super().__post_init__()
        self._k("clusters")

    def estimator(self) -> batch2online.OnlineClustering:
        settings = self.settings
        own = settings.given("churn_price")
        return batch2online.OnlineClustering(
            self._k("clusters"), z=settings.z, history=settings.history, **own, **settings.shared()
        )

    def title(self, width: int) -> str:
        return f"{self.settings.k} clusters (z = {self.settings.z:g}) in {width:,} columns"

    def loss(self) -> tuple[str, float]:
        return ("kmeans", self.settings.z)


class LowRankTask(Task):
    """Low-rank approximation."""

    name = "lowrank"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._k("components")

    def estimator(self) -> batch2online.OnlineLowRank:
        return batch2online.OnlineLowRank(self._k("components"), **self.settings.shared())

    def title(self, width: int) -> str:
        return f"rank-{self.settings.k} approximation of {width:,} columns"

    def loss(self) -> str:
        return "lowrank"

    def comparable(self, X: FloatArray, y: FloatArray | None) -> Table:
        """Center the columns, as IncrementalPCA does."""
        return X - X.mean(axis=0), y

    def check_width(self, width: int, name: str) -> None:
        super().check_width(width, name)
        if self._k("components") > width:
            raise DataError(f"--k {self.settings.k} exceeds the {width} columns of {name}.")
