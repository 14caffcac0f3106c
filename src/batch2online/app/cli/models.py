"""Models on disk, how their inputs were prepared, and their predictions as named columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import batch2online
from batch2online._types import FloatArray
from batch2online.app.cli.run.outputs import in_place
from batch2online.app.cli.run.source import check_columns
from batch2online.app.cli.run.state import INPUT
from batch2online.app.cli.tasks.wrapped import named_estimator
from batch2online.app.inputs import DataError, Source
from batch2online.app.inputs.preparation import Preparation
from batch2online.frames.columns import ColumnType
from batch2online.storage.model_file import sources_in
from batch2online.storage.tree import CheckpointError


@dataclass(frozen=True)
class StoredModel:
    """A model out of a file, with what the file, or the result of the run beside it, says of its inputs."""

    model: Any
    preparation: Preparation | None


def load_model(path: Path, estimator: str | None = None, sets: Sequence[str] = ()) -> StoredModel:
    """Return the model in a file or in the folder of a run.

    ``estimator`` and ``sets`` name that of a wrapped one again, where the file alone is not to be trusted with it.
    """
    file = path / "model.b2o" if path.is_dir() else path
    found = in_place(file.parent, file.name)
    if not found.is_file():
        raise DataError(f"{path} is no model, nor a folder with a model.b2o.")
    model = _loaded(found, estimator, sets)
    return StoredModel(model, _preparation(found, in_place(file.parent, "result.json"), file.name == "model.b2o"))


def _loaded(path: Path, estimator: str | None, sets: Sequence[str]) -> Any:
    if estimator is not None:
        return batch2online.BatchToOnline.restore(path, estimator=named_estimator(estimator, sets))
    try:
        return batch2online.load(path)
    except CheckpointError as error:
        if "restore(path, estimator=...)" not in str(error):
            raise
        said = "it wraps an estimator that is not made by a file alone: name it again by --estimator and --set."
        raise DataError(f"{path}: {said}") from error


def _preparation(file: Path, beside: Path, is_of_run: bool) -> Preparation | None:
    """How rows were prepared: the file says so itself; those of earlier versions have it in the result beside them."""
    position = sources_in(file).get(INPUT)
    if isinstance(position, dict) and position.get("preparation") is not None:
        return _checked(position["preparation"], file)
    if not is_of_run or not beside.is_file():
        return None
    try:
        content = json.loads(beside.read_bytes())["preparation"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{beside} is not the result of a run.") from error
    return _checked(content, beside)


def _checked(content: Any, path: Path) -> Preparation:
    try:
        return Preparation.from_dict(content)
    except (ValueError, TypeError, RecursionError) as error:
        reason = f" {error}" if isinstance(error, DataError) else ""
        raise DataError(f"{path} is not the result of a run.{reason}") from error


def needed_kinds(stored: StoredModel) -> dict[str, ColumnType]:
    """Return what the columns must hold; all numbers where the model alone is known."""
    if stored.preparation is not None:
        return stored.preparation.for_prediction().column_kinds
    return dict.fromkeys(map(str, getattr(stored.model, "feature_names_in_", ())), ColumnType.NUMBER)


def preparation_for(stored: StoredModel, source: Source) -> Preparation:
    """How the columns of a source become inputs of the model: as in its run, else by their names alone."""
    known = stored.preparation
    preparation = _by_names(stored.model, source) if known is None else known.for_prediction()
    check_columns(source.names, source.kinds, source.name, preparation)
    width = stored.model.n_features_in_
    if len(preparation.names) != width:
        raise DataError(f"The model takes {width} inputs, but {len(preparation.names)} are prepared.")
    stored.model.__dict__.pop("feature_names_in_", None)  # rows come as plain arrays, in the order of the columns
    return preparation


def _by_names(model: Any, source: Source) -> Preparation:
    names = [str(column) for column in getattr(model, "feature_names_in_", source.names)]
    count = len(names)
    return Preparation(names, {}, False, None, "drop", [0.0] * count, [1.0] * count, False, 0)


def predictions(model: Any, rows: FloatArray, probabilities: bool = False) -> dict[str, Any]:
    """Named columns of what the model says of rows; of a classifier also the probability of each class."""
    if probabilities and not hasattr(model, "predict_proba"):
        raise DataError(f"{type(model).__name__} gives no probabilities: leave --probabilities out.")
    try:
        if hasattr(model, "transform") and not hasattr(model, "predict"):
            return _numbered("component", model.transform(rows))
        labels = model.predict(rows)
    except ValueError as error:
        raise DataError(str(error)) from error
    shares = model.predict_proba(rows).T if probabilities else ()
    named = (
        {f"probability of {name}": share for name, share in zip(model.classes_, shares, strict=True)}
        if len(shares)
        else {}
    )
    return {"cluster" if hasattr(model, "cluster_centers_") else "prediction": np.asarray(labels)} | named


def _numbered(name: str, values: FloatArray) -> dict[str, Any]:
    return {f"{name}_{j + 1}": np.ascontiguousarray(values[:, j]) for j in range(values.shape[1])}
