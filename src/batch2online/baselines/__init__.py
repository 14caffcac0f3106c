"""Algorithms that the paper compares itself with, all with ``partial_fit``.

Each implements its reference. Where the reference requires sizes, rates or repetitions that are impractical, the Notes
state what replaces them.
"""

from batch2online.baselines.clustering import Consistent, KMeansRefits, MacQueen, WeightedSolutions
from batch2online.baselines.general import FollowTheLeader, Reservoir
from batch2online.baselines.low_rank import ExponentiatedGradient, FrequentDirections, Oja, SubspaceDescent
from batch2online.baselines.low_sensitivity import LowSensitivity
from batch2online.baselines.random_order import ExpectsRepeats, ProjectionDescent, Simulation
from batch2online.baselines.regression import Forward, GradientDescent, Ridge, StableDescent

__all__ = [
    "Consistent",
    "ExpectsRepeats",
    "ExponentiatedGradient",
    "FollowTheLeader",
    "Forward",
    "FrequentDirections",
    "GradientDescent",
    "KMeansRefits",
    "LowSensitivity",
    "MacQueen",
    "Oja",
    "ProjectionDescent",
    "Reservoir",
    "Ridge",
    "Simulation",
    "StableDescent",
    "SubspaceDescent",
    "WeightedSolutions",
]
