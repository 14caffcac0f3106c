"""What happened when a model changed, and why."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from batch2online.core.registry import storable
from batch2online.problems.matching import ClusterChange

KEPT = 10_000
"""Changes that an engine holds, the newest ones; of the others it holds the number."""

Counts = tuple[tuple[str, int], ...]
"""How many changes there were of each kind, sorted by kind."""


@storable
@dataclass(frozen=True)
class ChangeEvent:
    """One change of the model.

    Attributes
    ----------
    at : int
        Rows seen when the new model came into force.
    kind : {"scheduled", "costlier", "fit", "merged", "forgotten", "half_life"}
        What made the engine solve again.
    magnitude : float
        How far the model moved, in the problem's own measure.
    cost_before, cost_after : float
        Cost of the old and of the new model on all rows seen.
    allowed : float or None
        Share by which the old model might have cost more than the new one and stayed; None where the policy allows
        nothing.
    rows : int or None
        Rows merged or forgotten; the half-life that has come into force, 0 for none.
    angle : float or None
        For subspaces: the largest angle between the old and the new one, in radians.
    matching : tuple of ClusterChange or None
        For clusters: what became of each id.
    churn : float or None
        For clusters: share of the weight of all rows whose label has changed.
    solved_on : int or None
        Rows that the new model was solved on.
    seconds : float or None
        What that took, where it is known; it differs from run to run, and takes no part in comparisons.
    coefficients : tuple of (int, float, float) or None
        For one target: the columns whose coefficients moved the predictions most, with their values before and after.
    """

    at: int
    kind: str
    magnitude: float
    cost_before: float
    cost_after: float
    allowed: float | None = None
    rows: int | None = None
    angle: float | None = None
    matching: tuple[ClusterChange, ...] | None = None
    churn: float | None = None
    coefficients: tuple[tuple[int, float, float], ...] | None = None
    solved_on: int | None = None
    seconds: float | None = field(default=None, compare=False, repr=False)

    @property
    def excess(self) -> float:
        """Share by which the old model costs more than the new one; infinite where the new one costs nothing."""
        if self.cost_after:
            return self.cost_before / self.cost_after - 1
        return math.inf if self.cost_before else 0.0

    @property
    def reason(self) -> str:
        """Why the model was replaced, in a sentence."""
        if self.kind == "scheduled":
            return f"scheduled refresh at {self.at:,} rows{self._comparison}"
        if self.kind == "costlier":
            return f"recent rows cost more than the first ones under the old model, at {self.at:,} rows"
        if self.kind == "merged":
            return f"merged with {self.rows:,} rows"
        if self.kind == "half_life":
            better = f"a half-life of {self.rows:,} rows" if self.rows else "no half-life"
            return f"{better} has cost less lately"
        if self.kind == "forgotten":
            return f"{self.rows:,} rows forgotten"
        return f"{self.kind}: solved on all rows"

    @property
    def _comparison(self) -> str:
        if self.allowed is None:
            return ""
        more = "more than the new one, which costs nothing"
        if math.isfinite(self.excess):
            more = f"{self.excess:.2%} more than the new one"
        return f": the old model costs {more}, {self.allowed:.2%} was allowed"


def counted(counts: Counts, *events: ChangeEvent) -> Counts:
    """Return the counts with these changes.

    >>> counted((("merged", 1),), ChangeEvent(5, "fit", 0.0, 1.0, 1.0), ChangeEvent(9, "merged", 0.0, 1.0, 1.0))
    (('fit', 1), ('merged', 2))
    """
    return tuple(sorted((Counter(dict(counts)) + Counter(event.kind for event in events)).items()))
