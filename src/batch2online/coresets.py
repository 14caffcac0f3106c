"""Coresets: weighted subsets that stand for all rows seen.

Each has ``add(rows, targets=None, weights=None)``, ``merge(other)``, ``forget(ids)`` and ``coreset()``.
:func:`error` measures how well a coreset stands for its rows.
"""

from batch2online.methods.any_estimator.sensitivity import LewisScore, Sensitivity
from batch2online.methods.any_estimator.sketch import PilotSampling
from batch2online.methods.clustering.coreset_error import errors
from batch2online.methods.clustering.sketch import Clustering
from batch2online.methods.coreset_error import error
from batch2online.methods.least_squares.sketch import Leverage
from batch2online.methods.linear_losses.sketch import Anchored
from batch2online.methods.low_rank.sketch import RidgeLeverage
from batch2online.methods.plain_coresets import Everything, Uniform

__all__ = [
    "Anchored",
    "Clustering",
    "Everything",
    "Leverage",
    "LewisScore",
    "PilotSampling",
    "RidgeLeverage",
    "Sensitivity",
    "Uniform",
    "error",
    "errors",
]
