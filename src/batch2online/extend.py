"""Base classes and functions for your own methods, coresets and estimators.

``Method``, ``Fit``, ``Evidence``
    A batch algorithm: what a model is, what it costs, how to fit one; what ``fit`` returns, and what it reads.
``DependsOn``, ``Hindsight``, ``sampling_error``
    What ``fit`` depends on; what ``hindsight`` returns, and the error of a cost measured on a coreset.
``WarmUp``, ``MeanSoFar``
    What rows are scored by until the first model; the mean of the rows, or of the targets, before them.
``Stream``
    What joins a method, a coreset and a refresh policy.
``OnlineEstimator``
    Base of the estimators: validation, single rows, checkpoints, merging, forgetting, the log of changes.
``Summary``, ``AntitoneSketch``, ``Statistics``, ``SketchSettings``
    Base of what is known of all rows; of those whose scores never rise; the statistics of these; settings of all.
``CoresetBuilder``
    Base of the classes of :mod:`batch2online.coresets`, which add rows to a summary.
``Coreset``, ``Rows``
    The weighted rows that a summary returns; rows with targets, weights and ids, as it takes them.
``storable``
    Marks a class whose instances a checkpoint may hold.

The page "Extend" of the documentation uses them in an example.
"""

from batch2online._types import FloatArray
from batch2online.engine.builder import CoresetBuilder
from batch2online.engine.stream import Stream
from batch2online.estimator import OnlineEstimator
from batch2online.problem import FitResult as Fit
from batch2online.problem import Hindsight, sampling_error
from batch2online.problem import Problem as Method
from batch2online.rows import Rows
from batch2online.schema import storable
from batch2online.sketches.antitone import AntitoneSketch, Statistics
from batch2online.sketches.base import Coreset, SketchSettings
from batch2online.sketches.base import Sketch as Summary
from batch2online.sketches.base import Snapshot as Evidence
from batch2online.theory.bounds import DependsOn
from batch2online.warm_up import MeanSoFar, WarmUp

__all__ = [
    "AntitoneSketch",
    "Coreset",
    "CoresetBuilder",
    "DependsOn",
    "Evidence",
    "Fit",
    "FloatArray",
    "Hindsight",
    "MeanSoFar",
    "Method",
    "OnlineEstimator",
    "Rows",
    "SketchSettings",
    "Statistics",
    "Stream",
    "Summary",
    "WarmUp",
    "sampling_error",
    "storable",
]
