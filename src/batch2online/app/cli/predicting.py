"""What a model says of rows, as named columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.inputs import DataError


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
