"""A learning task with the settings of a run: what the command needs to know besides the settings of an estimator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from batch2online import datasets
from batch2online._types import BoolArray
from batch2online.app.cli.named_estimator import named_estimator
from batch2online.app.cli.settings import Settings, of_option
from batch2online.app.inputs import DataError
from batch2online.app.learners import HAVE_TARGETS, check_options, estimator_of
from batch2online.datasets import NamedTable, synthetic
from batch2online.datasets.tables import LABELS, TARGETS
from batch2online.methods.losses import PredictorLoss, predictor_loss
from batch2online.tables.columns import ColumnType
from batch2online.tables.options import Columns

REAL_DATASETS: dict[str, Mapping[str, Any]] = {
    "classification": datasets.CLASSIFICATION,
    "clustering": datasets.ROWS,
    "lowrank": datasets.ROWS,
    "regression": datasets.REGRESSION,
}
"""Loaders of data sets by name, by task."""


def dataset_names(task: str) -> list[str]:
    """Return the names of the data sets of a task, real ones first."""
    generated = [name for name, tasks in synthetic.TASKS.items() if task in tasks.split(", ")]
    return [*REAL_DATASETS.get(task, datasets.ROWS), *generated]


@dataclass(frozen=True)
class Task:
    """A learning task with the settings of one run. Settings that do not fit the task raise an error."""

    settings: Settings
    dataset_name: str | None = None

    def __post_init__(self) -> None:
        settings = self.settings
        try:
            check_options(settings.task, settings.target, settings.learner, self.is_wrapped)
        except ValueError as error:
            raise DataError(str(error)) from error
        if settings.missing == "keep" and not self.accepts_missing():
            raise DataError("--missing keep needs an --estimator that accepts missing values.")

    @classmethod
    def of(cls, settings: Settings, dataset: str | None = None) -> Task:
        """Return the task of the settings; the target of a built-in data set is known."""
        if dataset is not None and settings.task in HAVE_TARGETS and settings.target is None:
            known = LABELS if settings.task == "classification" else TARGETS
            settings = replace(settings, target=known.get(dataset, "target"))
        return cls(settings, dataset)

    @property
    def is_wrapped(self) -> bool:
        """Whether ``--estimator`` names the estimator."""
        return self.settings.model is not None

    @property
    def has_targets(self) -> bool:
        """Whether the task has a column to predict."""
        return self.settings.task in HAVE_TARGETS

    @property
    def has_intercept(self) -> bool:
        """Whether the model has an intercept, so that the first category needs no column."""
        return self.has_targets and not self.is_wrapped

    @property
    def labels(self) -> frozenset[ColumnType]:
        """Column types that the task accepts as class labels."""
        labels = (ColumnType.STRING, ColumnType.NUMBER) if self.settings.task == "classification" else ()
        return frozenset(labels)

    @property
    def loss(self) -> str | None:
        """The loss of a regression, if it was given."""
        return self.settings.learner.get("loss")

    @property
    def least_target(self) -> float:
        """Lower limit of the targets that the loss is made for."""
        return -math.inf if self.loss is None else self._predictor_loss().least_target

    def _predictor_loss(self) -> PredictorLoss:
        return predictor_loss(str(self.loss), **self.settings.given("quantile", "power", "delta"))

    def batch(self) -> Any:
        """Return the estimator that ``--estimator`` names."""
        return named_estimator(str(self.settings.model), self.settings.sets)

    def estimator(self) -> Any:
        """Return an unfitted online estimator with the settings of the run."""
        batch = self.batch() if self.is_wrapped else None
        try:
            model = estimator_of(self.settings.task, self.settings.learner, batch)
            return model.set_params(columns=self.column_options())
        except ValueError as error:
            raise of_option(error) from error

    def column_options(self) -> Columns:
        """Return how tables become rows of numbers; all rows of a data set are known, and scale them beforehand."""
        given = self.settings.of_columns()
        return Columns(**given | {"standardize": given["standardize"] and self.dataset_name is None})

    def accepts_missing(self) -> bool:
        """Whether rows may contain NaN."""
        from batch2online.methods.any_estimator import input_support  # our own estimators do without

        return self.is_wrapped and input_support.accepts_missing(self.batch())

    def title(self, width: int) -> str:
        """Return a short description of the model of ``width`` features."""
        settings, given = self.settings, self.settings.learner
        of = "" if settings.target is None else f" of {settings.target}"
        if self.is_wrapped:
            return f"{type(self.batch()).__name__}{of} on {width:,} features"
        if settings.task == "clustering":
            return f"{given['k']} clusters (z = {given.get('z', 2.0):g}) in {width:,} columns"
        if settings.task == "lowrank":
            return f"rank-{given['k']} approximation of {width:,} columns"
        if settings.task == "classification":
            return f"logistic regression{of} on {width:,} features"
        kinds = {None: "linear", "quantile": f"{given.get('quantile', 0.5):g} quantile"}
        return f"{kinds.get(self.loss, f'{self.loss} loss')} regression{of} on {width:,} features"

    def invalid_targets(self, targets: Any) -> tuple[BoolArray, str]:
        """Return a mask of the targets outside the domain of the loss, and a description of the domain."""
        least = self.least_target
        if targets is None or least == -math.inf:
            return np.zeros(0 if targets is None else len(targets), dtype=np.bool_), ""
        if self._predictor_loss().is_above_least:
            return np.asarray(targets <= least), f"above {least:g} for --loss {self.loss}"
        return np.asarray(targets < least), f"{least:g} or more for --loss {self.loss}"

    def check_width(self, width: int, name: str) -> None:
        """Raise an error if the task cannot work on this number of numeric columns."""
        if not width:
            raise DataError(f"{name} has no columns besides the target.")
        k = self.settings.learner.get("k", 0) if self.settings.task == "lowrank" else 0
        if k > width:
            raise DataError(f"--k {k} exceeds the {width} columns of {name}.")

    def dataset(self, name: str) -> NamedTable:
        """Return a data set with all its columns."""
        known = dataset_names(self.settings.task)
        if name not in known:
            raise DataError(
                f"There is no data set {name!r} for {self.settings.task}: choose one of {', '.join(known)}."
            )
        return datasets.load_table(name, synthetic.ROWS, 0)

    def used_columns(self, table: NamedTable) -> tuple[str, ...]:
        """Return the names of the columns of a data set that the task uses."""
        if not self.has_targets:
            return table.rows
        if self.settings.task == "classification":
            return (*(table.inputs or table.rows), str(table.label))
        inputs = table.inputs or tuple(name for name in table.columns if name != table.target)
        return (*inputs, str(table.target))
