"""Coreset constructions: weighted subsets that stand for all rows seen.

Each has ``add(rows, targets=None, weights=None)``, ``merge(other)``, ``forget(ids)`` and ``coreset()``.
:func:`error` measures how well a coreset stands for its rows.
"""

from typing import TYPE_CHECKING, Any

from batch2online.coresets.anchored import Anchored
from batch2online.coresets.clustering import Clustering
from batch2online.coresets.everything import Everything
from batch2online.coresets.leverage import Leverage
from batch2online.coresets.piloted import Piloted
from batch2online.coresets.ridge_leverage import RidgeLeverage
from batch2online.coresets.sensitivity import LewisScore, LogisticScore, Sensitivity
from batch2online.coresets.uniform import Uniform

if TYPE_CHECKING:
    from batch2online.evaluate.coreset_error import error, errors

__all__ = [
    "Anchored",
    "Clustering",
    "Everything",
    "Leverage",
    "LewisScore",
    "LogisticScore",
    "Piloted",
    "RidgeLeverage",
    "Sensitivity",
    "Uniform",
    "error",
    "errors",
]


def __getattr__(name: str) -> Any:
    """Import the measures of a coreset on first use: they run solvers, which lie above the constructions."""
    if name in ("error", "errors"):
        from batch2online.evaluate import coreset_error

        return getattr(coreset_error, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
