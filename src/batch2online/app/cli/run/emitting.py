"""``--emit``: a JSON line for each row, or for each change, while rows come."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson

from batch2online.app.cli.predicting import predictions
from batch2online.app.cli.run.result import change_record
from batch2online.app.cli.run.stream import Chunk

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE


class Emitter:
    """Whoever writes to standard output what the model says and when it changes.

    A row is predicted by the model that was in force before it came, whatever the chunks: they are cut where the model
    may change. Lines are written before the row is learned, so a run that is killed and resumed may write the last
    ones twice, and never leaves one out.

    Parameters
    ----------
    what : {"predictions", "changes"} or None
    """

    def __init__(self, what: str | None) -> None:
        self._what = what
        self._changes_told: int | None = None

    def pieces(self, model: Any, chunk: Chunk) -> Iterator[Chunk]:
        """Cut a chunk where the model may change, which is to be asked again after each piece."""
        rows, targets = chunk
        start = 0
        while start < len(rows):
            stop = len(rows) if self._what != "predictions" else min(len(rows), start + model._rows_to_check())
            yield rows[start:stop], None if targets is None else targets[start:stop]
            start = stop

    def before(self, model: Any, chunk: Chunk, n_before: int) -> None:
        """Write what the model says of rows before it learns them."""
        if self._changes_told is None:
            self._changes_told = model.n_changes_ if _is_fitted(model) else 0
        if self._what == "predictions":
            self._write(_lines(model, chunk, n_before))

    def after(self, model: Any) -> None:
        """Write the changes that have come since."""
        if self._what == "changes":
            count, self._changes_told = model.n_changes_ - (self._changes_told or 0), model.n_changes_
            events = model.changes_[-count:] if count else []
            self._write({"row": event.at, **change_record(event)} for event in events)

    def _write(self, lines: Iterator[dict[str, Any]]) -> None:
        sys.stdout.buffer.write(b"".join(orjson.dumps(line, option=_OPTIONS) for line in lines))

    def flush(self) -> None:
        """Let the lines go."""
        if self._what is not None:
            sys.stdout.buffer.flush()


def _is_fitted(model: Any) -> bool:
    return bool(model.__sklearn_is_fitted__())


def _lines(model: Any, chunk: Chunk, n_before: int) -> Iterator[dict[str, Any]]:
    rows, targets = chunk
    is_solved = _is_fitted(model) and model.has_model_
    said = predictions(model, rows) if is_solved else {"prediction": np.full(len(rows), np.nan)}
    if targets is not None:
        said["target"] = targets
    columns = {name: values.tolist() for name, values in said.items()}
    for index, values in enumerate(zip(*columns.values(), strict=True)):
        yield {"row": n_before + index + 1, **dict(zip(columns, values, strict=True))}
