"""Estimators of batch2online, as the benchmarks run them."""

from __future__ import annotations

from batch2online.baselines.peer import MEASURED, OURS, Peer
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.methods.least_squares.estimator import OnlineRegression
from batch2online.methods.linear_losses.estimator import OnlineClassifier
from batch2online.methods.low_rank.estimator import OnlineLowRank

PEERS = (
    Peer(
        OURS,
        {
            "regression": lambda settings: OnlineRegression(),
            "classification": lambda settings: OnlineClassifier(),
            "lowrank": lambda settings: OnlineLowRank(settings.k),
            "clustering": lambda settings: OnlineClustering(settings.k),
        },
        MEASURED,
    ),
    Peer(
        f'{OURS}, solve="coreset"',
        {
            "regression": lambda settings: OnlineRegression(solve="coreset"),
            "lowrank": lambda settings: OnlineLowRank(settings.k, solve="coreset"),
        },
        MEASURED,
    ),
    Peer(
        f'{OURS}, history="coreset"',
        {"clustering": lambda settings: OnlineClustering(settings.k, history="coreset")},
        MEASURED,
    ),
)
