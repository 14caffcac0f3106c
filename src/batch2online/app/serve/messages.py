"""Bodies of requests and responses."""

from __future__ import annotations

from typing import Any

import msgspec


class ModelInfo(msgspec.Struct):
    """What ``GET /models/NAME`` returns."""

    name: str
    task: str
    target: str | None
    n_seen: int
    n_changes: int
    version: int
    n_waiting: int
    settings: dict[str, Any]


class LearnResult(msgspec.Struct):
    """Ids of the first and the last row learned; None if the call had been carried out before."""

    first_id: int | None
    last_id: int | None


class PredictResult(msgspec.Struct):
    """One prediction a row: a number, a label, a cluster, or the components of a row."""

    predictions: list[Any]


class LabelResult(msgspec.Struct):
    """Number of rows learned with the targets that came."""

    n_labelled: int


class Forget(msgspec.Struct, forbid_unknown_fields=True):
    """Rows to forget, by ids or by keys."""

    ids: list[int] | None = None
    keys: list[int | str] | None = None


class Change(msgspec.Struct):
    """A change of the model."""

    at: int
    reason: str
    magnitude: float | None


class Changes(msgspec.Struct):
    """Changes of the model, oldest first."""

    changes: list[Change]


class RegretResult(msgspec.Struct):
    """Loss of the stream, that of the best model in hindsight, and their ratio."""

    loss: float | None
    optimum: float | None
    ratio: float | None
    rows: int


class Points(msgspec.Struct):
    """The coreset, column by column."""

    ids: list[int]
    weights: list[float]
    points: list[list[float]]
    targets: list[Any] | None
