"""Numbers as columns of pandas, polars or Arrow, or as objects: the way back from rows that an engine keeps."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import numpy as np

from batch2online.tables.columns import DURATION, EMPTY, EPOCH, EPOCH_UTC, NUMBER, STRING, TIME, ZONED
from batch2online.tables.forms import CATEGORICAL, Form
from batch2online.tables.strings import MISSING, StringTable


def objects(column: Form, codes: Any, strings: StringTable) -> Any:
    """Decode numbers to an array of Python objects, with NaN for missing values."""
    if column.kind == STRING:
        return strings.of(codes, np.nan)
    decode = _DECODE[column.form if column.form in _DECODE else column.kind]
    values = np.empty(len(codes), dtype=object)
    values[:] = [np.nan if code == MISSING else decode(code) for code in codes.tolist()]
    return values


_DECODE: dict[str, Any] = {
    NUMBER: lambda code: int(code) if code.is_integer() and abs(code) < 2**53 else code,
    TIME: lambda code: EPOCH + dt.timedelta(microseconds=int(code)),
    ZONED: lambda code: EPOCH_UTC + dt.timedelta(microseconds=int(code)),
    DURATION: lambda code: dt.timedelta(microseconds=int(code)),
    EMPTY: lambda _: np.nan,
    "object bool": bool,
    "bool": bool,
    "object date": lambda code: (EPOCH + dt.timedelta(microseconds=int(code))).date(),
}


def series_of(column: Form, codes: Any, strings: StringTable, seen: Any = None) -> Any:
    """Return a column of pandas of the form asked for, or of the nearest that can hold the numbers.

    ``seen`` are the codes of the categories that a model knows, None for those that are there; others become missing
    values.
    """
    import pandas as pd

    kind, form, missing = column.kind, column.form, codes == MISSING
    if form == "category":
        return _pandas_categories(column, codes, strings, np.unique(codes) if seen is None else seen)
    if kind in (TIME, ZONED, DURATION) and not form.startswith("object"):
        values = np.where(missing, 0, codes).astype(np.int64).astype("m8[us]" if kind == DURATION else "M8[us]")
        values[missing] = np.array("NaT", dtype=values.dtype)
        series = pd.Series(values)
        series = series.dt.tz_localize("UTC") if kind == ZONED else series
        return series.astype(form) if form.startswith(("datetime", "timedelta")) else series
    if kind == STRING or form.startswith("object") or (form == "bool" and missing.any()):
        values = pd.Series(objects(column, codes, strings), dtype=object)
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
    import pandas as pd

    seen = seen[seen != MISSING]
    values = series_of(replace(column, form=_PLAIN_FORMS.get(column.kind, "object")), seen, strings).tolist()
    known = set(column.categories)
    names = [*column.categories, *sorted(value for value in values if value not in known)]
    index = {name: place for place, name in enumerate(names)}
    places = np.array([*(index[value] for value in values), -1], dtype=np.intp)
    at = np.minimum(np.searchsorted(seen, codes), max(0, len(seen) - 1))
    found = seen[at] == codes if len(seen) else np.zeros(len(codes), dtype=bool)
    dtype = pd.CategoricalDtype(pd.Index(names, dtype=None if names else object), ordered=bool(column.categories))
    return pd.Series(pd.Categorical.from_codes(places[np.where(found, at, len(seen))], dtype=dtype))


def arrow_of(column: Form, codes: Any, strings: StringTable, seen: Any = None) -> Any:
    """Return an Arrow array of the form asked for, or of the nearest that holds the numbers; see :func:`series_of`."""
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


def polars_of(column: Form, codes: Any, strings: StringTable, seen: Any = None) -> Any:
    """Return a column of polars, as :func:`arrow_of` does of Arrow."""
    import polars as pl
    import pyarrow as pa

    kind, form = column.kind, column.form
    array = arrow_of(replace(column, categories=()), codes, strings, seen)
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


MAKERS = {"pandas": series_of, "polars": polars_of, "arrow": arrow_of}
"""The function that makes a column, by container."""
