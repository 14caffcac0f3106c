"""What the paper compares itself with, each in its reference's form, all with ``partial_fit``."""

from batch2online.baselines.clustering import Consistent, MacQueen, WeightedSolutions
from batch2online.baselines.general import FollowTheLeader, Reservoir
from batch2online.baselines.low_rank import ExponentiatedGradient, FrequentDirections, Oja, SubspaceDescent
from batch2online.baselines.regression import Forward, GradientDescent, Ridge

__all__ = [
    "Consistent",
    "ExponentiatedGradient",
    "FollowTheLeader",
    "Forward",
    "FrequentDirections",
    "GradientDescent",
    "MacQueen",
    "Oja",
    "Reservoir",
    "Ridge",
    "SubspaceDescent",
    "WeightedSolutions",
]
