"""Labels of classes as numbers, the same numbers whatever came before."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.validation import LARGEST


class Labels:
    """Codes of labels: a number stands for itself, anything else for a hash of its text.

    A code depends on the label alone, never on the order in which labels come, so shards agree on it. Only grows.
    """

    def __init__(self, is_used: bool) -> None:
        self.is_used = is_used
        self.known: dict[float, Any] = {}

    def encoded(self, y: Any) -> Any:
        """Codes (n,) of labels; what is not used for labels passes through."""
        if not self.is_used or y is None:
            return y
        labels = np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.ndim != 1:
            raise ValueError(f"y must be a list of labels of shape (n,), got shape {labels.shape}.")
        _check_complete(labels)
        values, inverse = np.unique(labels, return_inverse=True)
        return self._codes(values)[inverse.reshape(-1)]

    @staticmethod
    def code(label: Any) -> float:
        """The number that stands for a label."""
        return _code(label)

    def learn(self, other: Labels) -> None:
        """Know what another knows."""
        self._check_kind(list(other.known.values()))
        self.known.update(other.known)

    def _codes(self, values: Any) -> FloatArray:
        labels = values.tolist()
        self._check_kind(labels)
        codes = [_code(label) for label in labels]
        for code, label in zip(codes, labels, strict=True):
            self.known.setdefault(code, label)  # 1 and 1.0 are the same label, in its first form
        return np.array(codes, dtype=np.float64)

    def _check_kind(self, labels: list[Any]) -> None:
        """Labels are all text or all numbers: as codes they could not be told apart."""
        examples = {isinstance(label, str): label for label in [*self.known.values(), *labels]}
        if len(examples) > 1:
            raise ValueError(f"Labels must be all text or all numbers, got {examples[True]!r} and {examples[False]!r}.")


def _code(value: Any) -> float:
    if isinstance(value, bool | int | float):
        return float(value)
    return float(int.from_bytes(hashlib.blake2b(str(value).encode(), digest_size=6).digest()))


def _check_complete(labels: Any) -> None:
    if labels.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: y has dtype {labels.dtype}.")
    if labels.dtype.kind == "f" and not (np.abs(labels) <= LARGEST).all():
        raise ValueError(f"Input y contains NaN or infinity at row {int((~(np.abs(labels) <= LARGEST)).argmax())}.")
