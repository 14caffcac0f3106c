"""Coordinates ``z = (m - shift) T`` in which rows are well conditioned, and the regularisation as it looks there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batch2online._types import FloatArray
from batch2online.linalg.triangular import column_norms, decoupled_factor, inverse
from batch2online.statistics.reference import DEPENDENT

MU = 1e-24
"""Relative regularisation of every column: far below any signal, far above the rounding of QR."""

_LEAST = 2.0**-1000
"""A column of a smaller norm is as good as zero: numbers near the end of the range have no inverse."""


@dataclass(frozen=True)
class WhiteCoordinates:
    """New coordinates, and the Gram matrix in them of the rows for which they were made."""

    transform: FloatArray  # T, upper triangular
    untransform: FloatArray  # its inverse
    gram: FloatArray


def white_coordinates(
    factor: FloatArray, spreads: FloatArray, transform: FloatArray | None, untransform: FloatArray | None
) -> WhiteCoordinates:
    """Coordinates in which the rows of ``factor``, given in the present ones, have Gram matrix one.

    ``spreads`` are the norms of the columns of m around their means. A column that depends on earlier ones to the last
    digits keeps its own scale, and later columns are not turned against what is left of it: that is noise, and it would
    spread to them.
    """
    lengths = column_norms(factor)
    scale = np.where(lengths > _LEAST, 2.0 ** np.frexp(lengths)[1].astype(np.float64), 1.0)  # exact
    unit = factor / scale
    penalty = np.sqrt(MU) * spreads
    if transform is not None:
        penalty = column_norms(penalty[:, None] * transform)
    regular, white = decoupled_factor(unit, np.maximum(DEPENDENT * penalty / scale, _LEAST))
    new = regular * scale if untransform is None else (regular * scale) @ untransform
    return WhiteCoordinates(inverse(new), new, white.T @ white)


def regularised(gram: FloatArray, transform: FloatArray, untransform: FloatArray, intercept: bool) -> FloatArray:
    """Return the Gram matrix of z plus MU times the squared spreads of m, seen in the same coordinates."""
    largest = np.abs(untransform).max(axis=0)
    unit = untransform / largest
    image = gram @ unit
    squares = np.einsum("ij,ij->j", unit, image)
    if intercept and squares[0] > 0:
        squares[1:] -= (unit[:, 0] @ image[:, 1:]) ** 2 / squares[0]
    penalty = (largest * np.sqrt(np.maximum(squares, 0.0)))[:, None] * transform
    return np.asarray(gram + MU * (penalty.T @ penalty))
