"""What all coreset constructions share: ids, blocks, candidates, history.

A construction keeps statistics of the rows seen and the rows that may still be in the coreset. Its
statistics give a score that never rises as rows are added (it is *antitone*), so a row once dropped
never returns and nothing else needs to be remembered. Rows are taken in blocks aligned to their ids,
so the result does not depend on the sizes of the chunks in which they came, to the last bit.

A new construction supplies a :class:`Statistics` and one line in ``coresets/__init__.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from batch2online import randomness, theory
from batch2online._types import FloatArray, IntArray, WordArray
from batch2online.coreset import Coreset, Rows, all_ones, exponents, kept, probabilities, weights_of
from batch2online.storage import storable
from batch2online.validation import LARGEST_ID, check_rows, check_targets, check_weights

_BLOCK_ENTRIES = 250_000
_BLOCK_ROWS = (10_000, 5_000, 2_000, 1_000)
_SAFETY = 1 + 1e-6
"""Bounds are stretched by this factor, so that rounding never drops a point that an exact score keeps."""


class Statistics(Protocol):
    """What a construction knows of the rows seen. Immutable: adding returns a new object."""

    has_closer_bounds: ClassVar[bool]  # than those that ``add`` returns

    def add(self, rows: Rows) -> tuple[Self, FloatArray]:
        """Statistics with these rows, and cheap upper bounds of their scores, now and ever after."""

    def merged(self, other: Self) -> Self: ...

    def settled(self) -> Self:
        """The same, before a refresh asks for much: a chance to compute once what is asked for often."""

    def scores(self, rows: Rows) -> FloatArray:
        """Scores of rows that are among those added."""

    def bounds(self, rows: Rows) -> FloatArray:
        """Cheap upper bounds of these scores."""


@storable
@dataclass(frozen=True)
class Candidates:
    """Rows that may be in the coreset, with the random words they own, sorted by id."""

    rows: Rows
    words: WordArray

    def __getitem__(self, index: Any) -> Candidates:
        return Candidates(self.rows[index], self.words[index])

    def within(self, q: FloatArray) -> Candidates:
        """Those that these inclusion probabilities keep."""
        return self[np.flatnonzero(kept(randomness.inclusion_uniforms(self.words), q))]

    def within_mostly(self, q: FloatArray, usual: float) -> Candidates:
        """The same, when few probabilities exceed ``usual``: only rows below it or with larger ones are looked at."""
        low = self.words <= randomness.word_below(usual)
        if q.max(initial=0.0) > usual:
            low |= q > usual
        chosen = np.flatnonzero(low)
        return self[chosen[kept(randomness.inclusion_uniforms(self.words[chosen]), q[chosen])]]

    @classmethod
    def joined(cls, parts: list[Candidates]) -> Candidates:
        parts = [part for part in parts if len(part.rows)] or parts[:1]
        return cls(
            Rows.concatenate([part.rows for part in parts]),
            np.concatenate([part.words for part in parts]),
        )


class Construction(ABC):
    """Base of all constructions.

    Parameters
    ----------
    epsilon : float in (0, 1)
        Accuracy: sets the default size and the grid of powers of ``1 + epsilon`` for the weights.
    coreset_size : int, "theory" or None
        Expected number of points, the size that the theory asks for, or a size measured to be enough.
    random_state : None, int or generator
        The seed. Shards that are to be merged must share it.
    first_id : int
        Id of the first row; rows are numbered from there. Shards need disjoint ids.
    keep_history : bool
        Keep all rows, which ``forget`` needs.
    """

    def __init__(
        self,
        *,
        epsilon: float = 0.1,
        coreset_size: int | str | None = None,
        random_state: object = None,
        first_id: int = 0,
        keep_history: bool = False,
    ) -> None:
        if not isinstance(epsilon, float | int | np.number) or not 0 < epsilon < 1:
            raise ValueError(f"epsilon must be between 0 and 1, got {epsilon!r}.")
        if not isinstance(first_id, int | np.integer) or not 0 <= first_id <= LARGEST_ID:
            raise ValueError(f"first_id must be between 0 and {LARGEST_ID}, got {first_id!r}.")
        self.epsilon = float(epsilon)
        self.coreset_size = coreset_size.item() if isinstance(coreset_size, np.generic) else coreset_size
        self.seed = randomness.seed_from(random_state)
        self.next_id = int(first_id)
        self.intervals: list[tuple[int, int]] = []
        self.statistics: Any = None
        self.constant = 0.0
        self.expected_size = 0.0
        self.n_rows = 0
        self.weight = 0.0
        self.shape: tuple[int, int] | None = None
        self.block = 0
        self.parts: list[Candidates] = []
        self.n_unthinned = 0
        self.tail: list[Rows] = []
        self.history: list[Rows] | None = [] if keep_history else None
        self.flat_targets = False

    # -- to be supplied ---------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, width: int, n_targets: int) -> tuple[Statistics, float, int]:
        """Empty statistics for rows of this shape, a bound of the sum of scores, and the dimension of the problem."""

    # -- public -----------------------------------------------------------------------------------

    def add(self, rows: Any, targets: Any = None, weights: Any = None) -> Self:
        """Add rows (n, d), with targets (n,) or (n, k) where the construction scores them."""
        points = check_rows(rows, width=None if self.shape is None else self.shape[0])
        values = check_targets(targets, len(points))
        if self.shape is not None and values.shape[1] != self.shape[1]:
            raise ValueError("targets must have the same columns in every call.")
        weight = check_weights(weights, points, values)
        self._check_ids_left(len(points))
        self.flat_targets = targets is not None and np.ndim(targets) == 1
        positive = weight > 0
        if not positive.all():
            points, values, weight = points[positive], values[positive], weight[positive]
        self.extend(points, values, weight)
        return self

    def coreset(self) -> Coreset:
        """The coreset of the rows seen so far, a pure function of them and the seed."""
        if self.shape is None:
            raise ValueError("No rows have been added yet.")
        candidates, scores = self._scored()
        q = probabilities(scores, self.constant)
        keep = kept(randomness.inclusion_uniforms(candidates.words), q)
        rows, words = candidates.rows[keep], candidates.words[keep]
        exponent = exponents(q[keep], randomness.rounding_uniforms(words), self.epsilon)
        targets = rows.targets[:, 0] if self.flat_targets else rows.targets
        return Coreset(
            points=rows.points,
            targets=targets if rows.targets.shape[1] else None,
            weights=rows.weights * weights_of(exponent, self.epsilon),
            ids=rows.ids,
        )

    def merge(self, other: Construction) -> Self:
        """Take in all that another construction of the same kind, seed and settings has seen."""
        self._check_mergeable(other)
        if other.shape is None:
            return self
        if self.shape is None:
            self._start(*other.shape)
        mine, theirs = self._with_tail(), other._with_tail()
        self.statistics = mine[0].merged(theirs[0])
        joined = Candidates.joined([mine[1], theirs[1]])
        self.parts, self.tail = [joined[np.argsort(joined.rows.ids, kind="stable")]], []
        self._thin()
        self.intervals = _joined_intervals(self.intervals + other.intervals)
        self.next_id = max(self.next_id, other.next_id)
        self.n_rows += other.n_rows
        self.weight += other.weight
        self.flat_targets = other.flat_targets
        if self.history is not None and other.history is not None:
            self.history = self.history + other.history
        return self

    def forget(self, ids: Any) -> Self:
        """Become what it would be had the rows with these ids never been seen. Needs the history."""
        if self.history is None:
            raise ValueError("forget needs the history: create with keep_history=True.")
        if self.shape is None:
            check_ids(ids, np.empty(0, dtype=np.int64))
            return self
        everything = self._all_rows()
        unwanted = check_ids(ids, everything.ids)
        remaining = everything[~np.isin(everything.ids, unwanted)]
        fresh = self.copy()
        fresh.history, fresh.n_rows, fresh.weight, fresh.tail = [], 0, 0.0, []
        fresh._start(everything.points.shape[1], everything.targets.shape[1])
        fresh._take(remaining)
        self.__dict__.update(fresh.__dict__)
        return self

    # -- for the engine, which has validated already ------------------------------------------------

    def block_rows(self, columns: int) -> int:
        """Rows of a block: about two megabytes, and a number that usual chunk sizes divide."""
        return next((rows for rows in _BLOCK_ROWS if rows * columns <= _BLOCK_ENTRIES), _BLOCK_ROWS[-1])

    def extend(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> None:
        """Add validated rows of positive weight, numbered from ``next_id`` on."""
        if self.shape is None:
            self._start(points.shape[1], targets.shape[1])
        if len(points) == 0:
            return
        start, stop = self.next_id, self.next_id + len(points)
        self._check_ids_left(len(points))
        block = self.block
        inner = range(start + block - start % block, stop, block)
        self._take(Rows(points, targets, weights, np.arange(start, stop)), [cut - start for cut in inner])
        self.next_id = stop
        if self.intervals and self.intervals[-1][1] == start:
            self.intervals[-1] = (self.intervals[-1][0], stop)
        else:
            self.intervals = _joined_intervals([*self.intervals, (start, stop)])

    def seal(self) -> None:
        """Take the unfinished block in as it is, so that statistics and candidates are up to date."""
        if self.tail:
            self._absorb(Rows.concatenate(self.tail))
            self.tail = []

    def settle(self) -> None:
        """Be ready for a refresh: nothing waits, and what it will ask for is at hand."""
        self.seal()
        self.statistics = self.statistics.settled()

    def copy(self) -> Self:
        """An independent copy: all parts are immutable but for the lists."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.tail, twin.parts, twin.intervals = list(self.tail), list(self.parts), list(self.intervals)
        twin.history = None if self.history is None else list(self.history)
        return twin

    # -- inside -----------------------------------------------------------------------------------

    def _check_ids_left(self, n: int) -> None:
        if self.next_id + n - 1 > LARGEST_ID:
            raise ValueError(f"ids beyond {LARGEST_ID} are not possible: first_id is too large for these rows.")

    def _start(self, width: int, n_targets: int) -> None:
        self.statistics, total, dimension = self._begin(width, n_targets)
        self.constant = theory.sampling_constant(self.coreset_size, total, dimension, self.epsilon)
        self.expected_size = self.constant * total
        self.parts = [Candidates(Rows.empty(width, n_targets), np.empty(0, dtype=np.uint64))]
        self.n_unthinned = 0
        self.shape = (width, n_targets)
        self.block = self.block_rows(width + n_targets)

    def _take(self, rows: Rows, inner_cuts: list[int] | None = None) -> None:
        """Add rows in ascending ids: whole id-aligned blocks at once, the rest waits in the tail."""
        block = self.block
        if inner_cuts is None:
            inner_cuts = (np.flatnonzero(np.diff(rows.ids // block)) + 1).tolist()
        cuts = [0, *inner_cuts, len(rows)] if len(rows) else []
        for start, stop in pairwise(cuts):
            piece = rows[start:stop]
            if self.tail and self.tail[-1].ids[-1] // block != piece.ids[0] // block:
                self.seal()
            complete = piece.ids[-1] % block == block - 1
            self.tail.append(piece if complete else _copied(piece))
            if complete:
                self.seal()
        self.n_rows += len(rows)
        self.weight += len(rows) if all_ones(rows.weights) else float(rows.weights.sum())
        if self.history is not None:
            self.history.append(_copied(rows))

    def _absorb(self, rows: Rows) -> None:
        """Add one block: statistics, then the rows that may be in the coreset."""
        self.statistics, bounds = self.statistics.add(rows)
        self.parts.append(self._preselected(rows, bounds))
        self.n_unthinned += len(self.parts[-1].rows)
        if self.n_unthinned > 2 * self.expected_size:
            self._thin()

    def _preselected(self, rows: Rows, bounds: FloatArray) -> Candidates:
        """The rows of a new block that upper bounds of their scores do not rule out."""
        first, last = int(rows.ids[0]), int(rows.ids[-1])
        span = range(first, last + 1) if last - first + 1 == len(rows) else rows.ids
        all_rows = Candidates(rows, randomness.words(self.seed, randomness.SAMPLING, span))
        if self.n_rows <= self.expected_size:
            return Candidates(_copied(rows), all_rows.words)
        bounds *= self.constant * _SAFETY
        few = all_rows.within_mostly(bounds, usual=min(1.0, 4 * self.expected_size / self.n_rows))
        return self._not_ruled_out(self.statistics, few) if self.statistics.has_closer_bounds else few

    def _thin(self) -> None:
        """Drop candidates that present scores rule out, for good since scores never rise."""
        candidates = self._not_ruled_out(self.statistics, self._candidates())
        q = probabilities(self.statistics.scores(candidates.rows), self.constant * _SAFETY)
        self.parts, self.n_unthinned = [candidates.within(q)], 0

    def _not_ruled_out(self, statistics: Statistics, candidates: Candidates) -> Candidates:
        """Without those that cheap bounds rule out, so that fewer scores are computed."""
        return candidates.within(statistics.bounds(candidates.rows) * (self.constant * _SAFETY))

    def _candidates(self) -> Candidates:
        """All candidates in one piece."""
        if len(self.parts) > 1:
            self.parts = [Candidates.joined(self.parts)]
        return self.parts[0]

    def _scored(self) -> tuple[Candidates, FloatArray]:
        """The rows that may be in the coreset, and their scores."""
        statistics, candidates = self._with_tail()
        if len(candidates.rows) > self.expected_size:
            candidates = self._not_ruled_out(statistics, candidates)
        return candidates, statistics.scores(candidates.rows)

    def _with_tail(self) -> tuple[Any, Candidates]:
        """Statistics and candidates with the unfinished block counted in; the state stays as it is."""
        if not self.tail:
            return self.statistics, self._candidates()
        twin = self.copy()
        twin.seal()
        return twin.statistics, twin._candidates()

    def _all_rows(self) -> Rows:
        assert self.history is not None
        if not self.history:
            assert self.shape is not None
            return Rows.empty(*self.shape)
        rows = Rows.concatenate(self.history)
        return rows[np.argsort(rows.ids, kind="stable")]

    def _settings(self) -> dict[str, object]:
        """What two constructions must share to be merged."""
        return {
            "kind": type(self).__name__,
            "epsilon": self.epsilon,
            "coreset_size": self.coreset_size,
            "random_state": self.seed,
            "keep_history": self.history is not None,
        }

    def _check_mergeable(self, other: Construction) -> None:
        if not isinstance(other, Construction):
            raise TypeError(f"Can only merge with another {type(self).__name__}, got {type(other).__name__}.")
        mine, theirs = self._settings(), other._settings()
        for name, value in mine.items():
            if theirs.get(name) != value:
                raise ValueError(f"Can only merge with the same {name}: {value!r} and {theirs.get(name)!r} differ.")
        if self.shape is not None and other.shape is not None and self.shape != other.shape:
            raise ValueError(f"Can only merge rows of the same width: {self.shape} and {other.shape} differ.")
        for start, stop in self.intervals:
            for other_start, other_stop in other.intervals:
                if start < other_stop and other_start < stop:
                    overlap = f"{max(start, other_start)} to {min(stop, other_stop) - 1}"
                    raise ValueError(f"Shards need disjoint ids (first_id): both have seen ids {overlap}.")


def check_ids(ids: Any, known: IntArray) -> IntArray:
    """The ids as an array of integers, all of them known."""
    array = np.atleast_1d(np.asarray(ids))
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"ids must be integers, got an array of {array.dtype} with {array.ndim} dimensions.")
    unknown = array[~np.isin(array, known)]
    if unknown.size:
        raise ValueError(f"Cannot forget ids that were never seen or are forgotten already: {unknown[:5].tolist()}.")
    return array.astype(np.int64)


def _copied(rows: Rows) -> Rows:
    """Rows whose arrays belong to nobody else."""
    return Rows(rows.points.copy(), rows.targets.copy(), rows.weights.copy(), rows.ids.copy())


def _joined_intervals(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Half-open intervals, sorted, neighbours joined."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined
