"""Rows that may be in a coreset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray, WordArray
from batch2online.decay import LEAST_WEIGHT
from batch2online.rows import Rows
from batch2online.sampling import kept
from batch2online.schema import shape, storable


@storable
@dataclass(frozen=True)
class Candidates:
    """Rows that may be in the coreset, sorted by id.

    Each has its random draw, and a limit that its inclusion probability never exceeds again.
    """

    rows: Rows
    words: Annotated[WordArray, shape("n")]
    limits: Annotated[FloatArray, shape("n")]

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: Any) -> Candidates:
        return Candidates(self.rows[index], self.words[index], self.limits[index])

    def within(self, q: FloatArray) -> Candidates:
        """Return those that these inclusion probabilities keep."""
        return self[np.flatnonzero(kept(sampling.inclusion_uniforms(self.words), q))]

    def scaled(self, factor: float) -> Candidates:
        """Return the same with weights multiplied by this."""
        return replace(self, rows=scaled_rows(self.rows, factor))

    @classmethod
    def joined(cls, parts: list[Candidates]) -> Candidates:
        parts = [part for part in parts if len(part)] or parts[:1]
        return cls(
            Rows.concatenate([part.rows for part in parts]),
            np.concatenate([part.words for part in parts]),
            np.concatenate([part.limits for part in parts]),
        )


def scaled_rows(rows: Rows, factor: float) -> Rows:
    """Return rows with weights multiplied by this."""
    return replace(rows, weights=np.maximum(rows.weights * factor, LEAST_WEIGHT))


def copied(rows: Rows) -> Rows:
    """Return rows in arrays that nothing else refers to."""
    return Rows(rows.points.copy(), rows.targets.copy(), rows.weights.copy(), rows.ids.copy())
