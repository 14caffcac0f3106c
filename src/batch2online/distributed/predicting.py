"""Predictions of rows on a cluster, a partition at a time and only when they are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from dask import delayed


def predict(model: Any, X: Any, *, method: str | None = None) -> Any:
    """Return the predictions of rows as a lazy collection of the same kind.

    Parameters
    ----------
    model : estimator
        One that is fitted.
    X : Dask array, Dask DataFrame or list of delayed chunks
        The rows.
    method : str, optional
        What to call for each partition: ``"predict_proba"``, ``"transform"``, ... None is ``predict``, or ``transform``
        where there is no ``predict``.

    Examples
    --------
    >>> import dask.array as da
    >>> from batch2online import OnlineRegression
    >>> rows = np.arange(20.0).reshape(10, 2)
    >>> model = OnlineRegression(random_state=0).fit(rows, rows[:, 0])
    >>> predict(model, da.from_array(rows, chunks=4)).compute().round(6).tolist()[:3]
    [0.0, 2.0, 4.0]
    """
    name = method or ("predict" if hasattr(model, "predict") else "transform")
    call = getattr(model, name)
    if hasattr(X, "map_blocks"):
        X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
        sample = np.asarray(call(np.zeros((1, X.shape[1]))))
        if sample.ndim == 1:
            return X.map_blocks(_called, model, name, dtype=sample.dtype, drop_axis=1)
        return X.map_blocks(_called, model, name, dtype=sample.dtype, chunks=(X.chunks[0], sample.shape[1:]))
    if hasattr(X, "map_partitions"):
        return X.map_partitions(_framed, model, name, meta=_framed(_sample(X), model, name))
    return [delayed(_called)(part, model, name) for part in X]


def _sample(X: Any) -> Any:
    """Return a frame of one row of zeros, to see what predictions look like."""
    import pandas as pd

    return pd.DataFrame(np.zeros((1, len(X.columns))), columns=list(X.columns))


def _called(rows: Any, model: Any, name: str) -> Any:
    if not len(rows):
        rows, n = np.zeros((1, rows.shape[1])) if not hasattr(rows, "columns") else rows.reindex([0], fill_value=0.0), 0
        return np.asarray(getattr(model, name)(rows))[:n]
    return np.asarray(getattr(model, name)(rows))


def _framed(rows: Any, model: Any, name: str) -> Any:
    import pandas as pd

    found = _called(rows, model, name)
    if found.ndim == 1:
        return pd.Series(found, index=rows.index, name=name)
    return pd.DataFrame(found, index=rows.index)
