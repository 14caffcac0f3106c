"""A solver of the user's own in place of ours: a function, or a clusterer of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from batch2online._types import FloatArray
from batch2online.methods.clustering.solver import first_distinct

Solver = Callable[..., Any]
"""A function ``(points, weights, k, z, rng)`` that returns centers (k, d)."""


@dataclass(frozen=True, eq=False)
class FittedClusterer:
    """A clusterer, cloned, seeded and fitted to weighted points at each call."""

    clusterer: Any

    def __call__(self, points: FloatArray, weights: FloatArray, k: int, z: float, rng: np.random.Generator) -> Any:
        twin = clone(self.clusterer).set_params(n_clusters=k)
        if "random_state" in twin.get_params():
            twin.set_params(random_state=int(rng.integers(2**31)))
        return twin.fit(points, sample_weight=weights).cluster_centers_

    def __eq__(self, other: object) -> bool:
        """Two are equal if their clusterers have the same parameters, which decides whether shards can be merged."""
        return isinstance(other, FittedClusterer) and repr(self.clusterer) == repr(other.clusterer)

    __hash__ = None  # type: ignore[assignment]  # parameters may change


def solver_of(solver: Any) -> Solver | None:
    """Return a function from a parameter ``solver``; None for the solver of this package."""
    if hasattr(solver, "fit"):
        name = type(solver).__name__
        if not has_fit_parameter(solver, "sample_weight") or "n_clusters" not in solver.get_params():
            raise TypeError(f"solver must have n_clusters and fit(X, sample_weight=...), which {name} has not.")
        return FittedClusterer(solver)
    if solver is not None and not callable(solver):
        raise TypeError(
            f"solver must be a clusterer or a function (points, weights, k, z, rng) that returns centers, "
            f"got {solver!r}."
        )
    return solver  # type: ignore[no-any-return]


def solved_by(solver: Solver, points: FloatArray, weights: FloatArray, k: int, z: float, seed: int) -> FloatArray:
    """Return the centers that the solver finds; distinct points, repeated, where there are at most k of them."""
    distinct = first_distinct(points, k + 1)
    if len(distinct) <= k:
        return np.asarray(distinct[np.arange(k) % len(distinct)])
    found = np.array(solver(points, np.array(weights), k, z, np.random.default_rng(seed)), dtype=np.float64)
    if found.shape != (k, points.shape[1]) or not np.isfinite(found).all():
        raise ValueError(f"solver must return finite centers of shape {(k, points.shape[1])}, got {found.shape}.")
    return found
