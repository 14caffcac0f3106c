"""Stored models, the preparation of their rows, and their predictions as named columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import batch2online
from batch2online._types import FloatArray
from batch2online.app.cli.run.outputs import in_place
from batch2online.app.cli.run.source import check_columns
from batch2online.app.cli.run.state import INPUT
from batch2online.app.inputs import DataError, Source
from batch2online.app.inputs.preparation import Preparation
from batch2online.frames.columns import ColumnType
from batch2online.storage.model_file import sources_in
from batch2online.storage.tree import CheckpointError
from batch2online.tables.codec import Codec
from batch2online.tables.columns import read


@dataclass(frozen=True)
class StoredModel:
    """A model of a file, and how its rows were prepared, if the file or the result of the run says so."""

    model: Any
    preparation: Preparation | None


def load_model(path: Path, estimator: str | None = None, sets: Sequence[str] = (), trust: bool = False) -> StoredModel:
    """Load the model of a file or of the folder of a run.

    ``trust`` accepts a fitted model of any types; ``estimator`` and ``sets`` name the wrapped estimator of a file that
    cannot name it, or whose fitted model is not accepted, and it is then fitted again.
    """
    file = path / "model.b2o" if path.is_dir() else path
    found = in_place(file.parent, file.name)
    if not found.is_file():
        raise DataError(f"{path} is neither a model nor a folder with a model.b2o.")
    model = _loaded(found, estimator, sets, trust)
    if model.stream.columns is not None:
        return StoredModel(model, None)
    return StoredModel(model, _preparation(found, in_place(file.parent, "result.json"), file.name == "model.b2o"))


@dataclass(frozen=True)
class TablePreparation:
    """How columns of a file become rows of a model of tables: as its codec says."""

    codec: Codec

    @property
    def columns(self) -> list[str]:
        return self.codec.inputs

    @property
    def column_kinds(self) -> dict[str, ColumnType]:
        return {each.name: ColumnType(each.kind) for each in self.codec.coded}

    @property
    def names(self) -> list[str]:
        return self.codec.names

    def apply(self, batch: Any, _on_note: Any = None) -> Any:
        """Return features, no targets, and a mask of all rows."""
        table = self.codec.checked(read(batch.table))
        return self.codec.encode(table), None, np.ones(len(batch), dtype=bool)


def _loaded(path: Path, estimator: str | None, sets: Sequence[str], trust: bool) -> Any:
    if estimator is not None:
        from batch2online.app.cli.named_estimator import named_estimator  # other models do without

        return batch2online.BatchToOnline.restore(path, estimator=named_estimator(estimator, sets))
    try:
        return batch2online.load(path, trusted=True if trust else None)
    except CheckpointError as error:
        if "restore(path, estimator=...)" not in str(error):
            raise
        how = "add --trust if you trust it, or give --estimator and --set again"
        message = f"{path}: its fitted model is not loaded from a file that is not trusted: {how}."
        raise DataError(message) from error


def _preparation(file: Path, beside: Path, is_of_run: bool) -> Preparation | None:
    """Return how rows were prepared, from the file or from the result of the run beside it."""
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
    """Return the types of the columns; numbers if the file has only a model."""
    if stored.model.stream.columns is not None:
        return TablePreparation(stored.model.stream.columns).column_kinds
    if stored.preparation is not None:
        return stored.preparation.for_prediction().column_kinds
    return dict.fromkeys(map(str, getattr(stored.model, "feature_names_in_", ())), ColumnType.NUMBER)


def preparation_for(stored: StoredModel, source: Source) -> Preparation | TablePreparation:
    """Return how the columns of a source are prepared: as in the run, or selected by name."""
    known, stream = stored.preparation, stored.model.stream
    if stream.columns is not None:
        found = TablePreparation(stream.columns.settled())
        check_columns(source.names, source.kinds, source.name, found)
        stored.model._stream = replace(stream, columns=None)
        stored.model.n_features_in_ = stream.width
        stored.model.__dict__.pop("feature_names_in_", None)
        return found
    if known is None:
        names = [str(column) for column in getattr(stored.model, "feature_names_in_", source.names)]
        zeros, ones = [0.0] * len(names), [1.0] * len(names)
        preparation = Preparation(
            numbers=names, categories={}, drop_first=False, target=None, missing="drop", means=zeros, scales=ones,
            standardised=False, known_rows=0
        )  # fmt: skip
    else:
        preparation = known.for_prediction()
    check_columns(source.names, source.kinds, source.name, preparation)
    width = stored.model.n_features_in_
    if len(preparation.names) != width:
        raise DataError(f"The model expects {width} features, but {len(preparation.names)} were prepared.")
    stored.model.__dict__.pop("feature_names_in_", None)  # rows are plain arrays, in the order of the columns
    return preparation


def predictions(model: Any, rows: FloatArray, probabilities: bool = False) -> dict[str, Any]:
    """Return predictions as named columns; for a classifier optionally with the probability of each class."""
    if probabilities and not hasattr(model, "predict_proba"):
        raise DataError(f"{type(model).__name__} has no predict_proba: remove --probabilities.")
    try:
        if hasattr(model, "transform") and not hasattr(model, "predict"):
            values = model.transform(rows)
            return {f"component_{j + 1}": np.ascontiguousarray(values[:, j]) for j in range(values.shape[1])}
        labels = model.predict(rows)
    except ValueError as error:
        raise DataError(str(error)) from error
    columns = {"cluster" if hasattr(model, "cluster_centers_") else "prediction": np.asarray(labels)}
    if probabilities:
        by_class = zip(model.classes_, model.predict_proba(rows).T, strict=True)
        columns |= {f"probability of {label}": values for label, values in by_class}
    return columns
