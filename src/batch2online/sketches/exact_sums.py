"""Sums of products without any rounding: the same whatever the order, the blocks, the machine.

Numbers are cut into digits (:mod:`batch2online.sketches.digits`), whose products are integers. They are added up in
integers of many words, a *limb* each, so the sum of any rows is the same bits in whatever pieces and order they come.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.rows import all_ones
from batch2online.schema import at_least, at_most, require, shape, storable
from batch2online.sketches.digits import (
    CHUNK,
    Digits,
    Term,
    digits_of,
    exact_product,
    exponents_of,
    products,
    terms_of,
    with_constant,
    without,
)
from batch2online.sketches.open_sums import OpenSums

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
        """Return what a file holds, and what travels."""
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
