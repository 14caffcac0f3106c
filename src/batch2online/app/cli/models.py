"""Stored models, the columns that they need, and their predictions as named columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import batch2online
from batch2online._types import BoolArray, FloatArray
from batch2online.app.cli.run.outputs import in_place
from batch2online.app.cli.run.source import check_columns, known_kinds
from batch2online.app.cli.run.state import INPUT, facts_in
from batch2online.app.features import ColumnFacts
from batch2online.app.inputs import DataError, Source
from batch2online.storage.model_file import sources_in
from batch2online.storage.tree import CheckpointError
from batch2online.tables.columns import Column, ColumnError, ColumnType, TypedTable


@dataclass(frozen=True)
class StoredModel:
    """A model of a file, and what the file says of the columns of its rows."""

    model: Any
    facts: ColumnFacts


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
    return StoredModel(model, facts_in(sources_in(found).get(INPUT)))


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


def inputs_of(model: Any, source: Source) -> list[str]:
    """Return the columns that a model needs of an input; an error if it lacks one, or has one of another type."""
    codec, kinds = model.stream.columns, known_kinds(model, None)
    if codec is not None:
        names = list(codec.inputs)
    else:
        names = [str(name) for name in getattr(model, "feature_names_in_", source.names)]
        kinds = dict.fromkeys(names, ColumnType.NUMBER)
    check_columns(source, names, kinds)
    if codec is None and len(names) != model.n_features_in_:
        raise DataError(
            f"The model expects {model.n_features_in_} features, but {source.name} has {len(names)} columns."
        )
    return names


def answers(model: Any, rows: TypedTable, probabilities: bool) -> tuple[dict[str, Any], BoolArray]:
    """Return predictions as named columns, and a mask of the rows that they are for: others lack a value."""
    codec = model.stream.columns
    complete = np.ones(len(rows), dtype=np.bool_)
    if codec is None or codec.options.missing == "refuse":
        complete = ~np.any([column.missing for column in rows.columns], axis=0)
    some: Any = rows[complete] if complete.any() else rows[:1]
    if not complete.any():  # so that there are columns
        some = replace(some, columns=tuple(Column(c.kind, np.zeros(1), c.words or ("",)) for c in some.columns))
    if codec is None:
        vars(model).pop("feature_names_in_", None)  # rows are plain arrays, in the order of the columns
        some = some.numbers
    return predictions(model, some, probabilities), complete


def predictions(model: Any, rows: FloatArray | TypedTable, probabilities: bool = False) -> dict[str, Any]:
    """Return predictions as named columns; for a classifier optionally with the probability of each class."""
    if probabilities and not hasattr(model, "predict_proba"):
        raise DataError(f"{type(model).__name__} has no predict_proba: remove --probabilities.")
    try:
        if hasattr(model, "transform") and not hasattr(model, "predict"):
            values = model.transform(rows)
            return {f"component_{j + 1}": np.ascontiguousarray(values[:, j]) for j in range(values.shape[1])}
        labels = model.predict(rows)
    except ColumnError:  # its place is known to the caller
        raise
    except ValueError as error:
        raise DataError(str(error)) from error
    columns = {"cluster" if hasattr(model, "cluster_centers_") else "prediction": np.asarray(labels)}
    if probabilities:
        by_class = zip(model.classes_, model.predict_proba(rows).T, strict=True)
        columns |= {f"probability of {label}": values for label, values in by_class}
    return columns
