"""Learning from the rows of a Spark DataFrame: rows get ids, spans of ids become shards, shards merge in a tree.

Two passes read the frame: the first counts the rows of each partition, the second numbers them and gathers the rows of
each span in one task. What tasks return, a pickled shard or the text of an error, travels in Arrow columns.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's documentation uses
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import LongType, StructField, StructType

from batch2online.distributed import clusters
from batch2online.distributed.models import Model, check_model, keeps_all_rows, replace_state, template_of, whole_shard
from batch2online.distributed.shards import TOGETHER, PartitionError, begun, check_count, compact, merged
from batch2online.sampling import seed_from
from batch2online.sketches import spans

ID, SPAN = "_batch2online_id", "_batch2online_span"
RESULT = "number long, result binary, error string"
"""Columns of what tasks return: the number of a span or of a node of the tree, and a pickled object or an error."""


def fit(
    model: Model,
    df: DataFrame,
    target: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
) -> Model:
    """Fit a model to the rows of a Spark DataFrame, and return it.

    The result is that of :func:`batch2online.dask.fit` on the same rows: coreset and model are the same bits whatever
    the number of executors, and those of ``model.fit`` on one machine if rows are in the same order.
    ``docs/cluster.md`` has a table of all estimators. Rows are numbered partition by partition.

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
    check_model(model)
    rows = NumberedRows.of(df, Roles.of(df, target, columns, sample_weight), int(model.first_id))
    template = template_of(model, seed_from(model.random_state))
    if getattr(template, "columns", None) is not None:
        template._shard_columns = _inferred_columns(template, rows)
    return replace_state(model, _root(template, rows))


def partial_fit(
    model: Model,
    df: DataFrame,
    target: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
) -> Model:
    """Learn from further rows of a Spark DataFrame, and return the model; parameters are those of :func:`fit`."""
    check_model(model)
    if not model.__sklearn_is_fitted__():
        return fit(model, df, target, columns=columns, sample_weight=sample_weight)
    stream = model._stream
    template = template_of(model, stream.sketch.settings.seed, stream.sketch.pilot == "none")
    if stream.history is not None and keeps_all_rows(template):
        raise ValueError(
            'Clustering of further rows on Spark needs history="coreset"; this model stores all of its rows. '
            "Fit a model with that setting, or fit again to all rows."
        )
    rows = NumberedRows.of(df, Roles.of(df, target, columns, sample_weight), model._next_id())
    return replace_state(model, whole_shard(model, template).merge(_root(template, rows)))


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

    def weighted(self, table: pa.Table) -> pa.Table:
        """Return the rows whose weight is not zero: those that get ids. Weights that are missing or negative stay, to
        be refused where they are learned.
        """
        if self.weight is None:
            return table
        return table.filter(pc.fill_null(pc.not_equal(table[self.weight], 0), True))

    def given(self, table: pa.Table) -> tuple[Any, Any, Any]:
        """Return inputs, targets and weights in the form that ``partial_fit`` takes."""
        targets, weights = (None if name is None else table[name].to_numpy() for name in (self.target, self.weight))
        return table.select(self.inputs), targets, weights


@dataclass(frozen=True)
class NumberedRows:
    """A frame whose rows have ids and the numbers of their spans, which count from 0."""

    frame: DataFrame
    roles: Roles
    ids: tuple[int, int]

    @classmethod
    def of(cls, df: DataFrame, roles: Roles, first_id: int) -> NumberedRows:
        """Count the rows of each partition, and number them from ``first_id`` on."""
        frame = df.select(roles.all)
        counts = dict(map(tuple, frame.mapInArrow(_counter(roles), "number int, rows long").collect()))
        partitions = range(max(counts, default=-1) + 1)
        starts = list(accumulate((counts.get(number, 0) for number in partitions), initial=first_id))
        if starts[-1] == first_id:
            raise PartitionError("There are no rows: the frame is empty, or all weights are zero.")
        schema = _with_fields(frame, (ID, LongType()), (SPAN, LongType()))
        return cls(frame.mapInArrow(_numbering(roles, starts), schema), roles, (first_id, starts[-1]))

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The first id of each span of these rows, and the one after its last."""
        start, stop = self.ids
        inner = range((start // spans.SPAN_IDS + 1) * spans.SPAN_IDS, stop, spans.SPAN_IDS)
        return list(pairwise([start, *inner, stop]))

    def first_span(self) -> NumberedRows:
        """Return the rows of the first span alone."""
        return NumberedRows(self.frame.filter(F.col(SPAN) == 0), self.roles, self.ranges[0])

    def each_span(self, work: Callable[[pa.Table, int, int], Any]) -> DataFrame:
        """Return what work on the rows of each span gives, whose ids are a range."""
        return _results(self.frame, F.col(SPAN), _in_order(work, self.ranges))


def _counter(roles: Roles) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        n = sum(len(roles.weighted(pa.Table.from_batches([batch]))) for batch in batches)
        numbers = pa.array([_partition()], pa.int32())
        yield pa.RecordBatch.from_arrays([numbers, pa.array([n], pa.int64())], ["number", "rows"])

    return counted


def _numbering(roles: Roles, starts: list[int]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    size, first = spans.SPAN_IDS, starts[0] // spans.SPAN_IDS

    def numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = _partition()
        start = starts[min(number, len(starts) - 1)]
        for batch in batches:
            table = roles.weighted(pa.Table.from_batches([batch]))
            ids = np.arange(start, start + len(table))
            start += len(table)
            table = table.append_column(ID, pa.array(ids)).append_column(SPAN, pa.array(ids // size - first))
            yield from table.to_batches()

    return numbered


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    return int(context.partitionId())


def _in_order(
    work: Callable[[pa.Table, int, int], Any], ranges: list[tuple[int, int]]
) -> Callable[[int, pa.Table], Any]:
    """Return work on the rows of a span in the order of their ids, after a check that all of them are there."""

    def run(span: int, table: pa.Table) -> Any:
        start, stop = ranges[span]
        table = table.sort_by(ID)
        if not np.array_equal(table[ID].to_numpy(), np.arange(start, stop)):
            raise PartitionError(
                "The frame gave other rows when it was read again: persist it, or write it to a file, then fit."
            )
        try:
            return work(table, start, stop)
        except Exception as error:
            raise PartitionError(f"Rows with ids from {start:,} on: {error}") from error

    return run


# -- results of tasks --------------------------------------------------------------------------------------------------


def _results(frame: DataFrame, key: Any, work: Callable[[int, pa.Table], Any]) -> DataFrame:
    """Return what work on each group of rows gives. Errors are results too, so that Spark does not try again."""

    def run(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
        number = key[0].as_py()
        try:
            result, error = pickle.dumps(work(number, table), protocol=5), None
        except Exception as caught:
            result, error = None, str(caught)
        columns = pa.array([number], pa.int64()), pa.array([result], pa.binary()), pa.array([error], pa.string())
        return pa.table(list(columns), ["number", "result", "error"])

    return frame.groupBy(key.alias("_batch2online_key")).applyInArrow(run, RESULT)


def _loaded(results: DataFrame) -> list[Any]:
    """Return the objects of all tasks, by number; raise the first error."""
    rows = sorted(results.collect(), key=lambda row: row.number)
    for row in rows:
        if row.error is not None:
            raise PartitionError(row.error)
    return [pickle.loads(row.result) for row in rows]  # our own tasks have written these


# -- models ------------------------------------------------------------------------------------------------------------


def _learned(template: Any, roles: Roles) -> Callable[[pa.Table, int, int], Any]:
    """Return the work that makes a shard of the rows of a span."""

    def learned(table: pa.Table, start: int, stop: int) -> Any:
        shard = begun(template, start).partial_fit(*roles.given(table))
        check_count(shard, stop - start)
        return compact(shard)

    return learned


def _inferred_columns(template: Any, rows: NumberedRows) -> Any:
    """Return how columns of strings and dates are encoded, as inferred from the first span, for ``columns="auto"``."""
    (shard,) = _loaded(rows.first_span().each_span(_learned(template, rows.roles)))
    return shard._with_final_columns().columns


def _root(template: Any, rows: NumberedRows) -> Any:
    """Return one estimator of all rows."""
    if keeps_all_rows(template):
        with _rounds(template, rows) as rounds:
            return rounds.fitted()
    results, n = rows.each_span(_learned(template, rows.roles)), len(rows.ranges)
    while n > TOGETHER:
        results, n = _merged(results), -(-n // TOGETHER)
    return _joined(_loaded(results))


def _joined(shards: list[Any]) -> Any:
    root = merged(*shards)
    if len(shards) == 1 and root._stream.ordered:
        root._stream = root._stream.refit("merged")
    return root


def _merged(results: DataFrame) -> DataFrame:
    """Return the results in groups, merged in the order of their numbers."""

    def run(_: int, table: pa.Table) -> Any:
        for error in table["error"].to_pylist():
            if error is not None:
                raise PartitionError(error)
        return merged(*map(pickle.loads, table.sort_by("number")["result"].to_pylist()))

    return _results(results, F.floor(F.col("number") / TOGETHER), run)


@contextmanager
def _rounds(template: Any, rows: NumberedRows) -> Iterator[clusters.Rounds]:
    """Yield the rounds of clustering over rows that stay in the memory of the executors."""
    learn, last_id = _learned(template, rows.roles), rows.ids[1] - 1

    def entered(table: pa.Table, start: int, stop: int) -> Any:
        shard = learn(table, start, stop)
        shell = clusters.shell_of([shard])
        return clusters.entered([clusters.cut(shard, start, stop)], shell, last_id), shell

    results = rows.each_span(entered).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        for failed in results.filter("error is not null").orderBy("number").take(1):
            raise PartitionError(failed.error)

        def each(work: Any, *arguments: Any) -> tuple[Any, ...]:
            done = results.rdd.map(lambda row: (row.number, work(pickle.loads(row.result)[0], *arguments))).collect()
            return tuple(result for _, result in sorted(done, key=lambda one: one[0]))

        shell = results.filter("number = 0").rdd.map(lambda row: pickle.loads(row.result)[1]).first()
        yield clusters.Rounds(shell, each, rows.ids)
    finally:
        results.unpersist()
