"""Models on disk, and how their inputs were prepared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import batch2online
from batch2online.readers import DataError, Source
from batch2online.readers.preparation import Preparation


def load_model(path: Path) -> tuple[Any, dict[str, Any] | None]:
    """A model, and the result it was saved with where there is one beside it."""
    file = path / "model.b2o" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"{path} is no model, nor a folder with a model.b2o.")
    beside = file.with_name("result.json")
    result = json.loads(beside.read_text()) if file.name == "model.b2o" and beside.is_file() else None
    return batch2online.load(file), result


def preparation_for(names: list[str], result: dict[str, Any] | None, source: Source, name: str) -> Preparation:
    """How the columns of a source become inputs of the model: as in its run, else by their names alone."""
    if result is not None:
        preparation = Preparation(**result["preparation"]).without_target()
    else:
        names = names or source.names
        count = len(names)
        preparation = Preparation(names, {}, False, None, "refuse", [0.0] * count, [1.0] * count, False, 0)
    absent = [column for column in preparation.columns if column not in source.names]
    if absent:
        hint = "" if result is not None else " (a model that prepared its columns needs the result.json beside it)"
        raise DataError(f"{name} has no column {absent[0]!r}, which the model needs{hint}.")
    return preparation
