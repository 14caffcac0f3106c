"""What an algorithm gives with a row and without it, its randomness shared. Found by what the object offers.

==================  ============================================================================================
a coreset           an empty construction of :mod:`batch2online.coresets`; its output is the coreset
an online learner   ``fit`` and ``forget``: the model of all rows, then of all but one; randomness belongs to the row
an estimator        ``fit``: fitted twice with the same ``random_state``
a function          ``(X, y, seed)`` or ``(X, seed)`` to an array; called twice with the same seed
==================  ============================================================================================
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.evaluate.adapters import fresh
from batch2online.evaluate.loop import probe_of
from batch2online.refresh import Geometric

_NEVER = 2**62


def with_and_without(algorithm: Any, X: FloatArray, y: Any, row: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return the outputs on all rows and on all but one, each as a flat array."""
    if not (hasattr(algorithm, "forget") or is_construction(algorithm)):
        return output(algorithm, X, y, seed), output(algorithm, *without(X, y, row), seed)
    learner, probe = fitted(algorithm, X, y, seed), probe_of(X)
    before = described(learner, probe)
    return before, described(learner.forget([row]), probe)


def output(algorithm: Any, X: FloatArray, y: Any, seed: int) -> FloatArray:
    """Return the output on these rows as a flat array."""
    if callable(algorithm) and not hasattr(algorithm, "fit"):
        return np.ravel(_called(algorithm, X, y, seed))
    return described(fitted(algorithm, X, y, seed), probe_of(X))


def _called(function: Callable[..., Any], X: FloatArray, y: Any, seed: int) -> Any:
    takes_targets = len(inspect.signature(function).parameters) > 2
    return function(X, y, seed) if takes_targets else function(X, seed)


def without(X: FloatArray, y: Any, row: int) -> tuple[FloatArray, Any]:
    keep = np.arange(len(X)) != row
    return X[keep], None if y is None else y[keep]


def is_construction(algorithm: Any) -> bool:
    return hasattr(algorithm, "coreset") and hasattr(algorithm, "add")


def fitted(algorithm: Any, X: FloatArray, y: Any, seed: int) -> Any:
    """Return a fresh copy with this seed that has seen the rows, and can forget them if its kind can."""
    if is_construction(algorithm):
        twin = copy.deepcopy(algorithm)
        twin.seed, twin.keep_history = seed, True
        return twin.add(X, y)
    twin = fresh(algorithm, seed)
    if "keep_history" in twin.get_params():  # fit ends with a model solved afresh, so no look before it is needed
        twin.set_params(keep_history=True, refresh=Geometric(start=_NEVER))
    return twin.fit(X) if y is None else twin.fit(X, y)


def described(fitted: Any, probe: FloatArray) -> FloatArray:
    """Return what was learned as a flat array, whatever the numbering of clusters or the turn of a basis.

    A coreset: ids and weights. Centers: in lexicographic order. A subspace: its projection. A linear model: its
    coefficients. Anything else: predictions on probe rows.
    """
    if is_construction(fitted):
        coreset = fitted.coreset()
        return np.concatenate([coreset.ids, coreset.weights])
    if hasattr(fitted, "cluster_centers_"):
        centers = fitted.cluster_centers_
        return np.ravel(centers[np.lexsort(centers.T[::-1])])
    if hasattr(fitted, "components_"):
        return np.ravel(fitted.components_.T @ fitted.components_)
    if hasattr(fitted, "coef_"):
        return np.append(fitted.coef_, fitted.intercept_)
    return np.ravel(fitted.predict(probe)).astype(np.float64)


def differ(old: FloatArray, new: FloatArray, tolerance: float) -> bool:
    """Whether two outputs differ by more than a share of their largest entry."""
    if old.shape != new.shape:
        return True
    return bool(np.abs(new - old).max(initial=0.0) > tolerance * np.abs(old).max(initial=0.0))
