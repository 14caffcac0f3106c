"""A run that survives being killed: model, curve and position, replaced in one step.

The folder holds a model file and ``position.json``, which names it. A new model is written beside the old one,
then ``position.json`` is replaced (a rename), then the old model is removed. Whatever moment the process dies at,
``position.json`` names a complete model and the rows it has learned. On resuming, these rows are read again and
their checksum compared, so another input is never continued by mistake.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import batch2online
from batch2online.cli.run.stream import Chunk
from batch2online.persistence import checkpoint as storage
from batch2online.readers import DataError

_POSITION = "position.json"


@dataclass(frozen=True)
class Position:
    """How far a run has come."""

    rows: int
    checksum: int
    model: Any
    curve: list[dict[str, Any]]


@dataclass(frozen=True)
class StateFolder:
    """Where a run keeps what it needs to go on."""

    path: Path
    run: dict[str, Any]
    """What must be the same for the run to be continued."""

    def load(self) -> Position | None:
        """The last position, or None at the start."""
        try:
            content = json.loads((self.path / _POSITION).read_bytes())
            before, rest = dict(content["run"]), (content["rows"], content["checksum"], content["curve"])
            model = self.path / content["model"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise DataError(f"{self.path} holds no usable state: {type(error).__name__} in {_POSITION}.") from error
        self._check_same_run(before)
        rows, sum_of_rows, curve = rest
        return Position(rows, sum_of_rows, batch2online.load(model), curve)

    def save(self, position: Position) -> None:
        """Replace the last position by this one."""
        self.path.mkdir(parents=True, exist_ok=True)
        name = f"model-{position.rows}.b2o"
        position.model.save(self.path / name)
        content = {
            "run": self.run,
            "rows": position.rows,
            "checksum": position.checksum,
            "model": name,
            "curve": position.curve,
        }
        storage.write(self.path / _POSITION, json.dumps(content, indent=1).encode())
        for old in [*self.path.glob("model-*.b2o"), *self.path.glob(".*.b2o.*"), *self.path.glob(f".{_POSITION}.*")]:
            if old.name != name:
                old.unlink(missing_ok=True)

    def _check_same_run(self, before: dict[str, Any]) -> None:
        for key in sorted(before.keys() | self.run.keys()):
            if before.get(key) != self.run.get(key):
                raise DataError(
                    f"{self.path} belongs to a run with {key} {before.get(key)!r}, not {self.run.get(key)!r}: "
                    "use another --state or remove it."
                )


def checksum(chunk: Chunk, before: int = 0) -> int:
    """The checksum of all rows up to the end of this chunk; ``before`` is that of the chunks before it.

    The lower 32 bits are the CRC-32 of the rows, the upper 32 bits that of the targets. A CRC can be continued, so
    the same rows give the same checksum however they are cut into chunks.
    """
    rows, targets = chunk
    of_targets = 0 if targets is None else zlib.crc32(np.ascontiguousarray(targets).data, before >> 32)
    return (of_targets << 32) + zlib.crc32(np.ascontiguousarray(rows).data, before & 0xFFFFFFFF)
