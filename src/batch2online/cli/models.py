"""Models on disk, and how their inputs were prepared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import batch2online
from batch2online.cli.run.replacing import in_place
from batch2online.readers import DataError, Source
from batch2online.readers.preparation import Preparation


def load_model(path: Path) -> tuple[Any, Path | None]:
    """Return a model, and the file with the result of its run where there is one beside it."""
    file = path / "model.b2o" if path.is_dir() else path
    found = in_place(file.parent, file.name)
    if not found.is_file():
        raise DataError(f"{path} is no model, nor a folder with a model.b2o.")
    beside = in_place(file.parent, "result.json")
    return batch2online.load(found), beside if file.name == "model.b2o" and beside.is_file() else None


def preparation_for(model: Any, result: Path | None, source: Source, name: str) -> Preparation:
    """How the columns of a source become inputs of the model: as in its run, else by their names alone."""
    preparation = _by_names(model, source) if result is None else _as_in_run(result)
    known = set(source.names)
    absent = next((column for column in preparation.columns if column not in known), None)
    if absent is not None:
        hint = "" if result is not None else " (a model that prepared its columns needs the result.json beside it)"
        raise DataError(f"{name} has no column {absent!r}, which the model needs{hint}.")
    if len(preparation.names) != model.n_features_in_:
        raise DataError(f"The model takes {model.n_features_in_} inputs, but {len(preparation.names)} are prepared.")
    return preparation


def _by_names(model: Any, source: Source) -> Preparation:
    names = [str(column) for column in getattr(model, "feature_names_in_", source.names)]
    count = len(names)
    return Preparation(names, {}, False, None, "refuse", [0.0] * count, [1.0] * count, False, 0)


def _as_in_run(result: Path) -> Preparation:
    try:
        content = json.loads(result.read_bytes())
        return Preparation.from_dict(content["preparation"]).without_target()
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        reason = f" {error}" if isinstance(error, DataError) else ""
        raise DataError(f"{result} is not the result of a run.{reason}") from error
