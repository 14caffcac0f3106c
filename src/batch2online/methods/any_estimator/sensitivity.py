"""Algorithm 2 for any score: the user's own function, or a ready one for Lp regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray
from batch2online.engine.builder import CoresetBuilder
from batch2online.methods import scores
from batch2online.methods.plain_coresets import Nothing
from batch2online.rows import Rows, ones
from batch2online.schema import storable, stores
from batch2online.sketches.antitone import AntitoneSketch, Statistics
from batch2online.sketches.base import RowSource, SketchSettings
from batch2online.sketches.candidates import Candidates
from batch2online.theory.bounds import general_sensitivity

Score = Callable[..., Any]


@storable
@dataclass(frozen=True)
class LewisScore:
    """Score of a row in Lp regression, ``sum_i |a_i x - b_i|^p``: its Lewis weight in ``[1 | a | b]``.

    For p from 1 to 2 the Lewis weight bounds the sensitivity, and weights sum to the number of columns (Cohen & Peng,
    STOC 2015). The constant column is counted if ``intercept``.

    >>> LewisScore(p=1.0)(np.array([[0.0], [1.0], [5.0]]), np.ones(3)).round(2).tolist()
    [0.58, 0.47, 0.96]
    """

    p: float = 1.0
    intercept: bool = True

    def __call__(self, points: FloatArray, weights: FloatArray, targets: FloatArray | None = None) -> FloatArray:
        constant = [np.ones((len(points), 1))] if self.intercept else []
        columns = np.column_stack([*constant, points, *([] if targets is None else [targets])])
        return scores.lewis(columns * (weights ** (1 / self.p))[:, None], self.p)


@storable
@dataclass(frozen=True)
class ScoreFunctions:
    """A score of the user's own, and what is known of it; see :class:`Sensitivity`."""

    score: Score
    summary: Score | None = None
    total_score: float | None = None
    largest_total: float | None = None

    def validate(self) -> None:
        """Raise an error for what is no function, for no number, and for a summary without a total score."""
        if not callable(self.score) or not (self.summary is None or callable(self.summary)):
            raise TypeError("score and summary must be functions of points, weights and, if there are any, targets.")
        for name in ("largest_total", "total_score"):
            total = getattr(self, name)
            if total is not None and not 0 < total < np.inf:
                raise ValueError(f"{name} must be a finite number above 0, got {total!r}.")
        if self.summary is not None and self.total_score is None:
            raise ValueError("summary needs total_score, an upper bound of the sum of scores for any data.")

    def of(self, rows: Rows, **summary: Any) -> FloatArray:
        """Return the scores of rows, which must be finite and not negative."""
        return checked(self.score(*_arguments(rows), **summary), len(rows)) if len(rows) else np.empty(0)


@storable
@dataclass(frozen=True)
class Summary(Statistics):
    """Statistics made of a sum over rows and a score that is a function of it."""

    score: ScoreFunctions
    total: FloatArray | None = None

    def add(self, rows: Rows) -> tuple[Summary, FloatArray]:
        assert self.score.summary is not None
        own = np.asarray(self.score.summary(*_arguments(rows)), dtype=np.float64)
        new = self.merged(replace(self, total=own))
        return new, new.scores(rows)

    def scaled(self, factor: float) -> Summary:
        """Return the same of scaled weights: a sum over rows is in proportion to them."""
        return replace(self, total=None if self.total is None else np.asarray(self.total * factor))

    def merged(self, other: Summary) -> Summary:
        if self.total is None or other.total is None:
            return other if self.total is None else self
        return replace(self, total=np.asarray(self.total + other.total))

    def scores(self, rows: Rows) -> FloatArray:
        return self.score.of(rows, summary=self.total)

    bounds = scores


@storable
@stores(statistics=Nothing | Summary, score=ScoreFunctions)
class SensitivitySketch(AntitoneSketch):
    """A sum over rows and candidates; without ``summary`` nothing, since all rows are scored at each reading."""

    def __init__(self, settings: SketchSettings, score: ScoreFunctions) -> None:
        self.score = score
        super().__init__(settings)

    def _new_statistics(self) -> tuple[Statistics, float, int]:
        columns, known = sum(self.settings.shape), self.score
        statistics = Nothing() if known.summary is None else Summary(known)
        return statistics, columns if known.total_score is None else known.total_score, columns

    def _add(self, rows: Rows, gradient_norms: FloatArray | None) -> None:
        if self.score.summary is not None:
            super()._add(rows, gradient_norms)

    def _scored(self, history: RowSource | None) -> tuple[Candidates, FloatArray]:
        if self.score.summary is not None:
            return super()._scored(history)
        assert history is not None
        rows = history.everything()
        words = sampling.words_of(self.settings.seed, sampling.SAMPLING, rows.ids)
        return Candidates(rows, words, ones(len(rows))), self.scores(rows)

    def scores(self, rows: Rows) -> FloatArray:
        """Return the scores of all rows; without ``total_score`` they sum to the number of columns."""
        if self.score.summary is not None:
            return super().scores(rows)
        own = self.score.of(rows)
        if self.score.total_score is None:
            own = own * sum(self.settings.shape) / (own.sum() or 1.0)
        return own

    def sensitivity(self, n: int) -> float:
        largest = self.score.largest_total
        if largest is None:
            return 1.0
        total = self.settings.size / self.constant
        return general_sensitivity(n, self.constant, total, largest, self.settings.epsilon)

    def parameters(self) -> dict[str, object]:
        return {"score": self.score}


@storable
@stores(score=ScoreFunctions)
class Sensitivity(CoresetBuilder):
    r"""Rows are kept in proportion to a score of your own, Algorithm 2 of the paper.

    Any upper bound of the sensitivity :math:`\sup_\theta l(\theta, x) / l(\theta, X)` gives a coreset for the loss l;
    the smaller the sum of the bounds, the smaller the coreset that is needed.

    Parameters
    ----------
    score : callable ``(points, weights[, targets]) -> (n,) array``
        Scores of all rows seen, recomputed at each call of :meth:`coreset`. The history is kept: any row may come back.
        Targets are passed where there are any. A row of weight w should score like w rows.
    summary : callable ``(points, weights[, targets]) -> array``, optional
        A sum over rows. Then ``score(points, weights[, targets], summary=...)`` scores some of the rows, given the sum
        over all rows seen, and must never rise as rows are added; in return no history is kept, and rows that are
        dropped never come back.
    total_score : float, optional
        A bound of the sum of scores that no data exceeds; needed with ``summary``. Without it scores need only be in
        proportion: they are divided by their sum.
    largest_total : float, optional
        Give it if scores are true sensitivities: the largest sum that they can have, for any rows. It takes the place
        of ``total_score`` where that is not given. The average sensitivity of the coreset is then bounded by Theorem 1
        with Lemma 5 (:func:`theory.general_sensitivity`), so that certificates hold.
    epsilon, coreset_size, random_state, first_id, keep_history
        As for every coreset. The history is kept anyway without ``summary``.

    Notes
    -----
    ``LewisScore(p)`` of this module is a ready score for Lp regression, as the theory has it. A file can hold it, and
    any object marked by ``schema.storable``, but no other function.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).standard_t(2, size=(5_000, 2))
    >>> size = lambda points, weights: weights * np.abs(points).sum(axis=1)
    >>> coreset = Sensitivity(size, coreset_size=300, random_state=0).add(rows).coreset()
    >>> bool(abs((coreset.weights @ np.abs(coreset.points)).sum() / np.abs(rows).sum() - 1) < 0.15)
    True

    The same without history, since a share of a growing sum never rises:

    >>> share = lambda points, weights, summary: size(points, weights) / summary
    >>> total = lambda points, weights: size(points, weights).sum()
    >>> light = Sensitivity(share, summary=total, total_score=1, coreset_size=300, random_state=0).add(rows)
    >>> light.coreset() == coreset
    True
    """

    def __init__(
        self,
        score: Score,
        *,
        summary: Score | None = None,
        total_score: float | None = None,
        largest_total: float | None = None,
        **settings: Any,
    ) -> None:
        total_score = largest_total if total_score is None else total_score
        self.score = ScoreFunctions(score, summary, total_score, largest_total)
        self.score.validate()
        super().__init__(**settings if summary is not None else settings | {"keep_history": True})

    def _new_sketch(self, settings: SketchSettings) -> SensitivitySketch:
        return SensitivitySketch(settings, self.score)


def _arguments(rows: Rows) -> tuple[FloatArray, ...]:
    """Return the arguments of a score function; targets are included if there are any."""
    points_and_weights = (rows.points, np.array(rows.weights))
    if not rows.targets.shape[1]:
        return points_and_weights
    return (*points_and_weights, rows.targets[:, 0] if rows.targets.shape[1] == 1 else rows.targets)


def checked(own: Any, n: int) -> FloatArray:
    """Scores as an (n,) array of finite numbers that are not negative."""
    array = np.asarray(own, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"score must give one number for each of {n} rows, got shape {array.shape}.")
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if bad.size:
        raise ValueError(f"score must be finite and not negative, got {array[bad[0]]} for row {bad[0]} of {n}.")
    return array
