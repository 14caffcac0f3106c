"""Columns of pandas as numbers, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from batch2online.frames.columns import (
    MISSING,
    PANDAS_FORMS,
    ColumnType,
    ColumnValueError,
    EncodedColumn,
    FrameColumn,
    of_categories,
    of_floats,
    of_integers,
    of_ticks,
    unsupported,
)
from batch2online.frames.objects import objects, of_objects
from batch2online.frames.strings import StringTable


def of_series(series: Any) -> EncodedColumn:
    """Encode a column."""
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.SparseDtype):
        return of_series(series.sparse.to_dense())
    if isinstance(dtype, pd.CategoricalDtype):
        names = series.cat.categories
        return of_categories(
            series.cat.codes.to_numpy(),
            "category",
            lambda used: of_series(pd.Series(names.take(used))),
            (lambda: names) if series.cat.ordered else None,
        )
    if dtype.kind == "O" or isinstance(dtype, pd.StringDtype):
        return of_objects(series.to_numpy(dtype=object), "string" if isinstance(dtype, pd.StringDtype) else "object")
    if isinstance(dtype, pd.ArrowDtype):
        return of_series(_without_arrow(series))
    if dtype.kind in "mM":
        return _of_times(series)
    if dtype.kind not in "iufb":
        raise unsupported(dtype)
    return _of_numbers(series)


def _without_arrow(series: Any) -> Any:
    """Return a column of Arrow's types in a type of pandas' own."""
    import pyarrow as pa

    try:
        return series.astype(series.convert_dtypes(dtype_backend="numpy_nullable").dtype)
    except KeyError:  # times, dates and categories, which convert_dtypes does not know
        return pa.array(series).to_pandas()


def _of_numbers(series: Any) -> EncodedColumn:
    form, missing = str(series.dtype), series.isna().to_numpy()
    if series.dtype.kind in "iu":
        whole = "uint64" if series.dtype.kind == "u" else "int64"
        values = series.to_numpy(dtype=whole, na_value=0) if missing.any() else series.to_numpy(dtype=whole)
        return EncodedColumn(ColumnType.NUMBER, form, of_integers(values, missing))
    if series.dtype.kind == "f" and series.dtype.itemsize > 8:
        raise ColumnValueError(0, f"is of type {series.dtype}, of which no double holds all digits: use float64.")
    numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
    kind = ColumnType.BOOLEAN if series.dtype.kind == "b" else ColumnType.NUMBER
    return EncodedColumn(ColumnType.ALL_MISSING if missing.all() else kind, form, of_floats(numbers))


def _of_times(series: Any) -> EncodedColumn:
    form, missing = str(series.dtype), series.isna().to_numpy()
    kind = ColumnType.TIME if series.dtype.kind == "M" else ColumnType.DURATION
    if getattr(series.dtype, "tz", None) is not None:
        kind = ColumnType.ZONED
        form = form if PANDAS_FORMS.fullmatch(form) else f"datetime64[{series.dtype.unit}, UTC]"  # it has no name
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    values = series.to_numpy()
    codes = of_ticks(values.view(np.int64), missing, np.datetime_data(values.dtype)[0])
    return EncodedColumn(ColumnType.ALL_MISSING if missing.all() else kind, form, codes)


def series_of(column: FrameColumn, codes: Any, strings: StringTable, seen: Any = None) -> Any:
    """Decode numbers to a column of the form asked for, or of the nearest that can hold them.

    ``seen`` are the codes of the categories that a model knows, None for those that are there; others become missing
    values.
    """
    import pandas as pd

    kind, form = column.kind, column.form
    if form == "category":
        return _categories(column, codes, strings, np.unique(codes) if seen is None else seen)
    if kind in (ColumnType.TIME, ColumnType.ZONED, ColumnType.DURATION) and form != "object":
        return _times(kind, form, codes)
    if kind in (ColumnType.STRING, ColumnType.DATE) or form == "object":
        values = pd.Series(objects(kind, codes, strings), dtype=object)
        return values.astype(form) if kind != ColumnType.DATE and form in ("string", "str") else values
    return _numbers(kind, form, codes, strings)


def _numbers(kind: str, form: str, codes: Any, strings: StringTable) -> Any:
    import pandas as pd

    missing = codes == MISSING
    values = pd.Series(np.where(missing, np.nan, codes))
    dtype = pd.api.types.pandas_dtype({"halffloat": "float16"}.get(form, form))
    if dtype.kind == "f":
        return values.astype(dtype)
    if dtype.kind == "b" and missing.any() and form == "bool":
        return pd.Series(objects(kind, codes, strings), dtype=object)
    if dtype.kind not in "biu":
        return values
    present, is_masked = codes[~missing], form[0].isupper() or form == "boolean"
    if (present != np.round(present)).any() or (missing.any() and not is_masked):
        return values
    if dtype.kind != "b":
        bounds = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
        if not ((present >= float(bounds.min)) & (present < float(bounds.max) + 1)).all():
            return values
    return values.astype(form)


def _times(kind: str, form: str, codes: Any) -> Any:
    import pandas as pd

    missing = codes == MISSING
    ticks = np.where(missing, 0, codes).astype(np.int64)
    values = ticks.astype("timedelta64[us]" if kind == ColumnType.DURATION else "datetime64[us]")
    values[missing] = np.array("NaT", dtype=values.dtype)
    series = pd.Series(values)
    if kind == ColumnType.ZONED:
        series = series.dt.tz_localize("UTC")
    return series.astype(form) if form.startswith(("datetime", "timedelta")) else series


_FORMS: dict[str, str] = {
    ColumnType.TIME: "datetime64[us]",
    ColumnType.ZONED: "datetime64[us, UTC]",
    ColumnType.DURATION: "timedelta64[us]",
}
"""Forms of categories that are times."""


def _categories(column: FrameColumn, codes: Any, strings: StringTable, seen: Any) -> Any:
    """Return a column of categories: the known ones in their order, then those that were seen, sorted."""
    import pandas as pd

    seen = seen[seen != MISSING]
    values = series_of(replace(column, form=_FORMS.get(column.kind, "object")), seen, strings).tolist()
    known = set(column.categories)
    names = [*column.categories, *sorted(value for value in values if value not in known)]
    index = {name: place for place, name in enumerate(names)}
    places = np.array([*(index[value] for value in values), -1], dtype=np.intp)
    at = np.minimum(np.searchsorted(seen, codes), max(0, len(seen) - 1))
    found = seen[at] == codes if len(seen) else np.zeros(len(codes), dtype=bool)
    dtype = pd.CategoricalDtype(pd.Index(names, dtype=None if names else object), ordered=bool(column.categories))
    return pd.Series(pd.Categorical.from_codes(places[np.where(found, at, len(seen))], dtype=dtype))


def frame(names: Any, columns: list[Any]) -> Any:
    """Return a data frame of these columns."""
    import pandas as pd

    result = pd.concat(columns, axis=1, copy=False) if columns else pd.DataFrame()
    result.columns = pd.Index(names)
    return result
