"""CSV and other delimited files: Arrow parses blocks of whole records; the first block determines the types."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import BufferedReader
from itertools import chain, islice

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from batch2online.app.inputs.batch import (
    ARROW_TYPES,
    DATES,
    SINGULAR,
    Batch,
    DataError,
    Remedy,
    check_zones,
    encoding_error,
    mismatch,
)
from batch2online.app.inputs.blocks import Block, RecordBlocks, first_block
from batch2online.app.inputs.layout import WHITESPACE, Layout
from batch2online.tables.columns import ColumnType, type_of_arrow

MISSING = frozenset(arrow_csv.ConvertOptions().null_values)
_SEPARATORS = b",\t;|"
_NUMBER = r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*"
_EXACT = 2**53
_WIDE = 1000
_NO_NAMES = {*MISSING, "inf", "-inf", "true", "false", "True", "False"} - {""}


class Delimited:
    """TableReader of delimited values.

    Parameters
    ----------
    file : binary file
    name : str
        Name of the input in errors.
    layout : Layout
    """

    def __init__(self, file: BufferedReader, name: str, layout: Layout) -> None:
        self._name, self._layout = name, layout
        self.notes: list[str] = []
        blocks = RecordBlocks(file, name, layout, _SEPARATORS if layout.sep is None else _quoting(layout.sep))
        self.is_live = blocks.is_live
        self._blocks = map(self._cleaned, iter(blocks))
        first = first_block(self._blocks, name, (layout.min_rows if self.is_live else 1) + layout.header)
        self._separator = self._separator_of(first)
        blocks.separators = _quoting(self._separator)
        if self._separator == WHITESPACE:
            self._blocks, first = map(_spaced, self._blocks), _spaced(first)
        self.names, self._first = self._names_of(replace(first, separators=blocks.separators))
        self.types = self._settled()

    # -- names -------------------------------------------------------------------------------------------------

    def _cleaned(self, block: Block) -> Block:
        """Replace comments and skipped lines by blank lines."""
        content = block.content
        if self._layout.comment is not None:
            content = re.sub(rb"(?m)^[ \t]*" + re.escape(self._layout.comment.encode()) + rb"[^\n]*", b"", content)
        block = replace(block, content=content)
        skipped = self._layout.skip_lines + 1 - block.first_line
        return block.without_lines(skipped) if skipped > 0 else block

    def _separator_of(self, block: Block) -> str:
        """Return the separator: the given one, or the most frequent candidate in the first line."""
        if self._layout.sep is not None:
            return self._layout.sep
        lines = [line for _, line in islice(block.records(), 10)]
        found = max(_SEPARATORS.decode(), key=lambda separator: lines[0].count(separator.encode()))
        if found.encode() in lines[0]:
            return found
        first, *others = [len(line.split()) for line in lines]
        is_table = len(set(others)) == 1 and others[0] in (first, first + 1)  # R writes no name above names of rows
        return WHITESPACE if is_table and others[0] > 1 else ","

    def _names_of(self, block: Block) -> tuple[list[str], Block]:
        """Return the names of the columns, and the block without them."""
        records = list(islice(block.records(), 2))
        first, *second = [self._cells(line, record) for line, record in records]
        if not self._layout.header:
            return [str(j + 1) for j in range(len(first))], block
        if all(_is_number(cell) for cell in first):
            raise DataError(f"{self._name} has numbers instead of names in its first line.", Remedy.NO_HEADER)
        names = [cell.strip() for cell in first]
        if second and len(second[0]) == len(names) + 1:
            names.insert(0, "")
            self.notes.append("the first column has no name")
        unique = _distinct(names)
        changed = [new for new, old in zip(unique, names, strict=True) if new != old]
        if changed:
            self.notes.append(f"duplicate column names are renamed: {', '.join(map(repr, changed[:5]))}")
        line, header = records[0]
        return unique, block.without_lines(line + header.count(b"\n") + 1 - block.first_line)

    def _cells(self, line: int, record: bytes) -> list[str]:
        separator = " " if self._separator == WHITESPACE else self._separator
        try:
            (cells,) = csv.reader(io.StringIO(record.decode(), newline="\n"), delimiter=separator, strict=True)
        except UnicodeDecodeError as error:
            raise encoding_error(self._name, line, record, error) from error
        except (csv.Error, ValueError) as error:
            raise DataError(f"{self._name}, line {line:,}: a quoted value is not terminated.") from error
        return cells

    # -- types -------------------------------------------------------------------------------------------------

    def _settled(self) -> dict[str, pa.DataType]:
        """Return the types of the columns for all blocks."""
        known = {name: self._layout.kinds.get(name) for name in self.names}
        if self._first.is_blank:
            return {name: ARROW_TYPES.get(kind or ColumnType.NUMBER, pa.float64()) for name, kind in known.items()}
        numbers = dict.fromkeys(self.names, pa.float64())
        if len(numbers) > _WIDE and set(known.values()) <= {None, ColumnType.NUMBER}:
            with suppress(pa.ArrowInvalid):  # much faster than to infer as many types
                self._read(self._first, numbers, self.names, [], is_parallel=False)
                return numbers
        strings = {name: pa.string() for name, kind in known.items() if kind is ColumnType.STRING}
        table, place, _ = self._parsed(self._first, strings)
        found = {name: self._settled_type(table.column(name), name, known[name], place) for name in self.names}
        unknown = [name for name in self.names if known[name] is None and found[name] == pa.float64()]
        keys = [name for name in unknown if _is_inexact(table.column(name))]
        if keys:  # no float64 holds them
            strings, _, _ = self._parsed(self._first, dict.fromkeys(keys, pa.string()), keys)
            found |= {name: pa.string() for name in keys if _match(strings.column(name), r"\s*[-+]?\d+\s*") == 1.0}
        return found

    def _settled_type(
        self, column: pa.ChunkedArray, name: str, known: ColumnType | None, place: Callable[[int], str]
    ) -> pa.DataType:
        """Return the type of a column: fractions may follow integers, a few strings among numbers are errors."""
        dtype = column.type
        if pa.types.is_null(dtype):
            return ARROW_TYPES.get(known or ColumnType.NUMBER, pa.float64())
        if known in (ColumnType.NUMBER, ColumnType.STRING):  # numbers may be written true and false
            return dtype if pa.types.is_boolean(dtype) else ARROW_TYPES[known]
        found = dtype
        if pa.types.is_string(dtype):
            check_zones(column, name, place)
            found = pa.float64() if _match(column, _NUMBER) > 0.5 else dtype
        elif pa.types.is_binary(dtype):
            found = pa.string()  # bytes that are not UTF-8: an error that names the line
        elif pa.types.is_date(dtype) or pa.types.is_timestamp(dtype):
            found = pa.timestamp("us", getattr(dtype, "tz", None))
        elif pa.types.is_integer(dtype):
            found = pa.float64()
        if known is not None and type_of_arrow(found) is not known:
            remedies = [] if type_of_arrow(found) in DATES else [Remedy.DATE_FORMAT]
            raise DataError(f"{self._name}: {mismatch(name, known, type_of_arrow(found))}", *remedies)
        return found

    # -- rows --------------------------------------------------------------------------------------------------

    def batches(self, columns: Sequence[str], verbatim: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; ``verbatim`` columns are strings as they are in the file."""
        types = {column: self.types[column] for column in columns} | dict.fromkeys(verbatim, pa.string())
        n_dropped = 0
        for block in chain([self._first], self._blocks):
            if not block.is_blank:
                table, place, dropped = self._parsed(block, types, list(types))
                n_dropped += dropped
                yield Batch(table, place)
        if n_dropped:
            self.notes.append(f"{n_dropped:,} lines with too few or too many values were dropped")

    def _parsed(
        self, block: Block, types: dict[str, pa.DataType], columns: Sequence[str] = ()
    ) -> tuple[pa.Table, Callable[[int], str], int]:
        """Return the table of a block, the places of its rows, and how many of its lines were dropped."""
        dropped: list[int] = []
        is_parallel = self._layout.bad_lines != "drop" and len(self.names) <= _WIDE  # a task a column costs time
        try:
            table = self._read(block, types, columns, dropped, is_parallel)
        except pa.ArrowInvalid as error:
            try:  # a single thread knows the row
                self._read(block, types, columns, [], is_parallel=False)
            except pa.ArrowInvalid as located:
                raise self._error(block, str(located)) from error
            raise
        return table, partial(self._place, block, tuple(dropped)), len(dropped)

    def _read(
        self,
        block: Block,
        types: dict[str, pa.DataType],
        columns: Sequence[str],
        dropped: list[int],
        is_parallel: bool,
    ) -> pa.Table:
        """Return the table of a block; append the numbers of dropped rows to ``dropped``."""
        layout = self._layout

        def drop(row: arrow_csv.InvalidRow) -> str:
            dropped.append(row.number - 1)
            return "skip"

        in_pieces = is_parallel and columns  # types are inferred from the first piece alone
        formats = [] if layout.date_format is None else [layout.date_format, arrow_csv.ISO8601]
        return arrow_csv.read_csv(
            _in_arrow(block.content),
            read_options=arrow_csv.ReadOptions(
                column_names=self.names,
                block_size=1 << 20 if in_pieces else len(block.content) + 1,
                use_threads=is_parallel,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=" " if self._separator == WHITESPACE else self._separator,
                newlines_in_values=b'"' in block.content,
                invalid_row_handler=drop if layout.bad_lines == "drop" else None,
            ),
            convert_options=arrow_csv.ConvertOptions(
                strings_can_be_null=True,
                decimal_point=layout.decimal,
                null_values=[*MISSING, *layout.na_values],
                timestamp_parsers=formats,
                column_types=types,
                include_columns=columns,
            ),
        )

    # -- places and errors ---------------------------------------------------------------------------------------

    def _place(self, block: Block, dropped: Sequence[int], row: int) -> str:
        for skipped in dropped:
            row += skipped <= row
        return f"{self._name}, line {block.line_of(row):,}"

    def _error(self, block: Block, message: str) -> DataError:
        """Return the error of a block that Arrow refuses; its message names the row, counted from 1, and the column."""
        row = re.search(r"Row #(\d+)", message)
        if row is None:
            return DataError(f"{self._name}, from line {block.first_line:,} on: {message}.", Remedy.FORMAT)
        line, record = next(islice(block.records(), int(row[1]) - 1, None))
        try:
            record.decode()
        except UnicodeDecodeError as error:
            return encoding_error(self._name, line, record, error)
        place = f"{self._name}, line {line:,}"
        if found := re.search(r"Expected (\d+) columns, got (\d+)", message):
            count = "1 value" if found[2] == "1" else f"{found[2]} values"
            remedies = [Remedy.DROP_LINES] + [Remedy.SKIP_LINES] * (line <= 50)
            return DataError(f"{place} has {count}, expected {found[1]}.", *remedies)
        if found := re.search(r"In CSV column #(\d+):", message):
            column, cell = self.names[int(found[1])], self._cells(line, record)[int(found[1])]
            expected = SINGULAR[type_of_arrow(self.types[column])]
            remedies = [Remedy.NA_VALUE, Remedy.EXCLUDE] + [Remedy.MORE_ROWS] * self.is_live
            return DataError(
                f"{place}, column {column!r}: {cell!r} is not {expected}.", *remedies, about=(column, cell)
            )
        return DataError(f"{place}: {message}.", Remedy.FORMAT)


def _quoting(separator: str) -> bytes:
    """Return the bytes after which a quote opens a value."""
    return b" \t" if separator == WHITESPACE else separator.encode()


def _spaced(block: Block) -> Block:
    """Replace any whitespace between values by one blank."""
    content = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", block.content)
    return replace(block, content=re.sub(rb"[ \t]+", b" ", content))


def _is_number(cell: str) -> bool:
    """Whether a value of the first line is one of a row of numbers."""
    return re.fullmatch(_NUMBER, cell) is not None or cell.strip() in _NO_NAMES


def _match(strings: pa.ChunkedArray, pattern: str) -> float:
    """Return the share of strings that match a pattern, among those that are not missing."""
    matching = pc.sum(pc.match_substring_regex(strings, f"^({pattern})$")).as_py() or 0
    return float(matching / max(1, len(strings) - strings.null_count))


def _is_inexact(column: pa.ChunkedArray) -> bool:
    """Whether numbers are too large for each integer to be a float64."""
    if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
        return False
    bounds = pc.min_max(column).as_py().values()
    return any(value is not None and abs(value) > _EXACT for value in bounds)


def _distinct(names: Sequence[str]) -> list[str]:
    """Return unique names.

    >>> _distinct(["a", "b", "a", "a"])
    ['a', 'b', 'a (2)', 'a (3)']
    """
    found: dict[str, None] = {}
    for name in names:
        numbered = (f"{name} ({count})" for count in range(2, len(names) + 2))
        found[next(free for free in chain([name], numbered) if free not in found)] = None
    return list(found)


def _in_arrow(content: bytes) -> pa.Buffer:
    """Return a copy in memory that Arrow owns.

    A thread of Arrow may drop its last reference while the interpreter exits. To release memory of Python it would
    then wait for the interpreter, which aborts the process.
    """
    buffer = pa.allocate_buffer(len(content))
    memoryview(buffer).cast("B")[:] = content
    return buffer
