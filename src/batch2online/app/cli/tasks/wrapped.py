"""Tasks of an estimator that ``--estimator`` names: a dotted class name, or a Python file that defines ``model``.

Naming an estimator runs its code, as ``python`` does. A model file never names code to run.
"""

from __future__ import annotations

import ast
import runpy
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import batch2online
from batch2online import BatchToOnline
from batch2online._types import FloatArray
from batch2online.app.cli.tasks.task import ClassificationTask, RegressionTask, Table, Task
from batch2online.app.inputs import DataError
from batch2online.frames.columns import ColumnType
from batch2online.methods.any_estimator import input_support
from batch2online.methods.any_estimator.weighted_fit import step_without_weights


def named_estimator(name: str, sets: Sequence[str] = ()) -> Any:
    """Return the estimator of this name, with these parameters.

    >>> named_estimator("sklearn.linear_model.Ridge", ["alpha=0.5"])
    Ridge(alpha=0.5)
    """
    parameters = dict(map(_parameter, sets))
    found = _in_file(name) if name.endswith(".py") else _by_name(name)
    try:
        if isinstance(found, type):
            return found(**parameters)
        return found.set_params(**parameters) if parameters else found
    except (TypeError, ValueError) as error:
        raise DataError(f"--estimator {name} does not accept these parameters: {error}") from error


def _parameter(setting: str) -> tuple[str, Any]:
    """Return the name and the value of a parameter; a value that is not a Python literal is a string.

    >>> _parameter("max_iter=200"), _parameter("loss=absolute_error"), _parameter("layers=(8, 8)")
    (('max_iter', 200), ('loss', 'absolute_error'), ('layers', (8, 8)))
    """
    name, sign, value = setting.partition("=")
    if not sign or not name.strip():
        raise DataError(f"--set {setting!r} is not of the form name=value.")
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError):
        return name.strip(), value.strip()


def _by_name(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    if not module:
        raise DataError(
            f"--estimator {name} is neither a dotted name such as sklearn.linear_model.Ridge nor a .py file."
        )
    try:
        return getattr(import_module(module), attribute)
    except ImportError as error:
        raise DataError(f"--estimator {name} cannot be imported: {error}.") from error
    except AttributeError as error:
        raise DataError(f"--estimator {name}: {module} has no {attribute}.") from error


def _in_file(path: str) -> Any:
    if not Path(path).is_file():
        raise DataError(f"--estimator {path}: there is no such file.")
    try:
        found = runpy.run_path(path)
    except Exception as error:
        raise DataError(f"--estimator {path} raised {type(error).__name__}: {error}") from error
    if "model" not in found:
        raise DataError(f"--estimator {path} does not define `model`, an estimator.")
    return found["model"]


class WrappedTask(Task):
    """An online estimator around the batch estimator of ``--estimator``."""

    loss_name: ClassVar[str | None] = None
    """Loss of the estimator; None is the default loss of its kind."""

    example: ClassVar[str] = "sklearn.ensemble.HistGradientBoostingRegressor"

    def __post_init__(self) -> None:
        if self.settings.model is None:
            raise DataError(f"--task {self.name} needs --estimator, such as {self.example}.")
        if "k" in self.settings.learner:
            raise DataError("--k does not apply to --estimator: use --set n_clusters=K.")
        super().__post_init__()

    def batch(self) -> Any:
        """Return the batch estimator."""
        return named_estimator(str(self.settings.model), self.settings.sets)

    def estimator(self) -> BatchToOnline:
        batch = self.batch()
        resample = hasattr(batch, "fit") and step_without_weights(batch) is not None
        return BatchToOnline(batch, loss=self.loss_name, resample=resample, **self.settings.arguments())

    def accepts_missing(self) -> bool:
        return self.settings.model is not None and input_support.accepts_missing(self.batch())

    def title(self, width: int) -> str:
        of = "" if self.settings.target is None else f" of {self.settings.target}"
        return f"{type(self.batch()).__name__}{of} on {width:,} features"

    def loss(self) -> Any:
        raise DataError(f"--task {self.name} has no other learners to compare with.")


class WrappedRegression(WrappedTask):
    """Regression with any estimator."""

    name = "regression"
    has_targets = True
    loss_name = "squared"
    real_datasets = RegressionTask.real_datasets
    used_columns = RegressionTask.used_columns

    def loss(self) -> Any:
        return "squared"


class WrappedClassification(WrappedTask):
    """Classification with any estimator."""

    name = "classification"
    has_targets = True
    labels = frozenset({ColumnType.STRING, ColumnType.NUMBER})
    example = "sklearn.ensemble.HistGradientBoostingClassifier"
    real_datasets = ClassificationTask.real_datasets
    used_columns = ClassificationTask.used_columns

    def loss(self) -> Any:
        return batch2online.evaluate.losses.LogarithmicLoss()

    def count(self, y: Any) -> int:
        return len(np.unique(y))

    def comparable(self, X: FloatArray, y: Any) -> Table:
        """Encode labels as numbers from 0, which every learner accepts."""
        return X, np.unique(y, return_inverse=True)[1].astype(np.float64)


class WrappedClustering(WrappedTask):
    """Clustering with any estimator."""

    name = "clustering"
    loss_name = "squared_distance"
    example = "sklearn.cluster.KMeans"

    def loss(self) -> Any:
        return ("kmeans", 2.0)


class DensityTask(WrappedTask):
    """Density estimation."""

    name = "density"
    loss_name = "negative_log_likelihood"
    example = "sklearn.mixture.GaussianMixture"


class AnomalyTask(WrappedTask):
    """Anomaly detection; the loss of a row is its anomaly score."""

    name = "anomaly"
    loss_name = "negative_log_likelihood"
    example = "sklearn.ensemble.IsolationForest"


TASKS: dict[str, type[WrappedTask]] = {
    task.name: task for task in (WrappedRegression, WrappedClassification, WrappedClustering, DensityTask, AnomalyTask)
}
