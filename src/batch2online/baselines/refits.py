"""Batch algorithms of scikit-learn, refitted on all rows or on a uniform sample of them."""

from __future__ import annotations

from typing import Any

from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LinearRegression

from batch2online.baselines.general import FollowTheLeader, Reservoir
from batch2online.baselines.peer import COMPARE, EVERYWHERE, LOSS, MEASURED, STARTS, Peer, PeerSettings
from batch2online.baselines.scikit_learn import LogisticOrConstant


def _k_means(told: PeerSettings) -> Any:
    return KMeans(told.k, n_init=STARTS)


BATCH = {
    "regression": lambda told: LinearRegression(),
    "classification": lambda told: LogisticOrConstant(),
    "lowrank": lambda told: TruncatedSVD(told.k, algorithm="arpack"),
    "clustering": _k_means,
}
"""The batch algorithm of each task."""

PEERS = (
    Peer(
        "refit on all rows at 10 % more",
        {"clustering": lambda told: FollowTheLeader(_k_means(told), growth=1.1)},
        frozenset({LOSS}),
    ),
    Peer(
        "refit on all rows at doublings",
        {
            task: lambda told, batch=batch: FollowTheLeader(batch(told), growth=2.0)  # type: ignore[misc]
            for task, batch in BATCH.items()
        },
        EVERYWHERE,
    ),
    Peer(
        "uniform sample of equal size",
        {
            task: lambda told, batch=batch: Reservoir(batch(told), size=told.size)  # type: ignore[misc]
            for task, batch in BATCH.items()
        },
        frozenset({COMPARE, LOSS}),
    ),
    Peer(
        "uniform reservoir of 1,000",
        {task: lambda told, batch=batch: Reservoir(batch(told)) for task, batch in BATCH.items()},  # type: ignore[misc]
        MEASURED,
    ),
)
