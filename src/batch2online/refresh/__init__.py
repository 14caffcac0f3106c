"""Refresh policies: when to refit, and when the new model replaces the current one.

A policy returns the row counts of refresh checks (exact counts, so that the model is a pure function of the sequence
and the seed) and the tolerance within which the current model is kept. For rows in random order, losses in [0, L] or
clipped there, and an algorithm that is (1 + epsilon)-approximate with coupled average sensitivity beta,
:class:`Geometric` guarantees

    E[prequential loss] <= (1 + epsilon) OPT_n + L (s_0 + sum_t beta(s(t) + 1))

with at most ``1 + log_growth(n / s_0)`` models, where s(t) is the last refresh before t.
"""

from batch2online.refresh.measured import Measured
from batch2online.refresh.policy import Adaptive, Every, EveryStep, Geometric, OnChange, Policy
from batch2online.theory.bounds import Guarantee

__all__ = [
    "Adaptive",
    "Every",
    "EveryStep",
    "Geometric",
    "Guarantee",
    "Measured",
    "OnChange",
    "Policy",
]
