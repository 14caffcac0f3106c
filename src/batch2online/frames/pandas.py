"""Columns of pandas as numbers, and back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from batch2online.frames.columns import (
    MISSING,
    ColumnType,
    ColumnValueError,
    EncodedColumn,
    of_floats,
    of_integers,
    of_ticks,
)
from batch2online.frames.objects import objects, of_objects

_ZONE = r"[A-Za-z0-9_+\-/:]{1,64}"
FORMS = re.compile(
    r"u?int(8|16|32|64)|U?Int(8|16|32|64)|float(16|32|64)|Float(32|64)|bool|boolean|object|str|string|category"
    rf"|(datetime|timedelta)64\[(s|ms|us|ns)\]|datetime64\[(s|ms|us|ns), {_ZONE}\]"
)
"""Names of the types that a column can have."""


def of_series(series: Any) -> EncodedColumn:
    """Return a column as cells."""
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.SparseDtype):
        return of_series(series.sparse.to_dense())
    if isinstance(dtype, pd.CategoricalDtype):
        return _of_categories(series)
    if dtype.kind == "O" or isinstance(dtype, pd.StringDtype):
        return of_objects(series.to_numpy(dtype=object), "string" if isinstance(dtype, pd.StringDtype) else "object")
    if isinstance(dtype, pd.ArrowDtype):
        return of_series(_without_arrow(series))
    if dtype.kind in "mM":
        return _of_times(series)
    if dtype.kind not in "iufb":
        raise ColumnValueError(0, f"is of type {dtype}: neither number, text, category, truth value nor date.")
    return _of_numbers(series, pd)


def _without_arrow(series: Any) -> Any:
    """Return a column of Arrow's types in a type of pandas' own."""
    import pyarrow as pa

    try:
        return series.astype(series.convert_dtypes(dtype_backend="numpy_nullable").dtype)
    except KeyError:  # times, dates and categories, which convert_dtypes does not know
        return pa.array(series).to_pandas()


def _of_numbers(series: Any, pd: Any) -> EncodedColumn:
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
        form = form if FORMS.fullmatch(form) else f"datetime64[{series.dtype.unit}, UTC]"  # a zone without a name
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    values = series.to_numpy()
    unit = np.datetime_data(values.dtype)[0]
    codes = of_ticks(values.view(np.int64), missing, unit)
    return EncodedColumn(ColumnType.ALL_MISSING if missing.all() else kind, form, codes)


def _of_categories(series: Any) -> EncodedColumn:
    """Return categories as cells: only those that stand in the column are looked at."""
    import pandas as pd

    numbers = series.cat.codes.to_numpy()
    used = np.unique(numbers[numbers >= 0])
    try:
        inner = of_series(pd.Series(series.cat.categories.take(used)))
    except ColumnValueError as error:
        row = int((numbers == used[error.row]).argmax()) if len(used) else 0
        raise ColumnValueError(row, error.why) from error
    codes = np.append(inner.codes, MISSING)[np.where(numbers < 0, len(used), np.searchsorted(used, numbers))]
    is_ordered = series.cat.ordered and inner.kind == ColumnType.STRING
    levels = tuple(map(str, series.cat.categories)) if is_ordered else ()
    return EncodedColumn(inner.kind if len(used) else ColumnType.ALL_MISSING, "category", codes, inner.texts, levels)


def series_of(kind: str, form: str, levels: tuple[str, ...], codes: Any, texts: Any, seen: Any = None) -> Any:
    """Return cells as a column of this form, or of the nearest that can hold them.

    ``seen`` are the codes that a category can have, None for those that are there; others become gaps.
    """
    import pandas as pd

    if form == "category":
        return _categories(kind, levels, codes, texts, np.unique(codes) if seen is None else seen)
    if kind in (ColumnType.TIME, ColumnType.ZONED, ColumnType.DURATION) and form != "object":
        return _times(kind, form, codes)
    if kind == ColumnType.STRING or form == "object":
        values = pd.Series(objects(kind, codes, texts), dtype=object)
        return values.astype(form) if form in ("string", "str") else values
    if kind == ColumnType.DATE:
        return pd.Series(objects(kind, codes, texts), dtype=object)
    return _numbers(form, codes, kind)


def _numbers(form: str, codes: Any, kind: str) -> Any:
    import pandas as pd

    missing = codes == MISSING
    values = pd.Series(np.where(missing, np.nan, codes))
    dtype = pd.api.types.pandas_dtype({"halffloat": "float16"}.get(form, form))
    if dtype.kind in "fO":
        return values.astype(dtype) if dtype.kind == "f" else values
    if dtype.kind == "b" and missing.any() and form == "bool":
        return pd.Series(objects(kind, codes, None), dtype=object)
    if dtype.kind not in "biu":
        return values
    is_masked = form[0].isupper() or form == "boolean"
    fits = (codes[~missing] == np.round(codes[~missing])).all() and (is_masked or not missing.any())
    with np.errstate(invalid="ignore"):
        is_exact = fits and (dtype.kind == "b" or _is_within(codes[~missing], dtype))
    return values.astype("boolean" if form == "boolean" else form) if is_exact else values


def _is_within(values: Any, dtype: Any) -> bool:
    bounds = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
    return bool(((values >= float(bounds.min)) & (values < float(bounds.max) + 1)).all())


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


def _categories(kind: str, levels: tuple[str, ...], codes: Any, texts: Any, seen: Any) -> Any:
    import pandas as pd

    seen = seen[seen != MISSING]
    forms: dict[str, str] = {
        ColumnType.TIME: "datetime64[us]",
        ColumnType.ZONED: "datetime64[us, UTC]",
        ColumnType.DURATION: "timedelta64[us]",
    }
    form = forms.get(kind, "object")
    values = series_of(kind, form, (), seen, texts).tolist()
    order = sorted(range(len(values)), key=values.__getitem__)
    place = np.empty(len(seen) + 1, dtype=np.intp)
    place[order], place[-1] = np.arange(len(seen)), -1
    names = [values[number] for number in order]
    if levels:
        known = {name: number for number, name in enumerate(levels)}
        further = [name for name in names if name not in known]
        place[order] = [
            known.get(name, len(levels) + (further.index(name) if name in further else 0)) for name in names
        ]
        names = [*levels, *further]
    at = np.minimum(np.searchsorted(seen, codes), max(0, len(seen) - 1))
    found = seen[at] == codes if len(seen) else np.zeros(len(codes), dtype=bool)
    index = pd.Index(names, dtype=None if names else object)
    return pd.Series(pd.Categorical.from_codes(place[np.where(found, at, len(seen))], index, ordered=bool(levels)))


def plain_frame(names: Any, points: Any) -> Any:
    """Return a data frame of numbers, which gives the array back as it is."""
    import pandas as pd

    return pd.DataFrame(points, columns=pd.Index(names), copy=False)


def frame(names: Any, columns: list[Any]) -> Any:
    """Return a data frame of these columns."""
    import pandas as pd

    result = pd.concat(columns, axis=1, copy=False) if columns else pd.DataFrame()
    result.columns = pd.Index(names)
    return result
