"""A fitted estimator and its rows, as a stream holds it and a file stores it."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import joblib
import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.methods.any_estimator import clusters
from batch2online.methods.any_estimator.object_table import is_public
from batch2online.methods.any_estimator.stored_models import stored_model
from batch2online.rows import Rows
from batch2online.schema import shape, storable
from batch2online.sketches.base import Coreset


@storable
@dataclass(frozen=True, eq=False)
class FittedEstimator:
    """A model and the weighted rows that it was fitted to: a fit to them gives it again.

    ``order`` is that in which its clusters were numbered anew, if they were. In a file the model is plain data, see
    :mod:`stored_models`; out of a file it is that data until ``EstimatorProblem.open`` has checked it.
    """

    model: Any
    rows: Rows
    order: Annotated[IntArray, shape("k")] | None = None
    last: tuple[Coreset, FloatArray] | None = field(default=None, repr=False)
    """Rows that were measured last, and their losses: a check needs them for costs and for the difference."""

    def stored_fields(self) -> dict[str, object]:
        """Return what a file holds; warn if it lacks the model, unless that is one for ``restore`` anyway."""
        stored, kind = stored_model(self.model), type(self.model)
        if stored is None and is_public(kind):
            warnings.warn(
                f"The file holds the rows that {kind.__name__} was fitted on and not the fitted model, which has parts "
                "that no file can hold: load(path, refit=True) fits it again.",
                UserWarning,
                stacklevel=2,
            )
        return {"model": stored, "rows": self.rows, "order": self.order}

    def __getstate__(self) -> dict[str, object]:
        """Return what copies hold: losses are measured again, with the same result."""
        return vars(self) | {"last": None}

    def has_rows_of(self, other: FittedEstimator) -> bool:
        """Return whether both models were fitted to the same rows, with the same weights."""
        mine, theirs = self.rows, other.rows
        return np.array_equal(mine.ids, theirs.ids) and np.array_equal(mine.weights, theirs.weights)

    def was_seen_to_differ(self, other: FittedEstimator) -> bool:
        """Return whether both models were last measured on the same rows, with different losses."""
        if self.last is None or other.last is None or self.last[0] is not other.last[0]:
            return False
        return not np.array_equal(self.last[1], other.last[1])

    def renumbered(self, order: IntArray | None) -> FittedEstimator:
        """Return a model that was fitted just now with its clusters in another order, if one is given."""
        if order is None:
            return self
        clusters.renumber(self.model, order)
        return replace(self, order=order)


def is_same(one: object, other: object) -> bool:
    """Return whether two models or settings hold the same; False where that cannot be known."""
    try:
        return type(one) is type(other) and bool(joblib.hash(one) == joblib.hash(other))
    except (pickle.PicklingError, AttributeError, TypeError):  # functions without a name have nothing to compare
        return False


def models_in(value: object, seen: set[int] | None = None) -> Iterator[FittedEstimator]:
    """Search every part of a stream, so that none is left out when parts are added."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, FittedEstimator):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from models_in(item, seen)
    elif type(value).__module__.startswith("batch2online.") and hasattr(value, "__dict__"):
        for item in vars(value).values():
            yield from models_in(item, seen)
