"""Batch algorithms of scikit-learn, refitted on all rows or on a uniform sample of them."""

from __future__ import annotations

from typing import Any

from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LinearRegression

from batch2online.baselines.general import FollowTheLeader, Reservoir
from batch2online.baselines.peer import COMPARE, EVERYWHERE, LOSS, MEASURED, STARTS, Peer, PeerSettings
from batch2online.baselines.scikit_learn import LogisticOrConstant


def _k_means(settings: PeerSettings) -> Any:
    return KMeans(settings.k, n_init=STARTS)


BATCH = {
    "regression": lambda settings: LinearRegression(),
    "classification": lambda settings: LogisticOrConstant(),
    "lowrank": lambda settings: TruncatedSVD(settings.k, algorithm="arpack"),
    "clustering": _k_means,
}
"""The batch algorithm of each task."""

PEERS = (
    Peer(
        "refit on all rows at 10 % more",
        {"clustering": lambda settings: FollowTheLeader(_k_means(settings), growth=1.1)},
        frozenset({LOSS}),
    ),
    Peer(
        "refit on all rows at doublings",
        {
            task: lambda settings, batch=batch: FollowTheLeader(batch(settings), growth=2.0)  # type: ignore[misc]
            for task, batch in BATCH.items()
        },
        EVERYWHERE,
    ),
    Peer(
        "uniform sample of equal size",
        {
            task: lambda settings, batch=batch: Reservoir(batch(settings), size=settings.size)  # type: ignore[misc]
            for task, batch in BATCH.items()
        },
        frozenset({COMPARE, LOSS}),
    ),
    Peer(
        "uniform reservoir of 1,000",
        {task: lambda settings, batch=batch: Reservoir(batch(settings)) for task, batch in BATCH.items()},  # type: ignore[misc]
        MEASURED,
    ),
)
