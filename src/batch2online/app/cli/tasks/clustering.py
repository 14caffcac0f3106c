"""``--task clustering``."""

from __future__ import annotations

from batch2online import OnlineClustering
from batch2online.app.cli.tasks.base import Task, needed_count


class ClusteringTask(Task):
    """Centers that rows lie near to."""

    name = "clustering"
    best = "clustering known, by the coreset"
    hindsight_note = (
        "For clusters it is the best solution known, its cost measured on the coreset: allow for a few percent."
    )
    unused_settings = frozenset()

    def __post_init__(self) -> None:
        super().__post_init__()
        needed_count(self, "clusters")

    def estimator(self) -> OnlineClustering:
        settings = self.settings
        k = needed_count(self, "clusters")
        return OnlineClustering(k, z=settings.z, history=settings.history, **settings.shared())

    def title(self, width: int) -> str:
        return f"{self.settings.k} clusters (z = {self.settings.z:g}) in {width:,} columns"

    def loss(self) -> tuple[str, float]:
        return ("kmeans", self.settings.z)
