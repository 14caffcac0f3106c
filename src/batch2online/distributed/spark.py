"""Learning from the rows of a Spark DataFrame: partitions become shards, shards merge in a tree.

Two passes read the frame: the first counts the rows of each partition, so that they have ids; the second learns them.
What tasks return, a pickled shard or the text of an error, travels in Arrow columns.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's documentation uses
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from batch2online.distributed import shards
from batch2online.distributed.shards import TOGETHER, CountError, Model, PartitionError, Place
from batch2online.sampling import seed_from

RESULT = "number long, result binary, error string"
"""Columns of what tasks return: the number of a partition or of a node of the tree, and a pickled shard or an error."""

_FIRST_ROWS = 10_000
"""Rows from which ``columns="auto"`` is inferred."""


def fit(
    model: Model,
    df: DataFrame,
    target: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
) -> Model:
    """Fit a model to the rows of a Spark DataFrame, and return it.

    The result is that of :func:`batch2online.dask.fit` on the same rows. ``docs/cluster.md`` has a table of all
    estimators. Rows are numbered partition by partition.

    Parameters
    ----------
    model : an estimator of batch2online
        Unchanged if anything fails.
    df : pyspark.sql.DataFrame
        The rows. It is evaluated twice and must give the same rows each time: persist it, or write it to a file, if it
        is not read from one.
    target, sample_weight : str, optional
        The columns that hold the targets and the weights of rows. Rows of weight 0 are ignored.
    columns : list of str, optional
        The columns to learn from. None means all others.
    """
    shards.check_model(model)
    rows = NumberedRows.of(df, Roles.of(df, target, columns, sample_weight), int(model.first_id))
    template = shards.template_of(model, seed_from(model.random_state))
    if getattr(template, "columns", None) is not None:
        template._shard_columns = rows.inferred_columns(template)
    return shards.replace_state(model, _root(template, rows))


def partial_fit(
    model: Model,
    df: DataFrame,
    target: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
) -> Model:
    """Learn from further rows of a Spark DataFrame, and return the model; parameters are those of :func:`fit`."""
    shards.check_model(model)
    if not model.__sklearn_is_fitted__():
        return fit(model, df, target, columns=columns, sample_weight=sample_weight)
    template = shards.further_template(model)
    rows = NumberedRows.of(df, Roles.of(df, target, columns, sample_weight), model._next_id())
    return shards.replace_state(model, shards.whole_shard(model, template).merge(_root(template, rows)))


def predict(model: Any, df: DataFrame, *, method: str | None = None, column: str = "prediction") -> DataFrame:
    """Return the frame with a column of predictions, computed when it is read.

    Parameters
    ----------
    model : estimator
        A fitted one.
    df : pyspark.sql.DataFrame
        The rows; columns that the model has not learned from are passed on.
    method : str, optional
        What to call: ``"predict_proba"``, ``"transform"``, ... None is ``predict``, or ``transform`` if there is no
        ``predict``. Several numbers a row become an array.
    column : str, optional
        Name of the new column.
    """
    if column in df.columns:
        raise ValueError(f"The frame has a column {column!r} already: set column to another name.")
    name = method or ("predict" if hasattr(model, "predict") else "transform")
    inputs = _inputs(model, df)

    def predicted(table: pa.Table) -> pa.Array:
        values = np.asarray(getattr(model, name)(table))
        return pa.array(values.tolist() if values.ndim > 1 else values)

    def appended(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if len(batch):
                table = pa.Table.from_batches([batch])
                yield from table.append_column(column, predicted(table.select(inputs))).to_batches()

    kind = predicted(df.select(inputs).limit(1).toArrow()).type if df.take(1) else pa.float64()
    return df.mapInArrow(appended, _with_fields(df, (column, from_arrow_type(kind))))


def _inputs(model: Any, df: DataFrame) -> list[str]:
    """Return the columns that a model predicts from: those that it has learned, by name if they had names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return list(df.columns)
    missing = [str(name) for name in names if name not in df.columns]
    if missing:
        raise ValueError(f"Column {missing[0]!r}, which the model has learned, is not in the frame.")
    return [str(name) for name in names]


def _with_fields(df: DataFrame, *further: tuple[str, Any]) -> StructType:
    """Return the schema of a frame with further fields; ``StructType.add`` would change that of the frame."""
    return StructType([*df.schema.fields, *(StructField(name, kind) for name, kind in further)])


# -- rows with ids -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Roles:
    """The columns of a frame by what they are for."""

    inputs: list[str]
    target: str | None
    weight: str | None

    @classmethod
    def of(cls, df: DataFrame, target: str | None, columns: Sequence[str] | None, weight: str | None) -> Roles:
        for name in (target, weight, *(columns or ())):
            if name is not None and name not in df.columns:
                raise ValueError(f"Column {name!r} is not in the frame: its columns are {df.columns}.")
        inputs = [name for name in df.columns if name not in (target, weight)] if columns is None else list(columns)
        return cls(inputs, target, weight)

    @property
    def all(self) -> list[str]:
        return [*self.inputs, *(name for name in (self.target, self.weight) if name is not None)]

    def weighted(self, rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
        """Return the rows whose weight is not zero: those that get ids. Weights that are missing or negative stay, to
        be refused where they are learned.
        """
        if self.weight is None:
            return rows
        return rows.filter(pc.fill_null(pc.not_equal(rows[self.weight], 0), True))

    def given(self, rows: pa.Table | pa.RecordBatch) -> tuple[Any, Any, Any]:
        """Return inputs, targets and weights in the form that ``partial_fit`` takes."""
        rows = self.weighted(rows)
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        targets, weights = (None if name is None else table[name].to_numpy() for name in (self.target, self.weight))
        return table.select(self.inputs), targets, weights


@dataclass(frozen=True)
class NumberedRows:
    """A frame, and the place of each of its partitions that has rows."""

    frame: DataFrame
    roles: Roles
    places: dict[int, Place]

    @classmethod
    def of(cls, df: DataFrame, roles: Roles, first_id: int) -> NumberedRows:
        """Count the rows of each partition, and number them from ``first_id`` on."""
        frame = df.select(roles.all)
        counts = sorted(map(tuple, frame.mapInArrow(_counter(roles), "number int, rows long").collect()))
        starts = list(accumulate((n for _, n in counts), initial=first_id))
        if starts[-1] == first_id:
            raise PartitionError("There are no rows: the frame is empty, or all weights are zero.")
        places = {
            number: Place(number, start - first_id, start, n)
            for (number, n), start in zip(counts, starts, strict=False)
            if n
        }
        return cls(frame, roles, places)

    def inferred_columns(self, template: Any) -> Any:
        """Return how columns of strings and dates are encoded, as inferred from the first rows."""
        given = self.roles.given(self.frame.limit(_FIRST_ROWS).toArrow())
        try:
            shard = shards.learned(template, [given], Place(0, 0, int(template.first_id), given[0].num_rows))
        except ValueError as error:
            raise PartitionError(f"The first rows: {error}") from error
        return shard._with_final_columns().columns

    def learned(self, template: Any) -> DataFrame:
        """Return the shard of each partition, or its error: Spark would run a task that fails again."""
        roles, places = self.roles, self.places

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            number = _partition()
            given = (own for own in map(roles.given, batches) if own[0].num_rows)
            place = places.get(number, Place(number, 0, 0, 0))
            if place.n_ids or any(True for _ in given):
                yield _result(number, lambda: _shard(template, given, place))

        return self.frame.mapInArrow(run, RESULT)


def _shard(template: Any, given: Iterator[tuple[Any, Any, Any]], place: Place) -> Any:
    try:
        return shards.learned(template, given, place)
    except CountError as error:
        raise _changed() from error
    except Exception as error:
        raise PartitionError(f"Rows with ids from {place.first_id:,} on: {error}") from error


def _changed() -> PartitionError:
    return PartitionError(
        "The frame gave other rows when it was read again: persist it, or write it to a file, then fit."
    )


def _counter(roles: Roles) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        n = sum(len(roles.weighted(batch)) for batch in batches)
        numbers = pa.array([_partition()], pa.int32())
        yield pa.RecordBatch.from_arrays([numbers, pa.array([n], pa.int64())], ["number", "rows"])

    return counted


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    return int(context.partitionId())


# -- the tree of shards ------------------------------------------------------------------------------------------------


def _root(template: Any, rows: NumberedRows) -> Any:
    """Return one estimator of all rows."""
    results, n = rows.learned(template), max(rows.places) + 1
    while n > TOGETHER:
        results, n = _merged(results), -(-n // TOGETHER)
    root = shards.merged(*_loaded(results))
    if root._stream.n_seen != sum(place.n_ids for place in rows.places.values()):
        raise _changed()
    if len(rows.places) == 1 and root._stream.ordered:
        root._stream = root._stream.refit("merged")
    return root


def _merged(results: DataFrame) -> DataFrame:
    """Return the results in groups, merged in the order of their numbers."""

    def run(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
        rows = table.sort_by("number")
        errors = [error for error in rows["error"].to_pylist() if error is not None]

        def work() -> Any:
            if errors:
                raise PartitionError(errors[0])
            return shards.merged(*map(pickle.loads, rows["result"].to_pylist()))

        return pa.Table.from_batches([_result(key[0].as_py(), work)])

    key = F.floor(F.col("number") / TOGETHER).alias("_batch2online_key")
    return results.groupBy(key).applyInArrow(run, RESULT)


def _result(number: int, work: Callable[[], Any]) -> pa.RecordBatch:
    """Return what work gives as a row, or its error."""
    try:
        result, error = pickle.dumps(work(), protocol=5), None
    except Exception as caught:
        result, error = None, str(caught)
    columns = pa.array([number], pa.int64()), pa.array([result], pa.binary()), pa.array([error], pa.string())
    return pa.RecordBatch.from_arrays(list(columns), ["number", "result", "error"])


def _loaded(results: DataFrame) -> list[Any]:
    """Return the shards of all tasks, by number; raise the first error."""
    rows = sorted(results.collect(), key=lambda row: row.number)
    for row in rows:
        if row.error is not None:
            raise PartitionError(row.error)
    return [pickle.loads(row.result) for row in rows]  # our own tasks have written these
