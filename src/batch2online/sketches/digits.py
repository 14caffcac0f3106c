"""Numbers as digits of so few bits that a matrix product of digits has no rounding (Ozaki, Ogita, Oishi & Rump 2012).

Three digits hold nearly every number of a usual column; the few rows that need more are taken apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import NamedTuple

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.numerics.scratch import scratch

BITS = 23
TILE = 512
"""Rows of a product that is exact: 2 ** 9 products of digits below 2 ** 22 in size are at most 2 ** 53."""

CHUNK = 5120
"""Rows that are cut into digits together: so many products add up in 64 bits."""

_ODD = 0.02
"""Share of rows, at most, that are taken apart since they need more digits than the others."""

_USUAL = 3
"""Digits that a usual column needs."""

_LEAST = -1000
"""No first digit begins below this power of two: it could not be scaled. Columns that small have more digits."""

_PEEK = 16
_SPLITTER = 2.0**27 + 1

Term = tuple[IntArray, IntArray]
"""Integers, and the exponents of two that they are multiplied by."""


class Digits(NamedTuple):
    """Columns as digits: ``sum_s values[s] * 2 ** (exponents - s * BITS)``."""

    values: FloatArray  # (digits, columns, rows), integers
    exponents: IntArray  # (columns,)


def with_constant(parts: tuple[FloatArray, ...], rows: slice) -> FloatArray:
    """Return the columns of these rows transposed, below a constant one, in memory that is used again."""
    n = len(range(*rows.indices(len(parts[0]))))
    columns: FloatArray = scratch.room("exact columns", (1 + sum(part.shape[1] for part in parts), n))
    columns[0] = 1.0
    start = 1
    for part in parts:
        columns[start : start + part.shape[1]] = part[rows].T
        start += part.shape[1]
    return columns


def exponents_of(columns: FloatArray) -> IntArray:
    """Return the exponent of the lowest bit of the first digit of each column."""
    largest = np.maximum(columns.max(axis=1), -columns.min(axis=1))
    return np.asarray(np.maximum(np.frexp(largest)[1].astype(np.int64) - (BITS - 1), _LEAST))


def digits_of(
    columns: FloatArray, exponents: IntArray, name: str = "", most_odd: float = _ODD
) -> tuple[Digits, IntArray]:
    """Return as many digits as all but a few rows need, and these few; digits are in memory of this name."""
    rest = scratch.room("exact rest", columns.shape)
    np.multiply(columns, np.ldexp(1.0, -exponents)[:, None], out=rest)
    values = scratch.room(f"exact digits{name}", (_USUAL, *columns.shape))
    for place in count():
        if place == len(values):
            values = np.concatenate([values, np.empty((1, *columns.shape))])
        np.rint(rest, out=values[place])
        rest -= values[place]
        if place + 1 >= _USUAL or not rest[:, :_PEEK].any():
            odd = np.flatnonzero(rest.any(axis=0))
            if len(odd) <= most_odd * columns.shape[1]:
                break
        rest *= 2.0**BITS
    return Digits(values[: place + 1], exponents), odd


def without(digits: list[Digits], odd: IntArray) -> list[Digits]:
    """Return the digits with those of some rows set to zero."""
    for each in digits:
        each.values[:, :, odd] = 0.0
    return digits


def exact_product(m: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return two arrays whose sum is ``m * weights``: what is rounded, and what rounding has left (Dekker 1971)."""
    fraction, exponent = np.frexp(weights)  # so that no part is too large
    product = m * fraction
    of_m, of_fraction = _halves(m), _halves(fraction)
    rest = of_m[0] * of_fraction[0] - product
    rest += of_m[0] * of_fraction[1] + of_m[1] * of_fraction[0]
    rest += of_m[1] * of_fraction[1]
    return np.ldexp(product, exponent), np.ldexp(rest, exponent)


def _halves(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return two numbers of half as many bits for each."""
    large = values * _SPLITTER
    high = large - (large - values)
    return high, values - high


def products(left: FloatArray, right: FloatArray) -> IntArray:
    """Return ``left @ right.T`` of digits (digits, columns, rows), digit by digit and column by column."""
    n = left.shape[2]
    one, other = left.reshape(-1, n), right.reshape(-1, n)
    both = np.zeros((len(one), len(other)), dtype=np.int64)
    for start in range(0, n, TILE):
        both += (one[:, start : start + TILE] @ other[:, start : start + TILE].T).astype(np.int64)
    return both


def terms_of(both: IntArray, left: IntArray, right: IntArray) -> Iterator[Term]:
    """Yield the upper triangles of products, one for each exponent that pairs of digits have."""
    p = len(left)
    upper, blocks = _upper(p), both.reshape(-1, p, both.shape[1] // p, p)
    n_right = blocks.shape[2]
    totals = np.zeros((len(blocks) + n_right - 1, len(upper[0])), dtype=np.int64)
    for i, row in enumerate(blocks):
        totals[i : i + n_right] += row.transpose(1, 0, 2)[:, *upper]
    exponents = left[upper[0]] + right[upper[1]]
    for place, total in enumerate(totals):
        yield total, exponents - place * BITS


@cache
def _upper(p: int) -> tuple[IntArray, IntArray]:
    return np.triu_indices(p)
