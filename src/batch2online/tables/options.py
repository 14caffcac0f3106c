"""The parameter ``columns`` of the estimators: how the columns of tables become features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from batch2online.schema import storable
from batch2online.tables.columns import EMPTY, NUMBER, STRING, Column, ColumnError, TypedTable, of_strings, short

_CHOICES: dict[str, tuple[Any, ...]] = {
    "dates": (None, "number", "parts", "refuse"),
    "missing": ("indicator", "mean", "refuse", "keep"),
    "unknown": ("other", "ignore", "refuse"),
}


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
