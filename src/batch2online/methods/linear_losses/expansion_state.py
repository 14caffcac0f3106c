r"""The model in force as the pilot of an anchored coreset: where losses are expanded, and which rows matter.

The score of a row is :math:`s = 0.2 + 0.3\,\ell / p + 0.5\, a / \bar a`: a share for all rows alike, one for leverage
:math:`\ell = z' M^{-1} z` under the second moments M of a row, and one for the size of the gradient under the pilot,
:math:`a = |g| \sqrt{\ell / \bar h}`, over its mean. The metric would best be that of the Hessian; the second moments
times the mean second derivatives were as good in measurements, and serve for leverage as well. Uniform scores alone
fail on rare classes, those of the pilot alone on classes that are nearly separable. Means are those of the coreset when
the model came into force, or of the rows since where these are larger: rows of another kind than before cannot take the
whole coreset.

Few rows are ever kept, and the score of a row costs more than its loss. So rows are ruled out first by an upper bound
of their score, :math:`|z W| \le \sum_j |z_j| |W_j|`, and means are those of one row in sixty-one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray, IntArray, WordArray
from batch2online.methods.linear_losses import class_expansions
from batch2online.methods.linear_losses.class_expansions import SumsByClass
from batch2online.methods.linear_losses.expansion import Expanded, Expansion
from batch2online.methods.linear_losses.losses.base import Local, PredictorLoss, weighted_gram
from batch2online.numerics.standardizer import Frame
from batch2online.numerics.triangular import inverse_root, squared_lengths
from batch2online.rows import Rows, ones
from batch2online.sampling import kept
from batch2online.schema import Count, Weight, above, at_least, finite, require, shape, storable
from batch2online.sketches.antitone import Statistics
from batch2online.sketches.candidates import Candidates

_UNIFORM, _LEVERAGE, _GRADIENT = 0.2, 0.3, 0.5

_AT_ONCE = 1_024
"""Rows at a time whose magnitudes, or single scores, are computed: memory is short."""

_EVERY = 61
"""Means are those of rows whose ids this prime divides: nothing in data comes around as often."""


@storable
@dataclass(frozen=True)
class Pilot:
    """Parameters ``theta`` (K, p) and a width, and what scores are computed with.

    ``whitening`` (p, p) turns z into rows whose squared length is their leverage, ``curvatures`` (K,) are the mean
    second derivatives. ``means`` are those of leverage and of the gradients' sizes when the model came into force; zero
    before there is a model, when all rows score the same. ``totals`` are their sums over the ``weight`` of all rows.
    ``factors`` are the weights of classes where those are balanced, as they were when the model came into force: a row
    scores as much more.
    """

    theta: Annotated[FloatArray, shape("k", "p"), finite]
    width: Weight
    whitening: Annotated[FloatArray, shape("w", "w"), finite]
    curvatures: Annotated[FloatArray, shape("c"), finite, above(0)]
    means: Annotated[FloatArray, shape(2), finite, at_least(0)]
    totals: Annotated[FloatArray, shape(2), finite, at_least(0)]
    weight: Weight
    factors: Annotated[FloatArray, shape("f"), finite, above(0)]

    def validate(self) -> None:
        found, (k, p) = (len(self.whitening), len(self.curvatures)), self.theta.shape
        is_nothing = found == (0, 0) and not self.has_model
        require(found == (p, k) or is_nothing, f"whitening and curvatures: found {found} rows, expected {(p, k)}")
        has_means = (self.means > 0).all() and self.weight > 0
        require(has_means or not self.has_model, f"means: found {self.means}, expected more than 0 with a model")

    @classmethod
    def nothing(cls, n_outputs: int, n_columns: int) -> Pilot:
        """Return what there is before the first model: losses are expanded at zero."""
        theta, none, empty = np.zeros((n_outputs, n_columns)), np.zeros((0, 0)), np.zeros(0)
        return cls(theta, 1.0, none, empty, np.zeros(2), np.zeros(2), 0.0, empty)

    @classmethod
    def of(cls, loss: PredictorLoss, theta: FloatArray, rows: Expanded, factors: FloatArray | None = None) -> Pilot:
        """Return the pilot with these parameters, given weighted rows that are expanded at them."""
        design, weights, total = rows.design, rows.weights, float(rows.weights.sum())
        _, slope, bend = loss.local(rows.eta, rows.y, rows.width)
        whitening = inverse_root(weighted_gram(design, weights) / total)
        curvatures = np.maximum(weights @ bend / total, np.finfo(np.float64).tiny)
        width, balance = float(np.mean(rows.width)), np.zeros(0) if factors is None else factors
        draft = cls(theta, width, whitening, curvatures, np.ones(2), np.zeros(2), total, balance)
        sizes = draft._sizes(design, slope)
        means = np.array([weights @ each / total for each in sizes])
        return replace(draft, means=means if _are_usable(means) else np.zeros(2), totals=means * total)

    @property
    def has_model(self) -> bool:
        """Whether rows are scored by a model."""
        return bool(self.means.any())

    def having_seen(self, rows: Expanded, slope: FloatArray) -> Pilot:
        """Return the pilot with what these of many rows (:func:`counted`), of these slopes, add to the means."""
        own = self._balanced(rows.weights, rows.y)
        totals = [_EVERY * (own @ each) for each in self._sizes(rows.design, slope)]
        return replace(self, totals=self.totals + totals, weight=self.weight + _EVERY * float(own.sum()))

    def chosen(
        self, rows: Expanded, slope: FloatArray, uniforms: FloatArray, rate: float
    ) -> tuple[IntArray, FloatArray]:
        """Return which rows have a uniform of at most ``rate`` times their weight and score, and these scores."""
        if rate == np.inf:
            return np.arange(len(rows.y)), self.scores(rows.design, slope, rows.y)
        most = rate * rows.weights
        few = np.flatnonzero(~(uniforms > most * self.bounds(rows.design, slope, rows.y)))
        parts = (few[start : start + _AT_ONCE] for start in range(0, max(1, len(few)), _AT_ONCE))
        scores = np.concatenate([self.scores(rows.design[part], slope[part], rows.y[part]) for part in parts])
        is_kept = kept(uniforms[few], most[few] * scores)
        return few[is_kept], scores[is_kept]

    def scores(self, design: FloatArray, slope: FloatArray, y: FloatArray) -> FloatArray:
        """Return the scores of rows with these slopes and targets, about 1 on average."""
        if not self.has_model:
            return np.ones(len(design))
        return self._balanced(self._mixed(*self._sizes(design, slope)), y)

    def bounds(self, design: FloatArray, slope: FloatArray, y: FloatArray) -> FloatArray:
        """Return upper bounds of the scores, in less time."""
        if not self.has_model:
            return np.ones(len(design))
        reach, n = np.sqrt(np.vecdot(self.whitening, self.whitening)), len(design)
        lengths = np.empty(n)
        for piece in (slice(start, start + _AT_ONCE) for start in range(0, n, _AT_ONCE)):
            lengths[piece] = reach @ np.abs(design[piece].T)
        return self._balanced(self._mixed(lengths * lengths, lengths * self._steepness(slope)), y)

    def _balanced(self, values: FloatArray, y: FloatArray) -> FloatArray:
        return values * self.factors[y.astype(np.int64)] if self.factors.size else values

    def _mixed(self, leverage: FloatArray, gradient: FloatArray) -> FloatArray:
        means = np.maximum(self.means, self.totals / self.weight)
        return np.asarray(_UNIFORM + (_LEVERAGE / means[0]) * leverage + (_GRADIENT / means[1]) * gradient)

    def scaled(self, factor: float) -> Pilot:
        """Return the same with the weights of all rows seen multiplied by a factor."""
        return replace(self, totals=factor * self.totals, weight=factor * self.weight)

    def _sizes(self, design: FloatArray, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the leverage of each row, and the size of its gradient."""
        leverage = squared_lengths(design, self.whitening)
        return leverage, np.sqrt(leverage) * self._steepness(slope)

    def _steepness(self, slope: FloatArray) -> FloatArray:
        """Return the sizes of slopes, over the root of the mean second derivatives."""
        if slope.shape[1] == 1:
            return np.abs(slope[:, 0]) * float(self.curvatures[0] ** -0.5)
        return np.asarray(np.sqrt(np.square(slope) @ (1 / self.curvatures)))


def counted(ids: IntArray) -> slice | IntArray:
    """Return the places of ascending ids that count for the means.

    >>> counted(np.arange(100, 200)), counted(np.array([60, 61, 122]))
    (slice(22, None, 61), array([1, 2]))
    """
    if not len(ids) or int(ids[-1]) - int(ids[0]) + 1 != len(ids):
        return np.flatnonzero(ids % _EVERY == 0)
    return slice(int(-ids[0] % _EVERY), None, _EVERY)


def _are_usable(means: FloatArray) -> bool:
    return bool((np.isfinite(means) & (means > 0)).all())


SCORE, WIDTH, PREDICTORS = 1, 2, 3
"""Where these stand among the targets of a candidate: its score, and the width and predictors it was expanded at."""

_PIECE_ENTRIES = 68_000
"""Numbers of a piece of rows that goes through at once: less than a megabyte."""


_ARRAYS = 6
"""So many arrays of the size of the predictors are in memory with a piece, where those are several."""


class Sample(NamedTuple):
    """A coreset in full, ready for a solver."""

    loss: PredictorLoss
    frame: Frame
    classes: class_expansions.Classes

    anchored: Expanded
    """Rows with their weights in the coreset, expanded where they were when they came."""
    multipliers: FloatArray
    """What sampling has multiplied the rows' own weights by."""
    sums: Expansion
    """Expansions of all rows, less those of the coreset: add the losses of the coreset to them."""
    weight: float
    """Weight of all rows."""
    effective_rows: float
    """Rows of equal weight that say as much as all rows."""
    slopes: FloatArray
    """Slopes of the coreset where its rows were expanded, (n, K)."""
    known: dict[Any, Any]
    """What the rows cost under models, remembered by whoever has asked for it."""
    factors: tuple[float, ...] = ()
    """What multiplies the weights of classes, where those are balanced."""
    kept: FloatArray | None = None
    """Projection (p, p) of parameters onto the directions that a model may use, where a solver leaves some out."""


@storable
@dataclass(frozen=True)
class Anchors:
    """Coordinates, the pilot, the sums of all expansions, and the codes of classes in the order in which they came."""

    loss: PredictorLoss
    frame: Frame
    pilot: Pilot
    sums: SumsByClass
    classes: class_expansions.Classes

    def validate(self) -> None:
        n, own = len(self.classes), self.sums.parts[0].linear.shape[1:]
        shape = (self.loss.n_outputs(n), self.frame.n_columns)
        require(
            self.pilot.theta.shape == own == shape, f"theta: found {self.pilot.theta.shape}, expected {own}, {shape}"
        )
        require(not self.sums.is_balanced or len(self.sums.parts) == n, f"sums: found {len(self.sums.parts)}, not {n}")
        factors = len(self.pilot.factors)
        require(factors in ((0, n) if self.sums.is_balanced else (0,)), f"factors: found {factors} for {n} classes")
        require(len(set(self.classes)) == n, f"classes: found {self.classes}, expected each one once")
        require(all(map(math.isfinite, self.classes)), f"classes: found {self.classes}, expected finite codes")
        require(self.loss.has_classes or not n, f"classes: found {self.classes}, expected none for this loss")
        require(self.pilot.width > 0 or self.can_be_flat, "width of the pilot: found 0, expected more for this loss")

    @property
    def can_be_flat(self) -> bool:
        """Whether expansions may have no second derivatives, which a width of zero says."""
        return not self.loss.has_width and len(self.pilot.theta) == 1

    @classmethod
    def first(
        cls, loss: PredictorLoss, frame: Frame, classes: class_expansions.Classes, is_balanced: bool = False
    ) -> Anchors:
        """Return what is known before any row: expansions are made at zero."""
        k, p = loss.n_outputs(len(classes)), frame.n_columns
        return cls(loss, frame, Pilot.nothing(k, p), SumsByClass.empty(k, p, len(classes), is_balanced), classes)

    def coded(self, rows: Rows) -> FloatArray:
        """Return the targets as the loss takes them: numbers less their origin, or positions of classes."""
        targets = rows.targets[:, 0]
        return (
            class_expansions.positions(self.classes, targets) if self.loss.has_classes else targets - self.frame.origin
        )

    def expanded(self, rows: Rows, y: FloatArray, words: WordArray, rate: float = np.inf) -> tuple[Anchors, Candidates]:
        """Return the anchors with the expansions of these rows, and the rows that may be in the coreset.

        ``y`` are their coded targets. Those rows are kept whose word is within ``rate`` times their weight and score.
        Rows go through in pieces that a processor's cache holds.
        """
        after, sums, few = self._having_seen(rows, y), self.sums, []
        step = max(1, _PIECE_ENTRIES // (self.frame.n_columns + _ARRAYS * (len(self.pilot.theta) - 1)))
        for start in range(0, len(rows), step):
            piece = slice(start, start + step)
            sums, kept = after._with_piece(sums, rows[piece], y[piece], words[piece], rate)
            few.append(kept)
        return replace(after, sums=sums), Candidates.joined(few)

    def _having_seen(self, rows: Rows, y: FloatArray) -> Anchors:
        """Return the anchors whose pilot has seen these rows, before any of them is scored."""
        few = counted(rows.ids)
        if not self.pilot.has_model or not len(y[few]):
            return self
        here, local = self._here(rows[few], y[few])
        return replace(self, pilot=self.pilot.having_seen(here, local[1]))

    def _here(self, rows: Rows, y: FloatArray) -> tuple[Expanded, Local]:
        """Return rows expanded at the pilot, and what their losses are there."""
        design, weights, width = self.frame.design(rows.points), np.ascontiguousarray(rows.weights), self.pilot.width
        eta = (self.pilot.theta @ design.T).T
        return Expanded(design, y, weights, eta, width), self.loss.expanded(eta, y, width)

    def _with_piece(
        self, sums: SumsByClass, rows: Rows, y: FloatArray, words: WordArray, rate: float
    ) -> tuple[SumsByClass, Candidates]:
        """Return the sums with a piece of rows, and those that are kept, with what is remembered of them."""
        here, local = self._here(rows, y)
        keep, scores = self.pilot.chosen(here, local[1], sampling.inclusion_uniforms(words), rate)
        kept = self._candidates(rows[keep], words[keep], scores, here.eta[keep])
        return sums.including(self.loss, here, local), kept

    def _candidates(self, rows: Rows, words: WordArray, scores: FloatArray, eta: FloatArray) -> Candidates:
        """Return rows with all that is remembered of them beside their targets."""
        targets = np.empty((len(rows), PREDICTORS + eta.shape[1]))
        targets[:, 0], targets[:, SCORE], targets[:, WIDTH] = rows.targets[:, 0], scores, self.pilot.width
        targets[:, PREDICTORS:] = eta
        return Candidates(Rows(rows.points, targets, rows.weights, rows.ids), words, ones(len(rows)))

    def piloted(self, theta: FloatArray, width: float, rows: Expanded) -> Anchors:
        """Return the same with a model as the pilot, whose scores are measured by weighted rows."""
        if not len(rows.y):
            return replace(self, pilot=Pilot.nothing(*theta.shape))
        here = rows._replace(eta=(theta @ rows.design.T).T, width=width)
        factors = self.sums.factors if self.sums.is_balanced else None
        return replace(self, pilot=Pilot.of(self.loss, theta, here, factors))

    def recoded(self, classes: class_expansions.Classes, matrix: FloatArray) -> Anchors:
        """Return the same in terms of these classes; the pilot is left to the caller."""
        k, p = self.loss.n_outputs(len(classes)), self.frame.n_columns
        places = class_expansions.positions(classes, np.array(self.classes)).astype(np.int64)
        sums = self.sums.of_classes(matrix, places, len(classes))
        return replace(self, sums=sums, classes=classes, pilot=Pilot.nothing(k, p))

    def merged(self, other: Anchors) -> Anchors:
        """Return the anchors with the expansions of another, of the same classes in the same order."""
        translated = other.sums.translated(self.frame.origin - other.frame.origin)
        moved = translated.moved(np.eye(len(other.pilot.theta)), other.frame.to(self.frame))
        return replace(self, sums=self.sums + moved)

    def placed(self, rows: Rows, weights: FloatArray) -> Expanded:
        """Return candidates with these weights, times those of classes, expanded where they were when they came."""
        y, eta = self.coded(rows), np.asfortranarray(rows.targets[:, PREDICTORS:])
        width = np.ascontiguousarray(rows.targets[:, WIDTH])
        return Expanded(self.frame.design(rows.points), y, self.sums.balanced(weights, y), eta, width)

    def in_full(self, here: Expanded, multipliers: FloatArray, total: tuple[float, float]) -> Sample:
        """Return the coreset of these candidates with all that a solver needs; the weight of all rows and how many."""
        sums = self.sums.total()
        local = self.loss.expanded(here.eta, here.y, here.width)
        left = sums - Expansion.of(self.loss, here, sums.n_orders == 3, local)
        factors = tuple(self.sums.factors.tolist()) if self.sums.is_balanced else ()
        known = (self.loss, self.frame, self.classes, here, multipliers, left, *total)
        return Sample(*known, local[1], {}, factors)


@storable
@dataclass(frozen=True)
class ScorePerWeight(Statistics):
    """The score of a row, which is about 1 on average, over the weight of all rows; up to ``size`` rows all are kept.

    It is not its share of all scores: those of later rows come from models that depend on what was kept, and then a row
    would have a part in its own probability.
    """

    total: Weight
    rows: Count
    size: Annotated[float, at_least(1)]

    def with_rows(self, rows: Rows) -> ScorePerWeight:
        """Return the statistics with these rows, whose scores are not known yet."""
        return ScorePerWeight(self.total + float(rows.weights.sum()), self.rows + len(rows), self.size)

    def add(self, rows: Rows) -> tuple[ScorePerWeight, FloatArray]:
        new = self.with_rows(rows)
        return new, new.scores(rows)

    def scaled(self, factor: float) -> ScorePerWeight:
        return ScorePerWeight(self.total * factor, self.rows, self.size)

    def merged(self, other: ScorePerWeight) -> ScorePerWeight:
        return ScorePerWeight(self.total + other.total, self.rows + other.rows, min(self.size, other.size))

    def scores(self, rows: Rows) -> FloatArray:
        if self.rows <= self.size:
            return np.full(len(rows), np.inf)
        return np.asarray(rows.weights * rows.targets[:, SCORE] / self.total)

    bounds = scores


def translated_candidates(candidates: Candidates, by: float) -> Candidates:
    """Return candidates whose predictors are smaller by so much."""
    rows = candidates.rows
    targets = rows.targets.copy()
    targets[:, PREDICTORS:] -= by
    return Candidates(Rows(rows.points, targets, rows.weights, rows.ids), candidates.words, candidates.limits)


def recoded_candidates(candidates: Candidates, matrix: FloatArray) -> Candidates:
    """Return candidates with their predictors in terms of other classes."""
    rows = candidates.rows
    eta = class_expansions.recoded(rows.targets[:, PREDICTORS:], matrix)
    targets = np.concatenate([rows.targets[:, :PREDICTORS], eta], axis=1)
    return Candidates(Rows(rows.points, targets, rows.weights, rows.ids), candidates.words, candidates.limits)
