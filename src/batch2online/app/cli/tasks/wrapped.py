"""Tasks around an estimator that ``--estimator`` names: a class by its dotted name, or a Python file with a ``model``.

Naming one runs its code, as ``python`` would: the name is the user's own. A file of a model never names what is run.
"""

from __future__ import annotations

import ast
import runpy
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from batch2online import BatchToOnline
from batch2online._types import FloatArray
from batch2online.app.cli.tasks.base import Table, Task
from batch2online.app.inputs import DataError
from batch2online.evaluate.losses import LogarithmicLoss
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
        return found(**parameters) if isinstance(found, type) else _with(found, parameters)
    except (TypeError, ValueError) as error:
        raise DataError(f"--estimator {name} cannot be made with these parameters: {error}") from error


def _parameter(text: str) -> tuple[str, Any]:
    """Return the name and the value of a parameter; what is no Python literal is a text.

    >>> _parameter("max_iter=200"), _parameter("loss=absolute_error"), _parameter("layers=(8, 8)")
    (('max_iter', 200), ('loss', 'absolute_error'), ('layers', (8, 8)))
    """
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise DataError(f"--set {text!r} is no parameter: write name=value.")
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError):
        return name.strip(), value.strip()


def _with(estimator: Any, parameters: dict[str, Any]) -> Any:
    return estimator.set_params(**parameters) if parameters else estimator


def _by_name(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    if not module:
        raise DataError(f"--estimator {name} is no dotted name such as sklearn.linear_model.Ridge, nor a .py file.")
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
        raise DataError(f"--estimator {path} fails: {type(error).__name__}: {error}") from error
    if "model" not in found:
        raise DataError(f"--estimator {path} defines no `model`, an estimator.")
    return found["model"]


class WrappedTask(Task):
    """An estimator that the user has named, on a stream."""

    by_loss: ClassVar[str | None] = None
    """The name of the loss, where the kind of estimator does not say it."""

    hindsight_note = "The best model known is solved on the coreset, and its cost measured there."
    best = "model known, by the coreset"
    takes = frozenset()
    unused_settings = frozenset({"z", "history", "k"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.settings.model is None:
            raise DataError(f"--task {self.name} needs --estimator, such as {self.example}.")
        if self.settings.k is not None:
            raise DataError("--k is for our own clusters and components: with --estimator use --set n_clusters=K.")

    example: ClassVar[str] = "sklearn.ensemble.HistGradientBoostingRegressor"

    def batch(self) -> Any:
        """Return the batch algorithm."""
        return named_estimator(str(self.settings.model), self.settings.sets)

    def estimator(self) -> BatchToOnline:
        batch = self.batch()
        resample = hasattr(batch, "fit") and step_without_weights(batch) is not None
        return BatchToOnline(batch, loss=self.by_loss, resample=resample, **self.settings.shared())

    def takes_gaps(self) -> bool:
        return self.settings.model is not None and input_support.accepts_missing(self.batch())

    def title(self, width: int) -> str:
        name = type(self.batch()).__name__
        of = "" if self.settings.target is None else f" of {self.settings.target}"
        return f"{name}{of} on {width:,} inputs"

    def loss(self) -> Any:
        raise DataError(f"--task {self.name} has no rivals to be compared with.")


class WrappedRegression(WrappedTask):
    """A number by the other columns."""

    name = "regression"
    has_targets = True
    by_loss = "squared"

    def loss(self) -> Any:
        return "squared"


class WrappedClassification(WrappedTask):
    """The class of a row by the other columns."""

    name = "classification"
    has_targets = True
    labels = frozenset({ColumnType.STRING, ColumnType.NUMBER})
    example = "sklearn.ensemble.HistGradientBoostingClassifier"

    def loss(self) -> Any:
        return LogarithmicLoss()

    def count(self, y: Any) -> int:
        return len(np.unique(y))

    def comparable(self, X: FloatArray, y: Any) -> Table:
        """Labels as numbers from 0 on, which every learner takes."""
        return X, np.unique(y, return_inverse=True)[1].astype(np.float64)


class WrappedClustering(WrappedTask):
    """Clusters of rows."""

    name = "clustering"
    by_loss = "squared_distance"
    example = "sklearn.cluster.KMeans"

    def loss(self) -> Any:
        return ("kmeans", 2.0)


class DensityTask(WrappedTask):
    """How likely rows are."""

    name = "density"
    by_loss = "negative_log_likelihood"
    example = "sklearn.mixture.GaussianMixture"


class AnomalyTask(WrappedTask):
    """How strange rows are: the mean score of a row is what is watched."""

    name = "anomaly"
    by_loss = "negative_log_likelihood"
    example = "sklearn.ensemble.IsolationForest"


TASKS: dict[str, type[WrappedTask]] = {
    task.name: task for task in (WrappedRegression, WrappedClassification, WrappedClustering, DensityTask, AnomalyTask)
}
