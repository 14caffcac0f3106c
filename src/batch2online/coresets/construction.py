"""What all coreset constructions share: ids, blocks, checks, history.

Rows are numbered as they come and taken in blocks aligned to their ids, so that nothing depends on the sizes
of the chunks in which they came, to the last bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, Self

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.core import randomness
from batch2online.core.coreset import Coreset
from batch2online.core.history import History
from batch2online.core.rows import PIECE_ENTRIES, Rows, all_ones
from batch2online.core.validation import LARGEST, LARGEST_ID, check_rows, check_targets, check_weights

_BLOCK_ROWS = (10_000, 5_000, 2_000, 1_000)


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
        self.n_rows = 0
        self.weight = 0.0
        self.shape: tuple[int, int] | None = None
        self.block = 0
        self.keep_history = bool(keep_history)
        self.history: History | None = None
        self.flat_targets = False

    @property
    def largest(self) -> float:
        """Largest magnitude of a value that can be worked with."""
        return LARGEST

    # -- to be supplied ---------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, width: int, n_targets: int) -> None:
        """Be ready for rows of this shape, as if none had come yet."""

    @abstractmethod
    def _add_piece(self, rows: Rows) -> None:
        """Take in rows of one block, in ascending ids; ``rows`` may be a view of a caller's array."""

    @abstractmethod
    def coreset(self) -> Coreset:
        """The coreset of the rows seen so far, a pure function of them and the seed."""

    @abstractmethod
    def _merge(self, other: Any) -> None:
        """Take in what another construction of the same settings has seen."""

    @abstractmethod
    def seal(self) -> None:
        """Take in what waits for its block to be complete."""

    @abstractmethod
    def settle(self) -> None:
        """Be ready for a refresh: nothing waits, and what it will ask for is at hand."""

    def sensitivity(self, n: int) -> float:
        """A bound of the average sensitivity of the coreset of n rows; 1 where none is proved."""
        return 1.0

    # -- public -----------------------------------------------------------------------------------

    def add(self, rows: Any, targets: Any = None, weights: Any = None) -> Self:
        """Add rows (n, d), with targets (n,) or (n, k) where the construction scores them."""
        points = check_rows(rows, width=None if self.shape is None else self.shape[0], largest=self.largest)
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

    def merge(self, other: Construction) -> Self:
        """Take in all that another construction of the same kind, seed and settings has seen."""
        self._join(other)
        self.clean_up()
        return self

    def _join(self, other: Construction) -> None:
        self._check_mergeable(other)
        if other.shape is None:
            return
        if self.shape is None:
            self._start(*other.shape)
        self._merge(other)
        self.intervals = _joined_intervals(self.intervals + other.intervals)
        self.next_id = max(self.next_id, other.next_id)
        self.n_rows += other.n_rows
        self.weight += other.weight
        self.flat_targets = other.flat_targets
        if self.history is not None and other.history is not None:
            self.history = self.history.merged(other.history)

    def forget(self, ids: Any) -> Self:
        """Become what it would be had the rows with these ids never been seen. Needs the history."""
        self._forget(ids)
        self.clean_up()
        return self

    def _forget(self, ids: Any) -> None:
        if not self.keep_history:
            raise ValueError("forget needs the history: create with keep_history=True.")
        if self.shape is None or self.history is None:
            check_ids(ids, np.empty(0, dtype=np.int64))
            return
        unwanted = check_ids(ids, self.history.ids())
        fresh = self.copy()
        fresh.n_rows, fresh.weight, fresh.history = 0, 0.0, self.history.emptied()
        fresh._begin(*self.shape)
        for rows in self.history:
            fresh._take(rows[~np.isin(rows.ids, unwanted)])
        self.__dict__.update(fresh.__dict__)

    def discard(self) -> None:
        """Remove all that is on disk."""
        if self.history is not None:
            self.history.discard()

    def clean_up(self) -> None:
        """Remove what forgetting or merging has left behind on disk, once it has succeeded."""
        if self.history is not None:
            self.history.clean_up()

    # -- for the engine, which has validated already ------------------------------------------------

    def block_rows(self, columns: int) -> int:
        """Rows of a block: about two megabytes, and a number that usual chunk sizes divide."""
        return next((rows for rows in _BLOCK_ROWS if rows * columns <= PIECE_ENTRIES), _BLOCK_ROWS[-1])

    def extend(self, points: FloatArray, targets: FloatArray, weights: FloatArray, owned: bool = False) -> None:
        """Add validated rows of positive weight, numbered from ``next_id`` on; ``owned`` ones may be kept uncopied."""
        if self.shape is None:
            self._start(points.shape[1], targets.shape[1])
        if len(points) == 0:
            return
        start, stop = self.next_id, self.next_id + len(points)
        self._check_ids_left(len(points))
        block = self.block
        inner = range(start + block - start % block, stop, block)
        self._take(Rows(points, targets, weights, np.arange(start, stop)), [cut - start for cut in inner], owned)
        self.next_id = stop
        if self.intervals and self.intervals[-1][1] == start:
            self.intervals[-1] = (self.intervals[-1][0], stop)
        else:
            self.intervals = _joined_intervals([*self.intervals, (start, stop)])

    def copy(self) -> Self:
        """An independent copy."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.intervals = list(self.intervals)
        twin.history = None if self.history is None else self.history.copy()
        return twin

    # -- inside -----------------------------------------------------------------------------------

    def _start(self, width: int, n_targets: int) -> None:
        self.shape = (width, n_targets)
        self.block = self.block_rows(width + n_targets)
        if self.keep_history:
            self.history = self._new_history(width, n_targets)
        self._begin(width, n_targets)

    def _new_history(self, width: int, n_targets: int) -> History:
        return History(self.block, width, n_targets)

    def _check_ids_left(self, n: int) -> None:
        if self.next_id + n - 1 > LARGEST_ID:
            raise ValueError(f"ids beyond {LARGEST_ID} are not possible: first_id is too large for these rows.")

    def _take(self, rows: Rows, inner_cuts: list[int] | None = None, owned: bool = False) -> None:
        """Add rows in ascending ids, cut at the ends of blocks."""
        if inner_cuts is None:
            inner_cuts = (np.flatnonzero(np.diff(rows.ids // self.block)) + 1).tolist()
        for start, stop in pairwise([0, *inner_cuts, len(rows)] if len(rows) else []):
            piece = rows[start:stop]
            self.n_rows += len(piece)
            self.weight += len(piece) if all_ones(piece.weights) else float(piece.weights.sum())
            if self.history is not None:
                self.history.append(piece, owned)
            self._add_piece(piece)

    def _settings(self) -> dict[str, object]:
        """What two constructions must share to be merged."""
        return {
            "kind": type(self).__name__,
            "epsilon": self.epsilon,
            "coreset_size": self.coreset_size,
            "random_state": self.seed,
            "keep_history": self.keep_history,
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


def _joined_intervals(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Half-open intervals, sorted, neighbours joined."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined
