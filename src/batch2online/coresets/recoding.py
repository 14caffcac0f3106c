"""Classes that become known one by one: predictors of few classes in terms of those of more."""

from __future__ import annotations

import numpy as np

from batch2online._types import FloatArray, IntArray

_FAR = 1000.0
"""Logits so far below the others have a probability that is zero in floating point."""

_FEW = 8
"""Classes up to which it is faster to compare with each than to search."""

Classes = tuple[float, ...]
"""Codes of classes, in the order in which they came."""


def with_new(classes: Classes, targets: FloatArray) -> Classes:
    """Return the classes with those that these targets add, in the order of their first rows."""
    found, first = np.unique(targets, return_index=True)
    known = set(classes)
    return classes + tuple(
        code for _, code in sorted(zip(first.tolist(), found.tolist(), strict=True)) if code not in known
    )


def positions(classes: Classes, targets: FloatArray) -> FloatArray:
    """Return the positions of the targets' classes; -1 for those that are not known."""
    if len(classes) == 2:
        return _positions_of_two(classes, targets)
    found = np.full(len(targets), -1.0)
    if len(classes) <= _FEW:
        for position, code in enumerate(classes):
            np.copyto(found, float(position), where=targets == code)
        return found
    codes = np.array(classes)
    order = np.argsort(codes)
    place = order[np.searchsorted(codes[order], targets).clip(max=len(codes) - 1)]
    return np.where(codes[place] == targets, place, found)


def _positions_of_two(classes: Classes, targets: FloatArray) -> FloatArray:
    is_second = targets == classes[1]
    is_known = is_second | (targets == classes[0])
    found: FloatArray = is_second.astype(np.float64)
    if not is_known.all():
        found[~is_known] = -1.0
    return found


def outputs(old: Classes, new: Classes) -> FloatArray:
    """Return the matrix (K, K') that turns predictors of the new classes into those of the old ones.

    Two classes, or one, have a single predictor, the logit of the second class: the difference of theirs. Where no
    second class was known, the first other one takes its place.
    """
    n_new = 1 if len(new) <= 2 else len(new)
    if len(old) > 2:
        return _selection(old, new)
    second = old[1] if len(old) == 2 else next((code for code in new if code not in old), None)
    if n_new == 1:
        return np.array([[1.0 if second is None or new.index(second) == 1 else -1.0]])
    matrix = np.zeros((1, n_new))
    if second is not None:
        matrix[0, new.index(second)] = 1.0
        if old:
            matrix[0, new.index(old[0])] = -1.0
    return matrix


def _selection(old: Classes, new: Classes) -> FloatArray:
    place = {code: position for position, code in enumerate(new)}
    matrix = np.zeros((len(old), len(new)))
    matrix[np.arange(len(old)), [place[code] for code in old]] = 1.0
    return matrix


def recoded(eta: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return predictors (n, K') of the new classes that stand for those of the old ones; others have no chance."""
    source, factor = _sources(matrix)
    new = eta[:, source] * factor
    is_unknown = ~matrix.any(axis=0)
    if is_unknown.any() and not is_unknown.all():
        new[:, is_unknown] = new[:, ~is_unknown].max(axis=1, keepdims=True) - _FAR
    return np.asarray(new)


def parameters(theta: FloatArray, matrix: FloatArray, rows: int) -> FloatArray:
    """Return parameters (K', p) of a model of the new classes: those not known before come once in so many rows."""
    source, factor = _sources(matrix)
    new = theta[source] * factor[:, None]
    new[~matrix.any(axis=0), 0] -= np.log(rows + 1.0)
    return np.asarray(new)


def _sources(matrix: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the pseudo-inverse of a matrix whose rows do not overlap: where each column comes from, times what."""
    source = np.abs(matrix).argmax(axis=0)
    lengths = np.square(matrix).sum(axis=1)
    return source, matrix[source, np.arange(matrix.shape[1])] / np.where(lengths > 0, lengths, 1.0)[source]
