"""Moments from exact sums: a pure function of the set of rows, whatever the order in which they were summed.

The sums know the second moments of ``m = [1 | columns]`` exactly, so a Gram matrix from them is rounded once.
Where it would be too coarse even so, its triangular factor is computed in integers of so many bits that nothing is
lost.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.least_squares.moments import Moments
from batch2online.methods.low_rank.moments import RidgeMoments
from batch2online.sketches.exact_sums import ExactGram, exact_weight, rounded

_PRECISION = 256
"""Bits after the point in which a factor is computed."""

_NOTHING = 200
"""What is left of a column next to its length counts as nothing below two to the power of minus this."""


class ExactMatrix:
    """A symmetric matrix of exact numbers: integers times two to the power of ``exponent``."""

    def __init__(self, values: Any, exponent: int) -> None:
        self.values, self.exponent = values, exponent

    @classmethod
    def of(cls, sums: ExactGram) -> ExactMatrix:
        integers, exponent = sums.integers()
        values = np.zeros((sums.width, sums.width), dtype=object)
        upper = np.triu_indices(sums.width)
        values[upper] = values.T[upper] = integers
        return cls(values, exponent)

    def without_constant(self) -> ExactMatrix:
        """Return the same without the first column."""
        return ExactMatrix(self.values[1:, 1:], self.exponent)

    def means(self) -> FloatArray:
        """Return the mean of each column, rounded once; the first column is the constant one."""
        weight = self.values[0, 0]
        return np.array([value / weight for value in self.values[0]])

    def shifted(self, shift: FloatArray) -> ExactMatrix:
        """Return the matrix of the rows ``m - shift``; the first column is the constant one and has no shift."""
        ratios = [value.as_integer_ratio() for value in shift.tolist()]
        common = max(below for _, below in ratios)
        by = np.array([above * (common // below) for above, below in ratios], dtype=object)
        sums, scaled = self.values[0] * common, self.values * common**2
        values = scaled - np.outer(by, sums) - np.outer(sums, by) + np.outer(by, by) * self.values[0, 0]
        return ExactMatrix(values, self.exponent - 2 * (common.bit_length() - 1))

    def rounded(self) -> FloatArray:
        """Return the matrix in doubles, each number rounded once; infinite where it is too large."""
        upper, result = np.triu_indices(len(self.values)), np.zeros(self.values.shape)
        result[upper] = result.T[upper] = [rounded(value, self.exponent) for value in self.values[upper]]
        return result

    def factor(self) -> FloatArray:
        """Upper triangular R with R'R equal to this matrix; a row is zero if its column depends on earlier ones."""
        p = len(self.values)
        scales = [(int(value).bit_length() + 1) // 2 for value in self.values.diagonal()]
        rest = [
            np.array([_shift(self.values[i, j], _PRECISION - scales[i] - scales[j]) for j in range(i, p)], dtype=object)
            for i in range(p)
        ]
        result = np.zeros((p, p))
        for i, row in enumerate(rest):
            pivot = row[0]
            if pivot >> (_PRECISION - _NOTHING) > 0:
                root = math.isqrt(pivot << _PRECISION)
                result[i, i:] = [value / root for value in row]
                for k, share in enumerate((row[1:] << _PRECISION) // pivot, 1):
                    rest[i + k] -= (row[k:] * share) >> _PRECISION
        half, odd = divmod(self.exponent, 2)
        with np.errstate(over="ignore"):
            return np.asarray(np.ldexp(result * math.sqrt(2.0**odd), np.array(scales) + half))


def _shift(value: int, bits: int) -> int:
    return value << bits if bits >= 0 else value >> -bits


def leverage_moments(known: Moments, sums: ExactGram) -> Moments:
    """Return the moments of the same rows, in the first coordinates in which they are well conditioned."""
    matrix = ExactMatrix.of(sums)
    rows, zeros = known.rows, np.zeros(len(known.shift))
    if not rows:
        return known
    shifts = [zeros, matrix.means()] if known.intercept else [zeros]
    shifts[-1][: int(known.intercept)] = 0.0
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for shift in shifts:
            own = matrix.shifted(shift) if shift.any() else matrix
            own = own if known.intercept else own.without_constant()
            start = replace(known, shift=shift, transform=None, untransform=None, gram=own.rounded(), reference=None)
            if start._is_well_conditioned():
                return start._checked()
        return start._based_on(own.factor(), rows)._checked()


def ridge_moments(known: RidgeMoments, sums: ExactGram) -> RidgeMoments:
    """Return the moments of the same rows: a Gram matrix, or its factor where that would be too coarse."""
    if not known.rows:
        return known
    matrix, shift = ExactMatrix.of(sums), None
    if known.intercept:
        shift = matrix.means()[1:]
        matrix = matrix.shifted(np.concatenate([[0.0], shift]))
    else:
        matrix = matrix.without_constant()
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        weight, gram = exact_weight(sums), matrix.rounded()
        start = replace(known, weight=weight, gram=gram, factor=None, reference=None, of_few=None, shift=shift)
        if start._is_well_conditioned():
            return start._checked()
        return replace(start, gram=None, factor=matrix.factor())._checked()
