"""batch2online: batch algorithms turned into online ones.

As good as if all data had been known in advance, with a handful of model changes, at about the cost of
one pass over the data. After Dong & Yoshida, "A Batch-to-Online Transformation under Random-Order
Model", NeurIPS 2023.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_homes = {
    "BatchToOnline": "batch2online.estimators.batch_to_online",
    "OnlineClustering": "batch2online.estimators.clustering",
    "OnlineLowRank": "batch2online.estimators.low_rank",
    "OnlineRegression": "batch2online.estimators.regression",
}
_modules = ("baselines", "coresets", "datasets", "evaluate", "extend", "reference", "refresh", "theory")

__all__ = [
    "BatchToOnline",
    "OnlineClustering",
    "OnlineLowRank",
    "OnlineRegression",
    "baselines",
    "coresets",
    "datasets",
    "evaluate",
    "extend",
    "load",
    "reference",
    "refresh",
    "theory",
]


def load(path: Any) -> Any:
    """The estimator in a checkpoint written by its ``save``."""
    for home in _homes.values():  # registers what a file may name
        import_module(home)
    from batch2online.estimators.base import load as load_estimator

    return load_estimator(path)


def __getattr__(name: str) -> Any:
    """Import on first use: ``import batch2online`` alone stays light."""
    if name in _modules:
        return import_module(f"batch2online.{name}")
    if name in _homes:
        return getattr(import_module(_homes[name]), name)
    raise AttributeError(f"module 'batch2online' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
