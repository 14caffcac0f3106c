"""Numbers as digits of so few bits that a matrix product of digits has no rounding (Ozaki, Ogita, Oishi & Rump 2012).

Three digits hold nearly every number of a usual column; the few rows that need more are taken apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.numerics.distances import scratch
from batch2online.rows import all_ones
from batch2online.schema import at_least, at_most, require, shape, storable

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
    """Return two arrays whose sum is exactly ``m * weights``: the products, and their rounding errors (Dekker 1971)."""
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


_LIMB = 32
_MASK = np.int64(2**_LIMB - 1)


_FAR_LIMB = 256
"""Limbs from one, up or down, within which sums of products of doubles are."""


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
    >>> one = ExactGram.empty(4).add((columns,))
    >>> other = ExactGram.empty(4).add((columns[600:],)).merged(ExactGram.empty(4).add((columns[:600],)))
    >>> one == other
    True
    """

    width: Annotated[int, at_least(1)]
    low: Annotated[int, at_least(-_FAR_LIMB), at_most(_FAR_LIMB)]
    limbs: Annotated[IntArray, shape("limbs", "pairs")]
    _open: ClassVar[OpenSums | None] = None  # what is to be added to the limbs still

    def validate(self) -> None:
        shape, pairs = self.limbs.shape, self.width * (self.width + 1) // 2
        require(
            shape[0] <= 2 * _FAR_LIMB and shape[1] == pairs, f"limbs: found shape {shape}, expected {pairs} columns"
        )
        lower = (self.limbs[:-1] >= 0) & (self.limbs[:-1] < 2**32)
        require(lower.all() and (np.abs(self.limbs[-1:]) <= 2**31).all(), "limbs: found one of more than 32 bits")

    @classmethod
    def empty(cls, width: int) -> ExactGram:
        return cls(width, 0, np.zeros((0, width * (width + 1) // 2), dtype=np.int64))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactGram):
            return NotImplemented
        one, two = self.closed(), other.closed()
        return (one.width, one.low) == (two.width, two.low) and np.array_equal(one.limbs, two.limbs)

    __hash__ = None  # type: ignore[assignment]

    def add(self, parts: tuple[FloatArray, ...], weights: FloatArray | None = None) -> ExactGram:
        """Return the sums with these rows, whose columns are those of all parts: (n, width - 1) together."""
        if weights is not None and not all_ones(weights):
            return self.closed()._plus(_weighted_terms(parts, weights))
        if not len(parts[0]):
            return self
        *full, last = OpenSums.added(self._open, parts)
        new = self._plus([term for sums in full for term in sums.terms()])
        object.__setattr__(new, "_open", last)
        return new

    def closed(self) -> ExactGram:
        """Return the same sums in limbs alone."""
        return self if self._open is None else self._plus(list(self._open.terms()))

    def merged(self, other: ExactGram) -> ExactGram:
        """Return the sums over the rows of both."""
        own, other = self.closed(), other.closed()
        terms = [(limb, np.full(len(limb), _LIMB * (other.low + place))) for place, limb in enumerate(other.limbs)]
        return own._plus(terms)

    def scaled(self, factor: float) -> ExactGram:
        """Return the sums of rows with weights multiplied by a power of two."""
        own = self.closed()
        places, bits = divmod(math.frexp(factor)[1] - 1, _LIMB)
        return _canonical(own.width, own.low + places, _spread(own.limbs << bits)) if len(own.limbs) else own

    def _plus(self, terms: list[Term]) -> ExactGram:
        """Return the sums in limbs plus integers times two to the power of exponents; none is open."""
        if not terms:
            return ExactGram(self.width, self.low, self.limbs)
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
        own = self.closed()
        if not len(own.limbs):
            return [0] * own.limbs.shape[1], 0
        words = np.ascontiguousarray((own.limbs & _MASK).astype("<u4").T)
        return [int.from_bytes(word.tobytes(), "little", signed=True) for word in words], _LIMB * own.low

    def stored_fields(self) -> dict[str, Any]:
        """Return the fields that are stored and sent."""
        own = self.closed()
        return {"width": own.width, "low": own.low, "limbs": own.limbs}

    __getstate__ = stored_fields


def _weighted_terms(parts: tuple[FloatArray, ...], weights: FloatArray) -> list[Term]:
    """Return the sums over rows of any weights."""
    terms: list[Term] = []
    odd = []
    for start in range(0, len(weights), CHUNK):
        m = with_constant(parts, slice(start, start + CHUNK))
        both = [m, *exact_product(m, weights[start : start + CHUNK])]
        cut = [digits_of(each, exponents_of(each), name=str(place)) for place, each in enumerate(both)]
        few = np.unique(np.concatenate([rows for _, rows in cut]))
        odd.append([each[:, few] for each in both])
        terms += _paired(without([digits for digits, _ in cut], few))
    rest = [np.concatenate(pieces, axis=1) for pieces in zip(*odd, strict=True)]
    if rest and rest[0].size:
        named = enumerate(rest)
        terms += _paired([digits_of(each, exponents_of(each), str(place), most_odd=0.0)[0] for place, each in named])
    return terms


def _paired(digits: list[Digits]) -> Iterator[Term]:
    """Yield the products of columns with the two parts of their products with weights."""
    for other in digits[1:]:
        yield from terms_of(products(digits[0].values, other.values), digits[0].exponents, other.exponents)


def _spread(limbs: IntArray) -> IntArray:
    """Return the same number with carries propagated, and an additional limb for the highest carry."""
    limbs = np.concatenate([limbs, np.zeros((2, limbs.shape[1]), dtype=np.int64)])
    for place in range(len(limbs) - 1):
        limbs[place + 1] += limbs[place] >> _LIMB
        limbs[place] &= _MASK
    return limbs


def _canonical(width: int, low: int, limbs: IntArray) -> ExactGram:
    """Return the sums without redundant limbs, so that equal sums have equal limbs."""
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


def rounded(value: int, exponent: int) -> float:
    """Return an integer times two to the power of ``exponent``, rounded once."""
    try:
        return float(value << exponent) if exponent >= 0 else value / (1 << -exponent)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def exact_weight(sums: ExactGram) -> float:
    """Return the weight of all rows, rounded once."""
    integers, exponent = sums.integers()
    return rounded(integers[0], exponent)


_ROOM = 1
"""Bits by which columns may become larger before other sums begin."""

_FINER = 3
"""Bits by which they may become smaller."""

_MOST_ROWS = 2**18
"""Rows times digits of which products of 44 bits, and sums over pairs of digits, have less than 63 bits."""

_MOST_ODD = 2048


@dataclass(frozen=True)
class OpenSums:
    """Products of digits of columns with these exponents, and the rows that need more digits than others."""

    exponents: IntArray  # (columns,)
    totals: IntArray  # (digits, columns) by (digits, columns)
    rows: int
    odd: tuple[FloatArray, ...]  # (columns, few) each

    @classmethod
    def added(cls, known: OpenSums | None, parts: tuple[FloatArray, ...]) -> Iterator[OpenSums]:
        """Yield open sums one after the other: the last one is open still, those before it are to be closed."""
        for start in range(0, len(parts[0]), CHUNK):
            columns = with_constant(parts, slice(start, start + CHUNK))
            before, known = known, cls._of(known, columns)
            if before is not None and known.rows == columns.shape[1]:
                yield before
        if known is not None:
            yield known

    @classmethod
    def _of(cls, known: OpenSums | None, columns: FloatArray) -> OpenSums:
        """Return the sums with these columns, or new ones that begin with them."""
        own = exponents_of(columns)
        if known is None or not known._takes(columns, own):
            known = None
            own += _ROOM
        digits, few = digits_of(columns, own if known is None else known.exponents)
        odd = (columns[:, few],) if len(few) else ()
        values = without([digits], few)[0].values
        n_values = values.shape[0] * values.shape[1]
        if known is not None and n_values <= len(known.totals):
            totals = known.totals.copy()
            totals[:n_values, :n_values] += products(values, values)
            return cls(known.exponents, totals, known.rows + columns.shape[1], known.odd + odd)
        return cls(digits.exponents, products(values, values), columns.shape[1], odd)

    def _takes(self, columns: FloatArray, own: IntArray) -> bool:
        """Whether columns with exponents of their own can be cut into digits by those that are known."""
        lower = self.exponents - own
        n_digits = len(self.totals) // len(own) + 1
        is_small = (self.rows + columns.shape[1]) * n_digits <= _MOST_ROWS
        few_odd = sum(part.shape[1] for part in self.odd) <= _MOST_ODD
        other = np.flatnonzero((lower < 0) | (lower > _FINER))
        return is_small and few_odd and not columns[other].any()

    def terms(self) -> Iterator[Term]:
        """Yield the sums as integers with their exponents."""
        yield from terms_of(self.totals, self.exponents, self.exponents)
        if self.odd:
            rest = np.concatenate(self.odd, axis=1)
            for start in range(0, rest.shape[1], CHUNK):
                part = rest[:, start : start + CHUNK]
                digits, _ = digits_of(part, exponents_of(part), most_odd=0.0)
                yield from terms_of(products(digits.values, digits.values), digits.exponents, digits.exponents)
