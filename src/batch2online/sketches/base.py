"""A coreset, a weighted subset of the rows seen, and a sketch: the statistics that it is drawn from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.rows import Rows, all_ones, block_rows
from batch2online.schema import storable, stores


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


@storable
@dataclass(frozen=True)
class SketchSettings:
    """What two sketches must share to be merged.

    Attributes
    ----------
    epsilon : float
        Accuracy: sets the default size; the weights are powers of ``1 + epsilon``.
    coreset_size : int, "theory", "audit", "auto" or None
        The size that was asked for; "auto" if it grows with the rows, see :attr:`is_adaptive`.
    seed : int
        The seed of all random draws.
    shape : (int, int)
        Columns of the rows, and of the targets.
    size : float
        Expected rows of the coreset; sketches of different sizes can be merged.
    flat_targets : bool
        Whether the targets of the coreset have shape (n,) rather than (n, n_targets).
    """

    epsilon: float
    coreset_size: float | str | None
    seed: int
    shape: tuple[int, int]
    size: float = field(default=math.inf, compare=False)
    flat_targets: bool = field(default=False, compare=False)

    @property
    def is_adaptive(self) -> bool:
        """Whether the accuracy improves as rows are added (``epsilon="auto"``); ``epsilon`` is the first one then."""
        return self.coreset_size == "auto"

    @property
    def block(self) -> int:
        """Rows of a block of ids."""
        return block_rows(sum(self.shape))


@storable
@dataclass(frozen=True)
class SketchTotals:
    """Number and weight of the rows of a sketch; ``mean_weight`` counts each row by its weight."""

    n_rows: int = 0
    weight: float = 0.0
    mean_weight: float = 1.0

    @property
    def effective_rows(self) -> float:
        """Effective sample size: squared sum of weights over the sum of squares."""
        return self.weight / self.mean_weight

    @property
    def all_weigh_one(self) -> bool:
        """Whether all rows have weight one."""
        return self.weight == self.n_rows and self.mean_weight == 1

    @classmethod
    def of(cls, rows: Rows) -> SketchTotals:
        """Return the totals of some rows."""
        if all_ones(rows.weights):
            return cls(len(rows), float(len(rows)), 1.0)
        weights, largest = rows.weights, float(rows.weights.max())
        share = weights / largest  # squares of weights may be too large
        return cls(len(rows), float(weights.sum()), largest * float((share @ share) / share.sum()))

    def merge(self, other: SketchTotals) -> SketchTotals:
        """Return the totals of the rows of both."""
        if not other.n_rows:
            return self
        weight, mean = self.weight + other.weight, other.mean_weight
        if self.weight and mean != self.mean_weight:
            mean = self.mean_weight + (mean - self.mean_weight) * (other.weight / weight)
        return SketchTotals(self.n_rows + other.n_rows, weight, mean)

    def scale(self, factor: float) -> SketchTotals:
        """Return the totals of rows whose weights are multiplied by a factor."""
        return SketchTotals(self.n_rows, self.weight * factor, self.mean_weight * factor)


class RowSource(Protocol):
    """Rows that can be read again: a history, with or without decay."""

    @property
    def width(self) -> int:
        """Columns of the points."""

    @property
    def n_targets(self) -> int:
        """Columns of the targets."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Rows]: ...

    def from_row(self, start: int) -> Iterator[Rows]:
        """Iterate over the segments from the ``start``-th row on."""

    def at(self, positions: IntArray) -> Rows:
        """Return the rows at these positions, counted from 0 in the order of ids."""

    def blocks(self) -> Iterator[Rows]:
        """Iterate over the rows, a block of ids at a time."""

    def everything(self) -> Rows:
        """Return all rows in one piece."""


_Sketch = TypeVar("_Sketch", bound="Sketch")


@stores(settings=SketchSettings, totals=SketchTotals)
class Sketch(ABC):
    """Sums of the rows seen, and the rows that may be in their coreset. A value: methods return another sketch.

    A subclass implements ``_begin``, ``_add``, ``_merge``, ``_scale``, which change a copy of it that nothing else
    refers to, and ``coreset``.
    """

    settings: SketchSettings
    totals: SketchTotals

    pilot: ClassVar[Literal["none", "model", "gradients"]] = "none"
    """What scores depend on besides the rows: the current model, gradient norms under it, or neither."""

    def __init__(self, settings: SketchSettings) -> None:
        self.settings = settings
        self.totals = SketchTotals()
        self._begin()

    def update(self, rows: Rows, gradient_norms: FloatArray | None = None) -> Self:
        """Return the sketch with further rows.

        Parameters
        ----------
        rows : Rows
            Rows of one block, in ascending ids; may be a view of a caller's arrays, so that what is kept is copied.
        gradient_norms : (n,) array, optional
            Norms of the gradients of the rows under the current model, for sketches whose ``pilot`` is "gradients".
        """
        new = self.copy()
        new.totals = self.totals.merge(SketchTotals.of(rows))
        new._add(rows, gradient_norms)
        return new

    def merge(self, other: Self) -> Self:
        """Return the sketch of the rows of both, whose ids are disjoint."""
        check_mergeable(self, other)
        new = self.copy()
        new._merge(other)
        new.totals = self.totals.merge(other.totals)
        return new

    def scale(self, factor: float) -> Self:
        """Return the sketch of rows whose weights are all multiplied by a power of 4, exactly."""
        new = self.copy()
        new.totals = self.totals.scale(factor)
        new._scale(factor)
        return new

    def empty(self) -> Self:
        """Return the sketch of no rows."""
        new = self.copy()
        new.totals = SketchTotals()
        new._begin()
        return new

    @abstractmethod
    def coreset(self, history: RowSource | None = None) -> Coreset:
        """Return the coreset, a function of the rows and the seed; ``history`` holds all rows, where they are kept."""

    @property
    def depends_on_order(self) -> bool:
        """Whether the coreset depends on the order of the rows, as far as certificates know."""
        return False

    def sensitivity(self, n: int) -> float:
        """Return a bound of the average sensitivity of the coreset of n rows; 1 where none is proved."""
        return 1.0

    def prepared(self, history: RowSource | None = None) -> Self:
        """Return the same sketch with seeds and spectra computed that a refit asks for several times."""
        return self

    def with_model(self, model: Any, sample: Any = None, gradient_norms: FloatArray | None = None) -> Self:
        """Return the sketch that scores further rows by a new model.

        ``gradient_norms`` are those of the rows of ``sample``, a part of the coreset, under it.
        """
        return self

    def with_size(self, size: float) -> Self:
        """Return a sketch whose coreset has this expected size, at most the present one once a row was dropped."""
        return self

    # -- to be implemented ------------------------------------------------------------------------------

    @abstractmethod
    def _begin(self) -> None:
        """Set all that depends on rows to what it is before the first one."""

    @abstractmethod
    def _add(self, rows: Rows, gradient_norms: FloatArray | None) -> None:
        """Add rows of one block."""

    @abstractmethod
    def _merge(self, other: Any) -> None:
        """Add what another sketch of the same settings holds."""

    @abstractmethod
    def _scale(self, factor: float) -> None:
        """Multiply the weights of all rows by a power of 4."""

    def parameters(self) -> dict[str, object]:
        """Return parameters of this kind of sketch that two of them must share to be merged."""
        return {}

    def copy(self) -> Self:
        """Return a shallow copy; what both refer to is never changed."""
        new = object.__new__(type(self))
        vars(new).update(vars(self))
        return new


def with_settings(sketch: _Sketch, **changes: Any) -> _Sketch:
    """Return a sketch with other settings."""
    new = sketch.copy()
    new.settings = replace(sketch.settings, **changes)
    return new


def check_mergeable(one: Sketch, other: Sketch) -> None:
    """Refuse to merge sketches that differ in a setting."""
    check_same("kind", type(one).__name__, type(other).__name__)
    mine, theirs = one.settings, other.settings
    for name in ("epsilon", "coreset_size"):
        check_same(name, getattr(mine, name), getattr(theirs, name))
    check_same("random_state", mine.seed, theirs.seed)
    for name, value in one.parameters().items():
        check_same(name, value, other.parameters()[name])
    if mine.shape != theirs.shape:
        raise ValueError(f"Can only merge rows of the same width: {mine.shape} and {theirs.shape} differ.")


def check_same(name: str, one: object, other: object) -> None:
    """Refuse to merge what differs in a setting."""
    if one != other:
        raise ValueError(f"Can only merge with the same {name}: {one!r} and {other!r} differ.")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a problem reads during one check: a sketch, the rows that are kept, and their coreset, computed once.

    Attributes
    ----------
    sketch : Sketch
        The sketch of the rows seen.
    history : RowSource or None
        All rows with the weights that they have under decay, where they are kept.
    cache : dict
        For what a problem computes several times from the same snapshot.
    """

    sketch: Any
    history: Any = None
    cache: dict[Any, Any] = field(default_factory=dict)

    def of(self, sketch: Sketch) -> Snapshot:
        """Return the snapshot of another sketch of the same rows: itself if it is the same one."""
        return self if sketch is self.sketch else Snapshot(sketch, self.history)

    @cached_property
    def coreset(self) -> Coreset:
        """The coreset of the rows seen."""
        coreset: Coreset = self.sketch.coreset(self.history)
        return coreset

    @property
    def totals(self) -> SketchTotals:
        """Number and weight of the rows seen."""
        totals: SketchTotals = self.sketch.totals
        return totals

    @property
    def seed(self) -> int:
        """The seed of all random draws."""
        return int(self.sketch.settings.seed)
