"""Fields of classes as files of schema 1 hold them, brought to their present form."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.least_squares.moments import MU
from batch2online.methods.low_rank.moments import RidgeMoments
from batch2online.rows import ones
from batch2online.schema import check_kinds, storable
from batch2online.theory import sizes

Fields = dict[str, Any]

_ALLOWED = re.compile(r"([\d.]+)% was allowed")
_MERGED = re.compile(r"merged with ([\d,]+) rows")
_FORGOTTEN = re.compile(r"([\d,]+) rows forgotten")


@storable
@dataclass(frozen=True)
class Buffer:
    """Rows that wait, as files of schema 1 hold them; the queue has taken its place."""

    width: int
    columns: int
    capacity: int
    count: int
    values: FloatArray
    weights: FloatArray

    def given(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return points, targets and weights of the rows."""
        values = self.values[: self.count]
        points, targets = np.ascontiguousarray(values[:, : self.width]), np.ascontiguousarray(values[:, self.width :])
        return points, targets, self.weights[: self.count] if len(self.weights) else ones(self.count)


def _change_event(fields: Fields) -> Fields:
    """Files of schema 1 hold the sentence; its numbers are fields now."""
    reason = fields.pop("reason", None)
    if not isinstance(reason, str):
        return fields
    if merged := _MERGED.search(reason):
        return fields | {"kind": "merged", "rows": _count(merged)}
    if forgotten := _FORGOTTEN.search(reason):
        return fields | {"kind": "forgotten", "rows": _count(forgotten)}
    if reason.startswith("fit"):
        return fields | {"kind": "fit"}
    allowed = _ALLOWED.search(reason)
    return fields | {"kind": "scheduled", "allowed": float(allowed[1]) / 100 if allowed else None}


def _count(match: re.Match[str]) -> int:
    return int(match[1].replace(",", ""))


def _history(fields: Fields) -> Fields:
    """Files of schema 1 tell blocks that are complete from the pieces of the last one."""
    if "segments" in fields:
        return fields
    segments = [*fields.pop("blocks"), *fields.pop("pieces")]
    fields.pop("rows", None)
    return fields | {"segments": segments}


def _folder_history(fields: Fields) -> Fields:
    raise ValueError(
        "its rows lie in a folder, as version 0.1 kept them: load it with that version, read the rows there "
        "(model._engine.construction.history.everything()) and let a new model learn them."
    )


def _engine(fields: Fields) -> Fields:
    """Files of schema 1 call the sum of a problem's second numbers by what it is for some of them."""
    if "unsquared_loss" in fields:
        fields["second_loss"] = fields.pop("unsquared_loss")
    return fields


def _ridge_moments(fields: Fields) -> Fields:
    """Files of schema 1 count the constant column as one more rank, and subtract nothing from rows."""
    if not fields["intercept"] or "shift" in fields:
        return fields
    known = fields | {"rank": fields["rank"] - 1, "reference": None, "of_few": None}
    if not known["rows"]:
        return known
    check_kinds(RidgeMoments, known)
    moments = RidgeMoments(**known, shift=np.zeros(known["width"]))._checked()
    return {field.name: getattr(moments, field.name) for field in dataclasses.fields(moments)}


def _ridge_leverage(fields: Fields) -> Fields:
    """Rows of schema 1 were kept by scores with a penalty on the constant: these limit what they are kept by now."""
    if not fields["intercept"] or fields["shape"] is None:
        return fields
    total, dimension = 2 * fields["rank"] + 1, fields["rank"] + 1
    constant, moments = fields["constant"], fields["statistics"]
    if fields["expected_size"] < (total + 0.5) * constant:
        return fields
    parts = [replace(part, limits=_former_limits(part, moments, constant)) for part in fields["parts"]]
    constant = sizes.sampling_constant(fields["coreset_size"], total, dimension, fields["epsilon"])
    return fields | {"constant": constant, "expected_size": constant * total, "parts": parts}


def _former_limits(part: Any, moments: RidgeMoments, constant: float) -> FloatArray:
    if not moments.rows:
        return np.asarray(part.limits)
    rank, scale = moments.rank + 1, 1.0 if moments.reference is None else moments.reference.scale
    _, sigma, right = np.linalg.svd(moments.triangle / scale)
    ridge = max(np.square(sigma[rank:]).sum() / rank, MU * np.square(sigma).sum())
    white = moments.coordinates(part.rows) / scale @ right.T / np.sqrt(sigma**2 + ridge)
    return np.asarray(np.minimum(part.limits, constant * np.square(white).sum(axis=1)))


def _disk_history(fields: Fields) -> Fields:
    raise ValueError("rows on disk lie in their table, never in the state.")


UPGRADES: dict[str, Callable[[Fields], Fields]] = {
    "ChangeEvent": _change_event,
    "DiskHistory": _disk_history,
    "FolderHistory": _folder_history,
    "History": _history,
    "Online": _engine,
    "RidgeLeverage": _ridge_leverage,
    "RidgeMoments": _ridge_moments,
}
"""What to do with the fields of a class, by its name, before an instance is built from them."""
