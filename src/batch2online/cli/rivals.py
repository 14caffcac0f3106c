"""Learners to stand beside ours, for each task: scikit-learn's, River's where it is installed, and baselines."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA, TruncatedSVD
from sklearn.linear_model import LinearRegression, SGDRegressor

from batch2online import OnlineClustering, OnlineLowRank, OnlineRegression, baselines
from batch2online.cli.settings import Settings

OURS = "batch2online"


def contestants(settings: Settings) -> dict[str, Any]:
    """Names and learners, ours first."""
    return {"regression": _regression, "lowrank": _low_rank, "clustering": _clustering}[settings.task](settings)


def loss_for(settings: Settings) -> Any:
    """What they are measured by."""
    losses: dict[str, Any] = {"regression": "squared", "lowrank": "lowrank", "clustering": ("kmeans", settings.z)}
    return losses[settings.task]


def _regression(settings: Settings) -> dict[str, Any]:
    batch = LinearRegression()
    return {
        OURS: OnlineRegression(**settings.shared()),
        "refit when rows double": baselines.FollowTheLeader(batch, growth=2.0),
        "uniform sample, refit": baselines.Reservoir(batch),
        "recursive least squares": baselines.Ridge(regularisation=1e-6),
        "SGDRegressor": SGDRegressor(),
        **_river("linear_model", "LinearRegression"),
    }


def _low_rank(settings: Settings) -> dict[str, Any]:
    k = _count(settings)
    batch = TruncatedSVD(k, random_state=0)
    return {
        OURS: OnlineLowRank(k, **settings.shared()),
        "refit when rows double": baselines.FollowTheLeader(batch, growth=2.0),
        "uniform sample, refit": baselines.Reservoir(batch),
        "Frequent Directions": baselines.FrequentDirections(k),
        "Oja": baselines.Oja(k),
        "IncrementalPCA": IncrementalPCA(k),
    }


def _clustering(settings: Settings) -> dict[str, Any]:
    k = _count(settings)
    batch = KMeans(k, n_init=3, random_state=0)
    return {
        OURS: OnlineClustering(k, z=settings.z, history=settings.history, **settings.shared()),
        "refit when rows double": baselines.FollowTheLeader(batch, growth=2.0),
        "uniform sample, refit": baselines.Reservoir(batch),
        "MacQueen": baselines.MacQueen(k),
        "MiniBatchKMeans": MiniBatchKMeans(k, n_init=3),
        **_river("cluster", "KMeans", n_clusters=k, halflife=0.01),
    }


def _count(settings: Settings) -> int:
    assert settings.k is not None
    return settings.k


def _river(module: str, name: str, **parameters: Any) -> dict[str, Any]:
    if find_spec("river") is None:
        return {}
    from importlib import import_module

    return {f"River {name}": getattr(import_module(f"river.{module}"), name)(**parameters)}
