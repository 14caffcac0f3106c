"""For any batch estimator: fit again on all rows so far, or on a uniform sample of them; for k-means, keep labels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh, solve
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from batch2online._types import FloatArray, Seed
from batch2online.numerics.matching import matched, shared_weight

STARTS = 8
"""Starts of k-means: as many as our solver has."""


class _Refitted(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all: a batch estimator that is refitted as rows accumulate, and predicts."""

    estimator: Any
    growth: float

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        rows = np.asarray(X, dtype=np.float64)
        if y is not None:
            rows = np.column_stack([rows, y])
        if "n_seen_" not in vars(self):
            self.n_seen_, self._next, self._n_inputs = 0, self._fewest(), np.shape(X)[1]
            self._start(rows.shape[1])
        self._keep(rows)
        self.n_seen_ += len(rows)
        if self.n_seen_ >= self._next:
            self.estimator_ = self._fitted(self._kept())
            self._next = max(self.n_seen_ + 1, math.ceil(self.growth * self.n_seen_))
        return self

    def _fewest(self) -> int:
        """Rows below which the batch problem cannot be posed: one more than clusters or components."""
        sizes = [getattr(self.estimator, name, None) for name in ("n_clusters", "n_components")]
        return max([1, *(int(size) + 1 for size in sizes if isinstance(size, int | np.integer))])

    def _fitted(self, rows: FloatArray) -> Any:
        inputs, targets = rows[:, : self._n_inputs], rows[:, self._n_inputs :]
        batch = clone(self.estimator)
        if targets.shape[1] == 0:
            return batch.fit(inputs)
        return batch.fit(inputs, targets[:, 0] if targets.shape[1] == 1 else targets)

    @abstractmethod
    def _start(self, width: int) -> None:
        """Begin with rows of this many columns."""

    @abstractmethod
    def _keep(self, rows: FloatArray) -> None:
        """Keep rows."""

    @abstractmethod
    def _kept(self) -> FloatArray:
        """Return the rows to fit on."""

    def predict(self, X: ArrayLike) -> Any:
        return self._check_fitted().predict(X)

    def predict_proba(self, X: ArrayLike) -> Any:
        """Probabilities of ``classes_``, where the batch estimator gives them."""
        return self._check_fitted().predict_proba(X)

    def _check_fitted(self) -> Any:
        if "estimator_" not in vars(self):
            raise NotFittedError(f"This {type(self).__name__} has not seen enough rows to fit {self.estimator}.")
        return self.estimator_

    def __getattr__(self, name: str) -> Any:
        """Return the fitted attributes of the batch estimator: ``cluster_centers_``, ``components_``, ``coef_``, ..."""
        if name.endswith("_") and not name.startswith("_") and "estimator_" in vars(self):
            return getattr(self.estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class FollowTheLeader(_Refitted):
    """The best model of all rows so far, fitted again whenever they have grown by a factor.

    Parameters
    ----------
    estimator : estimator
        A scikit-learn estimator, cloned for each fit.
    growth : float
        1 fits at every chunk, 2 whenever the number of rows has doubled.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> model = FollowTheLeader(LinearRegression()).partial_fit([[0.0], [1.0]], [1.0, 3.0])
    >>> model.predict([[2.0]]).round(6).tolist()
    [5.0]
    """

    def __init__(self, estimator: Any, growth: float = 1.0) -> None:
        self.estimator = estimator
        self.growth = growth

    def _start(self, width: int) -> None:
        self._parts: list[FloatArray] = []

    def _keep(self, rows: FloatArray) -> None:
        self._parts.append(rows)

    def _kept(self) -> FloatArray:
        self._parts = [np.concatenate(self._parts)]
        return self._parts[0]


class Reservoir(_Refitted):
    """The best model of a uniform sample of the rows so far (Vitter's reservoir, algorithm R).

    Parameters
    ----------
    estimator : estimator
        A scikit-learn estimator, cloned for each fit.
    size : int
        Rows of the sample.
    growth : float
        Fitted again whenever the number of rows seen has grown by this factor.
    random_state : None, int or generator
        For the sample.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.arange(1000.0)[:, None]
    >>> model = Reservoir(LinearRegression(), size=10, random_state=0).partial_fit(X, 2 * X[:, 0] + 1)
    >>> model.predict([[2.0]]).round(6).tolist()
    [5.0]
    """

    def __init__(
        self,
        estimator: Any,
        size: int = 1000,
        growth: float = 2.0,
        random_state: Seed = None,
    ) -> None:
        self.estimator = estimator
        self.size = size
        self.growth = growth
        self.random_state = random_state

    def _start(self, width: int) -> None:
        self._rng, self.sample_ = np.random.default_rng(self.random_state), np.empty((0, width))

    def _keep(self, rows: FloatArray) -> None:
        self.sample_ = reservoir_replacements(self.sample_, rows, self.n_seen_, self.size, self._rng)

    def _kept(self) -> FloatArray:
        return self.sample_


def reservoir_replacements(
    sample: FloatArray, rows: FloatArray, n_seen: int, size: int, rng: np.random.Generator
) -> FloatArray:
    """Return a uniform sample of ``n_seen + len(rows)`` rows from one of the first ``n_seen``."""
    free = max(0, size - len(sample))
    sample = np.concatenate([sample, rows[:free]])
    later = rows[free:]
    places = rng.integers(np.arange(n_seen + free, n_seen + len(rows)) + 1)
    for place, row in zip(places[places < size], later[places < size], strict=True):
        sample[place] = row
    return sample


TINY = 1e-9
"""Added to the diagonal of a Gram matrix, so that fewer rows than columns have a solution too."""


class Gram(_Refitted):
    """The Gram matrix of all rows so far, solved whenever their number has grown by a factor.

    With targets it gives least squares with an intercept, without them the leading subspace through zero.

    Examples
    --------
    >>> Gram().partial_fit(np.array([[0.0], [1.0]]), np.array([1.0, 3.0])).predict([[2.0]]).round(6).tolist()
    [5.0]
    >>> Gram(1).partial_fit(np.array([[3.0, 0.0], [0.0, 1.0]])).components_.round(6).tolist()
    [[1.0, 0.0]]
    """

    estimator = None

    def __init__(self, n_components: int = 0, growth: float = 2.0) -> None:
        self.n_components = n_components
        self.growth = growth

    def _start(self, width: int) -> None:
        self.gram_ = np.zeros((width + (not self.n_components),) * 2)

    def _keep(self, rows: FloatArray) -> None:
        rows = rows if self.n_components else np.column_stack([np.ones(len(rows)), rows])
        self.gram_ += rows.T @ rows

    def _kept(self) -> FloatArray:
        return self.gram_

    def _fitted(self, rows: FloatArray) -> Any:
        d = len(rows)
        if self.n_components:
            return SimpleNamespace(components_=eigh(rows, subset_by_index=[d - self.n_components, d - 1])[1].T)
        weights = solve(rows[:-1, :-1] + TINY * np.eye(d - 1), rows[:-1, -1], assume_a="pos")
        model = LinearRegression()
        model.coef_, model.intercept_ = weights[1:], weights[0]
        return model


class KMeansRefits(FollowTheLeader):
    """``KMeans`` refitted on all rows in a way that keeps labels: with clusters matched, or from the centers before.

    Parameters
    ----------
    n_clusters : int
        The number of centers k.
    growth : float
        1 fits at every chunk, so every night if a chunk is a day; 2 whenever the number of rows has doubled.
    warm_start : bool
        True is ``KMeans(init=previous centers, n_init=1)``. False is the best of ``n_init`` starts, whose clusters are
        numbered such that as many rows as possible keep their label.
    n_init : int
        Starts of the first fit, and of all others without ``warm_start``.
    random_state : None, int or generator
        For the starts.

    Examples
    --------
    >>> rows = np.repeat([[0.0], [10.0], [20.0]], 4, axis=0)
    >>> model = KMeansRefits(3, random_state=0).partial_fit(rows)
    >>> before = model.predict(rows)
    >>> bool((model.partial_fit(rows + 0.1).predict(rows) == before).all())
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        growth: float = 2.0,
        warm_start: bool = False,
        n_init: int = STARTS,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.growth = growth
        self.warm_start = warm_start
        self.n_init = n_init
        self.random_state = random_state

    @property
    def estimator(self) -> Any:
        """The first fit, and every one without ``warm_start``."""
        return KMeans(self.n_clusters, n_init=self.n_init, random_state=self.random_state)

    def _fitted(self, rows: FloatArray) -> Any:
        before = vars(self).get("estimator_")
        if before is None:
            return super()._fitted(rows)
        if self.warm_start:
            return KMeans(self.n_clusters, init=before.cluster_centers_, n_init=1).fit(rows)
        return _with_labels_of(before, super()._fitted(rows), rows)


def _with_labels_of(before: Any, new: Any, rows: FloatArray) -> Any:
    """Return new clusters, numbered such that as many rows as possible keep their label."""
    old, k = before.predict(rows).astype(np.int64), len(new.cluster_centers_)
    shared = shared_weight(old, new.labels_.astype(np.int64), np.ones(len(rows)), k)
    order = matched(shared, cdist(before.cluster_centers_, new.cluster_centers_))
    new.cluster_centers_ = np.ascontiguousarray(new.cluster_centers_[order])
    new.labels_ = np.argsort(order).astype(new.labels_.dtype)[new.labels_]
    return new
