"""``--task lowrank``."""

from __future__ import annotations

from batch2online import OnlineLowRank
from batch2online._types import FloatArray
from batch2online.app.cli.tasks.base import Table, Task, needed_count
from batch2online.app.inputs import DataError


class LowRankTask(Task):
    """A few directions that hold most of the rows."""

    name = "lowrank"

    def __post_init__(self) -> None:
        super().__post_init__()
        needed_count(self, "components")

    def estimator(self) -> OnlineLowRank:
        return OnlineLowRank(needed_count(self, "components"), **self.settings.shared())

    def title(self, width: int) -> str:
        return f"rank {self.settings.k} approximation of {width:,} columns"

    def loss(self) -> str:
        return "lowrank"

    def comparable(self, X: FloatArray, y: FloatArray | None) -> Table:
        """Columns centred, as IncrementalPCA does anyway."""
        return X - X.mean(axis=0), y

    def check_width(self, width: int, name: str) -> None:
        super().check_width(width, name)
        if needed_count(self, "components") > width:
            raise DataError(f"--k {self.settings.k} is more than the {width} columns of {name}.")
