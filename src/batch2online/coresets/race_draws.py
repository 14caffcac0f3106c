"""What each point brings to the race for D^z seeds: its exponential variables, and its distance to the seeds.

A variable is drawn in two steps: 8 bits for each of 8 stages from one word, and the other 56 from a word of their own.
The coarse bits rule out nearly all points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray, WordArray
from batch2online.core import randomness
from batch2online.linalg.distances import power, squared_distances

STAGES = 8
"""Stages that one coarse word serves, a byte each."""

_LOW_BITS, _HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_ALMOST_ONE = 1 - 2.0**-53
_SLACK = 1 + 1e-6
with np.errstate(divide="ignore"):
    _AT_LEAST = -np.log1p(-np.arange(257) / 256)  # the least exponential variable with each octet


def exponentials(seed: int, ids: IntArray, stages: IntArray) -> FloatArray:
    """Return the exponential variables of pairs of a point and a stage (counted from 0)."""
    coarse = randomness.words_of(seed, randomness.RACE, ids, stages // STAGES)
    octets = (coarse >> (np.uint64(8) * (stages % STAGES).astype(np.uint64))) & np.uint64(255)
    return exponentials_of(seed, ids, stages, octets)


def exponentials_of(seed: int, ids: IntArray, stages: IntArray, octets: Any) -> FloatArray:
    """Return the same, given the coarse bits of each pair."""
    detail = randomness.words_of(seed, randomness.RACE_DETAIL, ids, stages)
    fine = ((detail >> np.uint64(8)).astype(np.float64) + 0.5) * 2.0**-56
    uniform = np.minimum((octets.astype(np.float64) + fine) * 2.0**-8, _ALMOST_ONE)
    return np.asarray(-np.log1p(-uniform))


def first_of(seed: int, ids: IntArray, stage: int, coarse: WordArray, scale: FloatArray) -> int:
    """Return the place of the least E / scale, the first of equal ones; -1 where no scale is positive.

    The coarse words of the stage's page rule out nearly all points, so that few variables are drawn in full.
    """
    octets = ((coarse >> np.uint64(8 * (stage % STAGES))) & np.uint64(255)).astype(np.int64)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        most = (_AT_LEAST[octets + 1] / scale).min(where=scale > 0, initial=np.inf)
        places = np.flatnonzero((scale > 0) & (_AT_LEAST[octets] / scale <= most * _SLACK))
    if not places.size:
        return -1
    variables = exponentials_of(seed, ids[places], np.full(len(places), stage), octets[places])
    keys = race_keys(variables, scale[places], np.ones(len(places)))
    return int(places[keys.argmin()]) if np.isfinite(keys).any() else -1


def distances(points: FloatArray, seeds: FloatArray, z: float) -> FloatArray:
    """D^z to the nearest seed; 1 while there is no seed.

    Distances come from differences, point by point. A matrix product would round the distance of a point differently
    when other points share the call, and then the winner would depend on how rows are grouped into blocks.
    """
    if len(seeds) == 0:
        return np.ones(len(points))
    return power(squared_distances(points, seeds).min(axis=0), z)


def race_keys(variables: FloatArray, weights: FloatArray, losses: FloatArray) -> FloatArray:
    """E / (w D^z), infinite where the point coincides with a seed."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(variables / (weights * losses))


def has_zero_octet(words: WordArray) -> BoolArray:
    """Whether any of the eight bytes is zero: only then does the subtraction borrow into its highest bit."""
    return np.asarray((words - _LOW_BITS) & ~words & _HIGH_BITS, dtype=bool)


def coarse_words(seed: int, ids: IntArray, page: int) -> WordArray:
    """Coarse words of ascending ids: drawn in one run if few are missing between them."""
    first, last = int(ids[0]), int(ids[-1])
    if last - first >= 2 * len(ids):
        return randomness.words_of(seed, randomness.RACE, ids, page)
    words = randomness.words(seed, randomness.RACE, range(first, last + 1), page)
    return words if len(words) == len(ids) else words[ids - first]
