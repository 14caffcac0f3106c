"""A coreset: a weighted subset of the rows seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Coreset:
    """A weighted subset of the rows seen: immutable, sorted by id.

    Attributes
    ----------
    points : (m, d) array; for rows of another kind, a table or list of that kind
    targets : (m,) or (m, n_targets) array, or None for problems without targets
    weights : (m,) array, sampling weight times ``sample_weight``
    ids : (m,) array of the points' ids
    columns : names of the columns, or None where they have none
    """

    points: FloatArray
    targets: FloatArray | None
    weights: FloatArray
    ids: IntArray
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for array in (self.points, self.targets, self.weights, self.ids):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """Two coresets are the same when they hold the same points with the same weights."""
        if not isinstance(other, Coreset):
            return NotImplemented
        return np.array_equal(self.ids, other.ids) and np.array_equal(self.weights, other.weights)

    __hash__ = None  # type: ignore[assignment]  # arrays have no cheap hash

    def __repr__(self) -> str:
        width = getattr(self.points, "shape", (0, 1))[1:] or (1,)
        return f"Coreset({len(self)} points of {width[0]} columns, total weight {self.weights.sum():g})"

    def to_frame(self) -> Any:
        """Return the coreset as a pandas DataFrame: columns, targets and ``weight``, indexed by ``id``.

        Columns without names are ``x0``, ``x1``, ...; a name that is taken gets an underscore.

        >>> Coreset(np.eye(2), np.array([5.0, 6.0]), np.array([1.0, 3.5]), np.array([4, 7])).to_frame().loc[7].to_dict()
        {'x0': 0.0, 'x1': 1.0, 'target': 6.0, 'weight': 3.5}
        """
        import pandas as pd

        points = self.points.to_pandas() if hasattr(self.points, "to_pandas") else self.points
        frame = pd.DataFrame(points) if isinstance(points, list) else pd.DataFrame(points, copy=True)
        if isinstance(points, np.ndarray):
            frame.columns = pd.Index(self._names())
        frame.index = pd.Index(self.ids, name="id")
        for name, values in [*self._named_targets(), ("weight", self.weights)]:
            frame[_free(name, frame.columns)] = values
        return frame

    def _names(self) -> list[str]:
        return list(self.columns or (f"x{number}" for number in range(self.points.shape[1])))

    def _named_targets(self) -> list[tuple[str, Any]]:
        if self.targets is None:
            return []
        if self.targets.ndim == 1:
            return [("target", self.targets)]
        return [(f"target{number}", column) for number, column in enumerate(self.targets.T)]


def _free(name: str, taken: Any) -> str:
    return _free(f"{name}_", taken) if name in taken else name
