"""Online linear regression: gradient descent, ridge, and the forward algorithm.

Each predicts with an intercept; rows are a_t with a constant 1 in front, targets b_t.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin

from batch2online._types import FloatArray


def _with_constant(X: ArrayLike) -> FloatArray:
    rows = np.asarray(X, dtype=np.float64)
    return np.column_stack([np.ones(len(rows)), rows])


class GradientDescent(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Online gradient descent for streams in random order, row by row.

    .. math:: x_{t+1} = \Pi_R\Big(x_t - \frac{2 (a_t^\top x_t - b_t)}{\alpha t + L}\, a_t\Big)

    The sum of the losses is strongly convex although no single loss is: in random order steps like
    :math:`1 / (\alpha t)` give logarithmic regret, with :math:`\alpha` the curvature of the average loss (Garber,
    Korcia & Levy, ICML 2020).

    Parameters
    ----------
    curvature : float or None
        :math:`\alpha`. None measures it on the rows seen, whenever their number has doubled.
    radius : float
        :math:`R`, the radius of the ball in which the coefficients stay.

    Notes
    -----
    The references know :math:`\alpha` and the smoothness :math:`L`; here both are measured, L as twice the largest
    squared norm of a row.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> GradientDescent().partial_fit(X, X @ [1.0, -2.0] + 3.0).weights_.round(1).tolist()
    [3.0, 1.0, -2.0]
    """

    def __init__(self, curvature: float | None = None, radius: float = 1e3) -> None:
        self.curvature = curvature
        self.radius = radius

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        rows, targets = _with_constant(X), np.asarray(y, dtype=np.float64)
        if not hasattr(self, "weights_"):
            self.weights_, self.n_seen_ = np.zeros(rows.shape[1]), 0
            self._gram, self._smoothness = np.zeros((rows.shape[1],) * 2), 0.0
        before = self.n_seen_
        self._gram += rows.T @ rows
        self._smoothness = max(self._smoothness, 2 * float(np.square(rows).sum(axis=1).max()))
        if (before + len(rows)).bit_length() > before.bit_length():
            self._measured = 2 * max(float(np.linalg.eigvalsh(self._gram)[0]) / (before + len(rows)), 1e-6)
        for row, target in zip(rows, targets, strict=True):
            self._step(row, target)
        return self

    def _step(self, row: FloatArray, target: float) -> None:
        self.n_seen_ += 1
        alpha = self._measured if self.curvature is None else self.curvature
        slope = 2 * (row @ self.weights_ - target)
        self.weights_ = self.weights_ - slope * self._rate(alpha) * row
        length = np.sqrt(self.weights_ @ self.weights_)
        if length > self.radius:
            self.weights_ = self.weights_ * (self.radius / length)

    def _rate(self, alpha: float) -> float:
        return 1 / (alpha * self.n_seen_ + self._smoothness)

    def predict(self, X: ArrayLike) -> FloatArray:
        return np.asarray(_with_constant(X) @ self.weights_)


class StableDescent(GradientDescent):
    r"""Gradient descent in random order with the largest steps that smoothness allows.

    .. math:: \eta_t = \min\big(1 / L,\; 1 / (\alpha t)\big)

    Sherman, Koren & Mansour (NeurIPS 2021) remove the dependence on the dimension from the regret by the average
    stability of stochastic gradient descent without replacement. Parameters are those of :class:`GradientDescent`.

    Notes
    -----
    Of the reference only the abstract was at hand: the update is that of :class:`GradientDescent`, and the steps are
    the ones that stability usually asks for.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> StableDescent().partial_fit(X, X @ [1.0, -2.0] + 3.0).weights_.round(1).tolist()
    [3.0, 1.0, -2.0]
    """

    def _rate(self, alpha: float) -> float:
        return 1 / max(alpha * self.n_seen_, self._smoothness)


class Ridge(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Online ridge regression, also known as recursive least squares.

    .. math:: x_t = \Big(\lambda I + \sum_{s<t} a_s a_s^\top\Big)^{-1} \sum_{s<t} b_s a_s

    The incremental off-line algorithm of Azoury & Warmuth (Machine Learning, 2001).

    Parameters
    ----------
    regularisation : float
        :math:`\lambda`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> Ridge().partial_fit(X, X @ [1.0, -2.0] + 3.0).weights_.round(1).tolist()
    [3.0, 1.0, -2.0]
    """

    def __init__(self, regularisation: float = 1.0) -> None:
        self.regularisation = regularisation

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        rows, targets = _with_constant(X), np.asarray(y, dtype=np.float64)
        if not hasattr(self, "gram_"):
            self.gram_, self.moments_ = self.regularisation * np.eye(rows.shape[1]), np.zeros(rows.shape[1])
        self.gram_ += rows.T @ rows
        self.moments_ += rows.T @ targets
        self.weights_ = np.linalg.solve(self.gram_, self.moments_)
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        return np.asarray(_with_constant(X) @ self.weights_)


class Forward(Ridge):
    r"""The forward algorithm of Vovk, Azoury and Warmuth: ridge that counts the row it is asked about.

    .. math:: \hat b_t = a_t^\top \Big(\lambda I + \sum_{s\le t} a_s a_s^\top\Big)^{-1} \sum_{s<t} b_s a_s

    It uses a_t for its prediction, which no fixed model can, so its loss can be below that of hindsight. Vovk
    (Competitive on-line statistics, 2001), Azoury & Warmuth (2001); in stochastic order Ouhamma, Maillard & Perchet
    (NeurIPS 2021). Parameters are those of :class:`Ridge`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> Forward().partial_fit(X, X @ [1.0, -2.0] + 3.0).predict([[0.0, 0.0]]).round(1).tolist()
    [3.0]
    """

    def predict(self, X: ArrayLike) -> FloatArray:
        rows = _with_constant(X)
        leverage = np.einsum("ij,ji->i", rows, np.linalg.solve(self.gram_, rows.T))
        return np.asarray(rows @ self.weights_ / (1 + leverage))
