"""Measured error of a coreset for clustering: sizes from theory are far too large to use."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray
from batch2online.methods.clustering import solver
from batch2online.sketches.base import Coreset
from batch2online.validation import check_rows, check_weights

_MOVES = 8
_STRIDE = 10_000


def errors(
    coreset: Coreset,
    rows: Any,
    *,
    k: int = 5,
    z: float = 2.0,
    weights: Any = None,
    solutions: int = 16,
    random_state: object = 0,
) -> dict[str, FloatArray]:
    """Return relative errors ``cost(coreset) / cost(rows) - 1`` for sets of k centers of several kinds.

    - ``solved``: good solutions, found on the coreset itself;
    - ``seeded``: rows drawn as in D^z seeding;
    - ``random``: rows drawn uniformly;
    - ``moved``: the worst of the above, with its centers moved at random as long as that makes the error larger.

    Parameters
    ----------
    coreset : Coreset
        The coreset to evaluate.
    rows : array-like of shape (n, d)
        All rows that the coreset represents.
    k, z
        Number of centers and power of the distance.
    weights : array-like of shape (n,), optional
        Weights of the rows.
    solutions : int
        Number of sets of each kind.
    random_state : None, int or generator
        Seed of all random choices.
    """
    points = check_rows(rows)
    judge = _Judge(coreset, points, check_weights(weights, points, np.empty((len(points), 0))), z)
    rng = np.random.default_rng(sampling.seed_from(random_state))
    solved = range(max(1, solutions // 8) if len(coreset) else 0)
    options = {
        "solved": [solver.solve(coreset.points, coreset.weights, k, z, seed) for seed in solved],
        "seeded": [judge.seeded(rng, k) for _ in range(solutions)],
        "random": [points[rng.integers(len(points), size=k)] for _ in range(solutions)],
    }
    found = {kind: np.array([judge.error(centers) for centers in sets]) for kind, sets in options.items()}
    worst = max((abs(value), kind, i) for kind, values in found.items() for i, value in enumerate(values))
    found["moved"] = np.array([judge.moved(rng, options[worst[1]][worst[2]]) for _ in range(max(1, solutions // 4))])
    return found


class _Judge:
    """Costs of centers on the coreset and on all rows."""

    def __init__(self, coreset: Coreset, points: FloatArray, weights: FloatArray, z: float) -> None:
        self.coreset, self.points, self.weights, self.z = coreset, points, weights, z
        self.spread = points.std(axis=0)

    def error(self, centers: FloatArray) -> float:
        pieces = (slice(start, start + _STRIDE) for start in range(0, len(self.points), _STRIDE))
        full = sum(solver.cost(self.points[piece], self.weights[piece], centers, self.z) for piece in pieces)
        kept = solver.cost(self.coreset.points, self.coreset.weights, centers, self.z)
        return kept / full - 1 if full else float(kept > 0)

    def seeded(self, rng: np.random.Generator, k: int) -> FloatArray:
        """Return centers by D^z seeding on a part of the rows."""
        part = self.points[rng.integers(len(self.points), size=min(len(self.points), 20 * k + 1_000))]
        chosen = part[:1]
        while len(chosen) < k:
            losses = solver.losses(part, chosen, self.z)
            total = losses.sum()
            shares = losses / total if total else None
            chosen = np.concatenate([chosen, part[rng.choice(len(part), 1, p=shares)]])
        return chosen

    def moved(self, rng: np.random.Generator, centers: FloatArray) -> float:
        """Return the error after random moves that each increase it."""
        largest = self.error(centers)
        for scale in np.geomspace(1.0, 0.05, _MOVES):
            option = centers + scale * self.spread * rng.normal(size=centers.shape)
            value = self.error(option)
            if abs(value) > abs(largest):
                centers, largest = option, value
        return largest
