"""A peer: a name, the tasks it serves, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

OURS = "batch2online"
COMPARE, SPEED, LOSS = "compare", "speed", "loss"
"""Where peers are shown: by ``batch2online compare``, in tables of speed, in tables of loss."""

MEASURED, EVERYWHERE = frozenset({SPEED, LOSS}), frozenset({COMPARE, SPEED, LOSS})
STARTS = 8
"""Starts of k-means: as many as our solver has."""

FEW, WIDE = 20_000, 500
"""Rows that learners which take one at a time are given where speed is measured, and columns they can cope with."""


@dataclass(frozen=True)
class PeerSettings:
    """Facts about the rows that a peer may use before it sees them.

    Attributes
    ----------
    k : clusters, the rank, or the number of classes; regression has none
    mean, spread : of all numbers; River draws its first centers from a normal distribution with these
    size : rows that a uniform sample may hold: as many as our coreset does, for a fair comparison
    """

    k: int = 0
    mean: float = 0.0
    spread: float = 1.0
    size: int = 1000


@dataclass(frozen=True)
class Peer:
    """A learner to be compared with.

    Attributes
    ----------
    name : the one name that all tables use
    makers : for each task that it serves, a function that makes an unfitted learner
    shown : the comparisons that it takes part in
    package : what must be installed, if it is no requirement of ours
    most_rows : rows that a slow learner is given where speed is measured
    most_columns : columns beyond which it is too slow to be shown at all
    """

    name: str
    makers: Mapping[str, Callable[[PeerSettings], Any]]
    shown: frozenset[str]
    package: str | None = None
    most_rows: int | None = None
    most_columns: int | None = None

    @property
    def is_installed(self) -> bool:
        return self.package is None or find_spec(self.package) is not None

    def make(self, task: str, settings: PeerSettings | None = None) -> Any:
        """Return an unfitted learner for a task."""
        return self.makers[task](settings or PeerSettings())
