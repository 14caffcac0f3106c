"""From typed columns to rows of numbers: means and levels, learned from the first 10,000 rows of a stream.

A codec is a value, and a function of the rows alone: not of calls, nights, processes or containers. After n rows it is
made of the first 10,000, and while there are fewer, of the largest power of two of them. Until then it keeps all rows
as they came; whenever its features change, the rows so far are learned again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from batch2online import schema
from batch2online._types import FloatArray
from batch2online.schema import require, storable
from batch2online.tables.coded import PARTS, UNITS, Coded, ValuePlan
from batch2online.tables.columns import (
    EMPTY,
    NUMBER,
    STRING,
    TIME,
    ZONED,
    Column,
    ColumnError,
    TypedTable,
    converted,
    joined,
    of_values,
    read_column,
)
from batch2online.tables.first_rows import FirstRows
from batch2online.tables.options import Columns

_UNNAMED = re.compile(r"(|Unnamed: \d+(\.\d+)?|__index_level_\d+__)( \(\d+\))?")
_INDEX_NAME = re.compile(r"(index|rownames|level_0)( \(\d+\))?")


class ColumnsWarning(UserWarning):
    """What was decided about the columns of a table, and the option that says otherwise."""


@storable
@dataclass(frozen=True, eq=False)
class Codec:
    """How the tables of one stream become rows of numbers.

    Attributes
    ----------
    options : Columns
    drop_first : bool
        Whether the first level has no one-hot column; with an intercept it is redundant.
    table_names, kinds : tuples of str
        Columns of the tables in their order, and the kinds that they had so far.
    coded : tuple of Coded
        The columns that are used: numbers first, then strings.
    ignored : dict
        Columns that are not used, each with the reason.
    known_rows : int
        Number of rows that it was learned from.
    first : FirstRows or None
        All rows so far; None once it is settled.
    """

    options: Columns
    drop_first: bool
    table_names: tuple[str, ...]
    kinds: tuple[str, ...]
    coded: tuple[Coded, ...] = ()
    ignored: dict[str, str] = field(default_factory=dict)
    known_rows: int = 0
    first: FirstRows | None = field(default_factory=FirstRows)

    def validate(self) -> None:
        names = self.table_names
        require(len(names) == len(self.kinds) == len(set(names)), "table_names: found others than kinds")
        used = [each.name for each in self.coded]
        require(len(set(used)) == len(used) and set(used) <= set(names), "coded: found columns that the table lacks")
        for each in self.first.tables if self.first is not None else ():
            require(each.names == names, f"first: found the columns {each.names[:5]}")
            pairs = zip(self.kinds, (column.kind for column in each.columns), strict=True)
            require(all(own in (kind, EMPTY) for kind, own in pairs), "first: found columns of other kinds")
        if self.first is not None:
            sizes = [list(map(len, part)) for part in (self.first.tables, self.first.targets, self.first.weights)]
            require(sizes[0] == sizes[1] == sizes[2], f"first: found rows, targets and weights of {sizes}")
            require(len(self.first) < self.options.first_rows, f"first: found {len(self.first)} rows")

    @classmethod
    def new(cls, table: TypedTable, options: Columns, drop_first: bool) -> Codec:
        """Return the codec of a table before its first row."""
        table = options.applied(table)
        if not table.names:
            raise ValueError("The table has no columns that can be used.")
        return cls(options, drop_first, table.names, (EMPTY,) * len(table.names))

    # -- what it says ------------------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether it stays as it is."""
        return self.first is None

    @cached_property
    def names(self) -> list[str]:
        """Names of the numbers that a row becomes."""
        return [name for each in self.coded for name in each.own_names]

    @property
    def width(self) -> int:
        """How many numbers a row becomes."""
        return len(self.names)

    def get_feature_names_out(self) -> Any:
        """Return the names of the features, in their order, as an array."""
        return np.asarray(self.names, dtype=object)

    @property
    def inputs(self) -> list[str]:
        """The columns that are used."""
        return [each.name for each in self.coded]

    @property
    def categories(self) -> dict[str, list[str]]:
        """The levels of each column of strings."""
        return {each.name: list(each.levels) for each in self.coded if each.kind == STRING}

    @property
    def means(self) -> dict[str, float]:
        """The mean of each column of numbers; of dates in days, of durations in hours."""
        return {each.name: each.means[0] for each in self.coded if each.kind != STRING}

    @property
    def notes(self) -> list[str]:
        """What was decided about columns, and the option that says otherwise."""
        found = [f"column {name!r} is ignored: {why}; {_instead(name)}" for name, why in self.ignored.items()]
        for each in self.coded:
            if each.is_truncated:
                most = f"column {each.name!r} has more than {len(each.levels):,} different strings"
                found.append(f"{most}: the most frequent have a feature each; Columns(max_levels=...) sets how many")
            if each.has_missing:
                where = f"column {each.name!r} has missing values: a feature says where"
                found.append(f"{where}; Columns(missing='mean') leaves it out")
        return found

    # -- rows ----------------------------------------------------------------------------------------------------

    def needed(self, learns: bool) -> list[str]:
        """Return the columns that a table must have: those that are used, or all to learn while that may change."""
        return list(self.table_names) if learns and not self.is_settled else self.inputs

    def checked(self, table: TypedTable, learns: bool = True) -> TypedTable:
        """Return a table with the columns of the stream, in their order; ValueError if one that is needed is absent."""
        table = self.options.applied(table)
        if table.names == self.table_names:
            return table
        there = table.by_name
        if missing := [name for name in self.needed(learns) if name not in there]:
            some = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise ValueError(
                f"The columns {missing[:5]}{some} of the rows before are missing: send them, with missing values if "
                "they are not known; Columns(exclude=[...]) of a new model leaves them out."
            )
        empty = Column(EMPTY, np.full(table.n_rows, np.nan))
        return TypedTable(self.table_names, tuple(there.get(name, empty) for name in self.table_names), table.n_rows)

    def unknown(self, names: Sequence[str]) -> list[str]:
        """Return the columns that the stream does not have."""
        known = {*self.table_names, *self.options.exclude}
        return [name for name in names if name not in known]

    def late_gaps(self, table: TypedTable) -> list[str]:
        """Return the columns whose first missing value came after the codec was settled."""
        if not self.is_settled or self.options.missing != "indicator":
            return []
        columns = table.by_name
        return [each.name for each in self.coded if not each.has_missing and columns[each.name].has_gaps]

    def row(self, values: Sequence[Any]) -> TypedTable:
        """Return one row as a table, from its values in the order of the columns."""
        if len(values) != len(self.table_names):
            raise ValueError(f"x must have {len(self.table_names)} values, got {len(values)}.")
        pairs = zip(self.table_names, values, strict=True)
        return TypedTable(self.table_names, tuple(read_column(name, [value], of_values) for name, value in pairs), 1)

    def encode(self, table: TypedTable) -> FloatArray:
        """Return the rows of a checked table as rows of numbers."""
        rows, at, columns = np.empty((table.n_rows, self.width)), 0, table.by_name
        for each in self.coded:
            column = self._converted(each, columns[each.name])
            for values in each.encoded(column, self.options):
                rows[:, at] = values
                at += 1
        return rows

    def _converted(self, each: Coded, column: Column) -> Column:
        """Return a column in its kind; until the codec is settled, strings that are no dates count as missing."""
        try:
            return converted(each.name, column, each.kind)
        except ColumnError:
            if self.is_settled or column.kind != STRING or each.kind not in (TIME, ZONED):
                raise
            return Column(each.kind, np.full(len(column.values), np.nan))

    def encode_one(self, values: Sequence[Any], largest: float) -> list[float] | None:
        """Return one row of plain numbers, strings and missing values as numbers; None if it holds anything else.

        A fast path, which must return what :meth:`checked` and :meth:`encode` return for the row.
        """
        found: list[float] = []
        for plan in self._plans:
            value = values[plan.place]
            if plan.is_number and type(value) in _PLAIN and abs(value) <= largest:  # not of NaN
                found.append(float(value))
                found += plan.without_gap
                continue
            if type(value) is str:
                own = plan.strings.get(value, plan.other)
            else:
                own = plan.missing if value is None or (type(value) is float and value != value) else None
            if own is None:
                return None
            found += own
        return found

    @cached_property
    def _plans(self) -> list[ValuePlan]:
        return [each.value_plan(self.table_names.index(each.name), self.options) for each in self.coded]

    @cached_property
    def is_identity(self) -> bool:
        """Whether a row of numbers is its own code."""
        return tuple(self.names) == self.table_names and all(
            each.kind == NUMBER and not each.scales for each in self.coded
        )

    # -- learning ------------------------------------------------------------------------------------------------

    def own(self) -> Codec:
        """Return a copy whose first rows may grow in place; itself once it is settled."""
        first = self.first
        return self if first is None else schema.replace(self, first=schema.replace(first, tail=list(first.tail)))

    def append_one(self, values: Sequence[float], target: tuple[float, ...], learn: Callable[[], bool]) -> bool:
        """Keep a row of numbers in place if ``learn`` learns it, unless the features may change with it."""
        assert self.first is not None
        n = len(self.first) + 1
        is_due = n >= self.options.first_rows or n & (n - 1) == 0
        return not is_due and self.is_identity and self.first.append_one(values, target, learn)

    def rows_to_check(self) -> int:
        """Return the number of rows until the features may change."""
        n = None if self.first is None else len(self.first)
        return 2**62 if n is None else min(1 << n.bit_length(), self.options.first_rows) - n

    def learn(self, table: TypedTable, targets: FloatArray, weights: FloatArray, is_last: bool = False) -> Codec:
        """Return the codec after further rows of checked tables; ``is_last`` settles it on all rows."""
        if self.first is None:
            return self
        kinds, first, table = self._joint_kinds(table)
        first = first.plus(table, targets, weights)
        n, most = len(first), self.options.first_rows
        settles = is_last or n >= most
        at = min(n, most) if settles else 1 << (n.bit_length() - 1) if n else 0
        found = self if at == self.known_rows else self._inferred(joined(first.tables)[:at])
        if settles:
            own = {each.name: each.kind for each in found.coded}
            kinds = tuple(own.get(name, kind) for name, kind in zip(self.table_names, kinds, strict=True))
        return replace(found, kinds=kinds, known_rows=at, first=None if settles else first)

    def _joint_kinds(self, table: TypedTable) -> tuple[tuple[str, ...], FirstRows, TypedTable]:
        """Return the kinds of the columns with further rows, and both parts in these kinds."""
        assert self.first is not None
        first, kinds, columns = self.first.parts, list[str](), list[Column]()
        for place, (name, kind, column) in enumerate(zip(self.table_names, self.kinds, table.columns, strict=True)):
            if kind == STRING and column.kind in (TIME, ZONED):
                kind = column.kind
                tables = tuple(_with(each, place, converted(name, each.columns[place], kind)) for each in first.tables)
                first = replace(first, tables=tables)
            elif kind != EMPTY:
                column = column if column.kind == EMPTY else converted(name, column, kind)
            kinds.append(column.kind if kind == EMPTY else kind)
            columns.append(column)
        return tuple(kinds), first, TypedTable(table.names, tuple(columns), table.n_rows)

    def _inferred(self, table: TypedTable) -> Codec:
        """Return the codec that these rows make. Columns that no model can use are ignored, unless all columns are."""
        times = {
            name: (column.as_times() or column)
            if column.kind == STRING and name not in self.options.strings
            else column
            for name, column in table.by_name.items()
        }
        ignored = {name: why for name, column in times.items() if (why := self._useless(name, column))}
        ignored = {} if len(ignored) == len(times) else ignored
        used = [(name, column) for name, column in times.items() if name not in ignored]
        used.sort(key=lambda pair: pair[1].kind == STRING)
        return replace(self, coded=tuple(self._coded(*pair) for pair in used), ignored=ignored)

    def _useless(self, name: str, column: Column) -> str:
        """Return why no model can use a column; nothing if one can."""
        values, options = column.values[~column.missing], self.options
        if not len(values):
            return "" if name in options.keep else _NO_VALUES
        if name in (*options.keep, *options.strings, *options.numbers):
            return ""
        if column.kind == STRING:
            if name == "":
                return _IS_INDEX
            are_many = len(column.words) > options.max_levels and 2 * len(column.words) > len(values)
            return _UNIQUE if are_many and options.unknown != "refuse" else ""
        if column.kind != NUMBER:
            return ""
        is_index = (_UNNAMED.fullmatch(name) and _are_different_integers(values) and not column.has_gaps) or (
            _INDEX_NAME.fullmatch(name) and not column.has_gaps and _counts_rows(values)
        )
        return _IS_INDEX if is_index else ""

    def _coded(self, name: str, column: Column) -> Coded:
        options, kind = self.options, NUMBER if column.kind == EMPTY else column.kind
        has_missing = options.missing == "indicator" and column.has_gaps and column.kind != EMPTY
        if kind == STRING:
            counts = np.bincount(column.places[~column.missing], minlength=len(column.words)).tolist()
            by_count = sorted((-n, word) for n, word in zip(counts, column.words, strict=True))
            levels, is_truncated = by_count[: options.max_levels], len(by_count) > options.max_levels
            if is_truncated and options.unknown == "refuse":
                raise ValueError(
                    f"Column {name!r} holds {len(by_count):,} different strings: Columns(unknown='other') gives the "
                    f"most frequent a feature each, Columns(max_levels={len(by_count)}) all of them."
                )
            return Coded(
                name,
                STRING,
                levels=tuple(sorted(word for _, word in levels)),
                drop_first=self.drop_first,
                has_other=options.unknown == "other",
                has_missing=has_missing,
                is_truncated=is_truncated,
            )
        if kind in UNITS and options.dates == "refuse":
            raise ValueError(f"Column {name!r} holds {kind}s: Columns(dates='number') makes days or hours of them.")
        parts = tuple(PARTS) if options.dates == "parts" and kind in (TIME, ZONED) else ()
        coded = Coded(name, kind, parts=parts, has_missing=has_missing)
        kept = [values[~column.missing] for values in coded.values(column)]
        means = tuple(float(values.mean()) if len(values) else 0.0 for values in kept)
        scales = tuple((float(values.std()) or 1.0) if len(values) else 1.0 for values in kept)
        return replace(coded, means=means, scales=scales if options.standardize else ())

    def settled(self) -> Codec:
        """Return the same, to stay as it is."""
        return replace(self, first=None)

    def continues(self, earlier: Codec) -> bool:
        """Return whether an earlier codec of the stream made the same numbers of the rows that it was learned from."""
        if self.names != earlier.names:
            return False
        may_fill = self.options.missing == "mean" or self.options.standardize
        return all(
            one.means == two.means and one.scales == two.scales
            for one, two in zip(self.coded, earlier.coded, strict=True)
            if one.has_missing or may_fill
        )

    def is_same(self, other: Codec) -> bool:
        """Return whether another codec makes the same numbers of rows."""
        return self.coded == other.coded and self.table_names == other.table_names and self.options == other.options

    # -- in a journal --------------------------------------------------------------------------------------------

    def from_journal(self, values: FloatArray, entry: Any) -> TypedTable:
        """Return the table of a journal, given its values and ``journal_entry``; ValueError if it is none."""
        require(isinstance(entry, dict) and entry.keys() == {"kinds", "words"}, "table: found other fields")
        require(values.ndim == 2 and values.shape[1] == len(self.table_names), f"rows: found shape {values.shape}")
        columns = []
        for kind, words, own in zip(entry["kinds"], entry["words"], values.T, strict=True):
            require(isinstance(kind, str) and all(isinstance(word, str) for word in words), "table: found no strings")
            columns.append(Column(kind, own.copy(), tuple(words)))
            columns[-1].validate()
        return TypedTable(self.table_names, tuple(columns), len(values))


_PLAIN = (float, int, bool)
_NO_VALUES, _IS_INDEX = "it has no values", "it is an index of the rows"
_UNIQUE = "most of its values are unique"


def _instead(name: str) -> str:
    return f"Columns(keep=[{name!r}]) uses it"


def _with(table: TypedTable, place: int, column: Column) -> TypedTable:
    columns = list(table.columns)
    columns[place] = column
    return TypedTable(table.names, tuple(columns), table.n_rows)


def _counts_rows(values: FloatArray) -> bool:
    """Whether values ascend by one from 0 or 1."""
    return any(np.array_equal(values, np.arange(start, start + len(values))) for start in (0, 1))


def _are_different_integers(values: FloatArray) -> bool:
    return bool((values % 1 == 0).all()) and len(np.unique(values)) == len(values)
