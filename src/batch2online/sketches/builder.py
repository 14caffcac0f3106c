"""Coresets of rows that are added a chunk at a time: what :mod:`batch2online.coresets` offers besides estimators."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray
from batch2online.decay import ForwardDecay, weighted_history
from batch2online.history import History
from batch2online.numerics.memory import check_available
from batch2online.rows import Intervals, RowBuffer, Rows, check_disjoint, check_ids, check_ids_left, extended, united
from batch2online.schema import above, at_least, at_most, below, require, require_equal, stores
from batch2online.sketches.base import Coreset, Sketch, SketchSettings, check_mergeable, check_same, with_settings
from batch2online.theory import sizes
from batch2online.validation import LARGEST, LARGEST_ID, check_rows, check_targets, check_weights

_STATE = ("sketch", "buffer", "id_ranges", "history")
_NOT_SHARED = ("seed", "next_id", "decay", "history_place")


@stores(
    epsilon=Annotated[float, above(0), below(1)],
    coreset_size=float | str | None,
    seed=Annotated[int, at_least(0), below(2**64)],
    next_id=Annotated[int, at_least(0), at_most(LARGEST_ID)],
    keep_history=bool,
    decay=ForwardDecay | None,
    sketch=Sketch | None,
    buffer=RowBuffer,
    id_ranges=list[tuple[int, int]],
    history=History | None,
)
class CoresetBuilder(ABC):
    """Base of all coresets: a sketch, the rows that are buffered until their block of ids is complete, and a history.

    Parameters
    ----------
    epsilon : float in (0, 1), or "auto"
        Accuracy: sets the default size; the weights are powers of ``1 + epsilon``. "auto" begins at 0.1
        and improves like one over the root of the number of rows, as the coreset grows like the root; for
        :class:`Leverage`, :class:`RidgeLeverage` and :class:`Clustering`.
    coreset_size : int, "theory", "audit" or None
        Expected number of rows; "theory" for the size of the theorems, "audit" for a size that suffices for
        measurements, None for one at which models are as accurate as ``epsilon``.
    random_state : None, int or generator
        The seed. Shards that are to be merged must share it.
    first_id : int
        Id of the first row; rows are numbered from there. Shards need disjoint ids.
    keep_history : bool
        Keep all rows, which ``forget`` needs.
    half_life : int or None
        Rows after which a row counts half as much: its weight is multiplied by ``2 ** (id / half_life)``.
    """

    advice: ClassVar[str] = "Use fewer columns."
    """What to do where statistics would not fit into memory."""

    can_adapt: ClassVar[bool] = False
    """Whether ``epsilon="auto"`` is implemented."""

    _sketch: Any = None
    _buffer = RowBuffer(0, 0)
    _history: History | None = None
    _id_ranges: Intervals = []  # noqa: RUF012  # never changed in place

    def __init__(
        self,
        *,
        epsilon: float | str = 0.1,
        coreset_size: int | str | None = None,
        random_state: object = None,
        first_id: int = 0,
        keep_history: bool = False,
        half_life: int | None = None,
    ) -> None:
        if coreset_size == "auto":
            raise ValueError('coreset_size="auto" is written epsilon="auto".')
        if epsilon == "auto":
            epsilon, coreset_size = sizes.ADAPTIVE_EPSILON, self._adaptive_size(coreset_size)
        if not isinstance(epsilon, float | int | np.number) or not 0 < epsilon < 1:
            raise ValueError(f"epsilon must be between 0 and 1, got {epsilon!r}.")
        if not isinstance(first_id, int | np.integer) or not 0 <= first_id <= LARGEST_ID:
            raise ValueError(f"first_id must be between 0 and {LARGEST_ID}, got {first_id!r}.")
        self.epsilon = float(epsilon)
        self.coreset_size = coreset_size.item() if isinstance(coreset_size, np.generic) else coreset_size
        self.seed = sampling.seed_from(random_state)
        self.next_id = int(first_id)
        self.keep_history = bool(keep_history)
        self.decay = ForwardDecay.of(half_life)

    def _adaptive_size(self, coreset_size: object) -> str:
        """Return the size of a coreset that grows with the rows, unless another was asked for or it cannot grow."""
        if not self.can_adapt:
            name = type(self).__name__
            raise ValueError(f'epsilon="auto" is for Leverage, RidgeLeverage and Clustering, not for {name}.')
        if coreset_size is not None:
            raise ValueError(f'epsilon="auto" sets the size: leave out coreset_size, got {coreset_size!r}.')
        return "auto"

    # -- to be implemented ------------------------------------------------------------------------------

    @abstractmethod
    def _new_sketch(self, settings: SketchSettings) -> Sketch:
        """Return an empty sketch."""

    def _statistics_size(self, width: int, n_targets: int) -> float:
        """Return the maximum number of values that statistics of rows of this shape hold, including those of a refit.

        Factors were measured. Rows are not counted.
        """
        return 0.0

    def _new_history(self, block: int, width: int, n_targets: int) -> History:
        return History(block, width, n_targets)

    @property
    def largest(self) -> float:
        """Largest magnitude of a value that can be worked with."""
        return LARGEST

    # -- for streams ------------------------------------------------------------------------------------

    def new_sketch(self, width: int, n_targets: int) -> Sketch:
        """Return an empty sketch of rows of this shape, unless its statistics would not fit into memory."""
        numbers = self._statistics_size(width, n_targets)
        check_statistics_fit(f"{type(self).__name__} of rows of {width:,} columns", numbers, self.advice)
        return self._new_sketch(SketchSettings(self.epsilon, self.coreset_size, self.seed, (width, n_targets)))

    def new_history(self, block: int, width: int, n_targets: int) -> History | None:
        """Return an empty history where rows are kept."""
        return self._new_history(block, width, n_targets) if self.keep_history else None

    # -- public -----------------------------------------------------------------------------------------

    @property
    def sketch(self) -> Any:
        """The sketch of all rows added, None before the first."""
        return self._flushed()._sketch

    @property
    def history(self) -> History | None:
        """All rows added, where they are kept."""
        return self._flushed()._history

    @property
    def n_rows(self) -> int:
        """Rows added up to the last complete block of ids."""
        return 0 if self._sketch is None else int(self._sketch.totals.n_rows)

    def add(self, rows: Any, targets: Any = None, weights: Any = None) -> Self:
        """Add rows (n, d); an error leaves everything as it was.

        Parameters
        ----------
        rows : array-like of shape (n, d)
            Finite numbers.
        targets : array-like of shape (n,) or (n, n_targets), optional
            What belongs to the rows and may enter their scores.
        weights : array-like of shape (n,), optional
            Weights of the rows; a row of weight zero is ignored.
        """
        shape = None if self._sketch is None else self._sketch.settings.shape
        points = check_rows(rows, width=None if shape is None else shape[0], largest=self.largest)
        values = check_targets(targets, len(points))
        if shape is not None and values.shape[1] != shape[1]:
            raise ValueError("targets must have the same columns in every call.")
        weight = check_weights(weights, points, values)
        check_ids_left(self.next_id + len(self._buffer), len(points))
        positive = weight > 0
        if not positive.all():
            points, values, weight = points[positive], values[positive], weight[positive]
        draft = copy.copy(self)
        if shape is None:
            draft._begin(points.shape[1], values.shape[1])
        is_flat = targets is not None and np.ndim(targets) == 1
        draft._sketch = with_settings(draft._sketch, flat_targets=is_flat)
        draft._feed((points, values, weight))
        return self._become(draft)

    def coreset(self) -> Coreset:
        """Return the coreset of the rows added so far, a function of them and the seed."""
        self._check_started()
        now = self._flushed()
        coreset: Coreset = now._sketch.coreset(now._weighted_history)
        return coreset

    def merge(self, other: CoresetBuilder) -> Self:
        """Add all rows of another builder of the same kind, seed and settings."""
        if not isinstance(other, CoresetBuilder):
            raise TypeError(f"Can only merge with another {type(self).__name__}, got {type(other).__name__}.")
        theirs, draft = other._flushed(), copy.copy(self)
        draft._flush()
        draft._check_mergeable(theirs)
        if theirs._sketch is not None:
            draft._merge(theirs)
        return self._become(draft)._tidy()

    def forget(self, ids: Any) -> Self:
        """Forget the rows with these ids, as if they had never been added. Needs the history."""
        now = self._flushed()
        if not self.keep_history:
            raise ValueError(f"forget needs the history: create with {self._history_parameter}.")
        known = np.empty(0, np.int64) if now._history is None else now._history.ids()
        unwanted = check_ids(ids, known)
        if now._history is None:
            return self
        draft = copy.copy(now)
        draft._sketch, draft._history = now._sketch.empty(), now._history.emptied()
        draft.decay = None if now.decay is None else ForwardDecay(now.decay.half_life)
        for rows in now._history:
            kept = rows[~np.isin(rows.ids, unwanted)]
            if len(kept):
                draft._learn(kept)
        return self._become(draft)._tidy()

    def sensitivity(self, n: int) -> float:
        """Return a bound of the average sensitivity of the coreset of n rows; 1 where none is proved."""
        return 1.0 if self._sketch is None else float(self._flushed()._sketch.sensitivity(n))

    def scores_of_all(self) -> FloatArray:
        """Return the scores of all rows added, by id; needs the history."""
        now = self._flushed()
        assert now._history is not None
        scores: FloatArray = now._sketch.scores(now._weighted_history.everything())
        return scores

    # -- inside -----------------------------------------------------------------------------------------

    _history_parameter = "keep_history=True"

    def _check_started(self) -> None:
        if self._sketch is None:
            raise ValueError("No rows have been added yet.")

    @property
    def _weighted_history(self) -> Any:
        return weighted_history(self._history, self.decay)

    def _begin(self, width: int, n_targets: int) -> None:
        self._sketch = self.new_sketch(width, n_targets)
        block = self._sketch.settings.block
        self._history, self._buffer = self.new_history(block, width, n_targets), RowBuffer(width, n_targets, block)

    def _feed(self, given: tuple[FloatArray, FloatArray, FloatArray]) -> None:
        """Add validated rows to the sketch, a block of ids at a time; the rest is buffered."""
        while len(given[0]):
            rows, self._buffer, given = self._buffer.fill(given, self._rows_to_cut(), self.next_id)
            if rows is not None:
                self._learn(rows)

    def _rows_to_cut(self) -> int:
        block = self._sketch.settings.block
        to_end = int(block - self.next_id % block)
        return to_end if self.decay is None else min(to_end, self.decay.rows_to_cut(self.next_id))

    def _learn(self, rows: Rows) -> None:
        """Add rows of one block to the sketch and the history."""
        self._advance(int(rows.ids[0]))
        if self._history is not None:
            self._history = self._history.append(rows)
        self._sketch = self._sketch.update(rows if self.decay is None else self.decay.weighted(rows))
        stop = int(rows.ids[-1]) + 1
        if stop > self.next_id:
            self._id_ranges, self.next_id = extended(self._id_ranges, self.next_id, stop), stop

    def _advance(self, at: int) -> None:
        if self.decay is not None:
            self.decay, factor = self.decay.moved_to(at)
            self._sketch = self._sketch if factor == 1 else self._sketch.scale(factor)

    def _flush(self) -> None:
        if len(self._buffer):
            rows, self._buffer = self._buffer.rows(self.next_id), self._buffer.cleared()
            self._learn(rows)

    def _flushed(self) -> Self:
        """Return the same with nothing buffered: itself, or a copy of which nothing reaches a disk."""
        if not len(self._buffer):
            return self
        twin = copy.copy(self)
        twin._history = None if self._history is None else self._history.for_reading()
        twin._flush()
        return twin

    def _check_mergeable(self, other: CoresetBuilder) -> None:
        theirs = other._settings()
        for name, value in self._settings().items():
            check_same(name, value, theirs.get(name))
        if self._sketch is not None and other._sketch is not None:
            check_mergeable(self._sketch, other._sketch)
        check_disjoint(self._id_ranges, other._id_ranges)

    def _settings(self) -> dict[str, object]:
        """Return what two builders must share to be merged."""
        own = {
            name: value for name, value in vars(self).items() if not name.startswith("_") and name not in _NOT_SHARED
        }
        half_life = None if self.decay is None else self.decay.half_life
        return {"kind": type(self).__name__, **own, "random_state": self.seed, "half_life": half_life}

    def _merge(self, other: CoresetBuilder) -> None:
        theirs, settings = copy.copy(other), other._sketch.settings
        if self._sketch is None:
            self._begin(*settings.shape)
        if self.decay is not None and theirs.decay is not None:
            latest = max(self.decay.reference, theirs.decay.reference)
            self._advance(latest)
            theirs._advance(latest)
        merged = self._sketch.merge(theirs._sketch)
        self._sketch = with_settings(merged, flat_targets=settings.flat_targets)
        self._id_ranges = united(self._id_ranges, theirs._id_ranges)
        self.next_id = max(self.next_id, theirs.next_id)
        if self._history is not None and theirs._history is not None:
            self._history = self._history.merged(theirs._history)

    def _become(self, draft: Self) -> Self:
        """Replace the state as a whole, in one step."""
        self.__dict__.update(draft.__dict__)
        return self

    def _tidy(self) -> Self:
        """Remove from disk what merging or forgetting has left behind."""
        if self._history is not None:
            self._history.tidy()
        return self

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds."""
        state = {name: getattr(self, f"_{name}") for name in _STATE}
        return {name: value for name, value in vars(self).items() if not name.startswith("_")} | state

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Return the builder that :meth:`stored_fields` describes."""
        builder = object.__new__(cls)
        vars(builder).update({f"_{name}" if name in _STATE else name: value for name, value in fields.items()})
        return builder

    def validate(self) -> None:
        """Require a buffer and a history as wide as the rows of the sketch."""
        if self._sketch is None:
            require(not len(self._buffer) and self._history is None, "sketch: found none beside rows")
            return
        require(isinstance(self._sketch, Sketch), f"sketch: found a {type(self._sketch).__name__}")
        settings, buffer = self._sketch.settings, self._buffer
        shape = buffer.width, buffer.columns - buffer.width
        require_equal("shape and block of the buffer", (shape, buffer.block), (settings.shape, settings.block))
        require_equal("whether there is a history", self._history is not None, self.keep_history)
        if self._history is not None:
            require_equal("rows of the history", len(self._history), self._sketch.totals.n_rows)

    def copy(self) -> Self:
        """Return an independent copy: what is added to one is not in the other."""
        return copy.copy(self)

    def __copy__(self) -> Self:
        """Return a copy with a buffer of its own; all else is immutable."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), _buffer=self._buffer.copy())
        return twin


def check_statistics_fit(what: str, numbers: float, advice: str) -> None:
    """Refuse a sketch whose statistics, of so many numbers, would take more memory than there is."""
    check_available(8 * numbers, f"The statistics of coresets.{what}, with what a refit takes,", advice)
