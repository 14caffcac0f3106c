"""What is known of all rows seen once they are all known: the best model's cost, how sure it is, and simpler costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from batch2online._types import BoolArray, FloatArray

_ROUNDING = 1e-9
"""Distances below this share of the spread of the rows are rounding."""
_CANTELLI = 19.0
"""With a chance of at most 1 in 20 a number exceeds its mean by the root of this many variances (Cantelli)."""


@dataclass(frozen=True)
class Hindsight:
    """The loss of the best model on all rows seen, and what it is to be seen beside.

    Attributes
    ----------
    optimum : float
        Least loss of any single model, or of the best one known; not a number where none is.
    error : float
        How far the optimum of all rows may be below this one, measured on the coreset: it is at least
        ``optimum / (1 + error)`` with a chance of 95 %. 0 where all rows are in it.
    shortfall : float
        How far it may be above, as a share: models are fitted to the rows that they are measured on. Infinite where
        that is not known; of no meaning where the error is 0.
    total : float
        Loss of the simplest model: the mean of the targets or of the rows; not a number where it is not known.
    resolution : float
        Losses up to this are rounding.
    secondary : float or None
        Least secondary loss; None where it is not known.
    """

    optimum: float
    error: float = 0.0
    shortfall: float = math.inf
    total: float = math.nan
    resolution: float = 0.0
    secondary: float | None = None


def resolution(total: float, weight: float, offset: float, power: float = 2.0) -> float:
    """Return the loss that rounding alone brings about, given the total, the weight and how far rows are from zero."""
    return float(total * _ROUNDING**power + weight * (16 * np.finfo(np.float64).eps * offset) ** power)


def sampling_error(weights: FloatArray, losses: FloatArray, *, certain: float = 1.0) -> float:
    """Return how far a cost measured on a coreset may be from that on all rows, as a share of it (Lemma 7).

    For centers that do not depend on the draws, the mean of ``sum w l`` is their cost on all rows, and its variance
    that of ``sum w (w - 1) l^2``. The largest term is added once more, for rows like it that were not drawn.
    ``certain`` is the weight of rows that are drawn in any case: 1, or 0, which makes a bound, where rows have weights.

    >>> sampling_error(np.ones(4), np.ones(4)), round(sampling_error(np.full(10_000, 2.0), np.ones(10_000)), 3)
    (0.0, 0.031)
    """
    with np.errstate(over="ignore"):
        cost = float(weights @ losses)
        return _deviation(weights, losses, certain) / cost if cost else 0.0


def held_out_bound(weights: FloatArray, losses: FloatArray, is_fitted: BoolArray, *, certain: float = 1.0) -> float:
    """Return what the best model costs all rows at most, with a chance of 95 % (Lemma 7, second part).

    ``losses`` are those of a model that was fitted to some rows of the coreset, ``is_fitted``, each chosen with a
    chance of 1/2. It costs no less than the best one. Given these rows, one that is not among them is in the rest of
    the coreset with a chance that makes its weight ``2 w - 1``, and rows that the model was fitted to count once.

    >>> held_out_bound(np.ones(4), np.ones(4), np.array([True, False, True, False]))
    4.0
    """
    with np.errstate(over="ignore"):
        raised, own = 2 * weights[~is_fitted] - certain, losses[~is_fitted]
        cost = float(raised @ own) + certain * float(losses[is_fitted].sum())
        return cost + _deviation(raised, own, certain)


def _deviation(weights: FloatArray, losses: FloatArray, certain: float) -> float:
    """Return by how much ``sum w l`` exceeds its mean with a chance of at most 1 in 20."""
    terms = weights * np.maximum(weights - certain, 0.0) * np.square(losses)
    return math.sqrt(_CANTELLI * (float(terms.sum()) + float(terms.max(initial=0.0))))


def certain_weight(construction: Any) -> float:
    """Return the weight of a row that is drawn in any case: 1, or 0 where rows have weights of their own."""
    return 1.0 if construction.decay is None and construction.weight == construction.n_rows else 0.0
