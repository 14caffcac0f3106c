"""Learning from the rows of a Spark DataFrame: partitions become shards, shards merge in a tree.

Two passes read the frame: the first counts the rows of each partition, so that they have ids; the second learns them.
What tasks return, a pickled shard or the text of an error, travels in Arrow columns.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's documentation uses
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from batch2online.distributed import shards
from batch2online.distributed.shards import TOGETHER, Chunk, CountError, Model, PartitionError
from batch2online.estimator import OnlineEstimator

RESULT = "number long, result binary, error string"
"""Columns of what tasks return: the number of a partition or of a node of the tree, and a pickled shard or an error."""

_FIRST_ROWS = 10_000
"""Rows from which the features of a table are inferred."""


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
    roles = Roles.of(df, target, columns, sample_weight)
    template = shards.first_template(model)
    places = _places(df, roles, int(model.first_id))
    if getattr(template, "columns", None) is not None:
        template = _with_first_rows(template, df, roles)
    return shards.replace_state(model, _root(template, df, roles, places))


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
    roles = Roles.of(df, target, columns, sample_weight)
    return model.merge(_root(template, df, roles, _places(df, roles, int(template.first_id))))


def predict(model: object, df: DataFrame, *, method: str | None = None, column: str = "prediction") -> DataFrame:
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
    schema = StructType([*df.schema.fields, StructField(column, from_arrow_type(kind))])
    return df.mapInArrow(appended, schema)


def _inputs(model: object, df: DataFrame) -> list[str]:
    """Return the columns that a model predicts from: those that it has learned, by name if they had names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return list(df.columns)
    missing = [str(name) for name in names if name not in df.columns]
    if missing:
        raise ValueError(f"Column {missing[0]!r}, which the model has learned, is not in the frame.")
    return [str(name) for name in names]


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

    def given(self, rows: pa.Table | pa.RecordBatch) -> tuple[Chunk, Chunk, Chunk]:
        """Return inputs, targets and weights in the form that ``partial_fit`` takes."""
        rows = self.weighted(rows)
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        targets, weights = (None if name is None else table[name].to_numpy() for name in (self.target, self.weight))
        return table.select(self.inputs), targets, weights


def _places(df: DataFrame, roles: Roles, first_id: int) -> dict[int, tuple[int, int]]:
    """Count the rows of each partition; return the first id and the number of rows of those that have any."""

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        n = sum(len(roles.weighted(batch)) for batch in batches)
        numbers = pa.array([_partition()], pa.int32())
        yield pa.RecordBatch.from_arrays([numbers, pa.array([n], pa.int64())], ["number", "rows"])

    found = df.select(roles.all).mapInArrow(counted, "number int, rows long").collect()
    counts = {number: n for number, n in sorted(map(tuple, found)) if n}
    if not counts:
        raise PartitionError("There are no rows: the frame is empty, or all weights are zero.")
    starts = accumulate(counts.values(), initial=first_id)
    return dict(zip(counts, zip(starts, counts.values(), strict=False), strict=True))


def _with_first_rows(template: Model, df: DataFrame, roles: Roles) -> Model:
    """Return a template whose features are those that the first rows give."""
    given, first_id = roles.given(df.select(roles.all).limit(_FIRST_ROWS).toArrow()), int(template.first_id)
    try:
        return shards.with_features_of(shards.learned(template, [given], first_id, given[0].num_rows))
    except ValueError as error:
        raise PartitionError(f"The first rows: {error}") from error


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    return int(context.partitionId())


# -- the tree of shards ------------------------------------------------------------------------------------------------


def _root(template: Model, df: DataFrame, roles: Roles, places: Mapping[int, tuple[int, int]]) -> Model:
    """Return one estimator of all rows."""

    def learned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = _partition()
        given = (own for own in map(roles.given, batches) if own[0].num_rows)
        first_id, n_ids = places.get(number, (0, -1))  # rows where none were counted are noticed
        if number in places or any(True for _ in given):
            yield _result(number, lambda: _shard(template, given, first_id, n_ids))

    results, n = df.select(roles.all).mapInArrow(learned, RESULT), max(places) + 1
    while n > TOGETHER:
        key = F.floor(F.col("number") / TOGETHER).alias("_batch2online_key")
        results, n = results.groupBy(key).applyInArrow(_merged, RESULT), -(-n // TOGETHER)
    root = shards.root_of(*_shards_in(results.toArrow()))
    if root.n_seen_ != sum(n_ids for _, n_ids in places.values()):
        raise _changed()
    return root


def _shard(template: Model, given: Iterator[tuple[Chunk, Chunk, Chunk]], first_id: int, n_ids: int) -> Model:
    try:
        return shards.learned(template, given, first_id, n_ids)
    except CountError as error:
        raise _changed() from error
    except Exception as error:
        raise PartitionError(f"Rows with ids from {first_id:,} on: {error}") from error


def _changed() -> PartitionError:
    return PartitionError(
        "The frame gave other rows when it was read again: persist it, or write it to a file, then fit."
    )


def _merged(key: tuple[pa.Scalar, ...], results: pa.Table) -> pa.Table:
    """Return the shards of some results as one, or their first error."""
    return pa.Table.from_batches([_result(key[0].as_py(), lambda: shards.merged(*_shards_in(results)))])


def _shards_in(results: pa.Table) -> list[OnlineEstimator]:
    """Return the shards of results, by number; raise the first error."""
    rows = results.sort_by("number").to_pylist()
    for row in rows:
        if row["error"] is not None:
            raise PartitionError(row["error"])
    return [pickle.loads(row["result"]) for row in rows]  # our own tasks have written these


def _result(number: int, work: Callable[[], OnlineEstimator]) -> pa.RecordBatch:
    """Return what work gives as a row, or its error: Spark would run a task that fails again."""
    try:
        result, error = pickle.dumps(work(), protocol=5), None
    except Exception as caught:
        result, error = None, str(caught)
    columns = pa.array([number], pa.int64()), pa.array([result], pa.binary()), pa.array([error], pa.string())
    return pa.RecordBatch.from_arrays(list(columns), ["number", "result", "error"])
