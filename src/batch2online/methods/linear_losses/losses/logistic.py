"""The logistic loss: of two classes by one predictor, of more by the softmax of one for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from batch2online._types import FloatArray, IntArray
from batch2online.methods.linear_losses.losses.base import Local, PredictorLoss, Scale, pieces
from batch2online.schema import storable


@storable
@dataclass(frozen=True)
class Logistic(PredictorLoss):
    r""":math:`-\ln p_y`: :math:`p_1 = 1/(1 + e^{-\eta})` for two classes, softmax of K predictors for more."""

    has_classes: ClassVar[bool] = True

    def n_outputs(self, n_classes: int) -> int:
        return 1 if n_classes <= 2 else n_classes

    def value(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        if eta.shape[1] == 1:
            signed = np.where(y > 0, -eta[:, 0], eta[:, 0])
            return np.asarray(np.maximum(signed, 0.0) + np.log1p(np.exp(-np.abs(signed))))
        return _values_and_shares(eta, y.astype(np.int64))[0]

    def probabilities(self, eta: FloatArray) -> FloatArray:
        """Return the probability of the second class (n, 1), or of all classes (n, K)."""
        return np.asarray(expit(eta)) if eta.shape[1] == 1 else _shares(eta)[0]

    def gradient(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        found = self.probabilities(eta)
        if eta.shape[1] == 1:
            return np.asarray(found - y[:, None])
        found[np.arange(len(eta)), y.astype(np.int64)] -= 1.0
        return found

    def hessian(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> FloatArray:
        found = self.probabilities(eta)
        return np.asarray(found * (1 - found))

    def local(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> Local:
        if eta.shape[1] > 1:
            values, found = _values_and_shares(eta, y.astype(np.int64))
            hessian = found * (1 - found)
            found[np.arange(len(eta)), y.astype(np.int64)] -= 1.0
            return values, found, hessian
        eta = eta[:, 0]
        small = np.exp(-np.abs(eta))  # the one exponential of a row
        found = np.where(eta >= 0, 1.0, small) / (1.0 + small)
        values = np.maximum(np.where(y > 0, -eta, eta), 0.0) + np.log1p(small)
        return values, (found - y)[:, None], (found * (1 - found))[:, None]

    def value_and_gradient(self, eta: FloatArray, y: FloatArray, scale: Scale = 1.0) -> tuple[FloatArray, FloatArray]:
        if eta.shape[1] == 1:
            return self.local(eta, y, scale)[:2]
        values, found = _values_and_shares(eta, y.astype(np.int64))
        found[np.arange(len(eta)), y.astype(np.int64)] -= 1.0
        return values, found

    def hessian_operator(self, eta: FloatArray, y: FloatArray, scale: Scale) -> Callable[[FloatArray], FloatArray]:
        if eta.shape[1] == 1:
            return super().hessian_operator(eta, y, scale)
        found = self.probabilities(eta)
        return lambda direction: np.asarray(found * (direction - (found * direction).sum(axis=1)[:, None]))

    def hessian_sum(
        self, design: FloatArray, weights: FloatArray, eta: FloatArray, y: FloatArray, scale: Scale
    ) -> FloatArray:
        (n, p), k = design.shape, eta.shape[1]
        if k == 1:
            return super().hessian_sum(design, weights, eta, y, scale)
        found, total = self.probabilities(eta), np.zeros((k * p, k * p))
        for piece in pieces(n, k * p):
            roots = np.sqrt(weights[piece, None])
            rooted = design[piece] * roots
            by_class = (found[piece, :, None] * rooted[:, None, :]).reshape(-1, k * p)
            total -= by_class.T @ by_class  # of one array: BLAS computes half of it
            own = (rooted.T @ by_class).reshape(p, k, p)
            for j in range(k):
                total[j * p : (j + 1) * p, j * p : (j + 1) * p] += own[:, j]
        return total

    def constant(self, y: FloatArray, weights: FloatArray, n_classes: int) -> FloatArray:
        """Return the logarithm of the share of each class, after half a row is added to each."""
        masses = np.bincount(y.astype(np.int64), weights, minlength=max(n_classes, 2)) + 0.5
        logarithms = np.log(masses)
        if n_classes <= 2:
            return np.asarray(logarithms[1:2] - logarithms[0])
        return np.asarray(logarithms - logarithms.mean())


def _values_and_shares(eta: FloatArray, y: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the loss of K classes and their probabilities at predictors (n, K), by one exponential per predictor."""
    found, top, total = _shares(eta)
    return np.log(total) + (top - eta[np.arange(len(eta)), y]), found


def _shares(eta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the softmax (n, K) of predictors, the largest of each row, and the sum of exponentials relative to it."""
    top = eta.max(axis=1)
    found = eta - top[:, None]
    np.exp(found, out=found)
    total = found.sum(axis=1)
    found *= (1 / total)[:, None]
    return found, top, total
