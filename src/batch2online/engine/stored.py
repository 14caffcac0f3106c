"""What files and copies hold of an engine."""

from __future__ import annotations

from threading import RLock
from typing import Any, Self

from batch2online.drift.order_monitor import Monitor
from batch2online.engine.unscored import Unscored
from batch2online.record import Record
from batch2online.results import KEPT, Costs, counted

_OF_A_PROCESS = ("lock", "recorder", "on_change")
"""Attributes that neither files nor copies hold."""


class StoredEngine:
    """The part of an engine that is written to files and read from them."""

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds."""
        own = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return {name: value for name, value in own.items() if name not in (*_OF_A_PROCESS, "costs")}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_A_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=RLock())

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Return the engine with these attributes; in files of schema 1 rows wait in a buffer of their own."""
        buffer = fields.pop("buffer", None)
        for former in ("block", "room", "timeline"):
            fields.pop(former, None)
        for later in ("warm_up", "solved_then", "window", "contest", "pace"):
            fields.setdefault(later, None)
        fields.setdefault("idle_solves", 0)
        fields.setdefault("unscored", Unscored())
        if "record" not in fields:  # all rows counted alike then, and largest losses were not kept
            weight, sums = float(fields["construction"].weight), (fields["loss"], fields["second_loss"])
            fields["record"] = Record(0, fields["n_learned"], weight, *sums) if weight > 0 else None
        fields.setdefault("change_counts", counted((), *fields["changes"]))
        fields["changes"] = fields["changes"][-KEPT:]
        if "monitor" not in fields:  # the order was not watched: that begins with the next row
            fields["monitor"] = Monitor.new(fields["width"], fields["n_targets"], skipped=fields["n_learned"])
        engine: Any = object.__new__(cls)
        vars(engine).update(fields, costs=Costs(), lock=RLock())
        made: Self = engine if buffer is None else engine.learned([buffer.given()])
        return made
