"""This package, with its defaults and its main alternatives."""

from __future__ import annotations

from typing import Any

from batch2online import OnlineClustering, OnlineLowRank, OnlineRegression


def regression(k: int) -> dict[str, Any]:
    return {"ours": OnlineRegression(), 'ours, `solve="exact"`': OnlineRegression(solve="exact")}


def lowrank(k: int) -> dict[str, Any]:
    return {"ours": OnlineLowRank(k), 'ours, `solve="exact"`': OnlineLowRank(k, solve="exact")}


def clustering(k: int) -> dict[str, Any]:
    return {"ours": OnlineClustering(k), 'ours, `history="coreset"`': OnlineClustering(k, history="coreset")}
