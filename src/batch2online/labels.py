"""Labels of classes as numbers, the same numbers whatever came before."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.frames.strings import hash_code
from batch2online.validation import LARGEST

_WHOLE = 2**53
"""Integers beyond it are not all distinct as float64."""

Labels = dict[float, Any]
"""Labels by their codes. Never written to: what is learned makes a new one."""


def as_given(y: Any) -> Any:
    """Return a list of labels as an array in which each keeps its type: NumPy makes strings of numbers among strings.

    >>> as_given(["a", 1]).tolist(), as_given([1, 2]).dtype.kind
    (['a', 1], 'i')
    """
    if not isinstance(y, list | tuple):
        return y
    array = np.asarray(y)
    return np.asarray(y, dtype=object) if array.dtype.kind in "US" else array


def single(y: Any) -> Any:
    """Return one label as an array of one."""
    array = np.empty(1, dtype=object)
    array[0] = y.item() if isinstance(y, np.generic) or (isinstance(y, np.ndarray) and y.size == 1) else y
    return array


def encoded(y: Any, known: Labels) -> tuple[FloatArray, Labels]:
    """Return the codes (n,) of labels, and all labels known with these.

    A number stands for itself, a string for a hash of it. So a code depends on the label alone, never on the order in
    which labels come, and shards agree on it.
    """
    labels = np.asarray(as_given(y))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"y must be a list of labels of shape (n,), got shape {labels.shape}.")
    labels = _checked(labels)
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
    """Refuse a mixture of strings and numbers: their codes could be equal."""
    examples = {isinstance(label, str): label for label in labels}
    if len(examples) > 1:
        raise ValueError(f"Labels must be all strings or all numbers, got {examples[True]!r} and {examples[False]!r}.")


def code(value: Any) -> float:
    """Return the number that stands for a label."""
    if isinstance(value, bool | int | float):
        return float(value)
    return hash_code(value)


def _checked(labels: Any) -> Any:
    """Return labels if all are strings or numbers that can be told apart; the error names the first that is not."""
    kind = labels.dtype.kind
    if kind == "c":
        raise ValueError(f"Complex data not supported: y has dtype {labels.dtype}.")
    if kind in "mM":
        raise ValueError(f"y holds dates or durations: {_AS_STRINGS}.")
    if kind == "f" and not (np.abs(labels) <= LARGEST).all():
        raise ValueError(f"Input y contains NaN or infinity at row {int((~(np.abs(labels) <= LARGEST)).argmax())}.")
    if kind in "iu" and labels.size and max(abs(int(labels.min())), int(labels.max())) <= _WHOLE:
        return labels
    if kind in "bf":
        return labels
    plain = [value.item() if isinstance(value, np.generic) else value for value in labels.tolist()]
    distinct = {(type(value), value) if isinstance(value, _PLAIN) else None for value in plain}
    if any(each is None or _fault(each[1]) for each in distinct):
        row = next(row for row, value in enumerate(plain) if _fault(value))
        raise ValueError(f"y holds {plain[row]!r} at row {row}, {_fault(plain[row])}.")
    _check_kind(plain)
    return labels


_PLAIN = (bool, int, float, str)
_AS_STRINGS = "labels are strings or numbers, as y.astype(str) makes them"


def _fault(value: Any) -> str | None:
    """Return what is wrong with a label, as the end of an error message; None if it is valid."""
    if value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value):
        return "a missing value: leave out rows without a label, or give them a label of their own"
    if not isinstance(value, _PLAIN):
        return f"which is of type {type(value).__name__}: {_AS_STRINGS}"
    if isinstance(value, str):
        return None if is_unicode(value) else "which is no valid Unicode string"
    if isinstance(value, int) and abs(value) > _WHOLE:
        return "an integer beyond 2**53, which no float64 holds exactly: pass labels as strings"
    return None if abs(value) <= LARGEST else "which is too large for a label: pass labels as strings"


def is_unicode(value: str) -> bool:
    """Whether a string can be written as UTF-8: a lone surrogate cannot."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
