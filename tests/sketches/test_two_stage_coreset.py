"""The coreset of two stages is an unbiased estimate of costs."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from batch2online import coresets


@pytest.mark.parametrize(
    "stages",
    [
        pytest.param(1, marks=pytest.mark.slow),
        pytest.param(2, marks=pytest.mark.xfail(reason="d78: costs are 4 to 22 % too high")),
    ],
)
def test_costs_of_a_clustering_coreset_are_unbiased(stages):
    """80 coresets; the mean of unbiased ones is further away than 5 standard errors with probability 6e-7."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2)) + np.array([[0, 0], [8, 0], [0, 8]])[rng.choice(3, 2000, p=[0.8, 0.15, 0.05])]
    centers = X[rng.choice(2000, 3, replace=False)]
    total = cdist(X, centers).min(axis=1).sum()

    def share(seed):
        made = coresets.Clustering(3, z=1.0, stages=stages, epsilon=0.1, coreset_size=50, random_state=seed)
        coreset = made.add(X).coreset()
        return coreset.weights @ cdist(coreset.points, centers).min(axis=1) / total

    shares = [share(seed) for seed in range(80)]
    tolerance = max(0.02, 5 * np.std(shares) / np.sqrt(len(shares)))
    assert abs(np.mean(shares) - 1) <= tolerance, f"costs are {np.mean(shares):.3f} of the true ones"
