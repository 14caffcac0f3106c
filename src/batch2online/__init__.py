"""batch2online: batch algorithms turned into online ones.

For rows in random order: close to the loss of the best single model in hindsight, with few model changes, each of
them logged. After Dong & Yoshida, "A Batch-to-Online Transformation under Random-Order Model", NeurIPS 2023.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from batch2online.homes import HOMES

if TYPE_CHECKING:  # what type checkers and editors see; at run time names are imported on first use
    from os import PathLike

    from batch2online import baselines, checks, coresets, datasets, evaluate, export, extend, reference, refresh, theory
    from batch2online.durable import Durable
    from batch2online.estimator import OnlineEstimator, Trusted
    from batch2online.methods.any_estimator.estimator import BatchToOnline
    from batch2online.methods.clustering.estimator import OnlineClustering
    from batch2online.methods.least_squares.estimator import OnlineRegression
    from batch2online.methods.linear_losses.estimator import OnlineClassifier
    from batch2online.methods.low_rank.estimator import OnlineLowRank
    from batch2online.tables.options import Columns

__version__ = "0.2.0"

_modules = (
    "baselines",
    "checks",
    "coresets",
    "datasets",
    "evaluate",
    "export",
    "extend",
    "reference",
    "refresh",
    "theory",
)

__all__ = [
    "BatchToOnline",
    "Columns",
    "Durable",
    "OnlineClassifier",
    "OnlineClustering",
    "OnlineLowRank",
    "OnlineRegression",
    "baselines",
    "checks",
    "coresets",
    "datasets",
    "evaluate",
    "export",
    "extend",
    "load",
    "reference",
    "refresh",
    "theory",
]


def load(path: str | PathLike[str], *, trusted: Trusted = None, refit: bool = False) -> OnlineEstimator:
    """Return the estimator in a checkpoint written by its ``save``.

    Loading a file that somebody else made runs no code from it, fits nothing, and takes memory and time in proportion
    to its size.

    Parameters
    ----------
    path : path
        The file.
    trusted : None, True or list of str
        Only for :class:`BatchToOnline`: full names of types that the fitted model in the file may contain, in addition
        to those known to be safe; True accepts all types. The error message of a refused file names the missing types.
    refit : bool, default False
        Only for :class:`BatchToOnline`: if the file holds no usable fitted model, refit the estimator on the rows of
        the file. The time depends on the parameters of the estimator. By default such a file is refused.
    """
    from batch2online.estimator import load as load_estimator

    estimator: OnlineEstimator = load_estimator(path, trusted=trusted, refit=refit)
    return estimator


def __getattr__(name: str) -> Any:
    """Import on first use: ``import batch2online`` alone stays light."""
    if name in _modules:
        return import_module(f"batch2online.{name}")
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    raise AttributeError(f"module 'batch2online' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
