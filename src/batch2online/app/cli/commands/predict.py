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
from batch2online.app.inputs import DataError, Layout, Source, open_source
from batch2online.app.report.text import visible

Write = Callable[[Any], None]


@dataclass(frozen=True)
class Beside:
    """What stands beside the predictions: a column of the input, all of them, the probabilities of classes.

    Strings that a spreadsheet may run are written as they are with ``keep_formulas``.
    """

    column: str | None = None
    all: bool = False
    probabilities: bool = False
    keep_formulas: bool = False

    def columns(self, source: Source) -> list[str]:
        """Names of the columns."""
        if self.column is not None and self.column not in source.names:
            raise DataError(f"{source.name} has no column {self.column!r}; --id names one of its columns.")
        return source.names if self.all else [] if self.column is None else [self.column]


def predict(
    model_path: Path, path: str, out: Path | None, beside: Beside, layout: Mapping[str, Any], **named: Any
) -> None:
    """Write a line for each row of the input, without a prediction where a value that it needs is missing.

    ``named`` is a wrapped estimator again.
    """
    stored = load_model(model_path, **named)
    with closing(open_source(path, Layout(kinds=needed_kinds(stored), **layout))) as source:
        _predict(stored, source, out, beside)


def _predict(stored: StoredModel, source: Source, out: Path | None, beside: Beside) -> None:
    preparation = preparation_for(stored, source)
    kept = beside.columns(source)
    inputs = set(preparation.columns)
    rows_of = source.batches(preparation.columns, [column for column in kept if column not in inputs])
    met: set[str] = set()
    with _output(out, beside.keep_formulas) as write:
        for batch in rows_of:
            rows, _, complete = preparation.apply(batch, lambda column, note: _say_once(met, column, note))
            said = _aligned(_said(stored, rows, beside.probabilities), complete)
            write(pa.table({**{column: batch.table.column(column) for column in kept}, **_apart(said, kept)}))


def _said(stored: StoredModel, rows: Any, probabilities: bool) -> dict[str, Any]:
    """Return predictions; for no rows at all, columns of the right names."""
    if len(rows):
        return predictions(stored.model, rows, probabilities)
    nobody = predictions(stored.model, np.zeros((1, rows.shape[1])), probabilities)
    return {name: values[:0] for name, values in nobody.items()}


def _apart(said: dict[str, Any], kept: list[str]) -> dict[str, Any]:
    """Return the predictions under names that the input has not."""
    taken = set(kept)
    return {f"{name} (predicted)" if name in taken else name: values for name, values in said.items()}


def _say_once(met: set[str], column: str, note: str) -> None:
    if column not in met:
        met.add(column)
        click.echo(visible(f"Note: {note}."), err=True)


def _aligned(columns: dict[str, Any], kept: BoolArray) -> dict[str, Any]:
    """One line a row of the input: nothing where the row was left out."""
    places = pa.array(np.cumsum(kept) - 1, mask=~kept)
    return {name: pa.array(np.ascontiguousarray(values)).take(places) for name, values in columns.items()}


@contextmanager
def _output(out: Path | None, keep_formulas: bool) -> Iterator[Write]:
    """Give what writes to standard output, or to a file that appears only when it is complete."""
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
    is_begun = False

    def write(table: Any) -> None:
        nonlocal is_begun
        write_csv(table, file, with_names=not is_begun, keep_formulas=keep_formulas)
        is_begun = True

    return write
