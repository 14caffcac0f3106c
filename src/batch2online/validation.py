"""Validation of rows, targets and weights at the public interface; internal code relies on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import blas

from batch2online import rows as _rows
from batch2online._types import FloatArray
from batch2online.numerics.threads import one_thread
from batch2online.rows import ones

LARGEST = 2.0**501
"""Largest magnitude of a value, 6.5e150: the sum of a million such squares is still representable."""

LARGEST_WEIGHT = 2.0**100
"""Largest weight of a row, 1.3e30; the least is its inverse. Then products of weights, also with those of rows that
decay (down to ``2**-900``), neither vanish nor overflow."""

LARGEST_ID = _rows.LARGEST_ID
_LARGEST_SINGLE = float(np.finfo(np.float32).max)
_SINGLE_THREADED = 10_000
"""Number of products above which OpenBLAS divides a sum among threads."""

_FEW_PIECES = 4


def check_rows(
    rows: Any, width: int | None = None, names: Sequence[str] | None = None, largest: float = LARGEST
) -> FloatArray:
    """Return rows as a C-ordered (n, d) array of finite doubles, without a copy if they are one."""
    array = _as_doubles(rows, "X")
    if array.ndim != 2:
        raise ValueError(f"Expected a 2D array of rows, got {array.ndim}D; reshape(1, -1) makes one row of one point.")
    if width is not None and array.shape[1] != width:
        raise ValueError(f"X has {array.shape[1]} columns, but {width} were seen before.")
    check_finite(array, "X", names, largest=largest)
    return array


def check_targets(targets: Any, n: int) -> FloatArray:
    """Return targets of n rows as an (n, k) array, k = 0 for None."""
    if targets is None:
        return np.empty((n, 0))
    plain = type(targets) is np.ndarray and targets.dtype == np.float64 and targets.flags.c_contiguous
    array = targets if plain and targets.flags.aligned else _as_doubles(targets, "y")
    if array.ndim not in (1, 2):
        raise ValueError(f"y must have one or two dimensions, got {array.ndim}.")
    if len(array) != n:
        raise ValueError(f"X has {n} rows and y has {len(array)}: found inconsistent numbers of samples.")
    array = array[:, None] if array.ndim == 1 else array
    check_finite(array, "y")
    return array


def check_weights(weights: Any, points: FloatArray, targets: FloatArray, first: int = 0) -> FloatArray:
    """Return weights as an (n,) array, each zero or between ``1 / LARGEST_WEIGHT`` and ``LARGEST_WEIGHT``."""
    n = len(points)
    if weights is None:
        return ones(n)
    array = _as_doubles(weights, "sample_weight")
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {array.shape}.")
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if bad.size:
        raise ValueError(f"sample_weight must be finite and not negative, got {array[bad[0]]} at row {first + bad[0]}.")
    bad = np.flatnonzero((array > 0) & ~((array >= 1 / LARGEST_WEIGHT) & (array <= LARGEST_WEIGHT)))
    if bad.size:
        raise ValueError(
            f"sample_weight must be 0 or between {1 / LARGEST_WEIGHT:.2g} and {LARGEST_WEIGHT:.2g}, got "
            f"{array[bad[0]]:g} at row {first + bad[0]}. Multiply all weights by the same factor, or set "
            "negligible ones to 0."
        )
    with np.errstate(over="ignore"):
        root = np.sqrt(array)
        for name, values in (("X", points), ("y", targets)):
            large = np.abs(values).max(axis=1, initial=1.0) * root > LARGEST
            if large.any():
                row = first + int(large.argmax())
                raise ValueError(f"{name} times the root of sample_weight exceeds {LARGEST:g} at row {row}.")
    return array


def check_finite(
    array: FloatArray, what: str, names: Sequence[str] | None = None, first: int = 0, largest: float = LARGEST
) -> None:
    """Raise ValueError for NaN, infinity and magnitudes beyond ``largest``; the message names row and column."""
    if array.dtype.char == "f":
        largest = min(largest, _LARGEST_SINGLE)
    if _sum_of_squares(array.reshape(-1)) <= largest**2:  # false for NaN as well
        return
    bad = ~(np.abs(array) <= largest)
    if not bad.any():
        return
    row, column = divmod(int(bad.argmax()), array.shape[1])
    value = array[row, column]
    kind = "NaN" if np.isnan(value) else "infinity" if np.isinf(value) else f"a value too large, {value:g},"
    place = f"column {names[column]!r}" if names is not None else f"column {column}"
    hint = f" Magnitudes up to {largest:g} are supported." if np.isfinite(value) else ""
    raise ValueError(f"Input {what} contains {kind} at row {first + row}, {place}.{hint}")


def _sum_of_squares(flat: FloatArray) -> float:
    dot = blas.sdot if flat.dtype.char == "f" else blas.ddot  # np.dot warns of overflow
    if 0 < flat.size <= _SINGLE_THREADED:
        return float(dot(flat, flat))
    if flat.size <= _FEW_PIECES * _SINGLE_THREADED:  # limiting threads takes longer
        pieces = (flat[start : start + _SINGLE_THREADED] for start in range(0, flat.size, _SINGLE_THREADED))
        return float(sum(dot(piece, piece) for piece in pieces))
    with one_thread():
        return float(dot(flat, flat))


def unmasked(values: Any, what: str) -> Any:
    """Return values with NaN for masked entries."""
    if not np.ma.isMaskedArray(values) or not np.ma.is_masked(values):
        return values
    if values.dtype.kind not in "fiub":
        row = int(np.argwhere(np.ma.getmaskarray(values))[0, 0]) if values.ndim else 0
        raise ValueError(f"Input {what} contains a masked value at row {row}.")
    return np.ma.asarray(values, dtype=np.float64).filled(np.nan)


def _as_doubles(values: Any, what: str) -> FloatArray:
    array = np.asarray(unmasked(values, what))
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {what} has dtype {array.dtype}.")
    if array.dtype.kind not in "fiub":
        array = _converted(array, what)
    return np.require(array, np.float64, ["C", "A"]) if array.ndim else array.astype(np.float64)


def _converted(array: Any, what: str) -> FloatArray:
    """Return objects or strings as doubles; the error names the first that is no real number."""
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        bad = first_no_number(array)
        if bad is None:
            raise ValueError(f"{what} must hold real numbers, got dtype {array.dtype}.") from error
        place = ", ".join(f"{name} {index}" for name, index in zip(("row", "column"), bad, strict=False))
        raise ValueError(f"{what} must hold real numbers, got {array[bad]!r} at {place}.") from error


def first_no_number(array: Any) -> tuple[int, ...] | None:
    """Return the index of the first value that is no number."""
    for index, value in np.ndenumerate(np.asarray(array, dtype=object)):
        try:
            float(value)
        except (TypeError, ValueError):
            return index
    return None
