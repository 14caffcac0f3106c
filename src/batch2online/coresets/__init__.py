"""Coreset constructions: weighted subsets that stand for all rows seen.

Each has ``add(rows, targets=None, weights=None)``, ``merge(other)``, ``forget(ids)`` and ``coreset()``.
"""

from batch2online.coresets.clustering import Clustering
from batch2online.coresets.everything import Everything
from batch2online.coresets.leverage import Leverage
from batch2online.coresets.ridge_leverage import RidgeLeverage
from batch2online.coresets.uniform import Uniform

__all__ = ["Clustering", "Everything", "Leverage", "RidgeLeverage", "Uniform"]
