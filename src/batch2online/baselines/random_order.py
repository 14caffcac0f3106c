"""Online principal components for rows in random order, by gradient descent on projections themselves."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from batch2online._types import FloatArray
from batch2online.baselines.peer import LOSS, Peer


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

    def partial_fit(self, X: Any, y: Any = None) -> Self:
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


PEERS = (
    Peer("descent on projections", {"lowrank": lambda settings: ProjectionDescent(settings.k)}, frozenset({LOSS})),
)
