"""Streams for losses of a linear predictor: data sets, ours, refits on all rows, and the streaming peers."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor

from batch2online import OnlineClassifier, OnlineRegression, datasets
from benchmarks.suite.positive_targets import LOADERS

EVERYTHING = 10**9
"""A size of a coreset that no stream reaches: all rows are kept, and every model is a refit on all of them."""


@dataclass(frozen=True)
class Contest:
    """A data set and a loss: how to load the rows, to make ours, and the batch algorithm that is refitted."""

    load: Callable[[], tuple[np.ndarray, Any]]
    ours: Callable[..., Any]
    batch: Callable[[], Any] | None
    """scikit-learn's estimator; None where it takes hours, and ours on all rows is refitted in its place."""
    loss: Callable[[Any, np.ndarray, Any], np.ndarray]


def log_loss(model: Any, X: np.ndarray, y: Any) -> np.ndarray:
    found = model.predict_proba(X)
    classes = np.asarray(model.classes_)
    place = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    own = np.where(classes[place] == y, found[np.arange(len(y)), place], 0.0)
    return -np.log(np.clip(own, 1e-15, 1.0))


def pinball(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.abs(y - model.predict(X))


def half_poisson(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    mean = model.predict(X)
    return mean - y * np.log(mean) + np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0)), 0.0) - y


def half_gamma(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    mean = model.predict(X)
    return y / mean - np.log(y / mean) - 1


def huber(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Huber's loss at a fixed scale, a tenth of the targets' standard deviation of 1."""
    size, scale = np.abs(y - model.predict(X)), 0.1
    inner = np.minimum(size, 1.35 * scale)
    return inner**2 / scale + 2 * 1.35 * (size - inner)


def _labelled(name: str, solver: str = "newton-cholesky") -> Contest:
    batch = partial(LogisticRegression, solver=solver, max_iter=1_000)
    return Contest(partial(datasets.load_classification, name), OnlineClassifier, batch, log_loss)


def _numbers(name: str, loss: str, measure: Any, batch: Any = None) -> Contest:
    load = LOADERS.get(name, partial(datasets.load_regression, name))
    return Contest(load, partial(OnlineRegression, loss=loss), batch, measure)


def _separable() -> tuple[np.ndarray, np.ndarray]:
    """Two classes on either side of a plane."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(20_000, 10))
    return X, np.where(X @ rng.normal(size=10) > 0, "above", "below")


def _ten_classes() -> tuple[np.ndarray, np.ndarray]:
    """Ten Gaussian classes that overlap."""
    rng = np.random.default_rng(12)
    labels = rng.integers(10, size=20_000)
    return rng.normal(size=(10, 10))[labels] + rng.normal(size=(20_000, 10)), labels


def _drawn(load: Callable[[], tuple[np.ndarray, Any]], solver: str) -> Contest:
    return Contest(load, OnlineClassifier, partial(LogisticRegression, solver=solver, max_iter=1_000), log_loss)


_poisson = partial(PoissonRegressor, alpha=0.0, solver="newton-cholesky", max_iter=1_000)
_gamma = partial(GammaRegressor, alpha=0.0, solver="newton-cholesky", max_iter=1_000)
CONTESTS: dict[str, Contest] = {
    "breast_cancer": _labelled("breast_cancer"),
    "flights_late": _labelled("flights_late"),
    "flights_rare": _labelled("flights_rare"),
    "flights_departure": _labelled("flights_departure"),
    "shuttle": _labelled("shuttle"),
    "separable": _drawn(_separable, "newton-cholesky"),
    "ten_classes": _drawn(_ten_classes, "lbfgs"),
    "diamonds_cut": _labelled("diamonds_cut", "lbfgs"),
    "letter": _labelled("letter", "lbfgs"),
    "air_time, gamma": _numbers("air_time", "gamma", half_gamma, _gamma),
    "doctor_visits, poisson": _numbers("doctor_visits", "poisson", half_poisson, _poisson),
    "weeks_worked, poisson": _numbers("weeks_worked", "poisson", half_poisson, _poisson),
    "flights, absolute": _numbers("flights", "absolute", pinball),
    "diamonds, absolute": _numbers("diamonds", "absolute", pinball),
    "diamonds, huber": _numbers("diamonds", "huber", huber),
}


class Refits:
    """A batch algorithm refitted on all rows whenever their number has doubled, at the times of ours."""

    def __init__(self, batch: Callable[[], Any], start: int) -> None:
        self.batch, self.next, self.model = batch, start, None
        self.rows: list[np.ndarray] = []
        self.targets: list[Any] = []
        self.n, self.changes = 0, 0

    def partial_fit(self, X: np.ndarray, y: Any) -> None:
        taken = 0
        while self.n + len(X) - taken >= self.next:
            taken, before = taken + self.next - self.n, taken
            self._keep(X[before:taken], y[before:taken])
            self._refit()
        self._keep(X[taken:], y[taken:])

    def _keep(self, X: np.ndarray, y: Any) -> None:
        self.rows.append(X.copy())
        self.targets.append(y.copy())
        self.n += len(X)

    def _refit(self) -> None:
        self.rows, self.targets = [np.concatenate(self.rows)], [np.concatenate(self.targets)]
        self.next *= 2
        if len(np.unique(self.targets[0])) < 2:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = self.batch().fit(self.rows[0], self.targets[0])
        self.changes += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["model"], name)


def refits_of(contest: Contest, width: int) -> Any:
    """Return what refits the batch algorithm of a contest on all rows, at the times of ours."""
    if contest.batch is None:
        return contest.ours(coreset_size=EVERYTHING, random_state=0)
    return Refits(contest.batch, 3 * (width + 1))


class RowByRow:
    """Ours, one row at a time."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def partial_fit(self, X: np.ndarray, y: Any) -> None:
        for row, target in zip(X, y, strict=True):
            self.model.learn_one(row, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["model"], name)


class Sgd(RowByRow):
    """scikit-learn's stochastic gradient descent, in chunks."""

    changes_ = ()

    def __init__(self, model: Any, classes: np.ndarray) -> None:
        super().__init__(model)
        self.classes = classes

    def partial_fit(self, X: np.ndarray, y: Any) -> None:
        self.model.partial_fit(X, y, classes=self.classes)


class RiverClassifier:
    """River's logistic regression, one row at a time."""

    changes_ = ()

    def __init__(self, classes: np.ndarray) -> None:
        from river import linear_model, multiclass, preprocessing

        binary = linear_model.LogisticRegression()
        inner = binary if len(classes) == 2 else multiclass.OneVsRestClassifier(binary)
        self.classes_, self.model = classes, preprocessing.StandardScaler() | inner

    def partial_fit(self, X: np.ndarray, y: Any) -> None:
        for row, target in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), target)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        found = [self.model.predict_proba_one(dict(enumerate(row))) for row in X.tolist()]
        return np.array([[each.get(label, 0.0) for label in self.classes_.tolist()] for each in found])


@dataclass(frozen=True)
class Stream:
    """What a learner did on a stream: its loss from the first chunk on, rows a processor second, changes since."""

    loss: float
    rows_per_second: float
    changes: int


def stream(learner: Any, loss: Any, X: np.ndarray, y: Any, chunk: int) -> Stream:
    """Feed chunks; each is scored under the model before it, but for the first."""
    total, seconds = 0.0, 0.0
    for start in range(0, len(X), chunk):
        rows, targets = X[start : start + chunk], y[start : start + chunk]
        if start:
            total += float(loss(learner, rows, targets).sum())
        began = time.process_time()
        learner.partial_fit(rows, targets)
        seconds += time.process_time() - began
    changes = learner.changes if isinstance(learner, Refits) else sum(e.at > chunk for e in learner.changes_)
    return Stream(total, len(X) / seconds, changes)


def megabytes(learner: Any, X: np.ndarray, y: Any, chunk: int) -> tuple[float, float]:
    """Most memory that a learner has held between calls, buffered rows included, and taken during one."""
    held = 0
    tracemalloc.start()
    try:
        for start in range(0, len(X), chunk):
            learner.partial_fit(X[start : start + chunk], y[start : start + chunk])
            held = max(held, tracemalloc.get_traced_memory()[0])
        return held / 1e6, tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
