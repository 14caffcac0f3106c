"""Tables as rows of features: ``columns="auto"`` of the online estimators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.frames import encoding
from batch2online.frames.columns import MISSING, Column, ColumnType
from batch2online.frames.encoding import EncodedRows, Encoding
from batch2online.frames.preparation import (
    LOOKAHEAD,
    PER_UNIT,
    ColumnPreparation,
    InferenceOptions,
    Table,
    feature_values,
    ignored_columns,
    infer,
)
from batch2online.frames.schema import FRAMES, FrameSchema
from batch2online.frames.strings import StringTable, hash_code
from batch2online.rows import Batch
from batch2online.schema import check_value, require, shape, storable

FirstRows = tuple[
    Annotated[FloatArray, shape("n", "d")],
    Annotated[FloatArray, shape("n", "t")],
    Annotated[FloatArray, shape("n")],
]
"""Rows as numbers, their targets, and their weights."""


_TYPES: dict[str, tuple[type, ...]] = {ColumnType.NUMBER: (float, int, bool), ColumnType.BOOLEAN: (bool,)}
"""Plain values of columns of numbers."""


def is_table(X: Any) -> bool:
    """Return whether X has columns of several types, or may have: a data frame, or rows with strings or None."""
    return encoding.container_of(X) in (*FRAMES, "array")


def read_first(x: Any) -> EncodedRows:
    """Return the first row of a stream, a mapping of column names to values or a sequence of values, as numbers."""
    values = list(x.values()) if isinstance(x, Mapping) else list(x)
    codes, schema, strings = encoding.read([values], None, "array")
    names = list(x) if isinstance(x, Mapping) else range(len(values))
    return (
        codes,
        _plain([replace(column, name=name) for column, name in zip(schema.columns, names, strict=True)]),
        strings,
    )


def numeric_values(codes: FloatArray, schema: FrameSchema) -> FloatArray:
    """Return rows in the units of features: 0 for missing values and strings."""
    rows = np.where(codes == MISSING, 0.0, codes)
    for place, column in enumerate(schema.columns):
        if column.kind in PER_UNIT:
            rows[:, place] /= PER_UNIT[column.kind]
    rows[:, schema.string_columns] = 0.0
    return rows


def _plain(columns: Iterable[Column]) -> FrameSchema:
    """Return names and types of columns, as they are for any container."""
    return FrameSchema("array", tuple(Column(column.name, column.kind, "object") for column in columns))


@storable
@dataclass(frozen=True, eq=False)
class TableColumns:
    """The columns of a table, how they become features, and the first rows while that may change.

    It is a function of the rows alone: after n rows, the preparation is inferred from the first ``LOOKAHEAD`` of them,
    and while there are fewer, from the largest power of two of them. At each of these row counts all rows so far are
    learned again with the new features.

    Attributes
    ----------
    schema : FrameSchema
        Names and types of the columns.
    preparation : ColumnPreparation
    first : tuple of arrays or None
        All rows so far as numbers, their targets and weights; None if the preparation is final.
    strings : StringTable
        The strings in ``first``.
    """

    schema: FrameSchema
    preparation: ColumnPreparation
    first: FirstRows | None
    strings: StringTable

    def validate(self) -> None:
        kinds = self._kinds
        require(self.schema.container == "array", f"container: found {self.schema.container}")
        require(len(kinds) == len(self.schema.columns), "schema: found a column twice")
        require(set(self.preparation.inputs) <= set(kinds), "preparation: found columns that the table does not have")
        wrong = [name for name in self.preparation.categories if kinds[name] != ColumnType.STRING]
        require(not wrong, f"preparation: found categories of {wrong[:1]}, which holds no strings")
        if self.first is not None:
            require(len(self.first[0]) < LOOKAHEAD, f"first: found {len(self.first[0])} rows")
            require(self.first[0].shape[1] == len(kinds), f"first: found {self.first[0].shape[1]} columns")
            Encoding(self.schema, self.strings).check(self.first[0])

    @classmethod
    def new(cls, schema: FrameSchema, drop_first: bool, n_targets: int) -> TableColumns:
        """Return the columns of a table before its first row; ``drop_first`` as in :class:`ColumnPreparation`."""
        schema = _plain(schema.columns)
        none = np.empty((0, len(schema.columns))), np.empty((0, n_targets)), np.empty(0)
        return cls(schema, _inferred(none[0], schema, StringTable(), drop_first), none, StringTable())

    @property
    def is_final(self) -> bool:
        """Whether the preparation stays as it is."""
        return self.first is None

    @property
    def _kinds(self) -> dict[str, str]:
        return {_name(column): column.kind for column in self.schema.columns}

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.preparation.names)

    def read(self, X: Any) -> EncodedRows:
        """Return the rows of a table as numbers; values of another type than before are refused."""
        return encoding.read(X, self.schema)

    def read_one(self, values: Any) -> EncodedRows:
        """Return one row as numbers, from its values in the order of the columns."""
        return encoding.read_one(values, self.schema)

    def features(self, codes: FloatArray, schema: FrameSchema | None = None) -> FloatArray:
        """Return rows as features; ``schema`` has the types of these rows, if a column had no values before."""
        table = _table(codes, schema or self.schema, set(self.preparation.inputs))
        kinds = self._kinds if schema is None else {_name(column): column.kind for column in schema.columns}
        unset = [name for name in self.preparation.numbers if kinds[name] == ColumnType.STRING]
        return self.preparation.transform(table | {name: np.full(len(codes), np.nan) for name in unset}, len(codes))

    def plain_features(self, values: list[Any], largest: float) -> list[float] | None:
        """Return the features of one row of plain numbers and strings; None if it holds anything else."""
        numbers, strings = dict(zip(self.preparation.numbers, self.preparation.means, strict=True)), self._one_hot
        row, hot = [], []
        for column, value in zip(self.schema.columns, values, strict=True):
            name, is_missing = _name(column), value is None or (type(value) is float and value != value)
            if is_missing or column.kind == ColumnType.ALL_MISSING:
                value = None
            elif column.kind == ColumnType.STRING:
                if type(value) is not str:
                    return None
            elif column.kind not in _TYPES or type(value) not in _TYPES[column.kind] or not abs(value) <= largest:
                return None
            if name in numbers:
                row.append(numbers[name] if value is None or column.kind == ColumnType.STRING else float(value))
            elif name in strings:
                known, other = strings[name]
                hot += known.get(value, other)
        return row + hot

    @cached_property
    def _one_hot(self) -> dict[str, tuple[dict[str, list[float]], list[float]]]:
        """One-hot values of each category of a column, and those of other strings and missing values."""
        found, prepared = {}, self.preparation
        for name, categories in prepared.categories.items():
            *known, other = prepared.one_hot(name, np.array([*range(len(categories)), -1])).tolist()
            found[name] = dict(zip(categories, known, strict=True)), other
        return found

    def grown(self, rows: Batch, schema: FrameSchema, strings: Mapping[float, str], is_last: bool) -> TableColumns:
        """Return the columns after further rows, with a new preparation if their number asks for one.

        ``is_last`` makes it final, inferred from all rows.
        """
        assert self.first is not None
        codes, targets, weights = (np.concatenate(pair) for pair in zip(self.first, rows, strict=True))
        n, known = len(codes), self.strings.merged(StringTable(dict(strings)))
        at = min(n, LOOKAHEAD) if is_last or n >= LOOKAHEAD else 1 << (n.bit_length() - 1) if n else 0
        prepared, schema = self.preparation, _plain(schema.columns)
        if at != prepared.known_rows:
            prepared = _inferred(codes[:at], schema, known, prepared.drop_first)
        if is_last or n >= LOOKAHEAD:
            return replace(self, schema=schema, preparation=prepared, first=None, strings=StringTable())
        return TableColumns(schema, prepared, (codes, targets, weights), known)

    def final(self) -> TableColumns:
        """Return the same with a preparation that stays as it is."""
        return replace(self, first=None, strings=StringTable())

    def from_entry(self, codes: FloatArray, entry: Any) -> EncodedRows:
        """Return rows of a journal; ValueError if they are not rows of this table."""
        check_value("kinds", entry.get("kinds"), list[str])
        check_value("strings", entry.get("strings"), list[str])
        pairs = zip(self.schema.columns, entry["kinds"], strict=True)
        schema = replace(self.schema, columns=tuple(replace(column, kind=kind) for column, kind in pairs))
        for old, new in zip(self.schema.columns, schema.columns, strict=True):
            new.validate()
            require(old.kind in (new.kind, ColumnType.ALL_MISSING), f"kinds: found a {new.kind}, expected {old.kind}")
        strings = {hash_code(string): string for string in entry["strings"]}
        require(codes.ndim == 2 and codes.shape[1] == len(schema.columns), f"rows: found shape {codes.shape}")
        Encoding(schema, StringTable(strings)).check(codes)
        return codes, schema, strings


def _name(column: Column) -> str:
    return column.name if isinstance(column.name, str) else f"x{column.name}"


def _table(codes: FloatArray, schema: FrameSchema, names: set[str] | None = None) -> Table:
    named = [(_name(column), place, column) for place, column in enumerate(schema.columns)]
    used = [each for each in named if names is None or each[0] in names]
    return {name: feature_values(column, codes[:, place]) for name, place, column in used}


def _inferred(codes: FloatArray, schema: FrameSchema, strings: StringTable, drop_first: bool) -> ColumnPreparation:
    """Infer the preparation from the first rows. Columns that no model can use are ignored, unless all columns are."""
    table = _table(codes, schema)
    numeric = (ColumnType.BOOLEAN, ColumnType.ALL_MISSING)
    kinds = {_name(c): ColumnType.NUMBER if c.kind in numeric else ColumnType(c.kind) for c in schema.columns}
    ignored = {name: "it has no values" for name, values in table.items() if np.isnan(values).all()}
    kinds |= dict.fromkeys(ignored, ColumnType.NUMBER)  # whatever type it gets with its first value
    ignored |= ignored_columns(table, {name: kind for name, kind in kinds.items() if name not in ignored})
    if len(ignored) == len(kinds):
        ignored = {}
    used = {name: kind for name, kind in kinds.items() if name not in ignored}
    found = infer(table, strings.by_hash, used, len(codes), InferenceOptions(drop_first=drop_first))
    return ColumnPreparation(**found, ignored=ignored)
