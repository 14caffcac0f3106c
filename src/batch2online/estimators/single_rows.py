"""One row at a time: a mapping of column names to values, or a sequence of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import hypot
from operator import itemgetter
from typing import Any, Self

import numpy as np

from batch2online.engine.online import Online
from batch2online.validation import LARGEST, check_rows, check_targets, unmasked


class RowReader:
    """The values of a mapping in the order of the columns, if all of them are plain numbers within bounds.

    ``n_targets`` are the numbers that belong to a row: 0, or 1; None where a target is more than a number.
    """

    def __init__(self, names: Sequence[str], largest: float, n_targets: int | None) -> None:
        self.names, self.largest, self.width, self.n_targets = names, largest, len(names), n_targets
        self.is_number = n_targets == 1
        self.getter: Callable[[Mapping[str, Any]], Any] = (
            itemgetter(*names) if len(names) > 1 else _SingleGetter(names[0])
        )

    def __call__(self, x: Any) -> Any:
        values = self.getter(x)
        if len(x) == self.width and hypot(*values) <= self.largest:  # false for NaN as well
            return values
        raise ValueError

    def target(self) -> tuple[float, ...]:
        """Return the target of a row that has no plain number for one."""
        if self.n_targets == 0:
            return ()
        raise ValueError


class SingleRows:
    """The part of an estimator that takes single rows."""

    _engine: Online
    _needs_targets: bool
    _largest: Any
    _fresh: Callable[[], Any]
    _is_first: Callable[[Any], bool]
    feature_names_in_: Any
    _check_target_shape: Callable[[Any, Any], None]
    _check_settings: Callable[[], None]

    @property
    def _takes_any_number(self) -> bool:
        """Whether a target is taken as it is: no label, and no number that the loss may refuse."""
        return True

    def learn_one(self, x: Any, y: Any = None) -> Self:
        """Learn one row: a mapping of column names to values, or a sequence of values."""
        try:
            read, engine = self._reader, self._engine
            values = read.getter(x)
            if len(x) == read.width and hypot(*values) <= read.largest:  # false for NaN as well
                target = (y,) if type(y) is float and read.is_number and -LARGEST <= y <= LARGEST else read.target()
                with engine.lock:
                    if self._engine is engine and engine.wrote_one(values, target):
                        return self
        except Exception:  # no row yet, no reader, no mapping, or a value is refused: again, with clear errors
            pass
        return self._learn_one(x, y)

    def _learn_one(self, x: Any, y: Any) -> Self:
        if "_engine" not in self.__dict__:
            return self._learn_first(x, y)
        if "_former" in self.__dict__:
            self._check_settings()
        with self._engine.lock:
            values = self._values_of(x)
            self._engine = self._engine.learn_one(values, self._target_of(y))
        return self

    def _learn_first(self, x: Any, y: Any) -> Self:
        names = list(x) if isinstance(x, Mapping) else None
        if names is not None and not all(isinstance(name, str) for name in names):
            raise TypeError(f"The names of columns must be strings, got {names[:5]}.")
        rows = check_rows([list(x.values()) if names is not None else unmasked(x, "x")], names=names)
        fresh = self._fresh()
        fresh.partial_fit(rows, None if y is None else np.asarray([unmasked(y, "y")]))
        if names is not None:
            fresh.feature_names_in_ = np.asarray(names, dtype=object)
        return self if self._is_first(fresh) else self.learn_one(x, y)

    def _values_of(self, x: Any) -> Any:
        """Return the values of one row in the order of the columns, checked."""
        if isinstance(x, Mapping):
            read = self._reader_of_names()
            try:
                return read(x)
            except (KeyError, OverflowError, TypeError, ValueError):
                x = self._in_order(x)
        if len(x) != self._engine.width:
            raise ValueError(f"x must have {self._engine.width} values, got {len(x)}.")
        if type(x) is np.ndarray and x.dtype == np.float64 and x @ x <= self._largest**2:
            return x
        x = unmasked(x, "x")
        try:
            is_real = type(x) is not np.ndarray or x.dtype.kind != "c"
            if is_real and hypot(*x) <= self._largest:
                return x
        except (OverflowError, TypeError):
            pass
        row = check_rows([x], names=getattr(self, "feature_names_in_", None), largest=self._largest)[0]
        if hypot(*row) <= self._largest:
            return row
        raise ValueError(f"the squares of the values of x sum to more than {self._largest:g} squared.")

    def _in_order(self, x: Mapping[str, Any]) -> Any:
        names = self.feature_names_in_
        known = set(names)
        missing, unknown = [n for n in names if n not in x], [n for n in x if n not in known]
        if missing or unknown:
            raise ValueError(f"x must hold the columns seen before: missing {missing[:5]}, unknown {unknown[:5]}.")
        return [x[name] for name in names]

    def _reader_of_names(self) -> RowReader:
        reader: RowReader | None = self.__dict__.get("_reader")
        if reader is None:
            names = list(getattr(self, "feature_names_in_", ()))
            if not names:
                raise ValueError("x is a mapping, but the columns have no names: pass a sequence of values.")
            reader = self._reader = RowReader(names, self._largest, self._plain_targets())
        return reader

    def _plain_targets(self) -> int | None:
        """Return how many numbers belong to a row, None where they are not taken as they come."""
        if not self._needs_targets:
            return 0
        return 1 if self._takes_any_number and self._engine.construction.flat_targets else None

    def _target_of(self, y: Any) -> Any:
        if not self._needs_targets:
            return ()
        if type(y) is float and -LARGEST <= y <= LARGEST and self._engine.construction.flat_targets:
            return (y,)
        given = np.asarray([unmasked(y, "y")])
        target = check_targets(given, 1)
        self._check_target_shape(given, target)
        return tuple(target[0].tolist())


class _SingleGetter:
    """``itemgetter`` of one name, but as a tuple."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, x: Mapping[str, Any]) -> tuple[Any]:
        return (x[self.name],)
