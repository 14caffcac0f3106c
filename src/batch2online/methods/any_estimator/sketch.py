"""Coresets for any supervised model: rows count by the norm of their gradient under the current model.

Scores are fixed when a row comes, by models of earlier rows (:mod:`batch2online.sketches.pilot_scores`), and inclusion
probabilities only fall. So weights are unbiased, whatever the models were: the score of a row does not depend on its
own random word. The coreset is a pure function of the sequence and the seed, not of the set of rows. Shards that
are merged were scored by their own models: weights stay unbiased, but the coreset is not that of one stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from batch2online._types import FloatArray
from batch2online.engine.builder import CoresetBuilder
from batch2online.rows import Rows, ones
from batch2online.schema import storable, stores
from batch2online.sketches.antitone import AntitoneSketch, Statistics, no_candidates
from batch2online.sketches.base import Coreset, SketchSettings
from batch2online.sketches.candidates import Candidates
from batch2online.sketches.pilot_scores import ScoreScaling

_LARGEST = 1e100
"""Gradients are no larger than this, so that sums of them are numbers."""


@storable
@dataclass(frozen=True)
class FixedScores(Statistics):
    """The score of a row at its arrival, which is stored as its last target, divided by the weight of all rows.

    Up to ``size`` rows all are kept. The score is not a share of all scores: those of later rows come from models that
    depend on what was kept, and then a row would have a part in its own probability.
    """

    total: float
    rows: int
    size: float

    def add(self, rows: Rows) -> tuple[FixedScores, FloatArray]:
        new = FixedScores(self.total + float(rows.weights.sum()), self.rows + len(rows), self.size)
        return new, new.scores(rows)

    def scaled(self, factor: float) -> FixedScores:
        return FixedScores(self.total * factor, self.rows, self.size)

    def merged(self, other: FixedScores) -> FixedScores:
        return FixedScores(self.total + other.total, self.rows + other.rows, min(self.size, other.size))

    def scores(self, rows: Rows) -> FloatArray:
        if self.rows <= self.size:
            return np.full(len(rows), np.inf)
        return np.asarray(rows.weights * rows.targets[:, -1] / self.total)

    bounds = scores


@storable
@stores(statistics=FixedScores, labels=bool, leverage=bool, score_scaling=ScoreScaling | None)
class PilotSamplingSketch(AntitoneSketch):
    """The weight of all rows, and candidates with the scores of the time when they came; see :class:`PilotSampling`."""

    pilot = "gradients"
    _patience = 0.5  # scores are at hand
    _stores_targets = False  # a score stands behind them

    def __init__(self, settings: SketchSettings, labels: bool, leverage: bool) -> None:
        self.labels, self.leverage = labels, leverage
        self.score_scaling: ScoreScaling | None = None
        super().__init__(settings)

    @property
    def takes_any_rows(self) -> bool:
        """Whether rows may hold codes of strings and missing values."""
        return not self.leverage

    @property
    def is_complete(self) -> bool:
        """Whether the coreset holds all rows, each as it came."""
        return bool(self.totals.n_rows <= self.settings.size)

    def _new_statistics(self) -> tuple[Statistics, float, int]:
        return FixedScores(0.0, 0, 0.0), 1.0, sum(self.settings.shape) + 1

    def _begin(self) -> None:
        super()._begin()
        width, n_targets = self.settings.shape
        self.score_scaling, self.parts = None, (no_candidates(width, n_targets + 1),)
        self.statistics = FixedScores(0.0, 0, self.settings.size)

    def _add(self, rows: Rows, gradient_norms: FloatArray | None) -> None:
        scores = np.ones(len(rows))
        if self.score_scaling is not None and gradient_norms is not None:
            norms = np.minimum(gradient_norms, _LARGEST)
            scores, self.score_scaling = self.score_scaling.scored(rows, norms, labels=self.labels)
        super()._add(_with_scores(rows, scores), None)

    def with_model(self, model: Any, sample: Any = None, gradient_norms: FloatArray | None = None) -> Self:
        """Return the sketch that scores further rows by a new model, and all rows where all are in the sample."""
        if sample is None or gradient_norms is None or not len(sample):
            return self
        new, norms = self.copy(), np.minimum(gradient_norms, _LARGEST)
        certain = 4 * self.statistics.total / min(self.settings.size, self.statistics.rows)
        rows = rows_of(sample)
        new.score_scaling = ScoreScaling.of(
            rows, rows.weights, norms, labels=self.labels, leverage=self.leverage, certain=certain
        )
        if self.is_complete and len(rows) == self.totals.n_rows:  # so nothing depends on former scores
            scores, _ = new.score_scaling.scored(rows, norms, labels=self.labels)
            words = self.candidates().words
            new.parts, new.n_unthinned = (Candidates(_with_scores(rows, scores), words, ones(len(words))),), 0
        return new

    def with_size(self, size: float) -> Self:
        new = super().with_size(size)
        new.constant, new.statistics = size, replace(self.statistics, size=size)
        return new

    def scores(self, rows: Rows) -> FloatArray:
        """Refuse: scores belong to the time when a row came, and are kept for the rows of the coreset alone."""
        raise ValueError("PilotSampling stores the scores of the rows in the coreset only.")

    def _merge(self, other: Any) -> None:
        self.constant = min(self.constant, other.constant)
        self.settings = replace(self.settings, size=self.constant)
        super()._merge(other)

    def _scale(self, factor: float) -> None:
        super()._scale(factor)
        self.score_scaling = None if self.score_scaling is None else self.score_scaling.scaled(factor)

    def parameters(self) -> dict[str, object]:
        return {"labels": self.labels, "leverage": self.leverage}


@storable
@stores(labels=bool, leverage=bool)
class PilotSampling(CoresetBuilder):
    """Rows are kept by the norm of their gradient under the current model, by their leverage, and uniformly.

    Parameters
    ----------
    labels : bool, default False
        Whether targets are codes of classes: each class then has an indicator in the leverage.
    leverage : bool, default True
        Whether rows are numbers whose leverage counts; rows of more than 300 columns are scored without it.
    epsilon, coreset_size, random_state, first_id, keep_history, half_life
        As for every coreset. All rows are kept while they are no more than the size.

    Notes
    -----
    In a stream rows are scored by the norms of their gradients under the current model. Without one all rows score the
    same.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(5_000, 3))
    >>> coreset = PilotSampling(coreset_size=500, random_state=0).add(rows, rows[:, 0]).coreset()
    >>> 400 < len(coreset) < 600
    True
    """

    def __init__(self, *, labels: bool = False, leverage: bool = True, **settings: Any) -> None:
        super().__init__(**settings)
        self.labels = bool(labels)
        self.leverage = bool(leverage)

    def _new_sketch(self, settings: SketchSettings) -> PilotSamplingSketch:
        return PilotSamplingSketch(settings, self.labels, self.leverage)


def _with_scores(rows: Rows, scores: FloatArray) -> Rows:
    return Rows(rows.points, np.column_stack([rows.targets, scores]), rows.weights, rows.ids)


def rows_of(coreset: Coreset) -> Rows:
    """Return the weighted rows of a coreset, with targets (n, k), k zero where there are none."""
    targets = np.empty((len(coreset), 0)) if coreset.targets is None else coreset.targets
    return Rows(coreset.points, targets[:, None] if targets.ndim == 1 else targets, coreset.weights, coreset.ids)
