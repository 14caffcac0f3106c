"""``batch2online predict``."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from batch2online._types import BoolArray, FloatArray
from batch2online.cli.files import write_csv
from batch2online.cli.models import load_model, preparation_for
from batch2online.readers import DataError, open_source


def predict(model_path: Path, path: str, out: Path | None, format: str | None, header: bool) -> None:  # noqa: A002
    """Write a line of predictions for each row of the input, empty where a value is missing and rows may be dropped."""
    model, result = load_model(model_path)
    source = open_source(path, format, header=header)
    name = "standard input" if path == "-" else Path(path).name
    preparation = preparation_for(model, result, source, name)
    model.__dict__.pop("feature_names_in_", None)  # rows come as plain arrays, in the order of the columns
    with _output(out) as file:
        for index, batch in enumerate(source.batches(preparation.columns)):
            rows, _, kept = preparation.apply(batch, name)
            table = _aligned(_predictions(model, rows), kept)
            write_csv(table, file, with_names=index == 0)


def _predictions(model: Any, rows: FloatArray) -> dict[str, Any]:
    """Named columns of what the model says of rows."""
    try:
        if hasattr(model, "transform") and not hasattr(model, "predict"):
            return _numbered("component", model.transform(rows))
        labels = model.predict(rows)
    except ValueError as error:
        raise DataError(str(error)) from error
    return {"cluster" if hasattr(model, "cluster_centers_") else "prediction": labels}


def _numbered(name: str, values: FloatArray) -> dict[str, Any]:
    return {f"{name}_{j + 1}": values[:, j] for j in range(values.shape[1])}


def _aligned(columns: dict[str, Any], kept: BoolArray) -> Any:
    """One line a row of the input: nothing where the row was left out."""
    places = pa.array(np.cumsum(kept) - 1, mask=~kept)
    return pa.table({name: pa.array(np.ascontiguousarray(values)).take(places) for name, values in columns.items()})


@contextmanager
def _output(out: Path | None) -> Iterator[IO[bytes]]:
    """Give standard output, or a file that appears only when it is complete."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    handle, temporary = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(temporary, out)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
