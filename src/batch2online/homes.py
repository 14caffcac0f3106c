"""Modules of the estimators, which are imported on first use: importing one registers the classes of its files."""

from __future__ import annotations

from importlib import import_module

HOMES = {
    "BatchToOnline": "batch2online.methods.any_estimator.estimator",
    "Columns": "batch2online.tables.codec",
    "Durable": "batch2online.durable",
    "OnlineClassifier": "batch2online.methods.linear_losses.estimator",
    "OnlineClustering": "batch2online.methods.clustering.estimator",
    "OnlineLowRank": "batch2online.methods.low_rank.estimator",
    "OnlineRegression": "batch2online.methods.least_squares.estimator",
}


def import_all() -> None:
    """Import all modules whose classes a file may name; called when a file names a class that is not known yet."""
    for home in HOMES.values():
        import_module(home)
