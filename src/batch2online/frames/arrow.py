"""Columns of Arrow, and of polars by way of Arrow, as numbers, and back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.frames.columns import (
    MISSING,
    ColumnType,
    ColumnValueError,
    EncodedColumn,
    of_floats,
    of_integers,
    of_ticks,
)
from batch2online.frames.objects import of_objects

_ZONE = r"[A-Za-z0-9_+\-/:]{1,64}"
FORMS = re.compile(
    r"u?int(8|16|32|64)|halffloat|float|double|bool|null|(large_)?string(_view)?|date(32|64)\[(day|ms)\]|category"
    rf"|duration\[(s|ms|us|ns)\]|timestamp\[(s|ms|us|ns)(, tz={_ZONE})?\]|[A-Z][A-Za-z0-9]*"
)
"""Names of the types that a column can have, Arrow's and those of polars."""

_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}


def of_array(array: Any, form: str | None = None) -> EncodedColumn:
    """Return an Arrow array, in chunks or not, as cells."""
    import pyarrow as pa

    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if isinstance(array, pa.ChunkedArray):  # no chunks, or several of a dictionary
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    form, found = form or str(array.type), column_type(array.type)
    if pa.types.is_dictionary(array.type):
        return _of_dictionary(array, form if form[0].isupper() else "category")
    if found == ColumnType.STRING:
        return of_objects(array.to_pylist(), form)
    missing = np.asarray(array.is_null())
    if found == ColumnType.ALL_MISSING:
        return EncodedColumn(found, form, np.full(len(array), MISSING))
    codes = _codes(array, found, missing)
    return EncodedColumn(ColumnType.ALL_MISSING if missing.all() else found, form, codes)


def column_type(dtype: Any) -> ColumnType:
    """Return what a column of this Arrow type holds; of a dictionary, what its values are."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(dtype):
        return column_type(dtype.value_type)
    if types.is_integer(dtype) or types.is_floating(dtype):
        return ColumnType.NUMBER
    if types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype):
        return ColumnType.STRING
    if types.is_timestamp(dtype):
        return ColumnType.TIME if dtype.tz is None else ColumnType.ZONED
    others = {
        ColumnType.BOOLEAN: types.is_boolean,
        ColumnType.DATE: types.is_date,
        ColumnType.DURATION: types.is_duration,
        ColumnType.ALL_MISSING: types.is_null,
    }
    return next((found for found, holds in others.items() if holds(dtype)), ColumnType.OTHER)


def _codes(array: Any, found: ColumnType, missing: Any) -> FloatArray:
    """Return the values of an Arrow array of this type as numbers."""
    import pyarrow as pa

    if found == ColumnType.BOOLEAN:
        return np.where(missing, MISSING, _filled(array, False).astype(np.float64))
    if pa.types.is_integer(array.type):
        return of_integers(_filled(array, 0), missing)
    if found == ColumnType.NUMBER:
        return of_floats(np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64))
    if found == ColumnType.DATE:
        return of_integers(_filled(array.cast(pa.date32()).cast(pa.int32()), 0), missing)
    if found in (ColumnType.TIME, ColumnType.ZONED, ColumnType.DURATION):
        return of_ticks(_filled(array.cast(pa.int64()), 0), missing, array.type.unit)
    raise ColumnValueError(0, f"is of type {array.type}: neither number, text, category, truth value nor date.")


def _filled(array: Any, value: Any) -> Any:
    return np.asarray(array.fill_null(value).to_numpy(zero_copy_only=False))


def _of_dictionary(array: Any, form: str) -> EncodedColumn:
    numbers = np.where(np.asarray(array.is_null()), -1, _filled(array.indices.cast("int64"), 0))
    used = np.unique(numbers[numbers >= 0])
    try:
        inner = of_array(array.dictionary.take(used))
    except ColumnValueError as error:
        raise ColumnValueError(int((numbers == used[error.row]).argmax()), error.why) from error
    codes = np.append(inner.codes, MISSING)[np.where(numbers < 0, len(used), np.searchsorted(used, numbers))]
    is_listed = form == "Enum" or (array.type.ordered and inner.kind == ColumnType.STRING)
    levels = tuple(array.dictionary.to_pylist()) if is_listed else ()
    return EncodedColumn(inner.kind if len(used) else ColumnType.ALL_MISSING, form, codes, inner.texts, levels)


def array_of(kind: str, form: str, levels: tuple[str, ...], codes: Any, texts: Any, seen: Any = None) -> Any:
    """Return cells as an Arrow array of this form, or of the nearest that can hold them."""
    import pyarrow as pa

    missing = codes == MISSING
    if form in ("category", "Categorical", "Enum") and seen is not None:
        missing = missing | ~np.isin(codes, seen)
    if kind == ColumnType.STRING:
        values = pa.array(texts.of(np.where(missing, MISSING, codes), None), pa.large_string())
    elif kind == ColumnType.ALL_MISSING:
        return pa.nulls(len(codes))
    else:
        values = _plain(kind, np.where(missing, 0.0, codes), missing, pa)
    return _shaped(values, kind, form, levels, pa)


def _plain(kind: str, codes: Any, missing: Any, pa: Any) -> Any:
    if kind == ColumnType.NUMBER:
        return pa.array(codes, pa.float64(), mask=missing)
    if kind == ColumnType.BOOLEAN:
        return pa.array(codes.astype(bool), pa.bool_(), mask=missing)
    if kind == ColumnType.DATE:
        return pa.array(codes.astype(np.int32), pa.int32(), mask=missing).cast(pa.date32())
    ticks = pa.array(codes.astype(np.int64), pa.int64(), mask=missing)
    if kind == ColumnType.DURATION:
        return ticks.cast(pa.duration("us"))
    return ticks.cast(pa.timestamp("us", "UTC" if kind == ColumnType.ZONED else None))


def _shaped(values: Any, kind: str, form: str, levels: tuple[str, ...], pa: Any) -> Any:
    """Return values in the form asked for where they fit into it."""
    if form == "category":
        if levels:
            known = pa.array([*levels, *sorted(set(values.to_pylist()) - {*levels, None})], values.type)
            return pa.DictionaryArray.from_arrays(pa.array(_places(values, known), pa.int32()), known, ordered=True)
        return values.dictionary_encode()
    if form[0].isupper():  # a type of polars, which is given its form there
        return values
    try:
        return values.cast(_type_of(form, pa))
    except (ValueError, pa.ArrowNotImplementedError):  # fractions among whole numbers, or a form of pandas
        return values


def _places(values: Any, known: Any) -> Any:
    import pyarrow.compute as pc

    return pc.index_in(values, value_set=known)


def _type_of(form: str, pa: Any) -> Any:
    if form.startswith("timestamp"):
        unit, _, zone = form[len("timestamp[") : -1].partition(", tz=")
        return pa.timestamp(unit, zone or None)
    return pa.type_for_alias(_FLOATS.get(form, form))


def of_polars(series: Any) -> EncodedColumn:
    """Return a column of polars as cells."""
    import polars as pl

    dtype = series.dtype
    if dtype.is_nested() or dtype in (pl.Object, pl.Binary, pl.Time) or dtype.is_decimal():
        raise ColumnValueError(0, f"is of type {dtype}: neither number, text, category, truth value nor date.")
    form = type(dtype).__name__ if isinstance(dtype, pl.Categorical | pl.Enum) else f"{dtype.base_type().__name__}"
    made = of_array(series.to_arrow(), None if dtype.is_temporal() else form)
    levels = tuple(dtype.categories.to_list()) if isinstance(dtype, pl.Enum) else ()
    return EncodedColumn(made.kind, made.form, made.codes, made.texts, levels)


def _series(array: Any, kind: str) -> Any:
    import polars as pl
    import pyarrow as pa

    try:
        return pl.Series(pl.from_arrow(array))
    except pl.exceptions.ComputeError:
        if kind != ColumnType.ZONED:
            raise
        return pl.Series(pl.from_arrow(array.cast(pa.timestamp("us", "UTC"))))  # polars does not know the zone


def polars_of(kind: str, form: str, levels: tuple[str, ...], codes: Any, texts: Any, seen: Any = None) -> Any:
    """Return cells as a column of polars."""
    import polars as pl

    series = _series(array_of(kind, form, (), codes, texts, seen), kind)
    if form == "Enum":
        further = sorted(set(series.drop_nulls().to_list()) - set(levels))
        return series.cast(pl.Enum([*levels, *further]))
    dtype = getattr(pl, form, None) if form[0].isupper() else None
    if dtype is None or kind == ColumnType.ALL_MISSING:
        return series
    try:
        is_exact = not dtype.is_integer() or (series.drop_nulls() == series.drop_nulls().round()).all()
        return series.cast(dtype) if is_exact else series
    except pl.exceptions.PolarsError:  # numbers beyond its range
        return series
