"""CSV and other delimited files."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from batch2online.app.inputs.batch import (
    DATES,
    SINGULAR,
    Batch,
    DataError,
    Remedy,
    check_zones,
    distinct,
    kind_of,
    mismatch,
    with_plain_types,
)
from batch2online.app.inputs.byte_stream import LineBlock
from batch2online.app.inputs.layout import WHITESPACE, Layout
from batch2online.frames.columns import ColumnType

MISSING = frozenset(arrow_csv.ConvertOptions().null_values)
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


def final_type(column: Any) -> Any:
    """Return the type for all blocks: integers may be followed by fractions, a few strings among numbers are errors."""
    dtype = column.type
    if pa.types.is_binary(dtype):
        return pa.string()  # bytes that are not UTF-8: an error that names the line
    if pa.types.is_string(dtype):
        numbers = pc.sum(pc.match_substring_regex(column, _NUMBER)).as_py() or 0
        return pa.float64() if 2 * numbers > len(column) - column.null_count else dtype
    if pa.types.is_date(dtype) or pa.types.is_timestamp(dtype):
        return pa.timestamp("us", getattr(dtype, "tz", None))
    return pa.float64() if pa.types.is_integer(dtype) or pa.types.is_null(dtype) else dtype


def arrow_type(kind: ColumnType) -> Any:
    """Return the Arrow type of a column; None if it depends on the values."""
    return {ColumnType.NUMBER: pa.float64(), ColumnType.STRING: pa.string()}.get(kind)


def is_number(cell: str) -> bool:
    """Whether a value is a number or missing.

    >>> [is_number(cell) for cell in ("1e3", "", "true", "1_000", "x")]
    [True, True, True, False, False]
    """
    if cell.strip() in MISSING:
        return True
    try:
        float(cell)
    except ValueError:
        return cell.strip().lower() in ("true", "false")
    return "_" not in cell


def is_of_type(cell: str, dtype: Any, date_format: str | None) -> bool:
    """Whether a value is a date or a time of this type."""
    readers: list[Callable[[], Any]] = [lambda: pa.array([cell]).cast(dtype)]
    if date_format is not None and kind_of(dtype) in DATES:
        readers.append(lambda: pc.strptime(pa.array([cell]), date_format, "us"))
    for read in readers:
        try:
            read()
        except pa.ArrowInvalid:
            continue
        return True
    return False


_DELIMITERS = ",\t;|"


def first_block(blocks: Iterator[LineBlock], name: str, min_lines: int) -> LineBlock:
    """Return the first block that is not blank; of a live input as many blocks as have ``min_lines`` lines."""
    found = next((block for block in blocks if not block.is_blank), None)
    if found is None:
        raise DataError(f"{name} is empty.")
    while len(list(islice(found.lines(), min_lines))) < min_lines:
        following = next(blocks, None)
        if following is None:
            break
        found = found.joined(following)
    return found


def cleaned(layout: Layout, block: LineBlock) -> LineBlock:
    """Replace comments and skipped lines by blank lines."""
    content = block.content
    if layout.comment is not None:
        content = re.sub(rb"(?m)^[ \t]*" + re.escape(layout.comment.encode()) + rb"[^\r\n]*", b"", content)
    skipped = layout.skip_lines + 1 - block.first_line
    if skipped > 0:
        lines = content.splitlines(keepends=True)
        content = b"".join([*(b"\n" for _ in lines[:skipped]), *lines[skipped:]])
    return replace(block, content=content)


def delimiter_of(text: str, block: LineBlock, given: str | None) -> str:
    """Return the separator: the given one, or the most frequent candidate in the first line."""
    if given is not None:
        return given
    found = max(_DELIMITERS, key=text.count)
    if text.count(found):
        return found
    first, *others = [len(line.split()) for _, line in islice(block.lines(), 10)]
    is_table = len(set(others)) == 1 and others[0] in (first, first + 1)  # R writes no name above the names of rows
    return WHITESPACE if is_table and others[0] > 1 else ","


def spaced(block: LineBlock) -> LineBlock:
    """Replace any whitespace between values by one blank."""
    content = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", block.content)
    return replace(block, content=re.sub(rb"[ \t]+", b" ", content))


def without_first_record(block: LineBlock) -> LineBlock:
    """Return the block without its first record, the names."""
    at, record = next(block.records())
    skipped = at - block.first_line + record.count(b"\n") + 1
    lines = block.content.splitlines(keepends=True)[skipped:]
    return LineBlock(b"".join(lines), at + record.count(b"\n") + 1, block.quoted)


_WIDE = 1000


class Delimited:
    """Reader of delimited values; the first block determines the types of columns.

    Parameters
    ----------
    blocks : iterator of LineBlock
    name : str
        Name of the input in errors.
    layout : Layout
    """

    def __init__(self, blocks: Iterator[LineBlock], name: str, layout: Layout) -> None:
        self._name, self._layout = name, layout
        self._blocks = map(partial(cleaned, layout), blocks)
        self.notes: list[str] = []
        self.dropped_lines = 0
        self.kinds: dict[str, ColumnType] = {}
        self._types: dict[str, Any] = {}
        first = first_block(self._blocks, name, layout.min_rows + layout.header)
        number, line = next(first.records())
        text = self._decoded(number, line)
        self._delimiter = delimiter_of(text, first, layout.sep)
        if self._delimiter == WHITESPACE:
            self._delimiter, self._blocks, first = " ", map(spaced, self._blocks), spaced(first)
        self._first = first
        self._name_columns()
        self._types = self._inferred()
        self.kinds = {column: kind_of(dtype) for column, dtype in self._types.items()}

    def _name_columns(self) -> None:
        records = self._first.records()
        first, *second = [self._cells(at, self._decoded(at, line)) for at, line in islice(records, 2)]
        names = [cell.strip() for cell in first] if self._layout.header else [str(j + 1) for j in range(len(first))]
        if not self._layout.header:
            self.names = names
            return
        if all(is_number(name) and name for name in first):
            raise DataError(f"{self._name} has numbers instead of names in its first line.", Remedy.NO_HEADER)
        if second and len(second[0]) == len(names) + 1:
            names.insert(0, "")
            self.notes.append("the first column has no name")
        self.names, changed = distinct(names)
        if changed:
            self.notes.append(f"duplicate column names are renamed: {', '.join(map(repr, changed[:5]))}")
        self._first = without_first_record(self._first)

    def batches(self, columns: Sequence[str], untouched: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows of these columns; ``untouched`` columns are not converted."""
        block: LineBlock | None = self._first
        types = {column: self._types[column] for column in columns} | dict.fromkeys(untouched, pa.string())
        while block is not None:
            if not block.is_blank:
                table, kept = self._parsed(block, types)
                yield Batch(with_plain_types(table, untouched), self._place(kept))
            block = next(self._blocks, None)

    def _inferred(self) -> dict[str, Any]:
        present = set(self.names)
        self.kinds = {name: kind for name, kind in self._layout.kinds.items() if name in present}
        numbers = dict.fromkeys(self.names, pa.float64())
        if self._first.is_blank or (set(self.kinds.values()) <= {ColumnType.NUMBER} and self._holds(numbers)):
            return numbers
        known = self._known_types()
        table, self._first = self._parsed(self._first, known, only=False)
        found = {name: final_type(table.column(name)) for name in self.names}
        for name in (name for name in self.names if pa.types.is_string(found[name]) and name not in known):
            check_zones(table.column(name), name, self._place(self._first))
        for name in (name for name, kind in self.kinds.items() if arrow_type(kind) is None):
            found_kind = kind_of(found[name])
            if found_kind is not self.kinds[name]:
                remedies = [] if found_kind in DATES else [Remedy.DATE_FORMAT]
                raise DataError(f"{self._name}: {mismatch(name, self.kinds[name], found_kind)}", *remedies)
        return found | known

    def _known_types(self) -> dict[str, Any]:
        """Return the Arrow types of columns whose types are known in advance; numbers may be written true and false."""
        known = {name: arrow_type(kind) for name, kind in self.kinds.items() if arrow_type(kind) is not None}
        if self._holds(known):
            return known
        strings = {name: dtype for name, dtype in known.items() if pa.types.is_string(dtype)}
        try:
            found = self._read(self._first, strings, only=False).schema
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            return known
        return {name: dtype for name, dtype in known.items() if not pa.types.is_boolean(found.field(name).type)}

    def _place(self, block: LineBlock) -> Callable[[int], str]:
        return lambda row: f"{self._name}, line {block.line_of(row):,}"

    def _holds(self, types: dict[str, Any]) -> bool:
        """Whether the first block has these types; to check is much faster than to infer many columns."""
        try:
            self._read(self._first, types)
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            return False
        return True

    def _parsed(self, block: LineBlock, types: dict[str, Any], only: bool = True) -> tuple[Any, LineBlock]:
        """Return the table of a block, and the block without dropped lines."""
        try:
            table = self._read(block, types, only)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            fitting = self._without_bad_lines(block)
            if fitting is not block:
                return self._parsed(fitting, types, only)
            self._explain(block)
            raise DataError(f"{self._name}, from line {block.first_line:,} on: {error}.", Remedy.FORMAT) from error
        if b'"' in block.content and table.num_rows != sum(1 for _ in block.records()):
            self._explain(block)
        return table, block

    def _read(self, block: LineBlock, types: dict[str, Any], only: bool = True) -> Any:
        layout = self._layout
        options = arrow_csv.ConvertOptions(
            strings_can_be_null=True, decimal_point=layout.decimal, null_values=[*MISSING, *layout.na_values]
        )
        if layout.date_format is not None:
            options.timestamp_parsers = [layout.date_format, arrow_csv.ISO8601]
        options.column_types = types
        options.include_columns = list(types) if only else []
        is_wide = len(self.names) > _WIDE  # a task per column and piece costs more than it saves
        is_whole = is_wide or not only  # types are inferred from the first piece alone
        size = len(block.content) + 1 if is_whole else 1 << 20
        return arrow_csv.read_csv(
            _in_arrow(block.content),
            read_options=arrow_csv.ReadOptions(column_names=self.names, block_size=size, use_threads=not is_wide),
            parse_options=arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=b'"' in block.content),
            convert_options=options,
        )

    def _without_bad_lines(self, block: LineBlock) -> LineBlock:
        """Replace lines with too few or too many values by blank ones, if they may be dropped."""
        if self._layout.bad_lines != "drop":
            return block
        kept = [b"\n"] * (block.n_lines() + 1)
        bad = 0
        for number, record in block.records():
            fits = len(self._cells(number, self._decoded(number, record))) == len(self.names)
            kept[number - block.first_line] = record + b"\n" if fits else b"\n"
            for inner in range(number + 1, number + 1 + record.count(b"\n")):
                kept[inner - block.first_line] = b"" if fits else b"\n"
            bad += not fits
        self.dropped_lines += bad
        return replace(block, content=b"".join(kept)) if bad else block

    def _explain(self, block: LineBlock) -> None:
        """Raise the error of the first invalid line."""
        for number, line in block.records():
            place = f"{self._name}, line {number:,}"
            cells = self._cells(number, self._decoded(number, line))
            if len(cells) != len(self.names):
                count = "1 value" if len(cells) == 1 else f"{len(cells)} values"
                message = f"{place} has {count}, expected {len(self.names)}."
                raise DataError(message, Remedy.DROP_LINES, *([Remedy.SKIP_LINES] if number <= 50 else []))
            for column, cell in zip(self.names, cells, strict=True):
                if not self._fits(column, cell):
                    remedies = [Remedy.NA_VALUE, Remedy.EXCLUDE] + [Remedy.MORE_ROWS] * self._layout.is_live
                    message = f"{place}, column {column!r}: {cell!r} is not {SINGULAR[self.kinds[column]]}."
                    raise DataError(message, *remedies, about=(column, cell))

    def _fits(self, column: str, cell: str) -> bool:
        kind = self.kinds.get(column, ColumnType.STRING)
        if cell.strip() in MISSING or cell in self._layout.na_values or kind in (ColumnType.STRING, ColumnType.OTHER):
            return True
        if kind is ColumnType.NUMBER:
            return is_number(cell.replace(self._layout.decimal, "."))
        return column not in self._types or is_of_type(cell, self._types[column], self._layout.date_format)

    def _decoded(self, number: int, line: bytes) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self._name}, line {number:,}: byte {line[error.start]:#04x} at position {error.start + 1} "
                "is not valid UTF-8.",
                Remedy.ENCODING,
            ) from error

    def _cells(self, number: int, text: str) -> list[str]:
        try:
            lines = text.splitlines(keepends=True) if "\n" in text else [text]
            (cells,) = csv.reader(lines, delimiter=self._delimiter, strict=True)
        except (csv.Error, ValueError) as error:
            raise DataError(f"{self._name}, line {number:,}: a quoted value is not terminated.") from error
        return cells


def _in_arrow(content: bytes) -> Any:
    """Return a copy in memory that Arrow owns.

    A thread of Arrow may drop its last reference while the interpreter exits. To release memory of Python it would
    then wait for the interpreter, which aborts the process.
    """
    buffer = pa.allocate_buffer(len(content))
    memoryview(buffer).cast("B")[:] = content
    return buffer
