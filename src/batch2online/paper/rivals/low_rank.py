"""Online principal components: matrix exponentiated gradient, gradient descent, Oja, Frequent Directions.

All are for subspaces through zero: a loss of |x - Z Z^T x|^2. Rows x_t, rank k, d columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from batch2online._types import FloatArray, Seed

_HALVINGS = 100
_SMALLEST = -600.0


class _Relaxed(BaseEstimator, ABC):  # type: ignore[misc]
    """What the two relaxed algorithms share: a matrix in the convex hull of projections, and a draw from it."""

    def __init__(self, n_components: int = 2, step: float = 1.0, random_state: Seed = None) -> None:
        self.n_components = n_components
        self.step = step
        self.random_state = random_state

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        rows = np.asarray(X, dtype=np.float64)
        if not hasattr(self, "n_seen_"):
            d = rows.shape[1]
            self.n_seen_, self._scale, self._rng = 0, 0.0, np.random.default_rng(self.random_state)
            self._start(d)
        self.n_seen_ += len(rows)
        self._scale = max(self._scale, float(np.square(rows).sum(axis=1).max()), np.finfo(float).tiny)
        values, vectors = self._update(rows.T @ rows / self._scale)
        self.components_ = vectors[:, systematic_sample(values, self._rng.random())].T
        return self

    @abstractmethod
    def _start(self, d: int) -> None:
        """Begin with rows of this many columns."""

    @abstractmethod
    def _update(self, gram: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Learn from a Gram matrix: eigenvalues and eigenvectors of the new state."""

    def _rate(self, d: int) -> float:
        return float(self.step * np.sqrt(self.n_components * np.log(np.e * d / self.n_components) / self.n_seen_))


class ExponentiatedGradient(_Relaxed):
    r"""Online PCA by matrix exponentiated gradient.

    Keeps a density matrix W over directions to leave out, eigenvalues capped at 1/(d-k):

    .. math:: W_{t+1} = \mathrm{cap}\big(\exp(\log W_t - \eta_t\, x_t x_t^\top / r^2)\big)

    and draws a subspace in which each eigenvector is left out with probability (d-k) times its eigenvalue. Warmuth &
    Kuzmin (JMLR 2008), Nie, Kotlowski & Warmuth (JMLR 2016).

    Parameters
    ----------
    n_components : int
        The rank k.
    step : float
        Factor of the rate :math:`\eta_t = \mathrm{step}\sqrt{k \ln(e d/k) / t}`. The references take a fixed rate
        for a known horizon.
    random_state : None, int or generator
        For the draws.

    Notes
    -----
    A chunk is one step with the sum of its gradients. The references bound rows by a known radius r; here it is the
    largest norm so far.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(4000, 3)) * [5.0, 1.0, 0.1]
    >>> np.abs(ExponentiatedGradient(1, random_state=0).partial_fit(X).components_).round(1).tolist()
    [[1.0, 0.0, 0.0]]
    """

    def _start(self, d: int) -> None:
        self._logarithm = np.zeros((d, d))

    def _update(self, gram: FloatArray) -> tuple[FloatArray, FloatArray]:
        d = len(gram)
        logs, vectors = np.linalg.eigh(self._logarithm - self._rate(d) * gram)
        left_out = capped(np.exp(np.maximum(logs - logs.max(), _SMALLEST)), d - self.n_components)
        self._logarithm = (vectors * np.log(np.maximum(left_out, np.exp(_SMALLEST)))) @ vectors.T
        return 1 - left_out, vectors


class SubspaceDescent(_Relaxed):
    r"""Online PCA by gradient descent on the convex hull of projections.

    .. math:: P_{t+1} = \Pi\big(P_t + \eta_t\, x_t x_t^\top / r^2\big)

    onto :math:`0 \preceq P \preceq I, \mathrm{tr} P = k`, and draws a subspace that holds each eigenvector with
    probability its eigenvalue. Nie, Kotlowski & Warmuth (JMLR 2016). Parameters and notes are those of
    :class:`ExponentiatedGradient`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(4000, 3)) * [5.0, 1.0, 0.1]
    >>> np.abs(SubspaceDescent(1, random_state=0).partial_fit(X).components_).round(1).tolist()
    [[1.0, 0.0, 0.0]]
    """

    def _start(self, d: int) -> None:
        self._matrix = self.n_components / d * np.eye(d)

    def _update(self, gram: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, vectors = np.linalg.eigh(self._matrix + self._rate(len(gram)) * gram)
        values = clipped(values, self.n_components)
        self._matrix = (vectors * values) @ vectors.T
        return values, vectors


class Oja(BaseEstimator):  # type: ignore[misc]
    r"""Oja's rule for k directions at once, a chunk a step.

    .. math:: Q_{t+1} = \mathrm{qr}\Big(Q_t + \frac{\mathrm{step}}{t\, \bar{r}^2} \sum_{s} x_s x_s^\top Q_t\Big)

    with :math:`\bar{r}^2` the mean squared norm of the rows seen. Oja (J. Math. Biology, 1982).

    Parameters
    ----------
    n_components : int
        The rank k.
    step : float
        Step size: too small a step converges slowly, too large a step is noisy; the best one depends on the spectral
        gap.
    random_state : None, int or generator
        For the first basis.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 40, 3)) * [5.0, 1.0, 0.1]
    >>> model = Oja(1, random_state=0)
    >>> for chunk in X:
    ...     model = model.partial_fit(chunk)
    >>> np.abs(model.components_).round(1).tolist()
    [[1.0, 0.0, 0.0]]
    """

    def __init__(self, n_components: int = 2, step: float = 10.0, random_state: Seed = None) -> None:
        self.n_components = n_components
        self.step = step
        self.random_state = random_state

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        rows = np.asarray(X, dtype=np.float64)
        if not hasattr(self, "components_"):
            first = np.random.default_rng(self.random_state).normal(size=(rows.shape[1], self.n_components))
            self.components_ = np.linalg.qr(first)[0].T
            self.n_seen_, self._squares = 0, 0.0
        self.n_seen_ += len(rows)
        self._squares += float(np.square(rows).sum())
        gain = rows.T @ (rows @ self.components_.T) * (self.step / max(self._squares, np.finfo(float).tiny))
        self.components_ = np.linalg.qr(self.components_.T + gain)[0].T
        return self


class FrequentDirections(BaseEstimator):  # type: ignore[misc]
    r"""Frequent Directions: a sketch of ``size`` rows whose Gram matrix is close to that of all rows.

    When its buffer of 2 size rows is full, all squared singular values are lowered by the size-th largest:
    :math:`0 \leq \|A v\|^2 - \|B v\|^2 \leq \|A - A_k\|_F^2 / (\mathrm{size} - k)` for all unit v. The model is the
    leading subspace of the sketch. Liberty (KDD 2013), Ghashami, Liberty, Phillips & Woodruff (SICOMP 2016).

    Parameters
    ----------
    n_components : int
        The rank k.
    size : int or None
        Rows of the sketch, more than k; None is 4 k.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(400, 3)) * [5.0, 1.0, 0.1]
    >>> np.abs(FrequentDirections(1).partial_fit(X).components_).round(1).tolist()
    [[1.0, 0.0, 0.0]]
    """

    def __init__(self, n_components: int = 2, size: int | None = None) -> None:
        self.n_components = n_components
        self.size = size

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        rows = np.asarray(X, dtype=np.float64)
        size = 4 * self.n_components if self.size is None else self.size
        sketch = getattr(self, "sketch_", np.empty((0, rows.shape[1])))
        start = 0
        while start < len(rows):
            stop = start + 2 * size - len(sketch)
            sketch = np.concatenate([sketch, rows[start:stop]])
            start = stop
            if len(sketch) >= 2 * size:
                sketch = shrunk(sketch, size)
        self.sketch_ = sketch
        return self

    @property
    def components_(self) -> FloatArray:
        directions = np.linalg.svd(self.sketch_, full_matrices=False)[2]
        if len(directions) >= self.n_components:
            return np.asarray(directions[: self.n_components])
        return np.linalg.qr(np.concatenate([directions, np.eye(self.sketch_.shape[1])]).T)[0].T[: self.n_components]


def shrunk(sketch: FloatArray, size: int) -> FloatArray:
    """Fewer than ``size`` rows in place of the sketch's: squared singular values lowered by the size-th largest."""
    _, singular, directions = np.linalg.svd(sketch, full_matrices=False)
    lowered = np.square(singular) - (singular[size - 1] ** 2 if len(singular) >= size else 0.0)
    kept = lowered > 0
    return np.asarray(np.sqrt(lowered[kept])[:, None] * directions[kept])


def capped(values: FloatArray, total: int) -> FloatArray:
    """Positive values scaled to sum to ``total``, none above 1: the nearest such vector in relative entropy.

    >>> capped(np.array([1.0, 1.0, 6.0]), 2).tolist()
    [0.5, 0.5, 1.0]
    """
    order = np.argsort(-values)
    ranked = values[order]
    tails = np.cumsum(ranked[::-1])[::-1]
    scales = (total - np.arange(total)) / tails[:total]  # of the rest, if the first 0, 1, ... are capped
    fits = np.flatnonzero(ranked[:total] * scales <= 1)
    n_capped = int(fits[0]) if fits.size else total
    result = np.ones(len(values))
    result[n_capped:] = ranked[n_capped:] * (scales[n_capped] if n_capped < total else 0.0)
    return np.asarray(result[np.argsort(order)])


def clipped(values: FloatArray, total: int) -> FloatArray:
    """Values shifted by one number and clipped to [0, 1] so that they sum to ``total``: the nearest such vector.

    >>> clipped(np.array([0.0, 0.5, 3.0]), 1).round(6).tolist()
    [0.0, 0.0, 1.0]
    """
    low, high = float(values.min()) - 1, float(values.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(values - middle, 0, 1).sum() > total else (low, middle)
    return np.clip(values - high, 0.0, 1.0)


def systematic_sample(probabilities: FloatArray, uniform: float) -> Any:
    """Draw several different items, item j with probability ``probabilities[j]``, and give their indices.

    Probabilities are at most one and sum to an integer, the number of items drawn. Systematic sampling lays intervals
    of these lengths end to end and takes the items whose intervals hold ``uniform``, ``uniform + 1``,
    ``uniform + 2`` and so on, so one uniform number in [0, 1) is enough.

    >>> systematic_sample(np.array([1.0, 0.0, 0.5, 0.5]), 0.7).tolist()
    [0, 3]
    """
    total = round(float(probabilities.sum()))
    ends = np.cumsum(probabilities) * (total / probabilities.sum())
    return np.minimum(np.searchsorted(ends, uniform + np.arange(total), side="right"), len(ends) - 1)
