"""A custom problem: the median of each column of a stream, with a handful of changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from batch2online.checks import check_estimator
from batch2online.coresets import Uniform
from batch2online.extend import (
    Coreset,
    Evidence,
    Fit,
    FloatArray,
    MeanSoFar,
    Method,
    OnlineEstimator,
    Stream,
    storable,
)
from batch2online.refresh import Geometric, Policy


@storable
@dataclass(frozen=True)
class MeanRow(MeanSoFar):
    """Scores rows before the first model: by the loss of the mean of the earlier rows."""

    def losses(self, away: FloatArray) -> tuple[FloatArray, FloatArray]:
        loss = np.abs(away).sum(axis=1)
        return loss, loss


@storable
@dataclass(frozen=True)
class Medians(Method):
    """The problem: the loss of a row is its absolute distance to the medians, summed over columns."""

    def first_check(self, width: int, n_targets: int) -> int:
        return 10

    def warm_up(self) -> MeanRow:
        return MeanRow(of_targets=False)

    def initial_model(self, prediction: FloatArray | None, width: int, n_targets: int) -> FloatArray:
        return np.zeros(width) if prediction is None else prediction

    def losses(self, model: FloatArray, points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        loss = np.abs(points - model).sum(axis=1)
        return loss, loss

    def fit(self, data: Evidence, current: FloatArray | None) -> Fit:
        return Fit(weighted_medians(data.coreset), n_rows=len(data.coreset))

    def cost(self, model: FloatArray, data: Evidence) -> float:
        coreset = data.coreset
        return float(coreset.weights @ np.abs(coreset.points - model).sum(axis=1))

    def optimum(self, data: Evidence, model: FloatArray) -> float:
        return self.cost(weighted_medians(data.coreset), data)

    def difference(self, old: FloatArray, new: FloatArray, data: Evidence) -> dict[str, Any]:
        return {"magnitude": float(np.abs(new - old).sum())}

    def same(self, old: FloatArray, new: FloatArray) -> bool:
        return np.array_equal(old, new)


def weighted_medians(coreset: Coreset) -> FloatArray:
    """Return for each column the value with half of the weight below it."""
    order = np.argsort(coreset.points, axis=0, kind="stable")
    below = np.cumsum(coreset.weights[order], axis=0)
    middle = (below < below[-1] / 2).sum(axis=0)
    places = np.take_along_axis(order, middle[None], axis=0)
    return np.asarray(np.take_along_axis(coreset.points, places, axis=0)[0])


class OnlineMedian(OnlineEstimator):
    """Medians of a stream; validation, chunking, checkpoints, changes and regret come from the base class."""

    def __init__(
        self,
        *,
        epsilon: float = 0.1,
        coreset_size: int = 2000,
        refresh: Policy | None = None,
        keep_history: bool = False,
        first_id: int = 0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.coreset_size = coreset_size
        self.refresh = refresh
        self.keep_history = keep_history
        self.first_id = first_id
        self.random_state = random_state

    def _new_stream(self, n_targets: int) -> Stream:
        policy = Geometric(growth=1.5) if self.refresh is None else self.refresh
        return Stream.new(Medians(), Uniform(**self._sampling()), policy, self.n_features_in_, n_targets)

    @property
    def medians_(self) -> FloatArray:
        """Medians of the columns, shape (n_features_in_,)."""
        return np.array(self._check_fitted().model)


if __name__ == "__main__":
    check_estimator(OnlineMedian())  # chunks, shards, files, copies, bad input, interrupts, threads
    rows = np.random.default_rng(0).laplace([1.0, 2.0, 3.0], size=(200_000, 3))
    model = OnlineMedian(random_state=0)
    for start in range(0, len(rows), 1000):
        model.partial_fit(rows[start : start + 1000])
    print(f"medians online   {model.medians_.round(3)}")
    print(f"medians of all   {np.median(rows, axis=0).round(3)}")
    print(f"loss             {model.regret_.ratio:.4f} times that of hindsight, measured on the coreset")
    print(f"changes          {model.n_changes_} in {model.n_seen_:,} rows")
