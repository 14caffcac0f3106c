"""Options of files and of their columns, each declared once, as those of estimators are."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from batch2online.declaration import setting, settings_of

_SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " ", "whitespace": "whitespace"}


def _separator(written: str) -> str:
    """Return a separator; those that are hard to type in a shell have names."""
    if written not in _SEPARATORS and len(written) != 1:
        raise ValueError(f"sep {written!r} is not one character, nor 'tab', 'space' or 'whitespace'.")
    return _SEPARATORS.get(written, written)


def _encoding(written: str) -> str:
    try:
        return codecs.lookup(written).name
    except LookupError:
        raise ValueError(f"encoding {written!r} is not a known encoding; try cp1252 or latin-1.") from None


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """Format of a file; the defaults suit most files."""

    format: Literal["csv", "tsv", "jsonl", "parquet", "arrow"] | None = setting(
        "Format of FILE. Default: inferred.", default=None
    )
    header: bool = setting("Whether the first line contains the column names.", default=True)
    sep: str | None = setting(
        "Separator of values: a character, tab, space or whitespace. Default: inferred.",
        default=None,
        metavar="C",
        parse=_separator,
    )
    decimal: str = setting("Decimal separator.", default=".", metavar="C")
    encoding: str | None = setting(
        "Encoding, e.g. cp1252. Default: UTF-8.", default=None, metavar="NAME", parse=_encoding
    )
    comment: str | None = setting("Skip lines that start with C.", default=None, metavar="C")
    skip_lines: int = setting("Skip the first N lines.", default=0, ge=0)
    bad_lines: Literal["refuse", "drop"] = setting(
        "Lines with too few or too many values: raise an error or drop them.", default="refuse"
    )
    na_values: tuple[str, ...] = setting("Additional strings to read as missing.", default=())
    date_format: str | None = setting(
        "strptime format of dates, e.g. %d.%m.%Y. Default: ISO 8601.", default=None, metavar="F"
    )
    query: str | None = setting(
        "Query of a SQLite or DuckDB database; without FILE, DuckDB reads the files it names.",
        default=None,
        metavar="SQL",
    )


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Columns of a table, and how they become numbers.

    ``Settings.of_columns`` of the command line passes the latter to :class:`batch2online.Columns`.
    """

    target: str | None = setting("Column to predict.", default=None, metavar="COLUMN")
    columns: tuple[str, ...] = setting("Features. Default: all other columns.", default=())
    exclude: tuple[str, ...] = setting("Columns to ignore.", default=())
    missing: Literal["indicator", "mean", "drop", "refuse", "keep"] = setting(
        "Missing values: impute the mean and add a column that says where, impute the mean alone, drop the row, raise "
        "an error, or pass NaN to --estimator.",
        default="indicator",
    )
    categories: Literal["encode", "refuse"] = setting(
        "String columns: one-hot encode them or raise an error.", default="encode"
    )
    unknown: Literal["other", "ignore", "refuse"] = setting(
        "Categories not among the first rows: encode as 'other', as all zeros, or raise an error.", default="other"
    )
    max_levels: int = setting(
        "Maximum number of one-hot columns per feature; the most frequent categories get one.", default=100, ge=1
    )
    dates: Literal["number", "parts", "refuse"] = setting(
        "Dates: encode as days, as days, hour, weekday and month, or raise an error.", default="number"
    )


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """Which rows decide how columns become numbers, and their order."""

    standardize: bool = setting("Standardize numeric features by the first rows.", default=False)
    lookahead: int | None = setting(
        "Rows used to infer categories, means and scales. Default: the first 10000 of the stream.",
        default=None,
        ge=1,
    )
    order: Literal["given", "random"] = setting("Order of the rows.", default="given")


def file_format(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of :class:`FileFormat` among written options; raise ValueError for others than declared."""
    known = {each.name: each for each in settings_of(FileFormat)}
    return {name: known[name].value(known[name].parsed(given[name])) for name in known if given.get(name) is not None}
