"""From typed columns to rows of numbers: means and levels, learned from the first 10,000 rows of a stream.

A codec is a value, and a function of the rows alone: not of calls, nights, processes or containers. After n rows it is
made of the first 10,000, and while there are fewer, of the largest power of two of them. Until then it keeps all rows
as they came; whenever its features change, the rows so far are learned again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np

from batch2online import schema
from batch2online._types import FloatArray
from batch2online.rows import ones
from batch2online.schema import require, shape, storable
from batch2online.tables.columns import (
    DURATION,
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
    of_strings,
    of_values,
    short,
)

UNITS = {TIME: 86_400e6, ZONED: 86_400e6, DURATION: 3_600e6}
"""Microseconds of a day for times, of an hour for durations."""

PARTS: dict[str, Callable[[FloatArray], Any]] = {
    "hour": lambda days: days % 1 * 24,
    "weekday": lambda days: (np.floor(days) + 3) % 7 + 1,  # 1 January 1970 was a Thursday
    "month": lambda days: np.floor(days).astype("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1,
}
"""Parts of dates as functions of days since 1970."""

_UNNAMED = re.compile(r"(|Unnamed: \d+(\.\d+)?|__index_level_\d+__)( \(\d+\))?")
_INDEX_NAME = re.compile(r"(index|rownames|level_0)( \(\d+\))?")
_CHOICES: dict[str, tuple[Any, ...]] = {
    "dates": (None, "number", "parts", "refuse"),
    "missing": ("indicator", "mean", "refuse", "keep"),
    "unknown": ("other", "ignore", "refuse"),
}


class ColumnsWarning(UserWarning):
    """What was decided about the columns of a table, and the option that says otherwise."""


@storable
@dataclass(frozen=True, kw_only=True)
class Columns:
    """How the columns of tables become rows of numbers: the parameter ``columns`` of the estimators.

    Parameters
    ----------
    strings : list of str
        Columns of categories, also if they hold numbers.
    numbers : list of str
        Columns of numbers that are written as strings, with ``decimal`` and ``thousands``.
    dates : {None, "number", "parts", "refuse"}
        Dates are days since 1970; with "parts" also hour, weekday and month.
    decimal, thousands : str, str or None
        The decimal separator, and the separator of thousands, of ``numbers``.
    missing : {"indicator", "mean", "refuse", "keep"}
        A missing value takes the mean of its column, with a column that says so, or without; a missing string is a
        category. "keep" leaves NaN in numbers, for estimators that take it.
    max_levels : int
        One-hot columns of a column of strings, for the most frequent ones.
    exclude, keep : list of str
        Columns to leave out; columns to use even if they look like an index of the rows, or like names.
    unknown : {"other", "ignore", "refuse"}
        Strings without a one-hot column share one, have none, or are refused.
    standardize : bool
        Whether columns of numbers get mean 0 and standard deviation 1.
    first_rows : int
        Rows of the stream from which all this is learned; nothing changes after them.

    Examples
    --------
    >>> from batch2online import Columns, OnlineRegression
    >>> model = OnlineRegression(columns=Columns(strings=["zip"], numbers=["price"], decimal=","))
    >>> model = model.partial_fit({"zip": [8010, 4020], "price": ["1,5", "2,0"]}, [1.0, 2.0])
    >>> model.columns_.names
    ['price', 'zip=8010', 'zip=other']
    """

    strings: Sequence[str] = ()
    numbers: Sequence[str] = ()
    dates: str | None = None
    decimal: str = "."
    thousands: str | None = None
    missing: str = "indicator"
    max_levels: int = 100
    exclude: Sequence[str] = ()
    keep: Sequence[str] = ()
    unknown: str = "other"
    standardize: bool = False
    first_rows: int = 10_000

    def __post_init__(self) -> None:
        for name in ("strings", "numbers", "exclude", "keep"):
            given = getattr(self, name)
            if isinstance(given, str) or not all(isinstance(each, str) for each in given):
                raise TypeError(f"Columns({name}=...) must be a list of names of columns, got {given!r}.")
            object.__setattr__(self, name, tuple(given))
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                shown = " or ".join(map(repr, choices))
                raise ValueError(f"Columns({name}=...) must be {shown}, got {getattr(self, name)!r}.")
        for name in ("max_levels", "first_rows"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise ValueError(f"Columns({name}=...) must be a number above 0, got {getattr(self, name)!r}.")
        separators = [self.decimal] if self.thousands is None else [self.decimal, self.thousands]
        if not all(isinstance(each, str) and len(each) == 1 for each in separators) or len({*separators}) < len(
            separators
        ):
            raise ValueError(f"decimal and thousands must be different characters, got {separators}.")

    def __repr__(self) -> str:
        given = {
            each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) != each.default
        }
        shown = (f"{name}={list(value) if isinstance(value, tuple) else value!r}" for name, value in given.items())
        return f"Columns({', '.join(shown)})"

    def applied(self, table: TypedTable) -> TypedTable:
        """Return a table without excluded columns, with strings and numbers as these options say.

        Single rows skip this if :meth:`Codec.encode_one` can encode them: an option that changes values must be used
        there too.
        """
        if not (self.exclude or self.strings or self.numbers):
            return table
        found = {name: column for name, column in table.by_name.items() if name not in self.exclude}
        for name in self.strings:
            if name in found:
                found[name] = _as_strings(name, found[name])
        for name in self.numbers:
            if name in found:
                found[name] = self._as_numbers(name, found[name])
        return TypedTable(tuple(found), tuple(found.values()), table.n_rows)

    def _as_numbers(self, name: str, column: Column) -> Column:
        if column.kind != STRING:
            return column
        found = []
        for place, word in enumerate(column.words):
            plain = word.strip() if self.thousands is None else word.strip().replace(self.thousands, "")
            try:
                found.append(float(plain.replace(self.decimal, ".")))
            except ValueError:
                row = int((column.values == place).argmax())
                why = f"holds {short(word)}, no number with decimal={self.decimal!r}, thousands={self.thousands!r}."
                raise ColumnError(row, why, name) from None
        return Column(NUMBER, column.mapped(found))


def _as_strings(name: str, column: Column) -> Column:
    if column.kind in (STRING, EMPTY):
        return column
    if column.kind != NUMBER:
        raise ValueError(f"Column {name!r} holds {column.kind}s: Columns(strings=...) takes strings and numbers.")
    return of_strings(None if v != v else str(int(v)) if v.is_integer() else repr(v) for v in column.values.tolist())


@storable
@dataclass(frozen=True)
class Coded:
    """A column and the numbers that it becomes: its value and parts of it, or one for each level; others; missing."""

    name: str
    kind: str
    means: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    parts: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    drop_first: bool = False
    has_other: bool = False
    has_missing: bool = False
    is_truncated: bool = False

    def validate(self) -> None:
        require(set(self.parts) <= PARTS.keys(), f"parts: found {self.parts[:3]}")
        sizes = {0} if self.kind == STRING else {1 + len(self.parts)}
        require({len(self.means)} == sizes, f"means: found {len(self.means)}")
        require(len(self.scales) in (0, len(self.means)), f"scales: found {len(self.scales)}")
        require(
            all(abs(value) < np.inf for value in (*self.means, *self.scales)), "means: found one that is not finite"
        )

    @property
    def own_names(self) -> list[str]:
        """Names of its numbers."""
        if self.kind == STRING:
            other = "(other)" if "other" in self.levels else "other"
            words = [*self.levels[self.drop_first :], *([other] if self.has_other else [])]
            found = [f"{self.name}={word}" for word in words]
        else:
            suffix = " (standardised)" if self.scales else ""
            found = [self.name + suffix, *(f"{self.name}: {part}{suffix}" for part in self.parts)]
        return [*found, *([f"{self.name} is missing"] if self.has_missing else [])]

    def values(self, column: Column) -> list[FloatArray]:
        """Return its value and the parts of it, NaN where it is missing."""
        own = column.values / UNITS[self.kind] if self.kind in UNITS else column.values
        if not self.parts:
            return [own]
        known = np.where(column.missing, 0.0, own)
        return [own, *(np.where(column.missing, np.nan, PARTS[part](known)) for part in self.parts)]

    def encoded(self, column: Column, options: Columns) -> Iterator[Any]:
        """Yield the columns of numbers."""
        if column.has_gaps and options.missing == "refuse":
            advice = "Columns(missing='indicator') takes the mean and says so in a column of its own."
            raise ColumnError(int(column.missing.argmax()), f"holds a missing value: {advice}", self.name)
        if self.kind == STRING:
            yield from self._one_hot(column, options)
        else:
            for place, values in enumerate(self.values(column)):
                if column.has_gaps and options.missing != "keep":
                    values = np.where(column.missing, self.means[place], values)
                yield (values - self.means[place]) / self.scales[place] if self.scales else values
        if self.has_missing:
            yield column.missing

    def _one_hot(self, column: Column, options: Columns) -> Iterator[Any]:
        known = {level: place for place, level in enumerate(self.levels)}
        if options.unknown == "refuse" and (unknown := [w for w in column.words if w not in known]):
            row = int((column.values == column.words.index(unknown[0])).argmax())
            why = f"holds {short(unknown[0])}, which the first rows did not: Columns(unknown='other') takes it."
            raise ColumnError(row, why, self.name)
        at = np.array([*(known.get(word, -1) for word in column.words), -2 if self.has_missing else -1])
        found = at[column.places]
        for place in range(self.drop_first, len(self.levels)):
            yield found == place
        if self.has_other:
            yield found == -1


@storable
@dataclass(frozen=True, eq=False)
class FirstRows:
    """All rows of a stream as they came, their targets and weights, in one or more parts.

    ``tail`` are rows of numbers that came one by one, with their targets; each stream has its own.
    """

    tables: tuple[TypedTable, ...] = ()
    targets: tuple[Annotated[FloatArray, shape("n", "t")], ...] = ()
    weights: tuple[Annotated[FloatArray, shape("n")], ...] = ()
    tail: list[tuple[Any, Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return self._n_in_parts + len(self.tail)

    @cached_property
    def _n_in_parts(self) -> int:
        return sum(map(len, self.tables))

    def stored_fields(self) -> dict[str, Any]:
        """Return the rows in one part, for a file."""
        own = self.in_one
        return {"tables": own.tables, "targets": own.targets, "weights": own.weights, "tail": []}

    @property
    def parts(self) -> FirstRows:
        """The same rows with the single ones as a part."""
        if not self.tail:
            return self
        rows, targets = (np.array(part, dtype=np.float64) for part in zip(*self.tail, strict=True))
        table = TypedTable(self.tables[0].names, tuple(Column(NUMBER, values) for values in rows.T.copy()), len(rows))
        return FirstRows(self.tables, self.targets, self.weights).plus(
            table, targets.reshape(len(rows), -1), ones(len(rows))
        )

    @property
    def in_one(self) -> FirstRows:
        """The same rows in one part."""
        own = self.parts
        if len(own.tables) < 2:
            return own
        joint = np.concatenate(own.targets), np.concatenate(own.weights)
        return FirstRows((joined(own.tables),), (joint[0],), (joint[1],))

    def plus(self, table: TypedTable, targets: FloatArray, weights: FloatArray) -> FirstRows:
        """Return the rows with further ones."""
        own = self.parts if len(self.tables) < _MOST_PARTS else self.in_one
        new = FirstRows((*own.tables, table), (*own.targets, targets), (*own.weights, weights))
        vars(new)["_n_in_parts"] = len(own) + len(table)
        return new

    def append_one(self, values: Sequence[float], target: tuple[float, ...], learn: Callable[[], bool]) -> bool:
        """Add a row of numbers in place if ``learn`` learns it; return whether it did."""
        n = len(self.tail)
        try:
            self.tail.append((values, target))
            is_learned = learn()
        except BaseException:
            del self.tail[n:]
            raise
        if not is_learned:
            del self.tail[n:]
        return is_learned


_MOST_PARTS = 64


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
        columns = []
        for name, value in zip(self.table_names, values, strict=True):
            try:
                columns.append(of_values([value]))
            except ColumnError as error:
                raise ColumnError(0, error.why, name) from error
        return TypedTable(self.table_names, tuple(columns), 1)

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
    def _plans(self) -> list[_Plan]:
        return [self._plan(each) for each in self.coded]

    def _plan(self, each: Coded) -> _Plan:
        options = replace(self.options, missing="mean", unknown="ignore")

        def numbers(kind: str, values: FloatArray, words: Sequence[str] = ()) -> list[list[float]]:
            column = Column(kind, values, tuple(words))
            found = np.array([*each.encoded(column, options)], dtype=np.float64).reshape(-1, len(values))
            return found.T.tolist()

        is_string = each.kind == STRING
        known = numbers(STRING, np.arange(float(len(each.levels))), each.levels) if is_string else []
        other = numbers(STRING, np.zeros(1), ["\0"])[0] if is_string and self.options.unknown != "refuse" else None
        takes_gaps = self.options.missing != "refuse" and (is_string or self.options.missing != "keep")
        return _Plan(
            place=self.table_names.index(each.name),
            is_number=each.kind == NUMBER and not each.scales,
            without_gap=[0.0] * each.has_missing,
            strings=dict(zip(each.levels, known, strict=True)),
            other=other,
            missing=numbers(each.kind, np.array([np.nan]))[0] if takes_gaps else None,
        )

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


class _Plan(NamedTuple):
    """How single values of a column become numbers: strings by level, others, a missing value; None where refused."""

    place: int
    is_number: bool
    without_gap: list[float]
    strings: dict[str, list[float]]
    other: list[float] | None
    missing: list[float] | None


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
