"""Rows of tables as rows of numbers that an engine keeps, and as tables of the same container again.

For wrapped estimators, which receive rows as they came. A string is a hash of it, a missing value :data:`MISSING`; a
number depends on the value alone, not on the order of rows, so shards and chunks agree on it. A :class:`Form` says how
a column was written.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.rows import Rows
from batch2online.schema import storable
from batch2online.tables import columns as typed
from batch2online.tables.columns import (
    DURATION,
    EMPTY,
    KINDS,
    MAX_ABS_VALUE,
    NUMBER,
    STRING,
    TIME,
    ZONED,
    Column,
    ColumnError,
    checked_names,
    converted,
    is_missing,
    rectangular,
    unsupported,
)
from batch2online.tables.strings import MISSING, StringTable, hash_code

FRAMES = ("pandas", "polars", "arrow")
"""Containers with named columns."""

LISTS = ("list", "dicts", "array of strings", "pandas series", "polars series")
"""Containers of rows that are one string each."""

CATEGORICAL = ("category", "Categorical", "Enum")
"""Forms of columns of categories."""

_BOUNDS = {NUMBER: MAX_ABS_VALUE, TIME: 2.5e17, ZONED: 2.5e17, DURATION: 9e18, STRING: 2.0**52, EMPTY: 0.0}
"""Largest number that stands for a value of each kind."""

_ZONE = r"[A-Za-z0-9_+\-/:]{1,64}"
_PANDAS_FORMS = re.compile(
    r"u?int(8|16|32|64)|U?Int(8|16|32|64)|float(16|32|64)|Float(32|64)|bool|boolean|object( bool| date)?|str|string"
    rf"|category|(datetime|timedelta)64\[(s|ms|us|ns)\]|datetime64\[(s|ms|us|ns), {_ZONE}\]"
)
_ARROW_FORMS = re.compile(  # and those of polars
    r"u?int(8|16|32|64)|halffloat|float|double|bool|null|(large_)?string(_view)?|date(32|64)\[(day|ms)\]|category"
    rf"|duration\[(s|ms|us|ns)\]|timestamp\[(s|ms|us|ns)(, tz={_ZONE})?\]|[A-Z][A-Za-z0-9]*"
)
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=dt.UTC)


@storable
@dataclass(frozen=True)
class Form:
    """The kind of a column, the name of its type in the container, and the names of ordered categories."""

    name: str | int | None
    kind: str
    form: str
    categories: tuple[str, ...] = ()

    def validate(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind: found {self.kind[:40]!r}, expected a kind of column")
        if not (_PANDAS_FORMS.fullmatch(self.form) or _ARROW_FORMS.fullmatch(self.form)):
            raise ValueError(f"form: found {self.form[:40]!r}, expected a type of pandas, polars or Arrow")
        if self.kind == TIME and "," in self.form:
            raise ValueError(f"kind: found a time without a zone in the form {self.form}")
        if len(set(self.categories)) != len(self.categories):
            raise ValueError("categories: found one of them twice")


@storable
@dataclass(frozen=True)
class FrameSchema:
    """The container in which rows came, and its columns."""

    container: str
    columns: tuple[Form, ...]

    def validate(self) -> None:
        if self.container not in (*FRAMES, *LISTS, "array"):
            raise ValueError(f"container: found {self.container[:40]!r}, expected one of those that are read")
        if not self.columns or (self.container in LISTS and len(self.columns) != 1):
            raise ValueError(f"columns: found {len(self.columns)} of a {self.container}")
        names = [column.name for column in self.columns]
        if self.container in FRAMES and (None in names or len(set(names)) != len(names)):
            raise ValueError(f"columns: found the names {names[:5]}, expected different ones")

    @property
    def string_columns(self) -> list[int]:
        """Positions of the columns of strings."""
        return [place for place, column in enumerate(self.columns) if column.kind == STRING]

    @property
    def numeric_columns(self) -> list[int]:
        """Positions of the columns of numbers or truth values."""
        return [place for place, column in enumerate(self.columns) if column.kind == NUMBER]

    @property
    def is_numeric(self) -> bool:
        """Whether all columns hold numbers."""
        return len(self.numeric_columns) == len(self.columns)

    def categories_in(self, points: FloatArray) -> dict[int, FloatArray]:
        """Return the categories in these rows, for each column of categories."""
        places = [place for place, column in enumerate(self.columns) if column.form in CATEGORICAL]
        return {place: np.unique(points[:, place]) for place in places}

    def decoded(self, points: FloatArray, strings: StringTable, seen: dict[int, FloatArray] | None = None) -> Any:
        """Return rows in the container in which they came.

        ``seen`` are the categories that columns may have, by position: others become missing values.
        """
        forms, numbers = {column.form for column in self.columns}, self.is_numeric
        if numbers and forms <= {"float64"} and self.container in ("pandas", "array"):
            values = _with_nans(points)
            return values if self.container == "array" else _pandas().DataFrame(values, columns=self._index, copy=False)
        if self.container == "array":
            return _transposed([_objects(column, points[:, at], strings) for at, column in enumerate(self.columns)])
        if self.container in LISTS:
            return self._listed(strings.of(points[:, 0], None))
        make, seen = _MAKERS[self.container], seen or {}
        made = [make(column, points[:, at], strings, seen.get(at)) for at, column in enumerate(self.columns)]
        if self.container == "pandas":
            found = _pandas().concat(made, axis=1, copy=False)
            found.columns = self._index
            return found
        names = [str(column.name) for column in self.columns]
        if self.container == "polars":
            import polars as pl

            return pl.DataFrame(dict(zip(names, made, strict=True)))
        import pyarrow as pa

        return pa.table(made, names=names)

    @property
    def _index(self) -> Any:
        return _pandas().Index([column.name for column in self.columns])

    def _listed(self, values: Any) -> Any:
        if self.container == "array of strings":
            return values
        if self.container == "dicts":
            return [json.loads(row) for row in values]
        if self.container == "list":
            return values.tolist()
        name, form = self.columns[0].name, self.columns[0].form
        if self.container == "pandas series":
            return _pandas().Series(values, name=name, dtype=form if form in ("string", "str", "category") else object)
        import polars as pl

        return pl.Series(str(name or ""), values.tolist(), dtype=pl.String)

    def as_numbers(self, points: FloatArray) -> FloatArray:
        """Return rows as numbers to compare and not to learn from: 0 for missing values, strings between 0 and 1."""
        numbers = np.where(points == MISSING, 0.0, points)
        numbers[:, self.string_columns] /= 2.0**52
        return numbers

    def check(self, points: FloatArray) -> None:
        """Raise ValueError unless the numbers can stand for values of the columns."""
        for place, column in enumerate(self.columns):
            values = points[:, place][points[:, place] != MISSING]
            wrong = ~(np.abs(values) <= _BOUNDS[column.kind])
            if column.kind != NUMBER:
                wrong |= values != np.floor(values)
            if wrong.any():
                raise ValueError(f"column {column.name!r} of type {column.kind}: found {values[wrong][0]}")


def _with_nans(points: FloatArray) -> FloatArray:
    missing = points == MISSING
    return np.where(missing, np.nan, points) if missing.any() else points


def _transposed(columns: list[Any]) -> Any:
    values = np.empty((len(columns[0]), len(columns)), dtype=object)
    for place, column in enumerate(columns):
        values[:, place] = column
    return values


def _pandas() -> Any:
    import pandas

    return pandas


# -- rows as numbers ------------------------------------------------------------------------------------------

EncodedRows = tuple[FloatArray, FrameSchema, dict[float, str]]
"""Rows as numbers, the schema with their columns added, and the strings among them by their hash."""


def container_of(X: Any) -> str | None:
    """Return the container of rows; None for arrays of numbers and whatever else becomes one."""
    module, name = type(X).__module__.partition(".")[0], type(X).__name__
    if module in ("pandas", "polars") and name == "Series":
        return f"{module} series"
    if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "OUST":
        return "array of strings" if X.size and all(isinstance(row, str) for row in X.tolist()) else None
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "UT":
        return "array"
    if isinstance(X, list | tuple) and len(X) and all(isinstance(row, str) for row in X):
        return "list"
    if isinstance(X, list | tuple) and len(X) and all(isinstance(row, dict) for row in X):
        return "dicts"
    found = typed.container_of(X)
    return found if found in (*FRAMES, "array") else None


def read(X: Any, schema: FrameSchema | None = None, container: str | None = None) -> EncodedRows:
    """Return rows as numbers.

    ``schema`` is that of the rows before; values of another kind are refused, by row and column. The names of columns
    are compared by the caller.
    """
    container = container or container_of(X) or "array"
    if schema is not None and (container in LISTS) != (schema.container in LISTS):
        raise ValueError(f"X must be rows in a container like {schema.container}, as before, got {container}.")
    names, columns, of = _columns_of(X, container)
    if not columns:
        raise ValueError("Found rows with 0 feature(s) while a minimum of 1 is required.")
    if schema is not None and len(columns) != len(schema.columns):
        raise ValueError(f"X has {len(columns)} columns, but {len(schema.columns)} were seen before.")
    forms = [None] * len(columns) if schema is None else schema.columns
    codes, found, strings = [], list[Form](), dict[float, str]()
    for name, values, form in zip(names, columns, forms, strict=True):
        new, own = _read_column(values, of, form, name if form is None else form.name)
        words = [*map(hash_code, own.words)]
        strings |= dict(zip(words, own.words, strict=True))
        numbers = own.mapped(words) if own.kind == STRING else own.values
        codes.append(np.where(own.missing, MISSING, numbers) if own.has_gaps else numbers)
        found.append(new)
    if schema is None:
        schema = FrameSchema(container, tuple(found))
    elif tuple(found) != schema.columns:
        schema = replace(schema, columns=tuple(found))
    return np.ascontiguousarray(np.column_stack(codes)), schema, strings


def _read_column(values: Any, of: Any, before: Form | None, name: Any) -> tuple[Form, Column]:
    """Return a column, and its form after the rows before."""
    try:
        column = of(values)
    except ColumnError as error:
        raise ColumnError(error.row, error.why, name) from error
    if before is not None and before.kind != EMPTY:
        return before, converted(before.name, column, before.kind)
    return Form(name, column.kind, *_form_of(values, column.kind)), column


def read_one(x: Any, schema: FrameSchema) -> EncodedRows:
    """Return one row as numbers: its values in the order of the columns, a string, or a dictionary."""
    if schema.container in LISTS:
        return read([x], schema, "dicts" if schema.container == "dicts" else "list")
    values = x.tolist() if isinstance(x, np.ndarray) else list(x)
    if len(values) != len(schema.columns):
        raise ValueError(f"x must have {len(schema.columns)} values, got {len(values)}.")
    row = np.empty((1, len(values)), dtype=object)
    row[0, :] = values
    return read(row, schema, "array")


def _columns_of(X: Any, container: str) -> tuple[Any, list[Any], Any]:
    """Return the names of the columns, the columns, and the function that reads one."""
    if container == "pandas":
        series = [_plain_series(X.iloc[:, place]) for place in range(X.shape[1])]
        return checked_names(list(X.columns)), series, typed.of_series
    if container == "polars":
        return X.columns, X.get_columns(), _of_polars
    if container == "arrow":
        return checked_names(X.schema.names), X.columns, typed.of_arrow
    if container == "array":
        values = rectangular(X)
        values = values.astype(object) if values.dtype.kind in "UT" else values
        return range(values.shape[1]), list(values.T), typed.of_values
    if container == "dicts":
        return [None], [[_as_json(row, number) for number, row in enumerate(X)]], typed.of_values
    of = {"pandas series": typed.of_series, "polars series": _of_polars}.get(container, typed.of_values)
    return [X.name if container.endswith("series") else None], [X], partial(_strings_alone, of)


def _plain_series(series: Any) -> Any:
    """Return a sparse column dense, and one of Arrow's types in a type of pandas' own."""
    kind = type(series.dtype).__name__
    if kind == "SparseDtype":
        return series.sparse.to_dense()
    if kind != "ArrowDtype":
        return series
    try:
        return series.astype(series.convert_dtypes(dtype_backend="numpy_nullable").dtype)
    except KeyError:  # times, dates and categories, which convert_dtypes does not know
        import pyarrow as pa

        return pa.array(series).to_pandas()


def _of_polars(series: Any) -> Column:
    import polars as pl

    if series.dtype == pl.Time or series.dtype.is_decimal():  # neither comes back as it was
        raise unsupported(series.dtype)
    return typed.of_polars(series)


def _strings_alone(of: Any, values: Any) -> Column:
    """Return strings; a list of rows that are one string each has no missing values and nothing else."""
    column: Column = of(values)
    if column.kind != STRING:
        raise ColumnError(0, f"holds a {column.kind}: rows that are no tables are strings.")
    if column.has_gaps:
        raise ColumnError(int(column.missing.argmax()), "holds a missing value: put an empty string in its place.")
    return column


def _as_json(row: dict[Any, Any], number: int) -> str:
    if not all(isinstance(key, str) for key in row):
        raise ColumnError(number, "holds a dictionary with keys that are not strings.")
    try:
        return json.dumps(row, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ColumnError(number, f"holds a dictionary that is no JSON: {error}.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is neither number nor string")


def _form_of(values: Any, kind: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of the type of a column in its container, and the names of ordered categories."""
    module = type(values).__module__.partition(".")[0]
    if module == "pandas":
        dtype = values.dtype
        if type(dtype).__name__ == "CategoricalDtype":
            return "category", tuple(map(str, dtype.categories)) if dtype.ordered and kind == STRING else ()
        if kind == ZONED and dtype.kind == "M" and not _PANDAS_FORMS.fullmatch(str(dtype)):
            return f"datetime64[{dtype.unit}, UTC]", ()  # its zone has no name
        is_string = type(dtype).__name__ == "StringDtype"
        return "string" if is_string else str(dtype) if dtype.kind != "O" else _form_of_objects(values), ()
    if module == "polars":
        dtype, name = values.dtype, values.dtype.base_type().__name__
        categories = tuple(dtype.categories.to_list()) if name == "Enum" else ()
        return str(values.to_arrow().type) if dtype.is_temporal() else name, categories
    if module == "pyarrow":
        import pyarrow as pa

        if not pa.types.is_dictionary(values.type):
            return str(values.type), ()
        chunks = values.unify_dictionaries().chunks if isinstance(values, pa.ChunkedArray) else [values]
        is_listed = values.type.ordered and kind == STRING and chunks
        return "category", tuple(map(str, chunks[0].dictionary.to_pylist())) if is_listed else ()
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return "float64", ()
    return _form_of_objects(values), ()


def _form_of_objects(values: Any) -> str:
    first = next((value for value in values if not is_missing(value)), None)
    if isinstance(first, bool | np.bool_):
        return "object bool"
    return "object date" if isinstance(first, dt.date) and not isinstance(first, dt.datetime) else "object"


# -- numbers as columns ---------------------------------------------------------------------------------------


def _objects(column: Form, codes: Any, strings: StringTable) -> Any:
    """Decode numbers to an array of Python objects, with NaN for missing values."""
    if column.kind == STRING:
        return strings.of(codes, np.nan)
    decode = _DECODE[column.form if column.form in _DECODE else column.kind]
    values = np.empty(len(codes), dtype=object)
    values[:] = [np.nan if code == MISSING else decode(code) for code in codes.tolist()]
    return values


_DECODE: dict[str, Any] = {
    NUMBER: lambda code: int(code) if code.is_integer() and abs(code) < 2**53 else code,
    TIME: lambda code: _EPOCH + dt.timedelta(microseconds=int(code)),
    ZONED: lambda code: _EPOCH_UTC + dt.timedelta(microseconds=int(code)),
    DURATION: lambda code: dt.timedelta(microseconds=int(code)),
    EMPTY: lambda _: np.nan,
    "object bool": bool,
    "bool": bool,
    "object date": lambda code: (_EPOCH + dt.timedelta(microseconds=int(code))).date(),
}


def _series(column: Form, codes: Any, strings: StringTable, seen: Any = None) -> Any:
    """Return a column of pandas of the form asked for, or of the nearest that can hold the numbers.

    ``seen`` are the codes of the categories that a model knows, None for those that are there; others become missing
    values.
    """
    pd, kind, form, missing = _pandas(), column.kind, column.form, codes == MISSING
    if form == "category":
        return _pandas_categories(column, codes, strings, np.unique(codes) if seen is None else seen)
    if kind in (TIME, ZONED, DURATION) and not form.startswith("object"):
        values = np.where(missing, 0, codes).astype(np.int64).astype("m8[us]" if kind == DURATION else "M8[us]")
        values[missing] = np.array("NaT", dtype=values.dtype)
        series = pd.Series(values)
        series = series.dt.tz_localize("UTC") if kind == ZONED else series
        return series.astype(form) if form.startswith(("datetime", "timedelta")) else series
    if kind == STRING or form.startswith("object") or (form == "bool" and missing.any()):
        values = pd.Series(_objects(column, codes, strings), dtype=object)
        return values.astype(form) if form in ("string", "str") else values
    values = pd.Series(np.where(missing, np.nan, codes))
    dtype = pd.api.types.pandas_dtype({"halffloat": "float16"}.get(form, form))
    if dtype.kind == "f":
        return values.astype(dtype)
    present, is_masked = codes[~missing], form[0].isupper() or form == "boolean"
    if dtype.kind not in "biu" or (present != np.round(present)).any() or (missing.any() and not is_masked):
        return values
    if dtype.kind != "b":
        bounds = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
        if not ((present >= float(bounds.min)) & (present < float(bounds.max) + 1)).all():
            return values
    return values.astype(form)


_PLAIN_FORMS = {TIME: "datetime64[us]", ZONED: "datetime64[us, UTC]", DURATION: "timedelta64[us]"}
"""Forms of categories that are times."""


def _pandas_categories(column: Form, codes: Any, strings: StringTable, seen: Any) -> Any:
    """Return a column of categories: the known ones in their order, then those that were seen, sorted."""
    pd, seen = _pandas(), seen[seen != MISSING]
    values = _series(replace(column, form=_PLAIN_FORMS.get(column.kind, "object")), seen, strings).tolist()
    known = set(column.categories)
    names = [*column.categories, *sorted(value for value in values if value not in known)]
    index = {name: place for place, name in enumerate(names)}
    places = np.array([*(index[value] for value in values), -1], dtype=np.intp)
    at = np.minimum(np.searchsorted(seen, codes), max(0, len(seen) - 1))
    found = seen[at] == codes if len(seen) else np.zeros(len(codes), dtype=bool)
    dtype = pd.CategoricalDtype(pd.Index(names, dtype=None if names else object), ordered=bool(column.categories))
    return pd.Series(pd.Categorical.from_codes(places[np.where(found, at, len(seen))], dtype=dtype))


def _arrow(column: Form, codes: Any, strings: StringTable, seen: Any = None) -> Any:
    """Return an Arrow array of the form asked for, or of the nearest that can hold the numbers; see :func:`_series`."""
    import pyarrow as pa

    kind, form, missing = column.kind, column.form, codes == MISSING
    if form in CATEGORICAL and seen is not None:
        missing = missing | ~np.isin(codes, seen)
    if kind == EMPTY:
        return pa.nulls(len(codes))
    known = np.where(missing, 0.0, codes)
    if kind == STRING:
        values = pa.array(strings.of(np.where(missing, MISSING, codes), None), pa.large_string())
    elif kind == NUMBER:
        values = pa.array(known, pa.float64(), mask=missing)
    else:
        ticks = pa.array(known.astype(np.int64), pa.int64(), mask=missing)
        zone = "UTC" if kind == ZONED else None
        values = ticks.cast(pa.duration("us") if kind == DURATION else pa.timestamp("us", zone))
    if form == "category":
        return _arrow_categories(values, column.categories, pa) if column.categories else values.dictionary_encode()
    if form[0].isupper():  # a type of polars, which is given its form there
        return values
    try:
        return values.cast(_arrow_type(form, pa))
    except (ValueError, pa.ArrowNotImplementedError):  # fractions among whole numbers, or a form of pandas
        return values


def _arrow_categories(values: Any, categories: tuple[str, ...], pa: Any) -> Any:
    """Return strings as ordered categories; new ones follow the known ones."""
    import pyarrow.compute as pc

    known = pa.array([*categories, *sorted(set(values.to_pylist()) - {*categories, None})], values.type)
    indices = pa.array(pc.index_in(values, value_set=known), pa.int32())
    return pa.DictionaryArray.from_arrays(indices, known, ordered=True)


def _arrow_type(form: str, pa: Any) -> Any:
    if form.startswith("timestamp"):
        unit, _, zone = form[len("timestamp[") : -1].partition(", tz=")
        return pa.timestamp(unit, zone or None)
    return pa.type_for_alias({"halffloat": "float16", "float": "float32", "double": "float64"}.get(form, form))


def _polars(column: Form, codes: Any, strings: StringTable, seen: Any = None) -> Any:
    """Return a column of polars, as :func:`_arrow` does of Arrow."""
    import polars as pl
    import pyarrow as pa

    kind, form = column.kind, column.form
    array = _arrow(replace(column, categories=()), codes, strings, seen)
    try:
        series = pl.Series(pl.from_arrow(array))
    except pl.exceptions.ComputeError:  # polars does not know the zone
        if kind != ZONED:
            raise
        series = pl.Series(pl.from_arrow(array.cast(pa.timestamp("us", "UTC"))))
    if form == "Enum":
        further = sorted(set(series.drop_nulls().to_list()) - set(column.categories))
        return series.cast(pl.Enum([*column.categories, *further]))
    dtype = getattr(pl, form, None) if form[0].isupper() else None
    if dtype is None or kind == EMPTY:
        return series
    try:
        is_exact = not dtype.is_integer() or (series.drop_nulls() == series.drop_nulls().round()).all()
        return series.cast(dtype) if is_exact else series
    except pl.exceptions.PolarsError:  # numbers beyond its range
        return series


_MAKERS = {"pandas": _series, "polars": _polars, "arrow": _arrow}


# -- both -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Encoding:
    """How rows of numbers are decoded; without a schema they are plain arrays."""

    schema: FrameSchema | None = None
    strings: StringTable = field(default_factory=StringTable)

    def decoded(
        self, points: FloatArray, trained: FloatArray | None = None, more: dict[float, str] | None = None
    ) -> Any:
        """Return rows in the container in which they came.

        ``trained`` are the rows that a model was fitted on, which decide the categories that it knows; ``more`` are
        strings of these rows, if they are not among the rows learned.
        """
        if self.schema is None:
            return points
        seen = None if trained is None else self.schema.categories_in(trained)
        return self.schema.decoded(points, self.strings if more is None else self.strings.beside(more), seen)

    def as_numbers(self, rows: Rows) -> Rows:
        """Return rows as numbers that can be compared."""
        return rows if self.schema is None else replace(rows, points=self.schema.as_numbers(rows.points))

    @property
    def is_numeric(self) -> bool:
        """Whether all columns hold numbers."""
        return self.schema is None or self.schema.is_numeric

    def check(self, points: FloatArray) -> None:
        """Raise ValueError unless the rows of a file can be decoded."""
        if self.schema is None:
            return
        self.schema.check(points)
        if not self.strings.holds(points[:, self.schema.string_columns]):
            raise ValueError("strings: found rows with strings that are not stored")

    def within(self, parts: Iterable[Rows]) -> Encoding:
        """Return the same with the strings that these rows need, and no others."""
        if self.schema is None:
            return self
        codes = [np.unique(rows.points[:, self.schema.string_columns]) for rows in parts]
        return replace(self, strings=self.strings.within(np.concatenate([np.empty(0), *codes])))

    def merged(self, other: Encoding) -> Encoding:
        """Return the encoding of the rows of both; ValueError if their types differ."""
        if self.schema is None or other.schema is None:
            if self.schema is not other.schema:
                raise ValueError("Can only merge tables with tables, and arrays with arrays.")
            return self
        if (self.schema.container in LISTS) != (other.schema.container in LISTS):
            raise ValueError("Can only merge tables with tables, and strings with strings.")
        columns = [_merged(one, two) for one, two in zip(self.schema.columns, other.schema.columns, strict=True)]
        return Encoding(replace(self.schema, columns=tuple(columns)), self.strings.merged(other.strings))


def _merged(one: Form, two: Form) -> Form:
    if two.kind in (one.kind, EMPTY):
        return one
    if one.kind == EMPTY:
        return two
    raise ValueError(
        f"Can only merge columns of the same type: {one.name!r} holds a {one.kind} here and a {two.kind} there."
    )
