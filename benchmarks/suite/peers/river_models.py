"""River: one row at a time, as dictionaries."""

from __future__ import annotations

from typing import Any

from river import cluster, linear_model

MOST_ROWS = 20_000


def regression(k: int) -> dict[str, Any]:
    return {"River LinearRegression": linear_model.LinearRegression()}


def clustering(k: int) -> dict[str, Any]:
    return {"River KMeans, halflife 0.02": cluster.KMeans(n_clusters=k, halflife=0.02, mu=0, sigma=1)}
