"""A coreset: a weighted subset of the rows seen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray, IntArray
from batch2online.decay import ForwardDecay
from batch2online.history import History, HistoryPlace
from batch2online.rows import Intervals, RowBuffer, block_rows, check_disjoint, check_ids, check_width, united
from batch2online.schema import Count, above, at_least, at_most, below, finite, require, require_equal, stores
from batch2online.sketches.intake import Intake
from batch2online.validation import LARGEST, LARGEST_ID, check_rows, check_targets, check_weights


@dataclass(frozen=True, eq=False)
class Coreset:
    """A weighted subset of the rows seen: immutable, sorted by id.

    Attributes
    ----------
    points : (m, d) array; for rows of another kind, a table or list of that kind
    targets : (m,) or (m, n_targets) array, or None for problems without targets
    weights : (m,) array, sampling weight times ``sample_weight``
    ids : (m,) array of the points' ids
    columns : names of the columns, or None where they have none
    """

    points: FloatArray
    targets: FloatArray | None
    weights: FloatArray
    ids: IntArray
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for array in (self.points, self.targets, self.weights, self.ids):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """Two coresets are the same when they hold the same points with the same weights."""
        if not isinstance(other, Coreset):
            return NotImplemented
        return np.array_equal(self.ids, other.ids) and np.array_equal(self.weights, other.weights)

    __hash__ = None  # type: ignore[assignment]  # arrays have no cheap hash

    def __repr__(self) -> str:
        width = getattr(self.points, "shape", (0, 1))[1:] or (1,)
        return f"Coreset({len(self)} points of {width[0]} columns, total weight {self.weights.sum():g})"

    def to_frame(self) -> Any:
        """Return the coreset as a pandas DataFrame: columns, targets and ``weight``, indexed by ``id``.

        Columns without names are ``x0``, ``x1``, ...; a name that is taken gets an underscore.

        >>> Coreset(np.eye(2), np.array([5.0, 6.0]), np.array([1.0, 3.5]), np.array([4, 7])).to_frame().loc[7].to_dict()
        {'x0': 0.0, 'x1': 1.0, 'target': 6.0, 'weight': 3.5}
        """
        import pandas as pd

        points = self.points.to_pandas() if hasattr(self.points, "to_pandas") else self.points
        frame = pd.DataFrame(points) if isinstance(points, list) else pd.DataFrame(points, copy=True)
        if isinstance(points, np.ndarray):
            frame.columns = pd.Index(self._names())
        frame.index = pd.Index(self.ids, name="id")
        for name, values in [*self._named_targets(), ("weight", self.weights)]:
            frame[_free(name, frame.columns)] = values
        return frame

    def _names(self) -> list[str]:
        return list(self.columns or (f"x{number}" for number in range(self.points.shape[1])))

    def _named_targets(self) -> list[tuple[str, Any]]:
        if self.targets is None:
            return []
        if self.targets.ndim == 1:
            return [("target", self.targets)]
        return [(f"target{number}", column) for number, column in enumerate(self.targets.T)]


def _free(name: str, taken: Any) -> str:
    return _free(f"{name}_", taken) if name in taken else name


@stores(
    epsilon=Annotated[float, above(0), below(1)],
    coreset_size=float | str | None,
    seed=Annotated[int, at_least(0), below(2**64)],
    next_id=Annotated[int, at_most(LARGEST_ID + 1)],
    intervals=list[tuple[int, int]],
    n_rows=Count,
    weight=Annotated[float, at_least(0)],
    typical_weight=Annotated[float, above(0), finite],
    shape=tuple[int, int] | None,
    block=int,
    keep_history=bool,
    history=History | HistoryPlace | None,
    flat_targets=bool,
    decay=ForwardDecay | None,
    buffer=RowBuffer,
)
class Construction(Intake):
    """Base of all constructions.

    Parameters
    ----------
    epsilon : float in (0, 1)
        Accuracy: sets the default size and the grid of powers of ``1 + epsilon`` for the weights.
    coreset_size : int, "theory", "audit" or None
        Expected number of points, the size that the theory asks for, or a size measured to be enough: to measure with,
        or for models as accurate as ``epsilon`` says.
    random_state : None, int or generator
        The seed. Shards that are to be merged must share it.
    first_id : int
        Id of the first row; rows are numbered from there. Shards need disjoint ids.
    keep_history : bool
        Keep all rows, which ``forget`` needs.
    half_life : int or None
        Rows after which a row counts half as much: its weight is multiplied by ``2 ** (id / half_life)``.
    """

    def __init__(
        self,
        *,
        epsilon: float = 0.1,
        coreset_size: int | str | None = None,
        random_state: object = None,
        first_id: int = 0,
        keep_history: bool = False,
        half_life: int | None = None,
    ) -> None:
        if not isinstance(epsilon, float | int | np.number) or not 0 < epsilon < 1:
            raise ValueError(f"epsilon must be between 0 and 1, got {epsilon!r}.")
        if not isinstance(first_id, int | np.integer) or not 0 <= first_id <= LARGEST_ID:
            raise ValueError(f"first_id must be between 0 and {LARGEST_ID}, got {first_id!r}.")
        self.epsilon = float(epsilon)
        self.decay = ForwardDecay.of(half_life)
        self.coreset_size = coreset_size.item() if isinstance(coreset_size, np.generic) else coreset_size
        self.seed = sampling.seed_from(random_state)
        self.next_id = int(first_id)
        self.intervals: Intervals = []
        self.n_rows = 0
        self.weight = 0.0
        self.typical_weight = 1.0
        self.shape: tuple[int, int] | None = None
        self.block = 0
        self.keep_history = bool(keep_history)
        self.history: History | None = None
        self.flat_targets = False
        self.buffer = RowBuffer(0, 0)

    _numbers_rows: ClassVar[bool] = True
    """Whether ids, blocks and the history are its own, not those of the construction that it belongs to."""

    def validate(self) -> None:
        """Require ids that ascend, and a buffer and a history as wide as the rows."""
        ends = list(chain.from_iterable(self.intervals))
        is_ascending = all(one < other for one, other in pairwise(ends))
        require(is_ascending and min(ends, default=0) >= 0, f"intervals: found {self.intervals[:5]}, not ascending")
        require(max(ends, default=0) <= self.next_id, f"intervals: found id {max(ends, default=0)}, not {self.next_id}")
        if self.shape is None:
            is_empty = not self.n_rows and self.history is None
            require(is_empty, f"shape: found none for {self.n_rows} rows")
            return
        width, n_targets = self.shape
        require(width >= 1 and n_targets >= 0 < self.block, f"shape: found {self.shape} in blocks of {self.block}")
        require(n_targets == 1 or not self.flat_targets, f"flat_targets: found {n_targets} targets")
        require_equal("columns of the buffer", (self.buffer.width, self.buffer.columns), (width, width + n_targets))
        check_width([self.buffer.rows(0)], width, n_targets, self.largest)
        if self._numbers_rows:
            self._validate_numbers(width, n_targets)

    def _validate_numbers(self, width: int, n_targets: int) -> None:
        require_equal("block", self.block, block_rows(width + n_targets))
        seen, history = sum(stop - start for start, stop in self.intervals), self.history
        require(self.n_rows <= seen, f"n_rows: found {self.n_rows}, expected at most {seen} ids")
        require_equal("whether there is a history", history is not None, self.keep_history)
        if history is None:
            return
        shape = (history.block, history.width, history.n_targets)
        require_equal("shape of the history", shape, (self.block, width, n_targets))
        stored: Any = history
        require_equal("rows", stored.rows if isinstance(stored, HistoryPlace) else len(history), self.n_rows)
        if not isinstance(stored, HistoryPlace):
            check_width(history, width, n_targets, self.largest)
            last = max((int(rows.ids[-1]) for rows in history), default=-1)
            require(last < self.next_id, f"history: found id {last}, expected less than {self.next_id}")

    @property
    def takes_any_rows(self) -> bool:
        """Whether rows may hold what stands for texts and gaps: scores read none, or know which columns to read."""
        return False

    @property
    def largest(self) -> float:
        """Largest magnitude of a value that can be worked with."""
        return LARGEST

    # -- to be supplied ---------------------------------------------------------------------------

    @abstractmethod
    def _coreset(self) -> Coreset:
        """Return the coreset of the rows absorbed so far, a pure function of them and the seed."""

    @abstractmethod
    def _merge(self, other: Any) -> None:
        """Take in what another construction of the same settings has seen; nothing waits in either."""

    @abstractmethod
    def settle(self) -> None:
        """Be ready for a refresh: what it will ask for is at hand."""

    def settle_on_schedule(self) -> None:
        """Be ready for a look that was due, which may take a shorter way than other refreshes."""
        self.settle()

    @property
    def can_grow(self) -> bool:
        """Whether the coreset may become larger than it was to be at first."""
        return False

    def grow(self) -> None:
        """Double the size of the coreset, as far as is allowed."""

    wants_sizes: ClassVar[bool] = False
    """Whether rows are scored by the model in force, from the sizes of their gradients."""

    def adopt(self, model: Any) -> None:
        """Hear of the model that comes into force, solved on all rows absorbed so far."""

    def expect(self, sizes: FloatArray | None) -> None:
        """Hear how large the gradients of the next rows are under the model in force; None where there is none."""

    def measure(self, sizes_of: Callable[[Coreset], FloatArray]) -> None:
        """Hear what gives the sizes of the gradients of rows under the model that comes into force."""

    needs_no_order: ClassVar[bool] = True
    """Whether rows can be taken in without models in force as they come."""

    @property
    def adds_up(self) -> bool:
        """Whether parts of the rows that are summed exactly merge to the same bits, whatever the parts."""
        return False

    def sum_exactly(self) -> None:
        """Keep exact sums from the first row on, where that makes results the same whatever the order of rows."""

    def sum_on(self) -> None:
        """Add further rows to exact sums, where there are any, after :meth:`settle_exactly`."""

    def thin(self) -> None:
        """Drop rows that present scores rule out, now rather than later."""

    def settle_exactly(self) -> None:
        """Be what exact sums say, where there are any, and keep no row that present scores rule out.

        The sums are kept for merging. Further rows of a stream are not added to them, which would cost more than all
        else, so that the first one ends them.
        """

    def sensitivity(self, n: int) -> float:
        """Return a bound of the average sensitivity of the coreset of n rows; 1 where none is proved."""
        return 1.0

    # -- public -----------------------------------------------------------------------------------

    def add(self, rows: Any, targets: Any = None, weights: Any = None) -> Self:
        """Add rows (n, d); an error leaves everything as it was.

        Parameters
        ----------
        rows : array-like of shape (n, d)
            Finite numbers.
        targets : array-like of shape (n,) or (n, n_targets), optional
            What belongs to the rows and may enter their scores.
        weights : array-like of shape (n,), optional
            Weights of the rows; a row of weight zero is as if absent.
        """
        points = check_rows(rows, width=None if self.shape is None else self.shape[0], largest=self.largest)
        values = check_targets(targets, len(points))
        if self.shape is not None and values.shape[1] != self.shape[1]:
            raise ValueError("targets must have the same columns in every call.")
        weight = check_weights(weights, points, values)
        self.check_ids_left(len(points))
        positive = weight > 0
        if not positive.all():
            points, values, weight = points[positive], values[positive], weight[positive]
        draft = self.copy()
        if draft.shape is None:
            draft.begin(points.shape[1], values.shape[1])
        draft.flat_targets = targets is not None and np.ndim(targets) == 1
        draft.feed(points, values, weight, draft.rows_to_block_end, draft.absorb)
        return self._replace_state(draft)

    def coreset(self) -> Coreset:
        """Return the coreset of the rows seen so far, a pure function of them and the seed."""
        self._check_started()
        return self.caught_up()._coreset()

    def merge(self, other: Construction) -> Self:
        """Take in all that another construction of the same kind, seed and settings has seen."""
        draft = self.copy()
        draft.join(other)
        self._replace_state(draft).tidy()
        return self

    def forget(self, ids: Any) -> Self:
        """Become what it would be had the rows with these ids never been seen. Needs the history."""
        now = self.caught_up()
        unwanted = self.check_forgettable(ids, np.empty(0, np.int64) if now.history is None else now.history.ids())
        if now.history is None:
            return self
        draft = now.emptied()
        for rows in now.history:
            kept = rows[~np.isin(rows.ids, unwanted)]
            if len(kept):
                draft.take(kept)
        self._replace_state(draft).tidy()
        return self

    def _replace_state(self, draft: Self) -> Self:
        """Replace the state as a whole, in one step."""
        self.__dict__.update(draft.__dict__)

        return self

    # -- for the engine, which works on a copy ---------------------------------------------------------

    def join(self, other: Construction) -> None:
        """Take in what another has seen, up to the rows that wait in it."""
        if isinstance(other, Construction):
            other = other.caught_up()
        self.flush()
        self._check_mergeable(other)
        if other.shape is None:
            return
        if self.shape is None:
            self.begin(*other.shape)
        if self.decay is not None and other.decay is not None:
            latest, other = max(self.decay.reference, other.decay.reference), other.copy()
            self.advance(latest)
            other.advance(latest)
        self._merge(other)
        self.intervals = united(self.intervals, other.intervals)
        self.next_id = max(self.next_id, other.next_id)
        self.n_rows += other.n_rows
        if other.n_rows:
            self.weigh(other.weight, other.typical_weight)
        self.flat_targets = other.flat_targets
        if self.history is not None and other.history is not None:
            self.history = self.history.merged(other.history)

    def check_forgettable(self, ids: Any, known: IntArray) -> IntArray:
        """Return the ids as an array if the rows can be forgotten."""
        if not self.keep_history:
            raise ValueError("forget needs the history: create with keep_history=True.")
        return check_ids(ids, known)

    def emptied(self) -> Self:
        """Return a construction that has seen the same ids and holds none of the rows."""
        assert self.shape is not None
        twin = self.copy()
        twin.n_rows, twin.weight, twin.typical_weight, twin.buffer = 0, 0.0, 1.0, self.buffer.cleared()
        twin.decay = None if self.decay is None else ForwardDecay(self.decay.half_life)
        twin.history = None if self.history is None else self.history.emptied()
        twin._begin(*self.shape)
        return twin

    @property
    def needs_history(self) -> bool:
        """Whether the construction reads rows again, so that it keeps them even if nobody asks to forget any."""
        return False

    def with_decay(self, decay: ForwardDecay) -> Self:
        """Return a construction like this one, which has seen no rows, with another decay."""
        assert self.shape is not None
        twin = self.copy()
        twin.decay, twin.keep_history = decay, self.keep_history and self.needs_history
        twin.history = self._new_history(*self.shape) if twin.keep_history else None
        twin._begin(*self.shape)
        return twin

    # -- inside -----------------------------------------------------------------------------------

    def _check_started(self) -> None:
        if self.shape is None:
            raise ValueError("No rows have been added yet.")

    def _settings(self) -> dict[str, object]:
        """Return what two constructions must share to be merged."""
        return {
            "kind": type(self).__name__,
            "epsilon": self.epsilon,
            "coreset_size": self.coreset_size,
            "random_state": self.seed,
            "keep_history": self.keep_history,
            "half_life": None if self.decay is None else self.decay.half_life,
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
        check_disjoint(self.intervals, other.intervals)
