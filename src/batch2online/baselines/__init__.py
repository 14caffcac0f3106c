"""Learners to compare with, all with ``partial_fit``: refits of a batch algorithm, and algorithms of the paper's field.

Each implements its reference. Where the reference requires sizes, rates or repetitions that are impractical, the Notes
state what replaces them.
"""

from batch2online.evaluate.peers.refits import FollowTheLeader, KMeansRefits, Reservoir
from batch2online.paper.rivals.clustering import Consistent, MacQueen, WeightedSolutions
from batch2online.paper.rivals.low_rank import ExponentiatedGradient, FrequentDirections, Oja, SubspaceDescent
from batch2online.paper.rivals.low_sensitivity import LowSensitivity
from batch2online.paper.rivals.random_order import ExpectsRepeats, ProjectionDescent, Simulation
from batch2online.paper.rivals.regression import Forward, GradientDescent, Ridge, StableDescent

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
