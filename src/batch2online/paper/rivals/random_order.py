"""Learners for random order: principal components by descent on projections; stochastic learners, made robust."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin, clone

from batch2online._types import FloatArray, Seed


class ProjectionDescent(BaseEstimator):  # type: ignore[misc]
    r"""Online PCA by gradient steps from projection to projection.

    .. math:: P_{t+1} = \Pi_k\big(P_t + \eta_t\, x_t x_t^\top / r^2\big)

    with :math:`\Pi_k` the nearest projection of rank k, onto the k leading eigenvectors. :class:`SubspaceDescent` does
    the same on the convex hull of projections, for any order of rows; without it a rank-k decomposition of a few rows
    is all that a step takes, and the basis all that is kept. Garber, Korcia & Levy (ICML 2020): regret
    :math:`O(\zeta^{-1}\sqrt{kn})` for rows in random order, :math:`\zeta` the gap after the k-th eigenvalue.

    Parameters
    ----------
    n_components : int
        The rank k.
    step : float
        Factor of the rate :math:`\eta_t = \mathrm{step} \sqrt{k / t}`. The reference has a fixed rate for a known
        horizon.
    warm_rows : int or None
        The first model is the leading subspace of so many rows, since the guarantee needs one near the best to start
        from; None is 4 k.

    Notes
    -----
    A chunk is one step with the sum of its gradients. The radius r of the reference is the largest norm so far.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(4000, 3)) * [5.0, 1.0, 0.1]
    >>> np.abs(ProjectionDescent(1).partial_fit(X).partial_fit(X).components_).round(1).tolist()
    [[1.0, 0.0, 0.0]]
    """

    components_: FloatArray

    def __init__(self, n_components: int = 2, step: float = 1.0, warm_rows: int | None = None) -> None:
        self.n_components = n_components
        self.step = step
        self.warm_rows = warm_rows

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        rows = np.asarray(X, dtype=np.float64)
        if not hasattr(self, "n_seen_"):
            self.n_seen_, self._scale, self._first = 0, 0.0, rows[:0]
        warm = 4 * self.n_components if self.warm_rows is None else self.warm_rows
        is_warm = self.n_seen_ >= warm
        self.n_seen_ += len(rows)
        self._scale = max(self._scale, float(np.square(rows).sum(axis=1).max()), np.finfo(float).tiny)
        if is_warm:
            rate = self.step * np.sqrt(self.n_components / self.n_seen_) / self._scale
            self.components_ = leading(np.concatenate([self.components_, np.sqrt(rate) * rows]), self.n_components)
        else:
            self._first = np.concatenate([self._first, rows])
            self.components_ = leading(self._first, self.n_components)
        return self


def leading(rows: FloatArray, k: int) -> FloatArray:
    """Return k orthonormal leading directions of the rows, completed arbitrarily if there are too few rows.

    >>> np.abs(leading(np.array([[0.0, 2.0, 0.0]]), 2)).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    few = min(rows.shape) < k
    return np.asarray(np.linalg.svd(rows, full_matrices=few)[2][:k])


class ExpectsRepeats(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Least squares for independent draws from ``support`` rows, which gives up if no row ever repeats.

    Of independent draws some repeat after about the root of the support (the birthday paradox), so this learner has
    next to no regret there. In random order no row repeats, and after ``4 sqrt(support)`` rows it predicts zero for
    ever. Bernasconi et al. (ICML 2025): learners without regret on stochastic streams can fail in random order.

    Notes
    -----
    Of the reference's construction only a summary was at hand; this is the shortest one with the same reason.

    Examples
    --------
    >>> X, y = np.arange(100.0)[:, None], np.arange(100.0)
    >>> ExpectsRepeats(support=100).partial_fit(X, y).predict([[3.0]]).tolist()
    [0.0]
    """

    def __init__(self, support: int = 1000) -> None:
        self.support = support

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        rows = np.column_stack([np.ones(np.shape(X)[0]), np.asarray(X, dtype=np.float64), np.asarray(y)])
        if not hasattr(self, "gram_"):
            self.gram_, self.n_seen_, self._known = np.zeros((rows.shape[1],) * 2), 0, set[bytes]()
            self.repeats_ = False
        self.gram_ += rows.T @ rows
        self.n_seen_ += len(rows)
        if not self.repeats_:
            self._known |= {row.tobytes() for row in rows}
            self.repeats_ = len(self._known) < self.n_seen_
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        if not self.repeats_ and self.n_seen_ > 4 * np.sqrt(self.support):
            return np.zeros(np.shape(X)[0])
        inner = self.gram_[:-1, :-1] + 1e-9 * np.eye(len(self.gram_) - 1)
        weights = np.linalg.solve(inner, self.gram_[:-1, -1])
        return np.asarray(np.asarray(X) @ weights[1:] + weights[0])


class Simulation(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A stochastic learner in random order: it is given independent draws from the rows before, in doubling blocks.

    When the number of rows has doubled, a new copy of the learner starts, and for each row that comes it learns one
    that is drawn with replacement from the rows before the block. Bernasconi et al. (ICML 2025) show that this keeps
    the regret of the learner.

    Parameters
    ----------
    estimator : estimator
        A learner with ``partial_fit``, cloned for each block.
    random_state : None, int or generator
        For the draws.

    Notes
    -----
    Of the reference only the abstract and a summary were at hand. A block begins with as many draws as rows came before
    it, so that a new copy does not predict from nothing.

    Examples
    --------
    >>> X, y = np.arange(100.0)[:, None], np.arange(100.0)
    >>> model = Simulation(ExpectsRepeats(support=100), random_state=0)
    >>> for chunk in range(0, 100, 10):
    ...     model = model.partial_fit(X[chunk : chunk + 10], y[chunk : chunk + 10])
    >>> model.predict([[3.0]]).round(6).tolist()
    [3.0]
    """

    def __init__(self, estimator: Any, random_state: Seed = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        rows = np.column_stack([np.asarray(X, dtype=np.float64), y])
        if not hasattr(self, "estimator_"):
            self._rng, self._rows, self._before = np.random.default_rng(self.random_state), rows[:0], rows
        self._rows = np.concatenate([self._rows, rows])
        draws = len(rows)
        if not hasattr(self, "estimator_") or len(self._rows) >= 2 * len(self._before):
            self.estimator_, self._before, draws = clone(self.estimator), self._rows, len(self._rows)
        drawn = self._before[self._rng.integers(len(self._before), size=draws)]
        self.estimator_.partial_fit(drawn[:, :-1], drawn[:, -1])
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        return np.asarray(self.estimator_.predict(X))
