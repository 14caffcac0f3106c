"""Codes of classes in order of appearance, and predictors in terms of them."""

from __future__ import annotations

import numpy as np

from batch2online._types import FloatArray, IntArray

Classes = tuple[float, ...]
"""Codes of classes, in order of appearance."""

_FAR = 1000.0
"""A logit this far below the others has a probability of zero in floating point."""


def with_new(classes: Classes, targets: FloatArray) -> Classes:
    """Return the classes extended by those of these targets, in order of appearance."""
    found, first = np.unique(targets, return_index=True)
    known = set(classes)
    return classes + tuple(code for code in found[np.argsort(first)].tolist() if code not in known)


def positions(classes: Classes, targets: FloatArray) -> FloatArray:
    """Return the positions of the classes of targets; -1 for unknown ones."""
    if len(classes) == 2:
        return _positions_of_two(classes, targets)
    if not classes:
        return np.full(len(targets), -1.0)
    codes = np.array(classes)
    order = np.argsort(codes)
    place = order[np.searchsorted(codes[order], targets).clip(max=len(codes) - 1)]
    return np.where(codes[place] == targets, place, -1.0)


def _positions_of_two(classes: Classes, targets: FloatArray) -> FloatArray:
    is_second = targets == classes[1]
    is_known = is_second | (targets == classes[0])
    found: FloatArray = is_second.astype(np.float64)
    if not is_known.all():
        found[~is_known] = -1.0
    return found


def outputs(old: Classes, new: Classes) -> FloatArray:
    """Return the matrix (K, K') that maps predictors of the new classes to those of the old ones.

    Two classes, or one, have a single predictor, the logit of the second class: the difference of theirs. If no
    second class was known, the first other one takes its place.
    """
    n_new = 1 if len(new) <= 2 else len(new)
    if len(old) > 2:
        matrix, place = np.zeros((len(old), len(new))), {code: position for position, code in enumerate(new)}
        matrix[np.arange(len(old)), [place[code] for code in old]] = 1.0
        return matrix
    second = old[1] if len(old) == 2 else next((code for code in new if code not in old), None)
    if n_new == 1:
        return np.array([[1.0 if second is None or new.index(second) == 1 else -1.0]])
    matrix = np.zeros((1, n_new))
    if second is not None:
        matrix[0, new.index(second)] = 1.0
        if old:
            matrix[0, new.index(old[0])] = -1.0
    return matrix


def recoded(eta: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return predictors (n, K') of the new classes for those of the old ones; added classes have probability zero."""
    source, factor = _sources(matrix)
    new = eta[:, source] * factor
    is_unknown = ~matrix.any(axis=0)
    if is_unknown.any() and not is_unknown.all():
        new[:, is_unknown] = new[:, ~is_unknown].max(axis=1, keepdims=True) - _FAR
    return np.asarray(new)


def parameters(theta: FloatArray, matrix: FloatArray, rows: int) -> FloatArray:
    """Return parameters (K', p) for the new classes; an added class has one row in ``rows``."""
    source, factor = _sources(matrix)
    new = theta[source] * factor[:, None]
    new[~matrix.any(axis=0), 0] -= np.log(rows + 1.0)
    return np.asarray(new)


def _sources(matrix: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the pseudo-inverse of a matrix whose rows do not overlap: source and factor of each column."""
    source = np.abs(matrix).argmax(axis=0)
    lengths = np.square(matrix).sum(axis=1)
    return source, matrix[source, np.arange(matrix.shape[1])] / np.where(lengths > 0, lengths, 1.0)[source]
