"""An algorithm with a known average sensitivity: its certificate says what the theorem promises.

The mean of n numbers in [0, 1] moves by at most 1/n if one is deleted. Rounded to a grid of width w at a random place,
it changes with probability 1/(n w) at most in each column, and costs at most w^2/4 more a column and row than the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batch2online import BatchToOnline, evaluate, refresh, theory
from batch2online.extend import FloatArray

COLUMNS, WIDTH = 2, 0.05


@dataclass(frozen=True)
class RoundedMean:
    """The mean of the rows, rounded to a grid whose place is drawn once, from the seed."""

    seed: int = 0

    def __call__(self, points: FloatArray, weights: FloatArray) -> FloatArray:
        place = np.random.default_rng(self.seed).uniform(0, WIDTH, size=points.shape[1])
        mean = np.average(points, axis=0, weights=weights)
        return np.asarray(np.round((mean - place) / WIDTH) * WIDTH + place)


def squared(mean: FloatArray, points: FloatArray) -> FloatArray:
    """Return the loss of each row, which is at most 2."""
    return np.asarray(np.square(points - mean).sum(axis=1))


def known(n: int) -> float:
    """Return the bound of the average sensitivity."""
    return COLUMNS / (n * WIDTH)


def run(n: int = 20_000) -> tuple[BatchToOnline, FloatArray]:
    """Return a model of n rows, and the rows."""
    rows = np.random.default_rng(0).uniform(size=(n, COLUMNS))
    model = BatchToOnline(
        RoundedMean(), loss=squared, sensitivity=known, refresh=refresh.Geometric(1.2), random_state=0
    )
    for start in range(0, n, 1_000):
        model.partial_fit(rows[start : start + 1_000])
    return model, rows


def measured(n: int = 500, trials: int = 300) -> evaluate.SensitivityEstimate:
    """Return the average sensitivity as it is measured, over places of the grid."""
    rows = np.random.default_rng(1).uniform(size=(n, COLUMNS))
    return evaluate.average_sensitivity(lambda X, seed: RoundedMean(seed)(X, np.ones(len(X))), rows, trials=trials)


if __name__ == "__main__":
    print(theory.certificate(run()[0], loss_bound=2.0))
    print(f"sensitivity at 500 rows: measured {measured().mean:.3f}, bound {known(500):.3f}")
