"""The paper as printed: Algorithms 1 to 7, each a short function that reads beside its pseudo-code.

==========================  ===========================================================================
``batch_to_online``         Algorithm 1, the general conversion: run the batch algorithm at every step
``coreset``                 Algorithm 2, sensitivity sampling with perturbed weights
``online_clustering``       Algorithm 3 (6 is its copy in the appendix), (k, z)-clustering
``online_low_rank``         Algorithm 4, low-rank approximation, on ``low_rank_sketch``
``online_regression``       Algorithm 5, linear regression, on ``regression_sketch``
``clustering_coreset``      Algorithm 7, the two-stage coreset of Huang and Vishnoi
==========================  ===========================================================================

They draw with replacement, perturb weights uniformly and draw anew at each step, so their time is quadratic in the
number of rows. They are oracles for tests and the baseline of the paper's experiment; the rest of the package does
the same in one pass. The first argument is always a ``numpy.random.Generator``.

``errata=True`` repairs the slips listed in ``docs/theory.md``; ``errata=False`` follows the printed text to the letter
wherever it can be run at all. Online algorithms return ``(models, losses)``, one of each for every step of ``steps``:
the model of step t is computed from rows 1 to t - 1 and scored on row t. ``steps=None`` is all of 1 to n.
"""

from batch2online.reference.algorithms import (
    OnlineRun,
    WeightedSet,
    batch_to_online,
    clustering_coreset,
    coreset,
    dz_sampling,
    leverage_scores,
    low_rank_sketch,
    online_clustering,
    online_low_rank,
    online_regression,
    regression_sketch,
    ridge_leverage_scores,
)

__all__ = [
    "OnlineRun",
    "WeightedSet",
    "batch_to_online",
    "clustering_coreset",
    "coreset",
    "dz_sampling",
    "leverage_scores",
    "low_rank_sketch",
    "online_clustering",
    "online_low_rank",
    "online_regression",
    "regression_sketch",
    "ridge_leverage_scores",
]
