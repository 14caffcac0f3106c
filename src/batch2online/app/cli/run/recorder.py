"""The curve of a run: loss, hindsight and changes over the rows seen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from batch2online.app.cli.run.stream import Chunk
from batch2online.headline import HUGE

GROWTH = 1.5
START = 50


@dataclass
class Recorder:
    """Points of the curve at row counts that grow geometrically: a few dozen for any stream.

    Row counts do not depend on chunks, so neither does the curve.
    """

    points: list[dict[str, Any]] = field(default_factory=list)

    @property
    def next_at(self) -> int:
        """Rows at which the next point is due."""
        return START if not self.points else following(self.points[-1]["rows"])

    @property
    def last(self) -> dict[str, Any] | None:
        return self.points[-1] if self.points else None

    def pieces(self, chunk: Chunk, seen: int) -> Iterator[Chunk]:
        """Cut the chunk where a point is due, which is to be recorded after each piece."""
        rows, targets = chunk
        start = 0
        while start < len(rows):
            stop = min(len(rows), start + self.next_at - seen)
            yield rows[start:stop], None if targets is None else targets[start:stop]
            seen, start = seen + stop - start, stop

    def look(self, model: Any) -> bool:
        """Record a point if one is due."""
        if model.n_seen_ != self.next_at:
            return False
        self.points.append(point(model))
        return True

    def closed(self, model: Any) -> list[dict[str, Any]]:
        """All points, and one for the end of the stream."""
        if self.points and self.points[-1]["rows"] == model.n_seen_:
            return list(self.points)
        return [*self.points, point(model)]


def following(rows: int) -> int:
    """Return the row count of the point after this one.

    >>> following(50), following(63)
    (75, 95)
    """
    return math.ceil(GROWTH * rows)


def point(model: Any) -> dict[str, Any]:
    """Where the model stands now."""
    regret = model.regret_
    return {
        "rows": int(model.n_seen_),
        "loss": float(regret.loss),
        "optimum": float(regret.optimum),
        "weight": float(regret.weight),
        "half_life": regret.half_life or 0,
        "ratio": float(regret.ratio),
        "changes": int(model.n_changes_),
    }


def ratio_text(ratio: float) -> str:
    """Return a loss relative to hindsight in words.

    >>> ratio_text(1.02), ratio_text(float("nan"))
    ('1.0200 times hindsight', 'beside an exact fit in hindsight')
    """
    return f"{ratio:.4f} times hindsight" if ratio <= HUGE else "beside an exact fit in hindsight"
