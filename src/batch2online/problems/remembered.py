"""Losses that a model was last asked for, so that it predicts the same rows once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from batch2online._types import FloatArray, IntArray


class LastLosses:
    """The ids of the rows that one model was last measured on, and their losses.

    A look asks for the losses of a coreset several times: for the cost of the old and of the new model, and for how far
    they differ. Ids name rows, since shards have disjoint ones. Nothing of it is copied or stored: what is asked for
    again is computed again, on the same rows, with the same result.
    """

    def __init__(self) -> None:
        self._last: tuple[IntArray, FloatArray] | None = None

    def of(self, ids: IntArray, measured: Callable[[], FloatArray]) -> FloatArray:
        """Return the losses of the rows with these ids: as remembered, or as measured now."""
        last = self._last
        if last is not None and np.array_equal(last[0], ids):
            return last[1]
        losses = measured()
        self._last = (ids, losses)
        return losses

    def __getstate__(self) -> dict[str, None]:
        return {"_last": None}
