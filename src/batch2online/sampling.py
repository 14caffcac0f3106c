"""Uniforms that belong to a point.

Every random number of this package is a pure function of ``(seed, stream, id)``: the seed of the run,
what the number is for, and the point (or row count) it belongs to. No generator is ever advanced, so
a result cannot depend on chunk sizes, on merging order or on what was asked for before.

The function is the counter-based generator Philox4x64-10 (Salmon et al., SC 2011) with
``key = (seed, stream)``. One counter value yields four words, so point ``i`` owns word ``i % 4`` of
counter ``i // 4 + 1``. For consecutive ids NumPy's own implementation delivers the raw words; for
arbitrary ids the ten rounds below do. Words become doubles here, not in NumPy's ``Generator``, whose
stream may change between versions.

A point needs two uniforms to be sampled: U decides whether it is kept, V rounds its weight. Both come
from one word, U from its upper 44 bits and V from its lower 20: drawing is a good part of the cost of a
row. The grids are centred, so that probabilities are off by at most 2^-45 and 2^-21.
"""

from __future__ import annotations

import secrets
import threading

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray, WordArray

SAMPLING, TOLERANCE, RACE, RACE_DETAIL, SECOND_STAGE, SOLVER, PROJECTION, ORDER = range(8)
"""Streams: a point's place in the coreset and its weight; the lazy policy's threshold; the race for seeds, coarse and
in detail; the second stage of a clustering coreset; a solver's choices; its random projections; ranks that tie in the
monitor of the order."""

_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_PIECE = 4096
_ROUNDS = 10
_MASK32 = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def seed_from(random_state: object) -> int:
    """Return a 64-bit seed from what scikit-learn calls ``random_state``: None, an integer or a generator."""
    if random_state is None:
        return secrets.randbits(64)
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if not 0 <= random_state < 2**64:
            raise ValueError(f"random_state must be between 0 and 2**64 - 1, got {random_state}.")
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**63, dtype=np.int64))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 2**63))
    raise ValueError(f"random_state must be None, an integer, a RandomState or a Generator, got {random_state!r}.")


def uniforms(seed: int, stream: int, ids: range | IntArray) -> FloatArray:
    """One uniform in (0, 1) for each id, from the upper 52 bits of its word.

    >>> uniforms(7, TOLERANCE, range(5)).round(3).tolist()
    [0.882, 0.369, 0.517, 0.332, 0.718]
    """
    return uniforms_of(words(seed, stream, ids))


def uniforms_of(word: WordArray) -> FloatArray:
    """Uniforms in (0, 1) from the upper 52 bits of words."""
    return ((word >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def inclusion_uniforms(word: WordArray) -> FloatArray:
    """U in (0, 1): the point is in the coreset iff U is at most its inclusion probability."""
    return ((word >> np.uint64(20)).astype(np.float64) + 0.5) * 2.0**-44


def word_below(q: float) -> np.uint64:
    """Return a word such that U <= q implies a word of at most this."""
    return np.uint64(min(2**64 - 1, int(q * 2.0**44 + 1) << 20))


def rounding_uniforms(word: WordArray) -> FloatArray:
    """V in (0, 1): decides which way the weight of the point is rounded."""
    return ((word & np.uint64(0xFFFFF)).astype(np.float64) + 0.5) * 2.0**-20


def words(seed: int, stream: int, ids: range | IntArray, page: int = 0) -> WordArray:
    """Return the 64-bit words that the points ``ids`` own in ``stream``; a point owns one on each page of it."""
    if isinstance(ids, range):
        return _consecutive_words(seed, stream, ids, page)
    return words_of(seed, stream, ids, page)


class _Generators(threading.local):
    """A Philox object for each thread, set anew at each use: making one costs more than 1,000 words."""

    def __init__(self) -> None:
        self.philox = np.random.Philox(key=np.zeros(2, dtype=np.uint64))
        self.state = self.philox.state


_generators = _Generators()


def _consecutive_words(seed: int, stream: int, ids: range, page: int) -> WordArray:
    counter, lane = divmod(ids.start, 4)
    state = _generators.state
    state["state"] = {
        "counter": np.array([counter, page, 0, 0], dtype=np.uint64),
        "key": np.array([seed, stream], dtype=np.uint64),
    }
    _generators.philox.state = state
    return _generators.philox.random_raw(lane + len(ids))[lane:]


def words_of(seed: int, stream: int, ids: IntArray, page: int | IntArray = 0) -> WordArray:
    """Philox words of arbitrary ids and pages: the ten rounds, vectorised, as many ids at a time as fit a cache."""
    if len(ids) <= _PIECE:
        return _few_words_of(seed, stream, ids, page)
    pages = np.broadcast_to(np.asarray(page), len(ids))
    starts = range(0, len(ids), _PIECE)
    pieces = (slice(start, start + _PIECE) for start in starts)
    return np.concatenate([_few_words_of(seed, stream, ids[piece], pages[piece]) for piece in pieces])


def _few_words_of(seed: int, stream: int, ids: IntArray, page: int | IntArray) -> WordArray:
    unsigned: WordArray = np.asarray(ids, dtype=np.uint64)
    zero = np.zeros_like(unsigned)
    x0, x1, x2, x3 = (unsigned >> np.uint64(2)) + np.uint64(1), zero + np.asarray(page, dtype=np.uint64), zero, zero
    for r in range(_ROUNDS):
        key0 = np.uint64((seed + r * _WEYL[0]) % 2**64)
        key1 = np.uint64((stream + r * _WEYL[1]) % 2**64)
        high0, low0 = _multiply(_MULTIPLIERS[0], x0)
        high1, low1 = _multiply(_MULTIPLIERS[1], x2)
        x0, x1, x2, x3 = high1 ^ x1 ^ key0, low1, high0 ^ x3 ^ key1, low0
    return np.choose((unsigned & np.uint64(3)).astype(np.int64), (x0, x1, x2, x3))


def _multiply(a: int, b: WordArray) -> tuple[WordArray, WordArray]:
    """High and low word of the 128-bit products ``a * b``, from 32-bit halves."""
    a_high, a_low = np.uint64(a >> 32), np.uint64(a & 0xFFFFFFFF)
    b_high, b_low = b >> _HALF, b & _MASK32
    middle = a_high * b_low + (a_low * b_low >> _HALF)
    cross = a_low * b_high + (middle & _MASK32)
    high = a_high * b_high + (middle >> _HALF) + (cross >> _HALF)
    return high, np.uint64(a) * b


def probabilities(scores: FloatArray, constant: float) -> FloatArray:
    """Inclusion probabilities ``q = min(1, c * s)``."""
    return np.minimum(1.0, constant * scores)


def kept(inclusion_uniforms: FloatArray, q: FloatArray) -> BoolArray:
    """Which points the coreset holds: ``U <= q`` (and never one of score zero)."""
    return inclusion_uniforms <= q


def exponents(q: FloatArray, rounding_uniforms: FloatArray, epsilon: float) -> IntArray:
    """Integer exponents e such that the weight of a kept point is ``(1 + epsilon) ** e``.

    >>> exponents(np.array([1.0, 0.5, 0.5]), np.array([0.5, 0.1, 0.9]), epsilon=0.1).tolist()
    [0, 8, 7]
    """
    above = -np.log(q) - np.log1p(epsilon * rounding_uniforms)
    return np.asarray(1 + np.floor(above / np.log1p(epsilon)), dtype=np.int64)


def weights_of(exponent: IntArray, epsilon: float) -> FloatArray:
    """Weights from their integer exponents: exactly 1 where the exponent is 0."""
    return np.asarray((1.0 + epsilon) ** exponent, dtype=np.float64)
