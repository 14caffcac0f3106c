"""A coreset of your own: rows are kept by their share of all squared lengths, without a history.

A coreset is three classes: *statistics* that score rows, and never raise a score as rows are added; a *sketch*, which
keeps the statistics and the rows that may be in the coreset; and a *builder*, which users create.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from batch2online import BatchToOnline, evaluate, theory
from batch2online.checks import check_sketch
from batch2online.coresets import Uniform
from batch2online.extend import (
    AntitoneSketch,
    CoresetBuilder,
    FloatArray,
    Rows,
    SketchSettings,
    Statistics,
    storable,
)


@storable
@dataclass(frozen=True)
class SquaredLengths(Statistics):
    """The score of a row is its share of the sum of squared lengths: this can only fall."""

    total: float = 0.0

    def add(self, rows: Rows) -> tuple[Self, FloatArray]:
        new = replace(self, total=float(self.total + self._lengths(rows).sum()))
        return new, new.scores(rows)

    def merged(self, other: Self) -> Self:
        return replace(self, total=self.total + other.total)

    def scaled(self, factor: float) -> Self:
        return replace(self, total=self.total * factor)

    def scores(self, rows: Rows) -> FloatArray:
        return self._lengths(rows) / (self.total or 1.0)

    bounds = scores

    def _lengths(self, rows: Rows) -> FloatArray:
        return np.asarray(rows.weights * np.square(rows.points).sum(axis=1))


@storable
class LengthSketch(AntitoneSketch):
    """What is kept of a stream."""

    def _new_statistics(self) -> tuple[Statistics, float, int]:
        return SquaredLengths(), 1.0, sum(self.settings.shape)  # scores sum to one at most

    def sensitivity(self, n: int) -> float:
        """Deleting row i multiplies the scores of the others by 1 / (1 - s_i): D_i = s_i, as for leverage scores."""
        return theory.leverage_sensitivity(n, self.constant, 1.0, self.settings.epsilon)


@storable
class Lengths(CoresetBuilder):
    """Rows are kept in proportion to their squared lengths."""

    def _new_sketch(self, settings: SketchSettings) -> LengthSketch:
        return LengthSketch(settings)


def second_moments(points: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the model: the mean of x x^T, which depends on long rows most."""
    return np.asarray((points * weights[:, None]).T @ points / weights.sum())


def error_of(moments: FloatArray, points: FloatArray) -> FloatArray:
    return np.asarray(np.square(points[:, :, None] * points[:, None] - moments).sum(axis=(1, 2)))


if __name__ == "__main__":
    check_sketch(Lengths)
    rows = np.random.default_rng(0).standard_t(4, size=(50_000, 3))
    exact = rows.T @ rows
    for kind in (Lengths, Uniform):
        coreset = kind(coreset_size=300, random_state=0).add(rows).coreset()
        found = (coreset.points * coreset.weights[:, None]).T @ coreset.points
        print(
            f"{kind.__name__:8} error of the second moments {np.linalg.norm(found - exact) / np.linalg.norm(exact):.3f}"
        )
    estimate = evaluate.average_sensitivity(Lengths(coreset_size=20, epsilon=0.5), rows[:400])
    bound = Lengths(coreset_size=20, epsilon=0.5, random_state=0).add(rows).sensitivity(400)
    print(f"average sensitivity at 400 rows: measured {estimate.mean:.3f}, bound {bound:.3f}")
    model = BatchToOnline(second_moments, loss=error_of, coreset=Lengths, coreset_size=300, random_state=0)
    print(f"{model.partial_fit(rows).n_changes_} changes in 50,000 rows")
