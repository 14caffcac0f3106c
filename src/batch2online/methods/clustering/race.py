"""D^z seeds as a race: at each stage the row of least ``E / (w D^z)`` wins, E an exponential variable of its own.

The seeds are a pure function of the set of rows. A variable is drawn in two steps: 8 bits for each of 8 stages from one
random draw, and the other 56 bits from a draw of their own. The coarse bits rule out nearly all rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Protocol

import numpy as np

from batch2online import sampling
from batch2online._types import BoolArray, FloatArray, IntArray, WordArray
from batch2online.numerics.distances import nearest_squared, power, squared_distances, squared_lengths
from batch2online.rows import Rows, all_ones
from batch2online.schema import shape, storable

STAGES = 8
"""Number of stages per coarse draw, a byte each."""

_LOW_BITS, _HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_ALMOST_ONE = 1 - 2.0**-53
_DRAW_SLACK = 1 + 1e-6
with np.errstate(divide="ignore"):
    _AT_LEAST = -np.log1p(-np.arange(257) / 256)  # the least exponential variable with each octet


def exponentials(seed: int, ids: IntArray, stages: IntArray) -> FloatArray:
    """Return the exponential variables of pairs of a row id and a stage (counted from 0)."""
    coarse = sampling.words_of(seed, sampling.RACE, ids, stages // STAGES)
    octets = (coarse >> (np.uint64(8) * (stages % STAGES).astype(np.uint64))) & np.uint64(255)
    return exponentials_of(seed, ids, stages, octets)


def exponentials_of(seed: int, ids: IntArray, stages: IntArray, octets: Any) -> FloatArray:
    """Return the exponential variables of pairs, given their coarse bits."""
    detail = sampling.words_of(seed, sampling.RACE_DETAIL, ids, stages)
    fine = ((detail >> np.uint64(8)).astype(np.float64) + 0.5) * 2.0**-56
    uniform = np.minimum((octets.astype(np.float64) + fine) * 2.0**-8, _ALMOST_ONE)
    return np.asarray(-np.log1p(-uniform))


def first_of(seed: int, ids: IntArray, stage: int, coarse: WordArray, scale: FloatArray) -> int:
    """Return the position of the least E / scale, the first of equal ones; -1 if no scale is positive.

    The coarse draws of the stage rule out nearly all points, so that few variables are drawn in full.
    """
    octets = ((coarse >> np.uint64(8 * (stage % STAGES))) & np.uint64(255)).astype(np.int64)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        most = (_AT_LEAST[octets + 1] / scale).min(where=scale > 0, initial=np.inf)
        places = np.flatnonzero((scale > 0) & (_AT_LEAST[octets] / scale <= most * _DRAW_SLACK))
    if not places.size:
        return -1
    variables = exponentials_of(seed, ids[places], np.full(len(places), stage), octets[places])
    keys = race_keys(variables, scale[places], np.ones(len(places)))
    return int(places[keys.argmin()]) if np.isfinite(keys).any() else -1


def distances(points: FloatArray, seeds: FloatArray, z: float) -> FloatArray:
    """Return D^z to the nearest seed; 1 if there is no seed.

    Distances come from differences, point by point. A matrix product would round the distance of a point differently
    when other points share the call, and then the winner would depend on how rows are grouped into blocks.
    """
    if len(seeds) == 0:
        return np.ones(len(points))
    return power(squared_distances(points, seeds).min(axis=0), z)


def race_keys(variables: FloatArray, weights: FloatArray, losses: FloatArray) -> FloatArray:
    """Return E / (w D^z), infinite where the point coincides with a seed."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(variables / (weights * losses))


def has_zero_octet(words: WordArray) -> BoolArray:
    """Return whether any of the eight bytes is zero: only then does the subtraction borrow into its highest bit."""
    return np.asarray((words - _LOW_BITS) & ~words & _HIGH_BITS, dtype=bool)


def coarse_words(seed: int, ids: IntArray, page: int) -> WordArray:
    """Return coarse draws of ascending ids: consecutive draws if few ids are missing between them."""
    first, last = int(ids[0]), int(ids[-1])
    if last - first >= 2 * len(ids):
        return sampling.words_of(seed, sampling.RACE, ids, page)
    words = sampling.words(seed, sampling.RACE, range(first, last + 1), page)
    return words if len(words) == len(ids) else words[ids - first]


_KEPT = 64
_SEARCHED = 24.0
"""The least key is an exponential variable over the sum of w D^z; a search lists keys up to so many times its mean."""
_FIRST_CANDIDATES = 16
_FIRST_ROWS = 512
_SLACK = 1 + 1e-6
_FAR = 10.0
_ROUNDING = 1e-14
"""Distances below this share of the length of a point are rounding."""


class RaceRows(Protocol):
    """Rows that a race reads: by their position, counted from 0 in the order of ids."""

    @property
    def width(self) -> int:
        """Columns of the points."""

    @property
    def n_targets(self) -> int:
        """Columns of the targets."""

    def __len__(self) -> int: ...

    def from_row(self, start: int) -> Iterator[Rows]:
        """All rows from this position on, in blocks."""

    def at(self, positions: IntArray) -> Rows:
        """Return the rows at these positions."""


@storable
@dataclass(frozen=True)
class StageCandidates:
    """The points of least E / (w P) in one stage, in ascending order; P is an upper bound of D^z up to a factor."""

    bound_keys: Annotated[FloatArray, shape("n")]
    positions: Annotated[IntArray, shape("n")]
    variables: Annotated[FloatArray, shape("n")]

    @property
    def limit(self) -> float:
        """Lower bound of the keys of all other points."""
        return float(self.bound_keys[-1]) if len(self.bound_keys) >= _KEPT else np.inf

    def with_points(self, bound_keys: FloatArray, positions: IntArray, variables: FloatArray) -> StageCandidates:
        keys = np.concatenate([self.bound_keys, bound_keys])
        order = np.argsort(keys, kind="stable")[:_KEPT]
        return StageCandidates(
            keys[order],
            np.concatenate([self.positions, positions])[order],
            np.concatenate([self.variables, variables])[order],
        )


@dataclass(frozen=True)
class StageEntries:
    """Pairs of a row and a stage: id and position of the row, the stage, its coarse bits, and w P."""

    ids: IntArray
    positions: IntArray
    stages: IntArray
    octets: Any
    scales: FloatArray

    @classmethod
    def none(cls) -> StageEntries:
        indices = np.empty(0, dtype=np.int64)
        return cls(indices, indices, indices, np.empty(0, dtype=np.uint8), np.empty(0))

    @classmethod
    def joined(cls, parts: list[StageEntries]) -> StageEntries:
        columns = ([getattr(part, field.name) for part in parts] for field in fields(cls))
        return cls(*(np.concatenate(arrays) for arrays in columns))


@storable
@dataclass(frozen=True)
class Race:
    """The race over the first ``rows`` rows of a history."""

    k: int
    z: float
    seed: int
    rows: int = 0
    origin: Annotated[FloatArray, shape("d")] | None = None
    offset: float = 1.0
    candidates: tuple[StageCandidates, ...] = ()

    def updated(self, history: RaceRows) -> Race:
        """Return the race with all rows of the history."""
        race = self if self.rows >= _FIRST_ROWS or len(history) < _FIRST_ROWS else Race(self.k, self.z, self.seed)
        if race.origin is None and len(history):  # segments may be short: checks cut the first rows often
            race = race.begun(history.at(np.arange(min(len(history), _FIRST_ROWS))))
        entries: list[StageEntries] = []
        pending = 0
        for rows in history.from_row(race.rows):
            start = 0
            while start < len(rows):
                stop = min(len(rows), start + max(_FIRST_ROWS, race.rows - pending))
                some = rows if stop - start == len(rows) else rows[start:stop]
                entries.append(race.entries_of(some, race.rows + pending))
                pending += stop - start
                start = stop
                if pending >= max(_FIRST_ROWS, race.rows):
                    race, entries, pending = race.with_entries(entries, pending), [], 0
        return race.with_entries(entries, pending) if pending else race

    def scaled(self, factor: float) -> Race:
        """Return the race for weights multiplied by a power of 4, which divides all keys."""
        candidates = (replace(candidates, bound_keys=candidates.bound_keys / factor) for candidates in self.candidates)
        return replace(self, candidates=tuple(candidates))

    def begun(self, rows: Rows) -> Race:
        mean, spread = rows.points.mean(axis=0), rows.points.std(axis=0)
        origin = mean if mean @ mean > _FAR * (spread @ spread) else np.zeros_like(mean)
        typical = float(power(np.square(rows.points - origin).sum(axis=1), self.z).mean())
        none = StageCandidates(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0))
        negligible = float(power(_ROUNDING**2 * (origin @ origin), self.z))  # where all rows are the same
        offset = typical if typical > negligible else 1.0
        return replace(self, origin=origin, offset=offset, candidates=(none,) * self.k)

    def entries_of(self, rows: Rows, at: int) -> StageEntries:
        """Return the pairs of a row and a stage that may be among the candidates, by their coarse bits."""
        scale = self._scale(rows)
        limits = np.array([candidates.limit for candidates in self.candidates])
        parts = []
        for first in range(0, len(limits), STAGES):
            stages = range(first, min(first + STAGES, len(limits)))
            limit = limits[stages.start : stages.stop].max()
            parts.append(entries_below(self.seed, rows.ids, at, scale, stages, limit))
        return StageEntries.joined(parts)

    def _scale(self, rows: Rows) -> FloatArray:
        """Return the weight of each row times P."""
        assert self.origin is not None
        squared = squared_lengths(rows.points - self.origin) if self.origin.any() else rows.lengths
        scale = power(squared, self.z) + self.offset
        return scale if all_ones(rows.weights) else scale * rows.weights

    def with_entries(self, parts: list[StageEntries], rows: int) -> Race:
        entries = StageEntries.joined(parts)
        variables = exponentials_of(self.seed, entries.ids, entries.stages, entries.octets)
        keys = variables / entries.scales
        limits, candidates = np.array([candidates.limit for candidates in self.candidates]), []
        ahead = np.flatnonzero(keys < limits[entries.stages])
        for stage, old in enumerate(self.candidates):
            new = ahead[entries.stages[ahead] == stage]
            candidates.append(old.with_points(keys[new], entries.positions[new], variables[new]) if new.size else old)
        return replace(self, rows=self.rows + rows, candidates=tuple(candidates))

    # -- reading ------------------------------------------------------------------------------------

    def run(self, history: RaceRows) -> IntArray:
        """Return the positions of the seeds; fewer than k if points are fewer."""
        positions, seeds = list[int](), np.empty((self.k, history.width))
        search = RowSearch(history, self.k, self.z, self.seed)
        for stage in range(self.k if self.rows else 0):
            position = self._winner(stage, seeds[:stage], search)
            if position < 0:
                break
            positions.append(position)
            seeds[stage] = history.at(np.array([position])).points[0]
        return np.array(positions, dtype=np.int64)

    def _winner(self, stage: int, seeds: FloatArray, search: RowSearch) -> int:
        """Return the position of the winner of a stage, -1 if there is none.

        The candidates of the stage decide where they can, otherwise a search of all rows.
        """
        position = None if stage in search.listed else self._best_candidate(stage, seeds, search.history)
        return search.best(stage, seeds) if position is None else position

    def _best_candidate(self, stage: int, seeds: FloatArray, history: RaceRows) -> int | None:
        """Return the position of the candidate of least key; None if another row may have less."""
        candidates, factor = self.candidates[stage], self._factor(seeds)
        n_read, best, position = 0, np.inf, -1
        while n_read < len(candidates.positions):
            stop = min(len(candidates.positions), max(_FIRST_CANDIDATES, 2 * n_read))
            rows = history.at(candidates.positions[n_read:stop])
            keys = race_keys(candidates.variables[n_read:stop], rows.weights, distances(rows.points, seeds, self.z))
            if keys.min() < best:
                best, position = float(keys.min()), int(candidates.positions[n_read + int(keys.argmin())])
            n_read = stop
            unseen = candidates.bound_keys[stop] if stop < len(candidates.bound_keys) else candidates.limit
            if best * factor * _SLACK < unseen:
                return position
        return None

    def _factor(self, seeds: FloatArray) -> float:
        """Return a number b such that D^z(x) <= b P(x) for all x."""
        if len(seeds) == 0:
            return 1 / self.offset
        assert self.origin is not None
        reach = float(np.sqrt(np.square(seeds - self.origin).sum(axis=1).min()))  # D(x) <= |x - o| + reach
        if reach == 0:
            return 1.0
        log_ratio = self.z * math.log(reach) - math.log(self.offset)
        if self.z == 1:
            return math.exp(max(0.0, log_ratio))
        with np.errstate(over="ignore"):
            return float(np.exp((self.z - 1) * np.logaddexp(0.0, log_ratio / (self.z - 1))))


class RowSearch:
    """Search of all rows for the winners of stages that candidates do not decide, one pass for several stages.

    Distances to the seeds so far are upper bounds of those to more seeds, so keys only rise. A pass lists the rows of
    least keys for all stages of a coarse draw; the list of a stage decides it unless keys have risen too far since.
    """

    def __init__(self, history: RaceRows, k: int, z: float, seed: int) -> None:
        self.history, self.k, self.z, self.seed = history, k, z, seed
        self.n_seeds, self.limit, self.squared = 0, 0.0, list[FloatArray]()
        self.listed: dict[int, tuple[Rows, IntArray, FloatArray]] = {}

    def best(self, stage: int, seeds: FloatArray) -> int:
        """Return the position of the row of least key in a stage; -1 if there is none."""
        factor = _SEARCHED
        while True:
            if stage not in self.listed:
                self._list(stage, seeds, factor)
            rows, positions, variables = self.listed.pop(stage)
            keys = race_keys(variables, rows.weights, distances(rows.points, seeds, self.z))
            first = int(keys.argmin()) if keys.size else -1
            if first >= 0 and keys[first] * _SLACK < self.limit:
                return int(positions[first])
            if self.limit == np.inf:
                return -1
            factor, self.listed = 16 * factor, {}

    def _list(self, stage: int, seeds: FloatArray, factor: float) -> None:
        """List the rows of least keys, for this stage and those after it on the same coarse draw.

        Keys before the first seed have no distances, and are no bounds of later ones.
        """
        last = min(self.k, stage - stage % STAGES + STAGES) if len(seeds) else 1
        stages = range(stage, last)
        blocks = list(self._scaled(seeds))
        total = sum(float(scale.sum()) for _, _, scale in blocks)
        self.limit = factor / total if 0 < total < np.inf else np.inf
        if total == 0:  # every row is a seed
            blocks = []
        parts = [entries_below(self.seed, ids, at, scale, stages, self.limit) for at, ids, scale in blocks]
        entries = StageEntries.joined(parts) if parts else StageEntries.none()
        variables = exponentials_of(self.seed, entries.ids, entries.stages, entries.octets)
        with np.errstate(divide="ignore", over="ignore"):
            few = np.flatnonzero(variables / entries.scales <= self.limit * _SLACK)
        positions, rows = entries.positions[few], self.history.at(entries.positions[few])
        own = [np.flatnonzero(entries.stages[few] == each) for each in stages]
        listed = ((rows[places], positions[places], variables[few[places]]) for places in own)
        self.listed = dict(zip(stages, listed, strict=True))

    def _scaled(self, seeds: FloatArray) -> Iterator[tuple[int, IntArray, FloatArray]]:
        """Iterate over blocks of rows: the position of the first, their ids, and their weights times D^z."""
        at = 0
        for block, rows in enumerate(self.history.from_row(0)):
            yield at, rows.ids, rows.weights * self._losses(block, rows, seeds)
            at += len(rows)
        self.n_seeds = len(seeds)

    def _losses(self, block: int, rows: Rows, seeds: FloatArray) -> FloatArray | float:
        """Return D^z of the rows of a block; each seed is compared with a row once."""
        if not len(seeds):
            return 1.0
        if block == len(self.squared):
            self.squared.append(np.full(len(rows), np.inf))
        own = self.squared[block]
        if self.n_seeds < len(seeds):
            np.minimum(own, nearest_squared(rows.points, seeds[self.n_seeds :], rows.lengths), out=own)
        return power(own, self.z)


def entries_below(seed: int, ids: IntArray, at: int, scale: FloatArray, stages: range, limit: float) -> StageEntries:
    """Return the pairs of a row and a stage, all on one coarse draw, whose key E / scale may be below a limit.

    The coarse bits rule out nearly all pairs. ``at`` is the position of the first row.
    """
    page, first = divmod(stages.start, STAGES)
    bound, words = _octet_bounds(scale, limit * 256 * _SLACK), coarse_words(seed, ids, page)
    few = np.flatnonzero(has_zero_octet(words) if bound is None else has_zero_octet(words) | (bound > 0))
    octets = words[few].view(np.uint8).reshape(-1, STAGES)[:, first : first + len(stages)]
    below = octets == 0 if bound is None else octets <= bound[few, None]
    places, own = np.divmod(np.flatnonzero(below), len(stages))
    octet, places = octets[places, own], few[places]
    return StageEntries(ids[places], at + places, own + stages.start, octet, scale[places])


def _octet_bounds(scale: FloatArray, limit: float) -> Any:
    """Return the largest coarse byte with which each row can be below a limit; None if it is zero for all."""
    if not np.isfinite(limit):
        return np.full(len(scale), 255, dtype=np.uint8)
    with np.errstate(over="ignore"):
        bounds = scale * limit
    return None if bounds.max(initial=0.0) < 1 else np.minimum(bounds, 255.0).astype(np.uint8)
