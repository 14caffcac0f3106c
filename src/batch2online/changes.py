"""What happened when a model changed, and why."""

from __future__ import annotations

from dataclasses import dataclass

from batch2online.storage import storable


@storable
@dataclass(frozen=True)
class ChangeEvent:
    """One change of the model.

    Attributes
    ----------
    at : int
        Rows seen when the new model came into force.
    reason : str
        Why it was replaced, in a sentence.
    magnitude : float
        How far the model moved, in the problem's own measure.
    cost_before, cost_after : float
        Cost of the old and of the new model on all rows seen.
    angle : float or None
        For subspaces: the largest angle between the old and the new one, in radians.
    """

    at: int
    reason: str
    magnitude: float
    cost_before: float
    cost_after: float
    angle: float | None = None
