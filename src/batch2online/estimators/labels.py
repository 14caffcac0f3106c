"""Labels of classes as numbers, the same numbers whatever came before."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.validation import LARGEST

Labels = dict[float, Any]
"""Labels by their codes. Never written to: what is learned makes a new one."""


def encoded(y: Any, known: Labels) -> tuple[FloatArray, Labels]:
    """Return the codes (n,) of labels, and all labels known with these.

    A number stands for itself, anything else for a hash of its text. So a code depends on the label alone, never on the
    order in which labels come, and shards agree on it.
    """
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"y must be a list of labels of shape (n,), got shape {labels.shape}.")
    _check_complete(labels)
    values, inverse = np.unique(labels, return_inverse=True)
    codes = [code(label) for label in values.tolist()]
    return np.array(codes, dtype=np.float64)[inverse.reshape(-1)], united(
        known, dict(zip(codes, values.tolist(), strict=True))
    )


def united(known: Labels, more: Labels) -> Labels:
    """Return the labels of both; 1 and 1.0 are the same label, in its first form."""
    _check_kind([*known.values(), *more.values()])
    return known if more.keys() <= known.keys() else more | known


def _check_kind(labels: list[Any]) -> None:
    """Refuse a mixture of text and numbers: as codes they could not be told apart."""
    examples = {isinstance(label, str): label for label in labels}
    if len(examples) > 1:
        raise ValueError(f"Labels must be all text or all numbers, got {examples[True]!r} and {examples[False]!r}.")


def code(value: Any) -> float:
    """Return the number that stands for a label."""
    if isinstance(value, bool | int | float):
        return float(value)
    return float(int.from_bytes(hashlib.blake2b(str(value).encode(), digest_size=6).digest()))


def _check_complete(labels: Any) -> None:
    if labels.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: y has dtype {labels.dtype}.")
    if labels.dtype.kind == "f" and not (np.abs(labels) <= LARGEST).all():
        raise ValueError(f"Input y contains NaN or infinity at row {int((~(np.abs(labels) <= LARGEST)).argmax())}.")
