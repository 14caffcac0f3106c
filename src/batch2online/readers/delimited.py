"""CSV and its relatives."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from batch2online.readers.batch import Batch, DataError, Kind, Remedy, check_distinct, kind_of, with_plain_types
from batch2online.readers.blocks import LineBlock

_DELIMITERS = ",\t;|"
_WIDE = 1000
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


class Delimited:
    """Blocks of lines of delimited values as batches, types decided by the first block.

    Parameters
    ----------
    blocks : iterator of LineBlock
    name : str
        What errors call the input.
    delimiter : str or None
        None takes the one of comma, tab, semicolon and bar that the first line has most of.
    header : bool
        Whether the first line holds the names; otherwise columns are called 1, 2, ...
    """

    def __init__(self, blocks: Iterator[LineBlock], name: str, delimiter: str | None, header: bool) -> None:
        self._blocks, self._name = blocks, name
        self.kinds: dict[str, Kind] = {}
        self._first = _first_block(blocks, name)
        number, line = next(self._first.lines())
        text = self._decoded(number, line)
        self._delimiter = delimiter or max(_DELIMITERS, key=text.count)
        cells = self._cells(number, text)
        self.names = cells if header else [str(index + 1) for index in range(len(cells))]
        if header:
            self._check_names(cells)
            self._first = _without_lines_up_to(number, self._first)
        self._types = self._inferred()
        self.kinds = {column: kind_of(dtype) for column, dtype in self._types.items()}

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Iterate over the rows, with these columns alone."""
        block: LineBlock | None = self._first
        while block is not None:
            if not block.is_blank:
                yield self._batch(block, columns)
            block = next(self._blocks, None)

    def _batch(self, block: LineBlock, columns: Sequence[str]) -> Batch:
        table = self._parsed(block, {column: self._types[column] for column in columns})
        return Batch(with_plain_types(table), lambda row: f"line {block.line_of(row):,}")

    def _inferred(self) -> dict[str, Any]:
        numbers = dict.fromkeys(self.names, pa.float64())
        if self._first.is_blank or self._holds(numbers):
            return numbers
        table = self._parsed(self._first, None)
        return {name: _settled(table.column(name)) for name in self.names}

    def _holds(self, types: dict[str, Any]) -> bool:
        """Whether the first block is of these types; to ask is far cheaper than to infer them for many columns."""
        try:
            self._read(self._first, types)
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            return False
        return True

    def _parsed(self, block: LineBlock, types: dict[str, Any] | None) -> Any:
        try:
            table = self._read(block, types)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            self._explain(block)
            raise DataError(f"{self._name}, from line {block.first_line:,} on: {error}.") from error
        if b'"' in block.content and table.num_rows != sum(1 for _ in block.lines()):
            self._explain(block)
        return table

    def _read(self, block: LineBlock, types: dict[str, Any] | None) -> Any:
        options = arrow_csv.ConvertOptions(strings_can_be_null=True)
        if types is not None:
            options.column_types, options.include_columns = types, list(types)
        is_wide = len(self.names) > _WIDE  # a task for each column of each piece costs more than it saves
        is_whole = is_wide or types is None  # types are inferred from the first piece alone
        size = len(block.content) + 1 if is_whole else 1 << 20
        return arrow_csv.read_csv(
            pa.py_buffer(block.content),
            read_options=arrow_csv.ReadOptions(column_names=self.names, block_size=size, use_threads=not is_wide),
            parse_options=arrow_csv.ParseOptions(delimiter=self._delimiter),
            convert_options=options,
        )

    def _explain(self, block: LineBlock) -> None:
        """Raise the error of the first line that is wrong."""
        for number, line in block.lines():
            cells = self._cells(number, self._decoded(number, line))
            if len(cells) != len(self.names):
                raise DataError(
                    f"{self._name}, line {number:,} has {_count(len(cells), 'value')}, expected {len(self.names)}."
                )
            for column, cell in zip(self.names, cells, strict=True):
                if self.kinds.get(column) is Kind.NUMBER and not _is_number(cell):
                    raise DataError(f"{self._name}, line {number:,}, column {column!r}: {cell!r} is not a number.")

    def _decoded(self, number: int, line: bytes) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self._name}, line {number:,}: byte {line[error.start]:#04x} at position {error.start + 1} "
                "is not valid UTF-8."
            ) from error

    def _cells(self, number: int, text: str) -> list[str]:
        try:
            (cells,) = csv.reader([text], delimiter=self._delimiter, strict=True)
        except csv.Error as error:
            raise DataError(
                f"{self._name}, line {number:,}: a quoted value does not end properly on its line."
            ) from error
        return cells

    def _check_names(self, names: list[str]) -> None:
        check_distinct(names, self._name)
        if all(_is_number(name) and name for name in names):
            raise DataError(f"{self._name} has numbers in its first line, not names.", Remedy.NO_HEADER)


def _first_block(blocks: Iterator[LineBlock], name: str) -> LineBlock:
    for block in blocks:
        if not block.is_blank:
            return block
    raise DataError(f"{name} is empty.")


def _without_lines_up_to(number: int, block: LineBlock) -> LineBlock:
    lines = block.content.splitlines(keepends=True)[number + 1 - block.first_line :]
    return LineBlock(b"".join(lines), number + 1)


def _settled(column: Any) -> Any:
    """Return the type for all blocks. Whole numbers may still see fractions; a few texts among numbers are mistakes."""
    dtype = column.type
    if pa.types.is_binary(dtype):
        return pa.string()  # bytes that are no UTF-8: to be refused with their line
    if pa.types.is_string(dtype):
        numbers = pc.sum(pc.match_substring_regex(column, _NUMBER)).as_py() or 0
        return pa.float64() if 2 * numbers > len(column) - column.null_count else dtype
    return pa.float64() if pa.types.is_integer(dtype) or pa.types.is_null(dtype) else dtype


def _is_number(cell: str) -> bool:
    if cell.strip() in ("", "#N/A", "#N/A N/A", "#NA", "N/A", "NA", "NULL", "n/a", "null"):
        return True
    try:
        float(cell)
    except ValueError:
        return cell.strip().lower() in ("true", "false")
    return "_" not in cell


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
