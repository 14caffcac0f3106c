"""Measures of quality: of what the rows of a stream have cost, each predicted before it was learned."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.numerics.distances import nearest
from batch2online.quality import Baseline, ClassBaseline
from batch2online.record import Averages, Handful, Record

MEAN_DISTANCE, RMS_DISTANCE = "mean distance", "RMS distance"
SAMPLE = 1_000
"""Rows that a silhouette is measured on."""

RECALL = "recall of rarest "
"""A measure of this name is the recall of the rarest class."""

Metrics = dict[str, float]
"""Measures of quality by their names."""


class Performance:
    """What the rows seen have cost: sums over all of them and over the last ones, beside those of a baseline.

    Parameters
    ----------
    stream : Stream
        The stream, with no row buffered.
    """

    def __init__(self, stream: Any) -> None:
        self.stream, self.problem = stream, stream.problem

    @cached_property
    def record(self) -> Record | None:
        """Sums over the rows scored; None where rows came without order."""
        current = self.stream.current
        return None if math.isnan(current.loss) else current.observer(Record)

    @cached_property
    def averages(self) -> Averages | None:
        """The losses of all scored rows, each with its given weight; None if there are none."""
        record = self.record
        if record is None:
            return None
        regret, sketch = self.stream.regret(), self.stream.sketch
        total = math.nan if record.span else regret.total
        if record.spread is not None:
            total = record.spread.total(around_zero=not getattr(sketch, "intercept", True))
        share = record.weight / regret.weight if regret.weight > 0 else 1.0
        return record.averages(total, regret.resolution * share)

    @property
    def recent(self) -> Averages | None:
        """The same of the last rows, where old ones lose weight."""
        return None if self.record is None else self.record.of_recent()

    @property
    def baseline(self) -> Baseline | None:
        """The simplest prediction from earlier rows, if there is one."""
        return None if self.record is None else self.record.baseline

    @property
    def handful(self) -> Handful | None:
        """The few rows that hold most of the loss, if there are such; errors that are counted are all alike."""
        if self.averages is None or self.record is None or self.problem.counts_errors:
            return None
        return self.record.handful(self.averages.resolution)

    def metrics(self) -> Metrics:
        """Return measures of all rows; empty if no row was scored."""
        if self.averages is None:
            return {}
        found: Metrics = self.problem.quality(self.averages)
        baseline = self.baseline
        if not isinstance(baseline, ClassBaseline):
            return found
        return found | class_quality(baseline, self.problem.label_of)

    def baseline_metrics(self) -> Metrics:
        """Return the same measures of the baseline; empty where there is none."""
        rows = None if self.record is None else self.record.of_baseline()
        return {} if rows is None else dict(self.problem.quality(rows))

    def recent_metrics(self) -> Metrics:
        """Return measures of the last rows; empty if all rows count equally."""
        return {} if self.recent is None else dict(self.problem.quality(self.recent))

    def window_metrics(self) -> list[dict[str, Any]]:
        """Return measures of consecutive windows of rows, with those of the baseline."""
        quality, stop, found = self.problem.quality, 0, []
        for own, beside in [] if self.record is None else self.record.of_windows():
            stop += own.rows
            baseline = {} if beside is None else quality(beside)
            found.append({"stop": stop, "rows": own.rows, "metrics": quality(own), "baseline": baseline})
        return found


def class_quality(baseline: ClassBaseline, label_of: Callable[[float], Any]) -> Metrics:
    """Return the area under the ROC curve of two classes, and the recall of the rarest class."""
    auc, rarest = baseline.auc, baseline.rarest
    found = {} if auc is None else {"AUC": auc[0]}
    return found if rarest is None else found | {f"{RECALL}({label_of(rarest[0])})": rarest[1]}


def regression_quality(rows: Averages) -> Metrics:
    """Return R2, root mean square and mean absolute error, in the units of the target."""
    return _explained("R2", rows) | {"RMSE": math.sqrt(rows.mean_loss), "MAE": rows.mean_secondary_loss}


def low_rank_quality(rows: Averages) -> Metrics:
    """Return the share of variance kept, and the root mean square distance to the subspace."""
    return _explained("variance kept", rows) | {RMS_DISTANCE: math.sqrt(rows.mean_loss)}


def _explained(name: str, rows: Averages) -> Metrics:
    """Return the share of the spread that is explained, where the spread is known and more than rounding."""
    return {name: 1 - rows.loss / rows.total} if rows.total > rows.resolution else {}


def classification_quality(rows: Averages) -> Metrics:
    """Return the share of labels that were predicted, and the mean logarithmic loss."""
    return {"accuracy": 1 - rows.mean_secondary_loss, "log loss": rows.mean_loss}


def clustering_quality(rows: Averages) -> Metrics:
    """Return the mean distance to the nearest center, in the units of the columns."""
    return {MEAN_DISTANCE: rows.mean_secondary_loss}


def silhouette(history: Any, centers: FloatArray) -> Metrics:
    """Return the mean silhouette of rows spread over a history, where there is one and several clusters are met."""
    if history is None or not any(map(len, history)):
        return {}
    count = sum(map(len, history))
    rows = history.at(np.linspace(0, count - 1, min(count, SAMPLE)).astype(np.int64)).points
    labels = nearest(rows, centers)[0]
    if not 1 < len(np.unique(labels)) < len(rows):
        return {}
    from sklearn.metrics import silhouette_score  # a tenth of a second that only clusters need

    near_zero = rows - centers.mean(axis=0)  # scikit-learn's distances come from products
    return {"silhouette": float(silhouette_score(near_zero, labels))}


def mean_loss(rows: Averages) -> Metrics:
    """Return the mean loss of a row."""
    return {"mean loss": rows.mean_loss}
