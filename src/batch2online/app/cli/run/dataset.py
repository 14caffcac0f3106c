"""Built-in data sets as inputs, with their names and units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from batch2online.app.cli.run.stream import ROWS, About
from batch2online.app.cli.tasks.base import Task
from batch2online.app.inputs import Batch, Source
from batch2online.app.inputs.batch import kind_of, row_place


class _InMemory:
    """Columns in memory as a reader."""

    def __init__(self, columns: dict[str, Any], name: str) -> None:
        self._name, self._table, self.notes = name, pa.table(columns), list[str]()
        self.names, self.n_rows = list(columns), self._table.num_rows
        self.kinds = {field.name: kind_of(field.type) for field in self._table.schema}

    def batches(self, columns: Sequence[str], untouched: Sequence[str] = ()) -> Iterator[Batch]:
        """Iterate over the rows, with these columns alone."""
        table = self._table.select([*columns, *untouched])
        for start in range(0, table.num_rows, ROWS):
            yield Batch(table.slice(start, ROWS), partial(row_place, self._name, start))


def open_dataset(name: str, task: Task) -> tuple[Source, About]:
    """Return a data set as an input, and what is known of it."""
    table = task.dataset(name)
    columns = table.complete(task.used_columns(table))
    moments = {} if task.has_targets or table.scale == 1.0 else table.moments(columns)
    return Source(_InMemory(columns, name), name), About(dict(table.units), moments, is_whole=True)
