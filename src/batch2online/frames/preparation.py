"""Columns of a table as features: means for missing values, one-hot encoding, parts of dates; inferred from first rows.

The command line and ``columns="auto"`` share it. Columns are arrays of numbers by name: dates are days since 1970,
durations hours, strings hashes, and NaN is a missing value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.frames.columns import MISSING, ColumnType, FrameColumn
from batch2online.frames.strings import hash_code
from batch2online.schema import require, storable
from batch2online.validation import LARGEST

LOOKAHEAD = 10_000
"""Rows from which a preparation is inferred."""

MAX_CATEGORIES = 100
"""One-hot columns of a string column."""

Table = dict[str, FloatArray]
"""Columns by name: numbers, NaN for missing values, hashes of strings."""

_BLOCK = 64
_UNNAMED = re.compile(r"(|Unnamed: \d+(\.\d+)?|__index_level_\d+__)( \(\d+\))?")
_INDEX_NAME = re.compile(r"(index|rownames|level_0)( \(\d+\))?")


def _month(days: FloatArray) -> FloatArray:
    known = np.isfinite(days)
    dates = np.where(known, days, 0.0).astype("datetime64[D]")
    return np.where(known, dates.astype("datetime64[M]").astype(np.int64) % 12 + 1, np.nan)


PARTS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "hour": lambda days: days % 1 * 24,
    "weekday": lambda days: (np.floor(days) + 3) % 7 + 1,  # 1 January 1970 was a Thursday
    "month": _month,
}
"""Parts of dates as functions of days since 1970; NaN if a date is missing."""

PER_UNIT: dict[str, float] = {ColumnType.TIME: 86_400e6, ColumnType.ZONED: 86_400e6, ColumnType.DURATION: 3_600e6}
"""Microseconds of a day for times, of an hour for durations."""


def feature_values(column: FrameColumn, codes: FloatArray) -> FloatArray:
    """Return the codes of a column of a table as values of a :data:`Table`."""
    values = np.where(codes == MISSING, np.nan, codes)
    return values / PER_UNIT[column.kind] if column.kind in PER_UNIT else values


@storable
@dataclass(frozen=True, kw_only=True)
class ColumnPreparation:
    """How columns become features.

    Attributes
    ----------
    numbers : list of str
        Numeric features, optionally standardized. Dates are numbers of days, times of day numbers of hours.
    categories : dict
        Categories of each string column.
    drop_first : bool
        Whether the first category has no one-hot column; with an intercept it is redundant.
    means, scales : lists of float
        Means and standard deviations of ``numbers``, for imputation and scaling.
    standardised : bool
    known_rows : int
        Number of rows that the preparation was inferred from.
    has_other : list of str
        String columns with a one-hot column for all other categories.
    truncated : list of str
        String columns with more categories than one-hot columns.
    derived : dict
        Column and part of each feature that is a part of a date.
    ignored : dict
        Columns that are not used, each with the reason.
    """

    numbers: list[str]
    categories: dict[str, list[str]]
    drop_first: bool
    means: list[float]
    scales: list[float]
    standardised: bool
    known_rows: int
    has_other: list[str] = field(default_factory=list)
    truncated: list[str] = field(default_factory=list)
    derived: dict[str, list[str]] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)

    def validate(self) -> None:
        wrong = [name for name, is_valid in self.constraints().items() if not is_valid]
        require(not wrong, f"{(wrong or [''])[0]}: found an invalid value")

    def constraints(self) -> dict[str, bool]:
        """Return whether each field is valid, given that all fields have their types."""
        sizes = {"means": self.means, "scales": self.scales}
        return {
            **{
                name: len(values) == len(self.numbers) and all(abs(value) <= LARGEST for value in values)
                for name, values in sizes.items()
            },
            "has_other": set(self.has_other) <= set(self.categories),
            "derived": all(len(pair) == 2 and pair[1] in PARTS for pair in self.derived.values()),
        }

    @property
    def inputs(self) -> list[str]:
        """The columns that are used."""
        sources = dict.fromkeys(self.derived[name][0] if name in self.derived else name for name in self.numbers)
        return [*sources, *self.categories]

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        suffix = "" if not self.standardised else " (standardised)" if any(self.means) else " (scaled)"
        names = [name + suffix for name in self.numbers]
        for column, categories in self.categories.items():
            other = "(other)" if "other" in categories else "other"
            own = [*categories[self.drop_first :], *([other] if column in self.has_other else [])]
            names += [f"{column}={category}" for category in own]
        return names

    def get_feature_names_out(self) -> Any:
        """Return the names of the features, in their order, as an array."""
        return np.asarray(self.names, dtype=object)

    def transform(self, table: Table, n_rows: int) -> FloatArray:
        """Return the features of all rows (n_rows, n_features), with means in the place of missing values."""
        numbers = self.scaled(self.imputed(self.numbers_in(table, n_rows)))
        strings = [self.one_hot(name, self.positions(name, table[name])) for name in self.categories]
        return np.concatenate([numbers, *strings], axis=1)

    def numbers_in(self, table: Table, n_rows: int) -> FloatArray:
        """Return the numeric features as they are, NaN for missing values."""
        rows = np.empty((n_rows, len(self.numbers)))
        for j, name in enumerate(self.numbers):
            column, part = self.derived.get(name, (name, None))
            rows[:, j] = table[column] if part is None else PARTS[part](table[column])
        return rows

    def imputed(self, numbers: FloatArray) -> FloatArray:
        """Return numeric features with means in the place of missing values."""
        return numbers if all_valid(numbers) else np.where(np.abs(numbers) <= LARGEST, numbers, self.means)

    def scaled(self, numbers: FloatArray) -> FloatArray:
        """Return numeric features, standardized if that is the preparation."""
        if not self.standardised:
            return numbers
        with np.errstate(invalid="ignore"):
            return np.asarray((numbers - self.means) / self.scales)

    def positions(self, column: str, codes: FloatArray) -> IntArray:
        """Return the position of each string among the categories of its column, -1 if it is none of them."""
        hashes, order = self._hashes[column]
        if not len(hashes):
            return np.full(len(codes), -1)
        at = np.minimum(np.searchsorted(hashes, codes), len(hashes) - 1)
        return np.where(hashes[at] == codes, order[at], -1)

    @cached_property
    def _hashes(self) -> dict[str, tuple[FloatArray, IntArray]]:
        """Hashes of the categories of each column, sorted, and their positions."""
        hashes = {name: np.array([hash_code(each) for each in own]) for name, own in self.categories.items()}
        return {name: (np.sort(own), np.argsort(own)) for name, own in hashes.items()}

    def one_hot(self, column: str, found: IntArray) -> FloatArray:
        """Return the one-hot columns of a string column, from the positions of its strings."""
        own = np.arange(self.drop_first, len(self.categories[column]))
        encoded = np.asarray(found[:, None] == own, dtype=np.float64)
        return encoded if column not in self.has_other else np.column_stack([encoded, (found < 0).astype(np.float64)])


@dataclass(frozen=True)
class InferenceOptions:
    """Options of a preparation.

    Parameters
    ----------
    standardise : bool
    drop_first : bool
        Whether the first category has no column.
    may_grow : bool
        Whether further rows, and further categories, may follow.
    missing_as_other : bool
        Whether missing strings are encoded as other.
    handle_unknown : {"other", "ignore", "refuse"}
        How categories without a column are encoded.
    max_categories : int
        Maximum number of one-hot columns of a string column.
    dates : {"number", "parts"}
    """

    standardise: bool = False
    drop_first: bool = False
    may_grow: bool = True
    missing_as_other: bool = True
    handle_unknown: str = "other"
    max_categories: int = MAX_CATEGORIES
    dates: str = "number"


def infer(
    table: Table, strings: Mapping[float, str], kinds: Mapping[str, str], n_rows: int, wanted: InferenceOptions
) -> dict[str, Any]:
    """Return the fields of a preparation that are inferred from the first rows.

    ``strings`` are the strings by their hash, ``kinds`` the types of the columns to use.
    """
    times = [column for column, kind in kinds.items() if kind in (ColumnType.TIME, ColumnType.ZONED)]
    derived = {f"{column}: {part}": [column, part] for column in times if wanted.dates == "parts" for part in PARTS}
    numbers = [*(column for column, kind in kinds.items() if kind != ColumnType.STRING), *derived]
    with np.errstate(over="ignore", invalid="ignore"):  # too large numbers raise an error that names their row
        means, scales = _moments(table, numbers, derived)
    categories, has_other, truncated = dict[str, list[str]](), [], []
    for column in (column for column, kind in kinds.items() if kind == ColumnType.STRING):
        codes = table[column][~np.isnan(table[column])]
        different, counts = np.unique(codes, return_counts=True)
        by_count = sorted(zip((-counts).tolist(), (strings[code] for code in different.tolist()), strict=True))
        categories[column] = sorted(string for _, string in by_count[: wanted.max_categories])
        has_more = len(different) > wanted.max_categories
        has_missing = wanted.missing_as_other and len(codes) < n_rows
        if wanted.handle_unknown == "other" and (has_more or has_missing or wanted.may_grow):
            has_other.append(column)
        if has_more:
            truncated.append(column)
    return {
        "numbers": numbers,
        "categories": categories,
        "drop_first": wanted.drop_first,
        "means": means,
        "scales": scales,
        "standardised": wanted.standardise,
        "known_rows": n_rows,
        "has_other": has_other,
        "truncated": truncated,
        "derived": derived,
    }


def _moments(table: Table, columns: Sequence[str], derived: dict[str, list[str]]) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each column, a block of columns at a time to bound memory."""
    means: list[float] = []
    scales: list[float] = []
    for start in range(0, len(columns), _BLOCK):
        some = columns[start : start + _BLOCK]
        values = np.array([PARTS[derived[c][1]](table[derived[c][0]]) if c in derived else table[c] for c in some])
        if np.isfinite(values).all() and values.shape[1]:
            means += values.mean(axis=1).tolist()
            scales += [spread or 1.0 for spread in values.std(axis=1).tolist()]
            continue
        for own in values:
            finite = own[np.isfinite(own)]
            means.append(float(finite.mean()) if len(finite) else 0.0)
            scales.append((float(finite.std()) or 1.0) if len(finite) else 1.0)
    return means, scales


def index_columns(table: Table, kinds: Mapping[str, str]) -> list[str]:
    """Return columns that only index the rows, as pandas and R write them.

    They have no name, and no values, names of rows or different integers in any order; or they are called index, and
    count the rows from 0 or 1.
    """
    found = []
    for name in kinds:
        values, is_number = table[name], kinds[name] == ColumnType.NUMBER
        if _UNNAMED.fullmatch(name):
            is_empty = bool(np.isnan(values).all())  # a separator at the end of each line
            is_name = name == "" and kinds[name] == ColumnType.STRING
            if is_empty or is_name or (is_number and _are_different_integers(values)):
                found.append(name)
        elif _INDEX_NAME.fullmatch(name) and is_number and _counts_rows(values):
            found.append(name)
    return found


def _counts_rows(values: FloatArray) -> bool:
    """Whether values ascend by one from 0 or 1."""
    return any(np.array_equal(values, np.arange(start, start + len(values))) for start in (0, 1)) and len(values) > 0


def _are_different_integers(values: FloatArray) -> bool:
    return bool((values % 1 == 0).all()) and len(np.unique(values)) == len(values)


def identifiers(table: Table, columns: Sequence[str], most: int) -> list[str]:
    """Return string columns with more than ``most`` distinct values, most of them unique: names, ticket numbers."""
    found = []
    for column in columns:
        values = table[column][~np.isnan(table[column])]
        different = len(np.unique(values))
        if different > most and 2 * different > len(values):
            found.append(column)
    return found


def ignored_columns(table: Table, kinds: Mapping[str, str], most: int = MAX_CATEGORIES) -> dict[str, str]:
    """Return the columns that no model can use, each with the reason."""
    indices = index_columns(table, kinds)
    found = dict.fromkeys(indices, "it is an index of the rows")
    strings = [column for column, kind in kinds.items() if kind == ColumnType.STRING and column not in indices]
    return found | dict.fromkeys(identifiers(table, strings, most), "most of its values are unique")


def all_valid(values: FloatArray) -> bool:
    """Whether all are finite numbers whose squares do not overflow."""
    return values.size == 0 or bool(values.min() >= -LARGEST and values.max() <= LARGEST)  # false for NaN
