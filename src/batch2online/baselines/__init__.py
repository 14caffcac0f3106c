"""Algorithms that the paper compares itself with, all with ``partial_fit``.

Each does what its reference says, in a form that can be run: where a reference asks for sizes, rates or repetitions
that theory needs and practice cannot have, its Notes say what stands in their place.
"""

from batch2online.baselines.clustering import Consistent, KMeansRefits, MacQueen, WeightedSolutions
from batch2online.baselines.general import FollowTheLeader, Reservoir
from batch2online.baselines.low_rank import ExponentiatedGradient, FrequentDirections, Oja, SubspaceDescent
from batch2online.baselines.low_sensitivity import LowSensitivity
from batch2online.baselines.random_order import ProjectionDescent
from batch2online.baselines.regression import Forward, GradientDescent, Ridge

__all__ = [
    "Consistent",
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
    "SubspaceDescent",
    "WeightedSolutions",
]
