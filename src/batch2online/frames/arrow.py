"""Columns of Arrow, and of polars by way of Arrow, as numbers, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.frames.columns import (
    CATEGORICAL,
    MISSING,
    ColumnType,
    EncodedColumn,
    FrameColumn,
    of_categories,
    of_floats,
    of_integers,
    of_ticks,
    unsupported,
)
from batch2online.frames.objects import of_objects
from batch2online.frames.strings import StringTable

_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}


def of_array(array: Any, form: str | None = None) -> EncodedColumn:
    """Encode an Arrow array, in chunks or not."""
    import pyarrow as pa

    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if isinstance(array, pa.ChunkedArray):  # no chunks, or several of a dictionary
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    form, found = form or str(array.type), column_type(array.type)
    if array.type == pa.float64() and len(array) and not array.null_count:  # most columns: five times as fast
        return EncodedColumn(found, form, _codes(array, found, None))
    missing = np.asarray(array.is_null())
    if pa.types.is_dictionary(array.type):
        form = form if form[0].isupper() else "category"
        indices = np.where(missing, -1, _filled(array.indices.cast("int64"), 0))
        all_names = array.dictionary.to_pylist if form == "Enum" or array.type.ordered else None
        return of_categories(indices, form, lambda used: of_array(array.dictionary.take(used)), all_names)
    if found == ColumnType.STRING:
        encoded = (array.cast("large_string") if pa.types.is_string_view(array.type) else array).dictionary_encode()
        indices = np.where(missing, -1, _filled(encoded.indices.cast("int64"), 0))
        return of_categories(indices, form, lambda used: of_objects(encoded.dictionary.take(used).to_pylist()), None)
    if found == ColumnType.ALL_MISSING:
        return EncodedColumn(found, form, np.full(len(array), MISSING))
    codes = _codes(array, found, missing)
    return EncodedColumn(ColumnType.ALL_MISSING if missing.all() else found, form, codes)


def column_type(dtype: Any) -> ColumnType:
    """Return the type of a column of this Arrow type; of a dictionary, that of its values."""
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
    raise unsupported(array.type)


def _filled(array: Any, value: Any) -> Any:
    return np.asarray(array.fill_null(value).to_numpy(zero_copy_only=False))


def array_of(column: FrameColumn, codes: Any, strings: StringTable, seen: Any = None) -> Any:
    """Decode numbers to an Arrow array of the form of the column, or of the nearest that can hold them.

    ``seen`` are the codes of the categories that a model knows; others become missing values.
    """
    import pyarrow as pa

    kind, form, missing = column.kind, column.form, codes == MISSING
    if form in CATEGORICAL and seen is not None:
        missing = missing | ~np.isin(codes, seen)
    if kind == ColumnType.ALL_MISSING:
        return pa.nulls(len(codes))
    if kind == ColumnType.STRING:
        values = pa.array(strings.of(np.where(missing, MISSING, codes), None), pa.large_string())
    else:
        values = _plain(kind, np.where(missing, 0.0, codes), missing, pa)
    if form == "category":
        return _categories(values, column.categories, pa) if column.categories else values.dictionary_encode()
    if form[0].isupper():  # a type of polars, which is given its form there
        return values
    try:
        return values.cast(_type_of(form, pa))
    except (ValueError, pa.ArrowNotImplementedError):  # fractions among whole numbers, or a form of pandas
        return values


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


def _categories(values: Any, categories: tuple[str, ...], pa: Any) -> Any:
    """Return strings as ordered categories; new ones follow the known ones."""
    import pyarrow.compute as pc

    known = pa.array([*categories, *sorted(set(values.to_pylist()) - {*categories, None})], values.type)
    indices = pa.array(pc.index_in(values, value_set=known), pa.int32())
    return pa.DictionaryArray.from_arrays(indices, known, ordered=True)


def _type_of(form: str, pa: Any) -> Any:
    if form.startswith("timestamp"):
        unit, _, zone = form[len("timestamp[") : -1].partition(", tz=")
        return pa.timestamp(unit, zone or None)
    return pa.type_for_alias(_FLOATS.get(form, form))


def of_polars(series: Any) -> EncodedColumn:
    """Encode a column of polars."""
    import polars as pl

    dtype = series.dtype
    if dtype.is_nested() or dtype in (pl.Object, pl.Binary, pl.Time) or dtype.is_decimal():
        raise unsupported(dtype)
    form = type(dtype).__name__ if isinstance(dtype, pl.Categorical | pl.Enum) else f"{dtype.base_type().__name__}"
    made = of_array(series.to_arrow(), None if dtype.is_temporal() else form)
    return replace(made, categories=tuple(dtype.categories.to_list()) if isinstance(dtype, pl.Enum) else ())


def polars_of(column: FrameColumn, codes: Any, strings: StringTable, seen: Any = None) -> Any:
    """Decode numbers to a column of polars, as :func:`array_of` does for Arrow."""
    import polars as pl
    import pyarrow as pa

    kind, form = column.kind, column.form
    array = array_of(replace(column, categories=()), codes, strings, seen)
    try:
        series = pl.Series(pl.from_arrow(array))
    except pl.exceptions.ComputeError:  # polars does not know the zone
        if kind != ColumnType.ZONED:
            raise
        series = pl.Series(pl.from_arrow(array.cast(pa.timestamp("us", "UTC"))))
    if form == "Enum":
        further = sorted(set(series.drop_nulls().to_list()) - set(column.categories))
        return series.cast(pl.Enum([*column.categories, *further]))
    dtype = getattr(pl, form, None) if form[0].isupper() else None
    if dtype is None or kind == ColumnType.ALL_MISSING:
        return series
    try:
        is_exact = not dtype.is_integer() or (series.drop_nulls() == series.drop_nulls().round()).all()
        return series.cast(dtype) if is_exact else series
    except pl.exceptions.PolarsError:  # numbers beyond its range
        return series
