"""Coresets of rows that are added a chunk at a time: what :mod:`batch2online.coresets` offers besides estimators."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray
from batch2online.decay import ForwardDecay
from batch2online.engine.stream import Stream
from batch2online.history import History
from batch2online.numerics.memory import check_available
from batch2online.rows import check_ids, check_ids_left
from batch2online.schema import stores
from batch2online.sketches.base import Coreset, Sketch, SketchSettings, check_same
from batch2online.theory import sizes
from batch2online.validation import LARGEST, LARGEST_ID, check_rows, check_targets, check_weights

_NOT_SHARED = ("seed", "first_id", "decay", "history_place")


@stores(
    epsilon=float,
    coreset_size=float | str | None,
    seed=int,
    first_id=int,
    keep_history=bool,
    decay=ForwardDecay | None,
    stream=dict | None,
)
class CoresetBuilder(ABC):
    """Base of all coresets: their settings, and a stream of rows without a model.

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

    _stream: Stream | None = None

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
        self.first_id = int(first_id)
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

    def new_history(self, block: int, width: int, n_targets: int) -> History:
        """Return an empty place for rows."""
        return History(block, width, n_targets)

    @property
    def keeps_on_disk(self) -> bool:
        """Whether this place is on a disk."""
        return False

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

    # -- public -----------------------------------------------------------------------------------------

    @property
    def sketch(self) -> Any:
        """The sketch of all rows added, None before the first."""
        return None if self._stream is None else self._stream.view().sketch

    @property
    def history(self) -> History | None:
        """All rows added, where they are kept."""
        return None if self._stream is None else self._stream.view().state.history

    @property
    def n_rows(self) -> int:
        """Rows added up to the last complete block of ids."""
        return 0 if self._stream is None else self._stream.state.n_learned

    @property
    def next_id(self) -> int:
        """The id that the next row gets."""
        return self.first_id if self._stream is None else self._stream.next_id

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
        stream = self._stream
        points = check_rows(rows, width=None if stream is None else stream.width, largest=self.largest)
        values = check_targets(targets, len(points))
        if stream is not None and values.shape[1] != stream.n_targets:
            raise ValueError("targets must have the same columns in every call.")
        weight = check_weights(weights, points, values)
        check_ids_left(self.next_id, len(points))
        positive = weight > 0
        if not positive.all():
            points, values, weight = points[positive], values[positive], weight[positive]
        if stream is None:
            is_flat = targets is not None and np.ndim(targets) == 1
            stream = self._new_stream(points.shape[1], values.shape[1], is_flat).begun()
        self._stream = stream.append([(points, values, weight)])
        return self

    def coreset(self) -> Coreset:
        """Return the coreset of the rows added so far, a function of them and the seed."""
        return self._started().coreset()

    def merge(self, other: CoresetBuilder) -> Self:
        """Add all rows of another builder of the same kind, seed and settings."""
        if not isinstance(other, CoresetBuilder):
            raise TypeError(f"Can only merge with another {type(self).__name__}, got {type(other).__name__}.")
        theirs = other.settings()
        for name, value in self.settings().items():
            check_same(name, value, theirs.get(name))
        if other._stream is not None:
            known = other._stream
            own = self._stream or self._new_stream(known.width, known.n_targets, known.flat_targets).begun()
            stream = own.merge(known)
            stream.tidy()
            self._stream = stream
        return self

    def forget(self, ids: Any) -> Self:
        """Forget the rows with these ids, as if they had never been added. Needs the history."""
        if not self.keep_history:
            raise ValueError(f"forget needs the history: create with {self._history_parameter}.")
        if self._stream is None:
            check_ids(ids, np.empty(0, np.int64))
            return self
        stream = self._stream.forget(ids)
        stream.tidy()
        self._stream = stream
        return self

    def sensitivity(self, n: int) -> float:
        """Return a bound of the average sensitivity of the coreset of n rows; 1 where none is proved."""
        return 1.0 if self._stream is None else float(self.sketch.sensitivity(n))

    def scores_of_all(self) -> FloatArray:
        """Return the scores of all rows added, by id; needs the history."""
        data = self._started().snapshot()
        scores: FloatArray = data.sketch.scores(data.history.everything())
        return scores

    def settings(self) -> dict[str, object]:
        """Return what two builders must share to be merged."""
        own = {name: value for name, value in vars(self).items() if name[0] != "_" and name not in _NOT_SHARED}
        half_life = None if self.decay is None else self.decay.half_life
        return {"kind": type(self).__name__, **own, "random_state": self.seed, "half_life": half_life}

    def copy(self) -> Self:
        """Return an independent copy: what is added to one is not in the other."""
        return copy.copy(self)

    _history_parameter = "keep_history=True"

    def _new_stream(self, width: int, n_targets: int, is_flat: bool) -> Stream:
        """Return a stream that is to begin, of rows without a model."""
        stream = Stream.new(None, self, None, width, n_targets)
        return replace(stream, engine=stream.engine.with_targets(is_flat))

    def _started(self) -> Stream:
        """Return the stream of all rows added."""
        if self._stream is None:
            raise ValueError("No rows have been added yet.")
        return self._stream.view()

    # -- storing ----------------------------------------------------------------------------------------

    def stored_fields(self) -> dict[str, Any]:
        """Return what a file holds."""
        own = {name: value for name, value in vars(self).items() if name[0] != "_"}
        return own | {"stream": None if self._stream is None else self._stream.stored()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Return the builder that :meth:`stored_fields` describes."""
        builder = object.__new__(cls)
        vars(builder).update({name: value for name, value in fields.items() if name != "stream"})
        if (content := fields["stream"]) is not None:
            width, n_targets = content["shape"]
            builder._stream = builder._new_stream(width, n_targets, content["flat_targets"]).restored(content)
        return builder


def check_statistics_fit(what: str, numbers: float, advice: str) -> None:
    """Refuse a sketch whose statistics, of so many numbers, would take more memory than there is."""
    check_available(8 * numbers, f"The statistics of coresets.{what}, with what a refit takes,", advice)
