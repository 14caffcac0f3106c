"""What a model says of rows, as named columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.readers import DataError


def predictions(model: Any, rows: FloatArray) -> dict[str, Any]:
    """Named columns of what the model says of rows."""
    try:
        if hasattr(model, "transform") and not hasattr(model, "predict"):
            return _numbered("component", model.transform(rows))
        labels = model.predict(rows)
    except ValueError as error:
        raise DataError(str(error)) from error
    return {"cluster" if hasattr(model, "cluster_centers_") else "prediction": np.asarray(labels)}


def _numbered(name: str, values: FloatArray) -> dict[str, Any]:
    return {f"{name}_{j + 1}": np.ascontiguousarray(values[:, j]) for j in range(values.shape[1])}
