"""When to re-run the batch algorithm.

A policy says at which row counts to look (exact counts, so the model is a pure function of the
sequence and the seed) and how much worse than a fresh model the present one may be to be kept. For rows
in random order, losses in [0, L] or clipped there, and an algorithm that is (1 + epsilon)-approximate with coupled
average sensitivity beta, :class:`Geometric` promises

    E[prequential loss] <= (1 + epsilon) OPT_n + L (s_0 + sum_t beta(s(t) + 1))

with at most ``1 + log_growth(n / s_0)`` models, where s(t) is the last refresh before t.
"""

from batch2online.refresh.keeping import Adaptive, Lazy
from batch2online.refresh.measured import Measured
from batch2online.refresh.policy import Policy
from batch2online.refresh.scheduled import Budget, EveryStep, Geometric, OnChange
from batch2online.theory.bounds import Promise

__all__ = ["Adaptive", "Budget", "EveryStep", "Geometric", "Lazy", "Measured", "OnChange", "Policy", "Promise"]
