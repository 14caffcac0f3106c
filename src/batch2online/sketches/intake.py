"""Rows on their way into a construction: numbered, queued until their block is complete, kept in a history.

Rows are taken in blocks aligned to their ids, so that nothing depends on the sizes of the chunks in which they came, to
the last bit. The buffer is the only place where they wait.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from batch2online._types import FloatArray
from batch2online.decay import DecayedHistory, ForwardDecay
from batch2online.history import History
from batch2online.numerics.memory import check_available
from batch2online.rows import Intervals, RowBuffer, Rows, all_ones, block_rows, extended
from batch2online.validation import LARGEST_ID

_NO_HISTORY = "Keep no history, or one on disk where an estimator offers it (history=)."
_SMALLER = "Give a smaller coreset_size, or use fewer columns."


class Intake(ABC):
    """What the engine drives. It has validated the rows, and works on a copy that it keeps only if all went well."""

    next_id: int
    """The id of the first row that waits, or that will come."""

    intervals: Intervals
    n_rows: int
    weight: float
    typical_weight: float
    """Mean weight of a row, each counted by its weight."""

    shape: tuple[int, int] | None
    block: int
    keep_history: bool
    history: History | None
    flat_targets: bool
    buffer: RowBuffer
    decay: ForwardDecay | None
    expected_size: float

    @abstractmethod
    def _begin(self, width: int, n_targets: int) -> None:
        """Be ready for rows of this shape, as if none had come yet."""

    @abstractmethod
    def _absorb(self, rows: Rows) -> None:
        """Take in rows of one block, in ascending ids; ``rows`` may be a view of a caller's array."""

    @abstractmethod
    def _rescale(self, factor: float) -> None:
        """Multiply the weights of all rows so far by a power of 4; exact, and scores stay what they are."""

    def begin(self, width: int, n_targets: int, flat_targets: bool = False) -> None:
        """Be ready for the first rows, which have this shape, unless their statistics would not fit into memory."""
        self.check_statistics_fit(width, self.statistics_size(width, n_targets))
        self.shape = (width, n_targets)
        self.block, self.flat_targets = block_rows(width + n_targets), flat_targets
        if self.keep_history:
            self.history = self._new_history(width, n_targets)
        self.buffer = RowBuffer(width, n_targets, self.block)
        self._begin(width, n_targets)

    advice: ClassVar[str] = "Use fewer columns."
    """What to do where statistics would not fit into memory."""

    def statistics_size(self, width: int, n_targets: int) -> float:
        """Return how many numbers statistics of rows of this shape hold at most, with what a refit takes beside them.

        Factors were measured. Rows are not counted here, see :meth:`check_rows_fit`.
        """
        return 0.0

    def check_statistics_fit(self, width: int, numbers: float, more: str = "") -> None:
        """Refuse rows whose statistics would take more memory than there is."""
        what = f"{type(self).__name__} of rows of {width:,} columns{more}"
        check_available(8 * numbers, f"The statistics of coresets.{what}, with what a refit takes,", self.advice)

    def check_rows_fit(self, n: int) -> None:
        """Refuse so many further rows if those that would be kept of them take more memory than there is."""
        assert self.shape is not None
        keeps_all = self.history is not None and self.history.is_in_memory
        some = n if keeps_all else min(n, max(0.0, 2 * self.expected_rows - self.n_rows))
        what = f"{'The history' if keeps_all else 'A coreset'} of {some:,.0f} more rows of {self.shape[0]:,} columns"
        check_available(8 * some * self._numbers_of_row, what, _NO_HISTORY if keeps_all else _SMALLER)

    @property
    def expected_rows(self) -> float:
        """Rows that the coreset is expected to hold, at most; up to twice as many are held while rows come."""
        return self.expected_size

    @property
    def _numbers_of_row(self) -> int:
        """Numbers that are kept with a row: its values and targets, weight, id, random draw and limit."""
        assert self.shape is not None
        return sum(self.shape) + 4

    def rows_to_block_end(self) -> int:
        """Return how many rows, those that wait among them, complete the block of ids."""
        to_end = self.block - self.next_id % self.block
        return to_end if self.decay is None else min(to_end, self.decay.rows_to_cut(self.next_id))

    def check_ids_left(self, n: int) -> None:
        """Refuse rows that would need ids beyond the largest one."""
        if self.next_id + len(self.buffer) + n - 1 > LARGEST_ID:
            raise ValueError(f"ids beyond {LARGEST_ID} are not possible: first_id is too large for these rows.")

    def feed(
        self,
        points: FloatArray,
        targets: FloatArray,
        weights: FloatArray,
        room: Callable[[], int],
        process: Callable[..., None],
    ) -> None:
        """Pass rows on to ``process`` whenever as many as ``room`` says are there; the rest waits in the buffer."""
        start = 0
        while start < len(points):
            waiting, most = len(self.buffer), room()
            piece = slice(start, min(start + most - waiting, len(points)))
            given = points[piece], targets[piece], weights[piece]
            is_complete = waiting + piece.stop - start == most
            start = piece.stop
            if is_complete and not waiting:
                process(Rows(*given, np.arange(self.next_id, self.next_id + len(given[0]))))
                continue
            self.buffer = self.buffer.append(*given)
            if is_complete:
                self.flush(process)

    def flush(self, process: Callable[..., None] | None = None) -> None:
        """Pass on what waits, whether its block is complete or not."""
        if len(self.buffer):
            rows, self.buffer = self.buffer.rows(self.next_id), self.buffer.cleared()
            (self.absorb if process is None else process)(rows)

    def absorb(self, rows: Rows) -> None:
        """Take in rows of one block: those that follow, or some that are learned again."""
        self.take(rows)
        stop = int(rows.ids[-1]) + 1
        if stop > self.next_id:
            self.intervals, self.next_id = extended(self.intervals, self.next_id, stop), stop

    def caught_up(self) -> Self:
        """Return the same with nothing waiting: itself, or a copy."""
        if not len(self.buffer):
            return self
        twin = self.for_reading()
        twin.flush()
        return twin

    def for_reading(self) -> Self:
        """Return a copy to look at with the rows that wait: none of them is written anywhere."""
        twin = self.copy()
        twin.history = None if self.history is None else self.history.for_reading()
        return twin

    def tidy(self) -> None:
        """Remove from disk what merging or forgetting has left behind."""
        if self.history is not None:
            self.history.tidy()

    def copy(self) -> Self:
        """Return an independent copy; what both refer to is never written to."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.buffer = self.buffer.copy()
        twin.history = None if self.history is None else self.history.copy()
        return twin

    @property
    def effective_rows(self) -> float:
        """Rows of equal weight that say as much as those seen: squared sum of weights over the sum of squares."""
        return self.weight / self.typical_weight

    def weigh(self, weight: float, typical: float) -> None:
        """Count rows of this weight in total, and of this typical weight."""
        total = self.weight + weight
        if not self.weight or typical == self.typical_weight:
            self.typical_weight = typical
        else:
            self.typical_weight += (typical - self.typical_weight) * (weight / total)
        self.weight = total

    # -- inside -----------------------------------------------------------------------------------

    def take(self, rows: Rows) -> None:
        """Take in rows of one block, whatever ids come next."""
        self.n_rows += len(rows)
        if self.history is not None:
            self.history.append(rows)
        self.advance(int(rows.ids[0]))
        rows = self.weighted(rows)
        self.weigh(*weight_and_typical(rows))
        self._absorb(rows)

    def weighted(self, rows: Rows) -> Rows:
        """Return rows with the weights that they have here: those given, or less the older they are."""
        return rows if self.decay is None else self.decay.weighted(rows)

    def advance(self, at: int) -> float:
        """Weigh rows relative to those near this id from now on; return the factor for all weights until now."""
        if self.decay is None:
            return 1.0
        self.decay, factor = self.decay.moved_to(at)
        if factor != 1:
            self.rescale(factor)
        return factor

    @property
    def newest_weight(self) -> float:
        """What the last row weighs, if it was given a weight of one."""
        return 1.0 if self.decay is None else float(self.decay.factors(np.array([self.next_id - 1]))[0])

    def rescale(self, factor: float) -> None:
        """Multiply the weights of all rows so far by a power of 4."""
        self.weight *= factor
        self.typical_weight *= factor
        self._rescale(factor)

    @property
    def past(self) -> History | DecayedHistory | None:
        """The rows that are kept, with the weights that they have here."""
        if self.history is None or self.decay is None:
            return self.history
        return DecayedHistory(self.history, self.decay)

    def _new_history(self, width: int, n_targets: int) -> History:
        return History(self.block, width, n_targets)

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Return the construction with these attributes; in files of schema 1 rows of a block wait in a tail."""
        tail = fields.pop("tail", [])
        fields.setdefault("decay", None)
        fields.setdefault("typical_weight", fields["weight"] / fields["n_rows"] if fields["n_rows"] else 1.0)
        construction = object.__new__(cls)
        vars(construction).update(fields)
        shape = construction.shape or (0, 0)
        buffer: RowBuffer = fields.get("buffer") or RowBuffer(*shape, construction.block)
        construction.buffer = buffer
        if tail:
            construction._absorb(Rows.concatenate(tail))
        return construction


def weight_and_typical(rows: Rows) -> tuple[float, float]:
    """Return the total weight of rows, and the mean of their weights, each counted by its weight."""
    if all_ones(rows.weights):
        return float(len(rows)), 1.0
    weights, largest = rows.weights, float(rows.weights.max())
    share = weights / largest  # squares of weights may be too large
    return float(weights.sum()), largest * float((share @ share) / share.sum())
