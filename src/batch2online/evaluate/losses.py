"""What learners are judged by: the loss of a row, the best model in hindsight, and how far a model moved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from batch2online._types import FloatArray
from batch2online.evaluate.adapters import Adapter, capacity
from batch2online.evaluate.metrics import changed, label_churn, prediction_change, subspace_angle
from batch2online.evaluate.warm_up import AnswersSoFar
from batch2online.methods.clustering import solver
from batch2online.methods.low_rank.problem import ROUNDING, LowRank, Subspace
from batch2online.warm_up import MeanSoFar

_ORTHONORMAL = 1e-8
_RESTARTS = 10


class Loss(ABC):
    """A loss that a learner pays for each row, under the answer it gave before it was handed the row."""

    @abstractmethod
    def answer(self, learner: Adapter, X: FloatArray) -> Any:
        """Return what the learner says about rows: predictions, or its model. The targets are never shown."""

    @abstractmethod
    def losses(self, answer: Any, X: FloatArray, y: FloatArray | None) -> FloatArray:
        """Loss of each row."""

    def warm_up(self) -> Any:
        """Return what rows are scored by until the first answer, and has seen none: the mean of the rows before."""
        return MeanSoFar(of_targets=False)

    def without_model(self, warm_up: Any, X: FloatArray, y: FloatArray | None) -> tuple[FloatArray, Any]:
        """Loss of each row by those before it, as ``regret_`` has it, and what has seen these as well."""
        (losses, _), warm_up = warm_up.scored(X, _columns(X, y), np.ones(len(X)))
        return losses, warm_up

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
        """Return the loss with the size of the models in hindsight decided: as many clusters as the learner has."""
        return self


@dataclass(frozen=True)
class Squared(Loss):
    """Regression: squared error, summed over targets. Hindsight: least squares with an intercept."""

    def answer(self, learner: Adapter, X: FloatArray) -> FloatArray:
        return learner.predict(X)

    def losses(self, answer: Any, X: FloatArray, y: FloatArray | None) -> FloatArray:
        squared = np.square(_residuals(answer, y))
        return squared if squared.ndim == 1 else squared.sum(axis=1)

    def warm_up(self) -> Any:
        return MeanSoFar(of_targets=True)

    def hindsight(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        if y is None:
            raise ValueError("A loss of regression needs targets: pass y.")
        rows = np.column_stack([np.ones(len(X)), X])
        return self.losses(rows @ np.linalg.lstsq(rows, y, rcond=None)[0], X, y)

    def movement(self, old: Any, new: Any, probe: FloatArray) -> float:
        return prediction_change(old, new)


@dataclass(frozen=True)
class Absolute(Squared):
    """Regression: the root of the squared error of a row. Hindsight: still the least-squares model."""

    def losses(self, answer: Any, X: FloatArray, y: FloatArray | None) -> FloatArray:
        return np.sqrt(super().losses(answer, X, y))

    def without_model(self, warm_up: Any, X: FloatArray, y: FloatArray | None) -> tuple[FloatArray, Any]:
        (_, roots), warm_up = warm_up.scored(X, _columns(X, y), np.ones(len(X)))
        return roots, warm_up


@dataclass(frozen=True)
class Predictions(Squared):
    """Any function of targets and predictions that gives a loss for each row; hindsight is not known (NaN).

    Until the first model the prediction is the mean of the targets before a row, for labels the most frequent one.
    """

    function: Callable[[Any, Any], Any]

    def losses(self, answer: Any, X: FloatArray, y: FloatArray | None) -> FloatArray:
        return np.asarray(self.function(y, answer), dtype=np.float64)

    def warm_up(self) -> Any:
        return AnswersSoFar()

    def without_model(self, warm_up: Any, X: FloatArray, y: FloatArray | None) -> tuple[FloatArray, Any]:
        answers, following = warm_up.before(np.asarray(y))
        losses = self.losses(answers, X, y)
        if warm_up.is_empty:
            losses[:1] = 0.0
        return losses, following

    def hindsight(self, X: FloatArray, y: FloatArray | None) -> FloatArray:
        return np.full(len(X), np.nan)

    def movement(self, old: Any, new: Any, probe: FloatArray) -> float:
        """For labels the share that changed."""
        return prediction_change(old, new) if old.dtype.kind == "f" else float((old != new).mean())


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

    def warm_up(self) -> Any:
        return MeanSoFar(of_targets=False, power=self.z)

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

    def warm_up(self) -> Any:
        return MeanSoFar(of_targets=False, power=2.0 if self.squared else 1.0)

    def differ(self, old: Any, new: Any) -> bool:
        """Bases of the same subspace are the same model, and so are subspaces that rounding tells apart."""
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


def _residuals(answer: Any, y: FloatArray | None) -> FloatArray:
    if y is None:
        raise ValueError("A loss of regression needs targets: pass y.")
    return np.asarray(y - np.reshape(answer, y.shape))


def _columns(X: FloatArray, y: FloatArray | None) -> FloatArray:
    return np.empty((len(X), 0)) if y is None else y.reshape(len(y), -1)


def _orthonormal(components: FloatArray) -> FloatArray:
    """Return a basis of the same subspace that is orthonormal: the components themselves where they are."""
    overlap = components @ components.T
    if np.abs(overlap - np.eye(len(components))).max(initial=0.0) < _ORTHONORMAL:
        return components
    return np.asarray(np.linalg.qr(components.T)[0].T)


def _needed_capacity(model: Any, name: str) -> int:
    found = capacity(model)
    if found is None:
        raise ValueError(f"{type(model).__name__} does not say its {name}: give the loss as an object with it.")
    return found
