"""The batch algorithm on all rows so far, whenever their number has doubled."""

from __future__ import annotations

from typing import Any

from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LinearRegression

from batch2online import baselines


def regression(k: int) -> dict[str, Any]:
    return _named(LinearRegression())


def lowrank(k: int) -> dict[str, Any]:
    return _named(TruncatedSVD(k, algorithm="arpack"))


def clustering(k: int) -> dict[str, Any]:
    return _named(KMeans(k, n_init=3))


def _named(batch: Any) -> dict[str, Any]:
    return {"refit on all rows at doublings": baselines.FollowTheLeader(batch, growth=2)}
