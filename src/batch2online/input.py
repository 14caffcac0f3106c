"""Validation of input: arrays, data frames, sparse matrices and memory-mapped files as rows of finite numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import hypot
from operator import itemgetter
from struct import pack
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from batch2online._types import FloatArray
from batch2online.rows import Batch
from batch2online.validation import LARGEST, check_finite, check_weights, unmasked

_PIECE_ROWS = 10_000


class PreparedRows(NamedTuple):
    """The validated rows of one call: batches of points, targets and weights above 0, and a new problem if any.

    ``answers`` (2, n) are losses of earlier answers for rows whose targets have come late. ``table`` are the schema and
    the strings of a table whose preparation is not final; the points are then numbers that stand for values.
    """

    batches: Iterable[Batch]
    problem: Any = None
    answers: FloatArray | None = None
    table: Any = None


_DTYPES = (np.float64, np.float32)
_REMEDY = ' Set columns="auto" to encode strings, dates and missing values.'


def validated(estimator: Any, X: Any, reset: bool, largest: float) -> Any:
    """Return X as an (n, d) array of finite numbers, single or double, or a CSR matrix of them, names checked.

    With ``reset`` the number and the names of the columns are set on the estimator.
    """
    X = unmasked(at_hand(X), "X")
    try:
        X = validate_data(
            estimator, X, reset=reset, dtype=_DTYPES, order="C", accept_sparse="csr", ensure_all_finite=False
        )
    except (ValueError, TypeError) as error:
        raise naming_the_cell(X, error, hasattr(estimator, "columns")) from error
    names = getattr(estimator, "feature_names_in_", None)
    if sp.issparse(X):
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        bad = np.flatnonzero(~(np.abs(X.data) <= largest))
        if bad.size:
            row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
            check_finite(X[[row]].toarray(), "X", names, first=row, largest=largest)
    else:
        X = X if X.flags.aligned else X.copy()  # sums of misaligned rows may differ in their last bits
        try:
            check_finite(X, "X", names, largest=largest)
        except ValueError as error:
            is_remediable = names is not None and "NaN" in str(error) and getattr(estimator, "columns", "") is None
            raise ValueError(f"{error}{_REMEDY if is_remediable else ''}") from None
    return X


def check_names(estimator: Any, X: Any, reset: bool) -> None:
    """Check the number and the names of the columns of a table; with ``reset`` set them on the estimator."""
    if not len(X):
        raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
    names = getattr(X, "column_names", None)  # of Arrow
    if reset or names is None or names != list(getattr(estimator, "feature_names_in_", ())):
        validate_data(estimator, X, reset=reset, skip_check_array=True)


def pieces(X: Any, targets: FloatArray, sample_weight: Any) -> Iterator[Batch]:
    """Iterate over rows of positive weight as arrays of doubles, with their targets and weights."""
    if sample_weight is not None:
        sample_weight = np.asarray(unmasked(sample_weight, "sample_weight"))
        if sample_weight.ndim and sample_weight.shape != X.shape[:1]:
            raise ValueError(f"sample_weight must have shape ({X.shape[0]},), got {sample_weight.shape}.")
    for piece, points in dense_pieces(X):
        own = sample_weight if sample_weight is None or not sample_weight.ndim else sample_weight[piece]
        weights = check_weights(own, points, targets[piece], first=piece.start)
        if (weights > 0).all():
            yield points, targets[piece], weights
        else:
            positive = weights > 0
            yield points[positive], targets[piece][positive], weights[positive]


def at_hand(X: Any) -> Any:
    """Return rows that can be read more than once: a memory map as an array, an Arrow stream as a table."""
    if isinstance(X, np.ndarray):
        return np.asarray(X) if type(X) is np.memmap else X
    from batch2online.frames import encoding  # arrays do without

    return encoding.table(X)


def all_at_hand(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return rows, targets and weights that can be read more than once."""
    return at_hand(X), _values_at_hand(y, "y"), _values_at_hand(sample_weight, "sample_weight")


def _values_at_hand(values: Any, what: str) -> Any:
    if values is None or isinstance(values, np.ndarray):
        return np.asarray(values) if type(values) is np.memmap else values
    from batch2online.frames import encoding

    return encoding.column(values, what)


def target_array(y: Any) -> Any:
    """Return targets or labels as an array, sparse ones dense and masked ones missing."""
    return np.asarray(y.toarray() if sp.issparse(y) else unmasked(y, "y"))


def single(y: Any) -> Any:
    """Return one label as an array of one."""
    array = np.empty(1, dtype=object)
    array[0] = y.item() if isinstance(y, np.generic) or (isinstance(y, np.ndarray) and y.size == 1) else y
    return array


def flattened(y: Any) -> Any:
    """Return a single column of targets as a 1d array, with the warning of scikit-learn."""
    if y.ndim != 2 or y.shape[1] != 1:
        return y
    warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, 3)
    return y[:, 0]


def dense_pieces(X: Any) -> Iterator[tuple[slice, FloatArray]]:
    """Iterate over the rows as doubles: all at once, or a piece at a time where they must be converted."""
    if not sp.issparse(X) and X.dtype == np.float64:
        yield slice(0, len(X)), X
        return
    for start in range(0, X.shape[0], _PIECE_ROWS):
        piece = slice(start, min(start + _PIECE_ROWS, X.shape[0]))
        rows = X[piece].toarray() if sp.issparse(X) else X[piece]
        yield piece, rows.astype(np.float64, copy=False)


def naming_the_cell(X: Any, error: Exception, takes_tables: bool = False) -> Exception:
    """Return the same error with the row and column of the first value that is not a number, if there is one."""
    if not any(word in str(error) for word in ("convert", "float", "number")):
        return error
    columns = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    try:
        cells = np.asarray(X, dtype=object)
    except ValueError:
        return error
    if cells.ndim != 2:
        return error
    for (row, column), value in np.ndenumerate(cells):
        try:
            float(value)
        except (TypeError, ValueError):
            place = f"column {columns[column]!r}" if columns else f"column {column}"
            remedy = _REMEDY if takes_tables else ""
            return type(error)(f"{error} Row {row}, {place} holds {value!r}.{remedy}")
    return error


class LinearPlan(NamedTuple):
    """A linear predictor of single rows in Python numbers.

    ``labels`` are those of two classes, sorted; ``is_swapped`` whether the predictor is the logit of the first one.
    """

    coefficients: list[float]
    intercept: float
    labels: tuple[Any, ...] = ()
    is_swapped: bool = False


class RowReader:
    """Values and target of one row, if all of them are plain numbers within bounds; anything else raises an error.

    Parameters
    ----------
    names : sequence of str or None
        The columns of rows that are mappings; without names rows are lists, tuples or arrays.
    width : int
        Number of columns.
    largest : float
        Largest length of a row.
    codes : dict or None
        Targets (1,) by label, and of no target; None if any number is a target.
    encode : callable, optional
        Makes features of the values of a row of a table.
    """

    def __init__(
        self,
        names: Sequence[str] | None,
        width: int,
        largest: float,
        codes: dict[Any, tuple[float, ...]] | None,
        encode: Callable[[Any], Any] | None = None,
    ) -> None:
        self.names, self.width, self.largest, self.codes, self.encode = names, width, largest, codes, encode
        self.getter: Callable[[Any], Any] = (
            _sequence if names is None else itemgetter(*names) if width > 1 else _SingleGetter(names[0])
        )

    def values(self, x: Any) -> Any:
        """Return the values of a row in the order of the columns, or its features."""
        values = self.getter(x)
        if self.encode is not None:
            values = self.encode(values)
        if len(x) == self.width and hypot(*values) <= self.largest:  # false for NaN as well
            return values
        raise ValueError

    def target(self, y: Any) -> tuple[Any, ...]:
        """Return the target of a row."""
        if self.codes is not None:
            return self.codes[y]
        if isinstance(y, float | int | np.integer) and -LARGEST <= y <= LARGEST:
            return (y,)
        raise ValueError

    def array(self, x: Any) -> FloatArray:
        """Return the values as an array (d,), in less time than NumPy needs to convert them."""
        values = self.values(x)
        return np.frombuffer(pack(f"{len(values)}d", *values))


def _sequence(x: Any) -> Any:
    if type(x) is list or type(x) is tuple:
        return x
    if type(x) is np.ndarray:
        return x.tolist()
    raise TypeError


class _SingleGetter:
    """``itemgetter`` of one name, but as a tuple."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, x: Mapping[str, Any]) -> tuple[Any]:
        return (x[self.name],)
