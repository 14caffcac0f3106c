"""Class labels: their codes as numbers, and the base of estimators whose targets are labels.

A number is its own code, a string has a hash. A code depends on the label alone, never on the order in which labels
come, so shards agree on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.engine.stream import Stream
from batch2online.estimator import OnlineEstimator
from batch2online.input import flattened, target_array
from batch2online.rows import Batch
from batch2online.schema import check_value, require
from batch2online.tables.strings import hash_code
from batch2online.validation import LARGEST

_WHOLE = 2**53
"""Integers beyond it are not all distinct as float64."""

Labels = dict[float, Any]
"""Labels by their codes; never modified in place."""


def as_given(y: Any) -> Any:
    """Return a list of labels as an array in which each keeps its type: NumPy makes strings of numbers among strings.

    >>> as_given(["a", 1]).tolist(), as_given([1, 2]).dtype.kind
    (['a', 1], 'i')
    """
    if not isinstance(y, list | tuple):
        return y
    array = np.asarray(y)
    return np.asarray(y, dtype=object) if array.dtype.kind in "US" else array


def encoded(y: Any, known: Labels) -> tuple[FloatArray, Labels]:
    """Return the codes (n,) of labels, and the known labels extended by these."""
    labels = np.asarray(as_given(y))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"y must be a list of labels of shape (n,), got shape {labels.shape}.")
    labels = _checked(labels)
    values, inverse = np.unique(labels, return_inverse=True)
    codes = [label_code(label) for label in values.tolist()]
    return np.array(codes, dtype=np.float64)[inverse.reshape(-1)], united(
        known, dict(zip(codes, values.tolist(), strict=True))
    )


def united(known: Labels, more: Labels) -> Labels:
    """Return the labels of both; of equal ones, such as 1 and 1.0, the known one."""
    _check_kind([*known.values(), *more.values()])
    return known if more.keys() <= known.keys() else more | known


def _check_kind(labels: list[Any]) -> None:
    """Raise ValueError for a mixture of strings and numbers, whose codes could be equal."""
    examples = {isinstance(label, str): label for label in labels}
    if len(examples) > 1:
        raise ValueError(f"Labels must be all strings or all numbers, got {examples[True]!r} and {examples[False]!r}.")


def label_code(value: Any) -> float:
    """Return the code of a label: the number itself, or the hash of a string."""
    if isinstance(value, bool | int | float):
        return float(value)
    return hash_code(value)


def _checked(labels: Any) -> Any:
    """Return labels if all are strings or distinguishable numbers; the error names the first that is not."""
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
    """Return whether a string can be encoded as UTF-8: a lone surrogate cannot."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


_FEW = 32
"""Number of labels up to which rows are compared with each of them."""


class Labelled(OnlineEstimator):
    """Base of online estimators whose targets can be labels; the problem holds the labels by their codes."""

    _has_labels = True

    @property
    def _labels(self) -> Labels:
        """Labels of a classifier by their codes; empty for all other estimators."""
        if not self.__sklearn_is_fitted__():
            return {}
        problem: Any = self._stream.problem
        known: Labels = problem.labels
        return known

    def _is_plain_array(self, X: Any, y: Any, sample_weight: Any) -> bool:
        """Return whether nothing must be converted: labels are known numbers, which are their own codes."""
        is_ready = super()._is_plain_array(X, y, sample_weight)
        if not self._has_labels or not is_ready:
            return is_ready
        known = self._labels
        is_short = y.dtype.kind in "iufb" and y.ndim == 1 and len(known) <= _FEW
        return is_short and sum(np.count_nonzero(y == code) for code in known) == len(y)

    def _prepared_targets(self, y: Any) -> tuple[Any, Any]:
        y = self._flattened(as_given(y) if self._has_labels else y)
        if not self._has_labels or y is None:
            return super()._prepared_targets(y)
        codes, known = self._encoded(y)
        return codes, lambda problem: replace(problem, labels=known)

    def _encoded(self, y: Any) -> tuple[FloatArray, Labels]:
        """Return the codes of labels, and the known labels extended by these."""
        return encoded(y, self._labels)

    def _flattened(self, y: Any) -> Any:
        """Return targets as an array, a single column as a 1d one, which is what estimators expect."""
        y = None if y is None else target_array(y)
        if y is None or y.ndim != 2 or y.shape[1] != 1:
            return y
        return y[:, 0] if self.__sklearn_tags__().target_tags.multi_output else flattened(y)

    def checked_labels(self, stored: Any) -> dict[float, Any]:
        """Return the labels stored in a file; every stored row must have one of them."""
        n_targets = self._stream.n_targets
        require(self._needs_targets == bool(n_targets), f"targets: found {n_targets}")
        require(n_targets == 1 or not self._has_labels, f"targets: found {n_targets} of a classifier")
        columns = self._stream.columns
        first = [] if columns is None or columns.is_settled else columns.first.targets
        return self._checked_codes(stored, [*(rows.targets for rows in self._stream.held_rows()), *first])

    def _checked_codes(self, stored: Any, targets: Iterable[FloatArray]) -> dict[float, Any]:
        """Return labels of a file; each of these targets must be the code of one."""
        check_value("labels", stored, list[tuple[float, bool | int | float | str]])
        require(self._has_labels or not stored, f"labels: found {len(stored)} of an estimator that is no classifier")
        require(all(label_code(label) == code for code, label in stored), f"labels: found other codes in {stored[:5]}")
        for codes in targets if self._has_labels else ():
            unknown = codes[:, 0][~np.isin(codes[:, 0], [code for code, _ in stored])]
            require(not len(unknown), f"targets: found {unknown[:1]}, expected a known label")
        return dict(stored)

    def journal_entry(self, points: FloatArray, problem: Any) -> Any:
        return [[code, label] for code, label in problem.labels.items()]

    def _journalled_problem(self, batch: Batch, entry: Any) -> Any:
        labels = self._checked_codes([tuple(label) for label in entry], [batch[1]])
        return replace(self._stream.problem, labels=labels)

    def _merged(self, own: Stream, other: Stream) -> Stream:
        problem: Any = own.problem
        theirs: Any = other.problem
        return own.append([], replace(problem, labels=united(problem.labels, theirs.labels))).merge(other)
