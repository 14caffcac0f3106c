"""Sums of products without any rounding: the same whatever the order, the blocks, the machine.

Numbers are cut into digits of so few bits that a matrix product of digits has no rounding (Ozaki, Ogita, Oishi & Rump
2012). What it gives are integers. They are added up in integers of many words, a *limb* each, so the sum of any rows is
the same bits in whatever pieces and order they come. Three digits hold nearly every number of a usual column; the few
rows that need more are taken apart. It costs about seven times as much as a plain Gram matrix, less for rows of few
digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import NamedTuple

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.core.registry import storable
from batch2online.core.rows import all_ones

_BITS = 23
_TILE = 512
"""Rows of a product that is exact: 2 ** 9 products of digits below 2 ** 22 in size are at most 2 ** 53."""

_CHUNK = 5120
"""Rows that share their exponents: so many products add up in 64 bits."""

_ODD = 0.02
"""Share of rows, at most, that are taken apart since they need more digits than the others."""

_USUAL = 3
"""Digits that a usual column needs."""

_LIMB = 32
_MASK = np.int64(2**_LIMB - 1)
_SPLITTER = 2.0**27 + 1


Term = tuple[IntArray, IntArray]
"""Integers, and the exponents of two that they are multiplied by."""


class Digits(NamedTuple):
    """Columns as digits: ``sum_s values[s] * 2 ** (exponents - s * _BITS)``."""

    values: FloatArray  # (digits, columns, rows), integers
    exponents: IntArray  # (columns,)


@storable
@dataclass(frozen=True)
class ExactGram:
    """The sums of ``w m_i m_j`` over rows ``m = [1 | columns]`` of weight w, exactly.

    Attributes
    ----------
    width : int
        Columns of m.
    low : int
        The exponent of the lowest limb, in limbs.
    limbs : (limbs, width * (width + 1) / 2) array of integers
        For each pair of columns i <= j, row by row: all limbs but the highest one are not negative.

    Examples
    --------
    >>> columns = np.random.default_rng(0).normal(size=(1_000, 3))
    >>> one = ExactGram.empty(4).add(columns)
    >>> other = ExactGram.empty(4).add(columns[600:]).merged(ExactGram.empty(4).add(columns[:600]))
    >>> one == other
    True
    """

    width: int
    low: int
    limbs: IntArray

    @classmethod
    def empty(cls, width: int) -> ExactGram:
        return cls(width, 0, np.zeros((0, width * (width + 1) // 2), dtype=np.int64))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactGram):
            return NotImplemented
        return (self.width, self.low) == (other.width, other.low) and np.array_equal(self.limbs, other.limbs)

    __hash__ = None  # type: ignore[assignment]

    def add(self, columns: FloatArray, weights: FloatArray | None = None) -> ExactGram:
        """Return the sums with these rows (n, width - 1)."""
        is_plain = weights is None or all_ones(weights)
        terms: list[Term] = []
        odd = []
        for start in range(0, len(columns), _CHUNK):
            m = _with_constant(columns[start : start + _CHUNK])
            parts = [m] if is_plain else [m, *_exact_product(m, weights[start : start + _CHUNK])]  # type: ignore[index]
            digits, few = _digits_of(parts, _ODD)
            terms += _paired(digits)
            odd.append([part[:, few] for part in parts])
        rest = [np.concatenate(pieces, axis=1) for pieces in zip(*odd, strict=True)]
        if rest and rest[0].size:
            terms += _paired(_digits_of(rest, 0.0)[0])
        return self._plus(terms) if terms else self

    def merged(self, other: ExactGram) -> ExactGram:
        """Return the sums over the rows of both."""
        terms = [(limb, np.full(len(limb), _LIMB * (other.low + place))) for place, limb in enumerate(other.limbs)]
        return self._plus(terms) if terms else self

    def scaled(self, factor: float) -> ExactGram:
        """Return the sums of rows with weights multiplied by a power of two."""
        places, bits = divmod(math.frexp(factor)[1] - 1, _LIMB)
        return _canonical(self.width, self.low + places, _spread(self.limbs << bits)) if len(self.limbs) else self

    def _plus(self, terms: list[Term]) -> ExactGram:
        """Return the sums plus integers times two to the power of exponents."""
        low = min(int(exponents.min()) // _LIMB for _, exponents in terms)
        top = max(int(exponents.max()) // _LIMB + 3 for _, exponents in terms)
        if len(self.limbs):
            low, top = min(low, self.low), max(top, self.low + len(self.limbs))
        limbs = np.zeros((top - low, self.limbs.shape[1]), dtype=np.int64)
        limbs[self.low - low if len(self.limbs) else 0 :][: len(self.limbs)] = self.limbs
        columns = np.arange(limbs.shape[1])
        for values, exponents in terms:
            places, bits = exponents // _LIMB - low, exponents % _LIMB
            lower, upper = (values & _MASK) << bits, (values >> _LIMB) << bits
            limbs[places, columns] += lower & _MASK
            limbs[places + 1, columns] += (lower >> _LIMB) + (upper & _MASK)
            limbs[places + 2, columns] += upper >> _LIMB
        return _canonical(self.width, low, _spread(limbs))

    def integers(self) -> tuple[list[int], int]:
        """Return the sums as integers, and the exponent of two that they are multiples of."""
        if not len(self.limbs):
            return [0] * self.limbs.shape[1], 0
        words = np.ascontiguousarray((self.limbs & _MASK).astype("<u4").T)
        return [int.from_bytes(word.tobytes(), "little", signed=True) for word in words], _LIMB * self.low


def _with_constant(columns: FloatArray) -> FloatArray:
    """Return the columns transposed, below a constant one."""
    rows = np.empty((columns.shape[1] + 1, len(columns)))
    rows[0] = 1.0
    rows[1:] = columns.T
    return rows


def _digits_of(parts: list[FloatArray], most_odd: float) -> tuple[list[Digits], IntArray]:
    """Return the digits of columns, and of their products with weights, without the few rows that need more digits."""
    found = [_digits(part, most_odd) for part in parts]
    few = found[0][1] if len(found) == 1 else np.unique(np.concatenate([odd for _, odd in found]))
    for digits, _ in found:
        digits.values[:, :, few] = 0.0
    return [digits for digits, _ in found], few


def _paired(digits: list[Digits]) -> Iterator[Term]:
    """Yield the products of columns with themselves, or with the two parts of their products with weights."""
    for other in digits if len(digits) == 1 else digits[1:]:
        yield from _products(digits[0], other)


def _exact_product(m: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
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


def _digits(columns: FloatArray, most_odd: float) -> tuple[Digits, IntArray]:
    """Return as many digits as all but a few rows need, and these few."""
    exponents = np.frexp(np.maximum(columns.max(axis=1), -columns.min(axis=1)))[1].astype(np.int64) - (_BITS - 1)
    rest = columns * np.ldexp(1.0, -exponents)[:, None]
    values = np.empty((_USUAL, *columns.shape))
    for place in count():
        if place == len(values):
            values = np.concatenate([values, np.empty((1, *columns.shape))])
        np.rint(rest, out=values[place])
        rest -= values[place]
        odd = np.flatnonzero(rest.any(axis=0))
        if len(odd) <= most_odd * columns.shape[1]:
            break
        rest *= 2.0**_BITS
    return Digits(values[: place + 1], exponents), odd


def _products(left: Digits, right: Digits) -> Iterator[Term]:
    """Yield the upper triangles of ``left @ right.T``, one for each exponent that pairs of digits have."""
    p, n = left.values.shape[1:]
    one, other = (each.values.reshape(-1, n) for each in (left, right))
    both = np.zeros((len(one), len(other)), dtype=np.int64)
    for start in range(0, n, _TILE):
        both += (one[:, start : start + _TILE] @ other[:, start : start + _TILE].T).astype(np.int64)
    upper, blocks = _upper(p), both.reshape(-1, p, len(right.values), p)
    totals = np.zeros((len(blocks) + len(right.values) - 1, len(upper[0])), dtype=np.int64)
    for i, row in enumerate(blocks):
        totals[i : i + len(right.values)] += row.transpose(1, 0, 2)[:, *upper]
    exponents = left.exponents[upper[0]] + right.exponents[upper[1]]
    for place, total in enumerate(totals):
        yield total, exponents - place * _BITS


@cache
def _upper(p: int) -> tuple[IntArray, IntArray]:
    return np.triu_indices(p)


def _spread(limbs: IntArray) -> IntArray:
    """Return the same number in limbs that hold no more than they should, with room above for what was too much."""
    limbs = np.concatenate([limbs, np.zeros((2, limbs.shape[1]), dtype=np.int64)])
    for place in range(len(limbs) - 1):
        limbs[place + 1] += limbs[place] >> _LIMB
        limbs[place] &= _MASK
    return limbs


def _canonical(width: int, low: int, limbs: IntArray) -> ExactGram:
    """Return the sums with no limb that could be spared: equal sums have equal limbs."""
    top = len(limbs)
    while top > 1 and _fits(limbs[top - 1], limbs[top - 2]):
        limbs[top - 2] += limbs[top - 1] << _LIMB
        top -= 1
    used = np.flatnonzero(limbs[:top].any(axis=1))
    if not used.size:
        return ExactGram.empty(width)
    return ExactGram(width, low + int(used[0]), limbs[used[0] : top].copy())


def _fits(high: IntArray, below: IntArray) -> bool:
    """Whether the highest limb only repeats the sign of the one below."""
    half = np.int64(1) << (_LIMB - 1)
    return bool((high == np.where(below >= half, -1, 0)).all())
