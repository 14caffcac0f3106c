"""Losses that learners are compared by: the loss of a row, the best model in hindsight, how far a model has moved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh, subspace_angles
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression, LogisticRegression

from batch2online._types import FloatArray, IntArray
from batch2online.evaluate.adapters import Adapter, capacity
from batch2online.methods import losses as table
from batch2online.methods.clustering import solver
from batch2online.methods.least_squares.estimator import OnlineRegression
from batch2online.methods.low_rank.problem import ROUNDING, LowRank, Subspace
from batch2online.warm_up import MeanSoFar, WarmUp


def changed(old: Any, new: Any) -> bool:
    """Whether two models, given as an array or a tuple of arrays, differ in any number.

    >>> changed(np.zeros(3), np.zeros(3)), changed(np.zeros(3), np.array([0.0, 0.0, 1e-300]))
    (False, True)
    """
    if isinstance(old, tuple):
        return len(old) != len(new) or any(map(changed, old, new))
    are_numbers = np.asarray(old).dtype.kind == "f"
    return not np.array_equal(old, new, equal_nan=are_numbers)


def nearest(centers: FloatArray, points: FloatArray) -> IntArray:
    """Return the label of each point: the number of its nearest center."""
    return np.asarray(cdist(points, centers, "sqeuclidean").argmin(axis=1), dtype=np.int64)


def label_churn(old: FloatArray, new: FloatArray, points: FloatArray) -> float:
    """Share of the points whose label differs under two sets of centers, as a user of the labels sees it.

    Centers that are the same but renumbered count in full.

    >>> centers = np.array([[0.0], [1.0]])
    >>> label_churn(centers, centers[::-1], np.array([[0.1], [0.9]]))
    1.0
    """
    return float((nearest(old, points) != nearest(new, points)).mean())


def subspace_angle(old: FloatArray, new: FloatArray) -> float:
    """Largest angle in radians between the row spaces of two bases, each (k, d).

    >>> round(subspace_angle(np.array([[1.0, 0.0]]), np.array([[1.0, 1.0]])), 4)
    0.7854
    """
    return float(subspace_angles(old.T, new.T)[0])


def prediction_change(old: FloatArray, new: FloatArray) -> float:
    """Root mean square difference of two models' predictions on the same probe rows.

    >>> prediction_change(np.array([1.0, 2.0]), np.array([1.0, 4.0])) ** 2
    2.0000000000000004
    """
    return float(np.sqrt(np.square(np.asarray(new) - np.asarray(old)).mean()))


_ORTHONORMAL = 1e-8
_RESTARTS = 10


class Loss(ABC):
    """A loss that a learner pays for each row, under the answer it gave before it was handed the row."""

    @abstractmethod
    def answer(self, learner: Adapter, X: FloatArray) -> Any:
        """Return the learner's predictions for rows, or its model. It never receives the targets."""

    @abstractmethod
    def losses(self, answer: Any, X: FloatArray, y: FloatArray | None) -> FloatArray:
        """Loss of each row."""

    def before_model(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        """Return the loss of each row of a stream, predicted from those before it as in ``regret_``."""
        return _scored_by(MeanSoFar(of_targets=False), X, y)

    def differ(self, old: Any, new: Any) -> bool:
        """Whether two answers on the same rows are those of different models."""
        return changed(old, new)

    @abstractmethod
    def hindsight(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        """Loss of each row under the best single model of all of them."""

    @abstractmethod
    def movement(self, old: Any, new: Any, probe: FloatArray) -> float:
        """How far the answers on probe rows moved between two models."""

    def bound_to(self, model: Any) -> Self:
        """Return the loss whose model in hindsight has as many clusters as this learner."""
        return self


@dataclass(frozen=True)
class Predictions(Loss):
    """A loss of predictions: a function of targets and predictions, or an entry of the table of losses.

    ``best`` is an estimator whose fit to all rows is the model in hindsight, which is not known otherwise (NaN). Until
    the first model, a function is given the mean of the targets before a row, for labels the most frequent one.
    """

    function: Callable[[Any, Any], Any] | table.Loss
    best: Any = field(default=None, compare=False, repr=False)

    def answer(self, learner: Adapter, X: FloatArray) -> Any:
        return learner.predict(X)

    def losses(self, answer: Any, X: FloatArray, y: FloatArray | None) -> FloatArray:
        if y is None:
            raise ValueError("A loss of predictions needs targets: pass y.")
        if isinstance(self.function, table.Loss):
            return self.function.of_prediction(answer, y)[0]
        return np.asarray(self.function(y, answer), dtype=np.float64)

    def before_model(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        if isinstance(self.function, table.Loss):
            return _scored_by(self.function.warm_up(), X, y)
        losses = self.losses(_predicted_so_far(np.asarray(y)), X, y)
        losses[:1] = 0.0
        return losses

    def hindsight(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        if self.best is None:
            return np.full(len(X), np.nan)
        return self.losses(clone(self.best).fit(X, y).predict(X), X, y)

    def movement(self, old: Any, new: Any, probe: FloatArray) -> float:
        """For labels the share that changed."""
        return prediction_change(old, new) if old.dtype.kind == "f" else float((old != new).mean())


def _scored_by(warm_up: WarmUp, X: FloatArray, y: FloatArray | None) -> FloatArray:
    targets = np.empty((len(X), 0)) if y is None else y.reshape(len(y), -1)
    return warm_up.score(X, targets, np.ones(len(X)))[0][0]


def _predicted_so_far(y: Any) -> Any:
    """Return the mean of the targets before each row, or the most frequent of the labels before it.

    >>> _predicted_so_far(np.array(["a", "b", "b", "a"])).tolist()
    ['a', 'a', 'a', 'b']
    """
    if y.dtype.kind == "f":
        away, _ = MeanSoFar(of_targets=True).residuals(y.reshape(len(y), -1), np.ones(len(y)))
        return y - away.reshape(y.shape)
    counts, found = Counter[Any](), []
    for label in y.tolist():
        found.append(counts.most_common(1)[0][0] if counts else label)
        counts[label] += 1
    return np.array(found)


@dataclass(frozen=True)
class Squared(Predictions):
    """Regression: squared error, summed over targets. Hindsight: least squares with an intercept."""

    function: Any = field(default=table.LOSSES["squared"], repr=False)
    best: Any = field(default_factory=LinearRegression, compare=False, repr=False)


@dataclass(frozen=True)
class Absolute(Squared):
    """Regression: the root of the squared error of a row. Hindsight: still the least-squares model."""

    function: Any = field(default=table.LOSSES["absolute"], repr=False)


@dataclass(frozen=True)
class LogarithmicLoss(Predictions):
    """Negative logarithm of the predicted probability of the true class.

    Hindsight: ``LogisticRegression`` on all rows.
    """

    function: Any = field(default=table.LOSSES["log"], repr=False)
    best: Any = field(default_factory=lambda: LogisticRegression(max_iter=1000), compare=False, repr=False)

    def answer(self, learner: Adapter, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        return learner.probabilities(X)

    def losses(self, answer: Any, X: FloatArray, y: FloatArray | None) -> FloatArray:
        classes, shares = answer
        assert y is not None
        place = np.searchsorted(classes, y).clip(max=len(classes) - 1)
        return super().losses(shares, X, np.where(classes[place] == y, place, len(classes)))

    def hindsight(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        best = clone(self.best).fit(X, y)
        return self.losses((best.classes_, best.predict_proba(X)), X, y)

    def movement(self, old: Any, new: Any, probe: FloatArray) -> float:
        """Mean absolute change of a probability, 1 where there are other classes now."""
        return float(np.abs(old[1] - new[1]).mean()) if np.array_equal(old[0], new[0]) else 1.0


@dataclass(frozen=True)
class WithScale:
    """A loss of linear models as a function of targets and predictions; Huber's has this scale.

    Predictions that the loss has no value for, such as a count below zero, cost what the nearest ones do.

    >>> WithScale(table.Poisson())(np.array([1.0, 2.0]), np.array([1.0, 2.0])).tolist()
    [0.0, 0.0]
    """

    loss: table.PredictorLoss
    scale: float = 1.0

    def __call__(self, y: FloatArray, predictions: Any) -> FloatArray:
        values = np.clip(np.asarray(predictions, dtype=np.float64), -1e100, 1e100)
        return self.loss.value(self.loss.predictor(values), y, self.loss.scoring_scale(self.scale))


def of_regression(
    loss: Any, scale: float = 1.0, alpha: float = 0.0, l1_ratio: float = 0.0, **own: float
) -> Predictions:
    """Return a loss of ``OnlineRegression``, which has the same parameters: in hindsight, its fit to all rows."""
    best = OnlineRegression(loss=loss, alpha=alpha, l1_ratio=l1_ratio, coreset_size=_EVERYTHING, random_state=0)
    return Predictions(WithScale(table.predictor_loss(loss, **own), scale), best.set_params(**own))


_EVERYTHING = 2**40
"""A size of a coreset that no table reaches: all rows are kept."""


@dataclass(frozen=True)
class ClusteringLoss(Loss):
    """Distance to the nearest center to the power z. Hindsight: the best of ten runs of k-means++ and Lloyd.

    For z other than 2 hindsight is the best that this package's own solver finds, on all rows. ``n_clusters`` is
    that of the learner unless given.
    """

    z: float = 2.0
    n_clusters: int | None = None

    def answer(self, learner: Adapter, X: FloatArray) -> FloatArray:
        return learner.centers()

    def losses(self, answer: Any, X: FloatArray, y: FloatArray | None) -> FloatArray:
        squared = cdist(X, answer, "sqeuclidean").min(axis=1)
        return np.asarray(squared if self.z == 2 else squared ** (self.z / 2))

    def before_model(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        return _scored_by(MeanSoFar(of_targets=False, power=self.z), X, y)

    def hindsight(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        assert self.n_clusters is not None
        return self.losses(best_centers(X, self.n_clusters, self.z), X, y)

    def movement(self, old: Any, new: Any, probe: FloatArray) -> float:
        return label_churn(old, new, probe)

    def bound_to(self, model: Any) -> Self:
        return self if self.n_clusters else replace(self, n_clusters=_needed_capacity(model, "n_clusters"))


@dataclass(frozen=True)
class LowRankLoss(Loss):
    """Squared distance to a subspace through zero; with ``center``, to one through the learner's mean.

    Hindsight: the leading singular vectors of all rows (less their mean). ``squared=False`` is the loss as the paper
    writes it, with the same model in hindsight.
    """

    n_components: int | None = None
    center: bool = False
    squared: bool = True

    def answer(self, learner: Adapter, X: FloatArray) -> tuple[FloatArray, ...]:
        components, mean = learner.subspace()
        return (components, mean) if self.center else (components,)

    def losses(self, answer: Any, X: FloatArray, y: FloatArray | None) -> FloatArray:
        components, mean = (*answer, np.zeros(X.shape[1]))[:2]
        subspace = Subspace(_orthonormal(components), mean)
        squared, root = LowRank(len(components), self.center).losses(subspace, X, np.empty((len(X), 0)))
        return squared if self.squared else root

    def before_model(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        return _scored_by(MeanSoFar(of_targets=False, power=2.0 if self.squared else 1.0), X, y)

    def differ(self, old: Any, new: Any) -> bool:
        """Bases of the same subspace count as the same model, and so do subspaces that differ by rounding alone."""
        return subspace_angle(old[0], new[0]) > ROUNDING or changed(old[1:], new[1:])

    def hindsight(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        assert self.n_components is not None
        mean = X.mean(axis=0) if self.center else np.zeros(X.shape[1])
        d = X.shape[1]
        gram = X.T @ X - len(X) * np.outer(mean, mean)
        components = eigh(gram, subset_by_index=[d - min(self.n_components, d), d - 1])[1].T
        return self.losses((components, mean), X, y)

    def movement(self, old: Any, new: Any, probe: FloatArray) -> float:
        return subspace_angle(old[0], new[0])

    def bound_to(self, model: Any) -> Self:
        return self if self.n_components else replace(self, n_components=_needed_capacity(model, "n_components"))


NAMES: dict[str, Loss] = {
    "squared": Squared(),
    "regression": Squared(),
    "absolute": Absolute(),
    "clustering": ClusteringLoss(),
    "kmeans": ClusteringLoss(),
    "kmedian": ClusteringLoss(z=1.0),
    "lowrank": LowRankLoss(),
    "pca": LowRankLoss(center=True),
}


def loss_of(loss: Any) -> Loss:
    """Return a loss from an object, a name, ``("kmeans", z)``, or a function of targets and predictions.

    >>> loss_of(("kmeans", 1.5))
    ClusteringLoss(z=1.5, n_clusters=None)
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, tuple) and len(loss) == 2 and loss[0] in ("kmeans", "clustering"):
        return ClusteringLoss(z=float(loss[1]))
    if isinstance(loss, str) and loss in NAMES:
        return NAMES[loss]
    if callable(loss):
        return Predictions(loss)
    raise ValueError(f"Unknown loss {loss!r}: choose one of {', '.join(NAMES)}, a Loss, or a function.")


def best_centers(X: FloatArray, n_clusters: int, z: float = 2.0, seed: int = 0) -> FloatArray:
    """Return the best centers known for all rows: hindsight."""
    if z == 2:
        return np.asarray(KMeans(n_clusters, n_init=_RESTARTS, random_state=seed).fit(X).cluster_centers_)
    return np.asarray(solver.solve(X, np.ones(len(X)), n_clusters, z, seed, starts=_RESTARTS))


def _orthonormal(components: FloatArray) -> FloatArray:
    """Return a basis of the same subspace that is orthonormal: the components themselves where they are."""
    overlap = components @ components.T
    if np.abs(overlap - np.eye(len(components))).max(initial=0.0) < _ORTHONORMAL:
        return components
    return np.asarray(np.linalg.qr(components.T)[0].T)


def _needed_capacity(model: Any, name: str) -> int:
    found = capacity(model)
    if found is None:
        raise ValueError(f"{type(model).__name__} has no {name}: give the loss as an object with it.")
    return found
