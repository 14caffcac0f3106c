"""What a problem, a construction or an estimator of one's own is made of.

``Problem``
    A batch problem: what a model is, what it costs, how to solve for one.
``WarmUp``, ``MeanSoFar``
    What rows are scored by until the first model; the mean of the rows, or of the targets, before them.
``Stream``
    What joins a problem, a construction and a refresh policy.
``OnlineEstimator``
    Base of the estimators: validation, single rows, checkpoints, merging, forgetting, the log of changes.
``Construction``, ``Antitone``, ``Statistics``
    Base of all coreset constructions; base of those whose scores never rise; what these know of the rows seen.
``Coreset``, ``Rows``
    The weighted rows that a construction gives; rows with targets, weights and ids, as it takes them in.
``storable``
    Marks a class whose instances a checkpoint may hold.

The page "Adding a problem" of the documentation shows them at work.
"""

from batch2online._types import FloatArray
from batch2online.estimator import OnlineEstimator
from batch2online.problem import Problem
from batch2online.rows import Rows
from batch2online.schema import storable
from batch2online.sketches.antitone import Antitone, Statistics
from batch2online.sketches.base import Construction, Coreset
from batch2online.stream import Stream
from batch2online.warm_up import MeanSoFar, WarmUp

__all__ = [
    "Antitone",
    "Construction",
    "Coreset",
    "FloatArray",
    "MeanSoFar",
    "OnlineEstimator",
    "Problem",
    "Rows",
    "Statistics",
    "Stream",
    "WarmUp",
    "storable",
]
