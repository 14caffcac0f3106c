"""``batch2online predict``."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from batch2online._types import BoolArray
from batch2online.app.cli.files import write_csv
from batch2online.app.cli.models import StoredModel, answers, inputs_of, load_model
from batch2online.app.cli.run.notes import in_options, noting, placed
from batch2online.app.cli.run.source import known_kinds, scaled, table_of
from batch2online.app.cli.settings import format_of
from batch2online.app.inputs import DataError, Layout, Source, open_sources, paths_of
from batch2online.app.report.formatting import visible
from batch2online.tables.columns import ColumnError

Write = Callable[[Any], None]


@dataclass(frozen=True)
class OutputOptions:
    """What to write beside the predictions.

    Parameters
    ----------
    id_column : str, optional
        A column of the input.
    append : bool
        Whether to write all columns of the input.
    probabilities : bool
        Whether to write the probability of each class.
    keep_formulas : bool
        Whether to write strings that a spreadsheet may run without an apostrophe.
    """

    id_column: str | None
    append: bool
    probabilities: bool
    keep_formulas: bool

    def columns(self, source: Source) -> list[str]:
        """Return the names of the columns to copy."""
        if self.id_column is not None and self.id_column not in source.names:
            raise DataError(f"{source.name} has no column {self.id_column!r}; --id names one of its columns.")
        return source.names if self.append else [] if self.id_column is None else [self.id_column]


def predict(
    model: Path, file: str, out: Path | None, trust: bool, estimator: str | None, sets: Sequence[str], **given: Any
) -> None:
    """Write a line for each row of the input; the prediction of a row with a missing value is empty."""
    options = OutputOptions(**{each.name: given.pop(each.name) for each in fields(OutputOptions)})
    stored = load_model(model, estimator, sets, trust)
    layout = Layout(kinds=known_kinds(stored.model, None), **format_of(given))
    said: set[str] = set()

    def note_once(note: str) -> None:
        if note not in said:
            said.add(note)
            click.echo(visible(f"Note: {in_options(note)}."), err=True)

    with closing(open_sources(paths_of([file]), layout)) as source, noting(note_once):
        _predict(stored, source, out, options)


def _predict(stored: StoredModel, source: Source, out: Path | None, options: OutputOptions) -> None:
    model = stored.model
    inputs, kept = inputs_of(model, source), options.columns(source)
    rows_of = source.batches(inputs, [column for column in kept if column not in set(inputs)])
    with _output(out, options.keep_formulas) as write:
        for batch in rows_of:
            rows = scaled(table_of(batch, inputs, drops=True), stored.facts)
            try:
                found, complete = answers(model, rows, options.probabilities)
            except ColumnError as error:
                raise placed(error, batch.place) from error
            columns = _aligned(found, complete)
            named = {f"{name} (predicted)" if name in kept else name: values for name, values in columns.items()}
            write(pa.table({**{column: batch.table.column(column) for column in kept}, **named}))


def _aligned(columns: dict[str, Any], complete: BoolArray) -> dict[str, Any]:
    """Return a value for each row of the input, missing for rows that are not complete."""
    places = pa.array(np.cumsum(complete) - 1, mask=~complete)
    return {name: pa.array(np.ascontiguousarray(values)).take(places) for name, values in columns.items()}


@contextmanager
def _output(out: Path | None, keep_formulas: bool) -> Iterator[Write]:
    """Yield a function that writes tables to standard output, or to a file that appears when it is complete."""
    if out is None:
        yield _csv_writer(sys.stdout.buffer, keep_formulas)
        sys.stdout.buffer.flush()
        return
    handle, temporary = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        is_parquet = out.suffix.lower() in (".parquet", ".pq")
        with os.fdopen(handle, "wb") as file, _writer(file, is_parquet, keep_formulas) as write:
            yield write
        os.replace(temporary, out)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def _writer(file: IO[bytes], is_parquet: bool, keep_formulas: bool) -> Iterator[Write]:
    if not is_parquet:
        yield _csv_writer(file, keep_formulas)
        return
    opened: list[Any] = []

    def write(table: Any) -> None:
        if not opened:
            opened.append(parquet.ParquetWriter(file, table.schema))
        opened[0].write_table(table.cast(opened[0].schema))

    try:
        yield write
    finally:
        for writer in opened:
            writer.close()


def _csv_writer(file: IO[bytes], keep_formulas: bool) -> Write:
    has_header = False

    def write(table: Any) -> None:
        nonlocal has_header
        write_csv(table, file, header=not has_header, keep_formulas=keep_formulas)
        has_header = True

    return write
