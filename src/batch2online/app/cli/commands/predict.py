"""``batch2online predict``."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from batch2online._types import BoolArray
from batch2online.app.cli.files import write_csv
from batch2online.app.cli.models import StoredModel, load_model, needed_kinds, predictions, preparation_for
from batch2online.app.inputs import DataError, Layout, Source, open_sources, paths_of
from batch2online.app.report.formatting import visible

Write = Callable[[Any], None]


@dataclass(frozen=True)
class OutputOptions:
    """What to write beside the predictions.

    Parameters
    ----------
    column : str, optional
        A column of the input.
    all : bool
        Whether to write all columns of the input.
    probabilities : bool
        Whether to write the probability of each class.
    keep_formulas : bool
        Whether to write strings that a spreadsheet may run without an apostrophe.
    """

    column: str | None = None
    all: bool = False
    probabilities: bool = False
    keep_formulas: bool = False

    def columns(self, source: Source) -> list[str]:
        """Return the names of the columns to copy."""
        if self.column is not None and self.column not in source.names:
            raise DataError(f"{source.name} has no column {self.column!r}; --id names one of its columns.")
        return source.names if self.all else [] if self.column is None else [self.column]


def predict(
    model_path: Path, path: str, out: Path | None, options: OutputOptions, layout: Mapping[str, Any], **named: Any
) -> None:
    """Write a line for each row of the input; the prediction of a row with a missing value is empty.

    ``named`` gives the estimator that the model wraps.
    """
    stored = load_model(model_path, **named)
    with closing(open_sources(paths_of([path]), Layout(kinds=needed_kinds(stored), **layout))) as source:
        _predict(stored, source, out, options)


def _predict(stored: StoredModel, source: Source, out: Path | None, options: OutputOptions) -> None:
    preparation = preparation_for(stored, source)
    kept = options.columns(source)
    inputs = set(preparation.columns)
    rows_of = source.batches(preparation.columns, [column for column in kept if column not in inputs])
    noted: set[str] = set()

    def note_once(column: str, note: str) -> None:
        if column not in noted:
            noted.add(column)
            click.echo(visible(f"Note: {note}."), err=True)

    with _output(out, options.keep_formulas) as write:
        for batch in rows_of:
            rows, _, complete = preparation.apply(batch, note_once)
            some = rows if len(rows) else np.zeros((1, rows.shape[1]))  # so that there are columns
            found = _aligned(predictions(stored.model, some, options.probabilities), complete)
            named = {f"{name} (predicted)" if name in kept else name: values for name, values in found.items()}
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
