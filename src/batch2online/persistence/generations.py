"""The generations of a durable estimator: which checkpoints there are, and whether they may be continued."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from batch2online._types import FloatArray
from batch2online.estimators.base import OnlineEstimator, load
from batch2online.persistence.checkpoint import CheckpointError
from batch2online.persistence.store import Recovery


@dataclass(frozen=True)
class Reopened:
    """How an estimator was brought back.

    Attributes
    ----------
    checkpoint : str
        Name of the checkpoint used.
    damaged : tuple of str
        What is wrong with newer ones, if there are any.
    replayed : int
        Rows learned again from the logs.
    dropped : tuple of Recovery
        Unfinished ends of logs: rows that had not been acknowledged.
    """

    checkpoint: str
    damaged: tuple[str, ...]
    replayed: int
    dropped: tuple[Recovery, ...]


def numbers(folder: Path, suffix: str) -> list[int]:
    """Generations of which there is a file with this suffix, in order."""
    return sorted(int(path.stem) for path in folder.glob(f"[0-9]*{suffix}"))


def newest_intact(checkpoints: list[Path]) -> tuple[Any, Path, tuple[str, ...]]:
    damaged: list[str] = []
    for path in reversed(checkpoints):
        try:
            return load(path), path, tuple(damaged)
        except CheckpointError as error:
            damaged.append(str(error))
    raise CheckpointError(f"{checkpoints[-1].parent} holds no intact checkpoint: {' '.join(damaged)}")


def check_has_no_labels(estimator: Any) -> None:
    """Refuse classifiers: a log of numbers does not hold the labels that they stand for."""
    labels = getattr(estimator, "_labels", None)
    if labels is not None and labels.is_used:
        raise TypeError("Labels of classes cannot be kept in a log of rows: save the estimator instead.")


def check_same(given: OnlineEstimator, found: OnlineEstimator) -> None:
    """Refuse to continue with one estimator what another has begun."""
    if type(given) is not type(found):
        raise ValueError(f"The folder holds a {type(found).__name__}, not a {type(given).__name__}.")
    for name in given.get_params(deep=False).keys() - {"random_state"}:
        new, old = getattr(given, name), getattr(found, name)
        if not given._is_same_setting(new, old):
            raise ValueError(f"The folder holds an estimator with {name}={old!r}, not {new!r}.")


def as_rows(X: Any, y: Any, sample_weight: Any) -> FloatArray:
    """Points, targets and weights, which the estimator has accepted, as columns of one array."""
    points = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    targets = np.empty((len(points), 0)) if y is None else np.asarray(y.toarray() if sp.issparse(y) else y)
    weights = np.broadcast_to(1.0 if sample_weight is None else np.asarray(sample_weight), len(points))
    return np.column_stack([points, targets, weights]).astype(np.float64, copy=False)
