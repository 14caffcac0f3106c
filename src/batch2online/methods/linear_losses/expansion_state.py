r"""State of an anchored coreset: the pilot model, at which losses are expanded and rows are scored, and the sums.

The score of a row is :math:`s = 0.2 + 0.3\,\ell / p + 0.5\, a / \bar a`: a uniform share, one for leverage
:math:`\ell = z' M^{-1} z` under the second moments M of a row, and one for the gradient norm under the pilot model,
:math:`a = |g| \sqrt{\ell / \bar h}`, over its mean. The metric would best be that of the Hessian; the second moments
times the mean second derivatives were as good in measurements, and serve for leverage as well. Uniform scores alone
fail on rare classes, gradient norms alone on classes that are nearly separable. Means are those of the coreset at the
fit of the pilot model, or of the rows since if these are larger: rows of a new kind cannot take the whole coreset.

Few rows are kept, and the score of a row costs more than its loss. So rows are first filtered by an upper bound of
their score, and means are those of one row in 61.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray, IntArray, WordArray
from batch2online.methods.linear_losses import expansion
from batch2online.methods.linear_losses.expansion import ClassExpansions, ExpandedRows, Expansion, RowExpansions
from batch2online.methods.linear_losses.losses.base import Local, PredictorLoss, weighted_gram
from batch2online.numerics.standardizer import Standardizer
from batch2online.numerics.triangular import inverse_root, squared_lengths
from batch2online.rows import Rows, ones
from batch2online.sampling import kept
from batch2online.schema import Count, Weight, above, at_least, finite, require, shape, storable
from batch2online.sketches.antitone import Statistics
from batch2online.sketches.candidates import Candidates
from batch2online.sketches.pilot_scores import GRADIENT, LEVERAGE, UNIFORM

_AT_ONCE = 1_024
"""Number of rows whose scores are computed at a time, to save memory."""

_MEASURED = 50_000
"""Number of entries of the rows of a coreset whose gradient norms are averaged."""

_EVERY = 61
"""Means are those of rows whose ids are multiples of this prime, which no period of the data shares."""


@storable
@dataclass(frozen=True)
class PilotModel:
    """The model at which losses are expanded, and what scores of rows are computed with.

    Attributes
    ----------
    theta, scale : (K, p) array, float
        Parameters, and the scale of the loss; 0 to expand without second derivatives.
    whitening : (p, p) array
        Turns z into rows whose squared length is their leverage.
    curvatures : (K,) array
        Mean second derivatives.
    means : (2,) array
        Means of leverage and of gradient norms at the fit of the model; zero before there is one, when all rows score
        the same.
    totals, weight : (2,) array, float
        Sums of leverage and gradient norms, and the weight of all rows since.
    factors : (n_classes,) array
        Weights of balanced classes at the fit of the model, which multiply scores; empty if classes are not balanced.
    """

    theta: Annotated[FloatArray, shape("k", "p"), finite]
    scale: Weight
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
    def nothing(cls, n_outputs: int, n_columns: int) -> PilotModel:
        """Return the pilot before the first model: losses are expanded at zero."""
        theta, none, empty = np.zeros((n_outputs, n_columns)), np.zeros((0, 0)), np.zeros(0)
        return cls(theta, 1.0, none, empty, np.zeros(2), np.zeros(2), 0.0, empty)

    @classmethod
    def unmeasured(cls, theta: FloatArray, scale: float, weight: float) -> PilotModel:
        """Return the pilot with these parameters, fitted to rows of this weight, that no row was scored by yet."""
        return replace(cls.nothing(*theta.shape), theta=theta, scale=scale, weight=weight)

    @classmethod
    def of(
        cls,
        loss: PredictorLoss,
        theta: FloatArray,
        rows: ExpandedRows,
        moments: FloatArray,
        factors: FloatArray | None = None,
    ) -> PilotModel:
        """Return the pilot with these parameters, given weighted rows expanded at them, and their second moments."""
        design, weights, total = rows.design, rows.weights, float(rows.weights.sum())
        _, gradient, hessian = loss.local(rows.eta, rows.y, rows.scale)
        whitening = inverse_root(moments / total)
        curvatures = np.maximum(weights @ hessian / total, np.finfo(np.float64).tiny)
        scale, balance = float(np.mean(rows.scale)), np.zeros(0) if factors is None else factors
        draft = cls(theta, scale, whitening, curvatures, np.ones(2), np.zeros(2), total, balance)
        few = slice(None, None, max(1, design.size // _MEASURED))
        norms = draft._sizes(design[few], gradient[few])[1]
        leverage = np.vdot(whitening, moments @ whitening) / total  # the mean of |z W|^2
        means = np.array([leverage, weights[few] @ norms / max(weights[few].sum(), np.finfo(np.float64).tiny)])
        are_usable = (np.isfinite(means) & (means > 0)).all()
        return replace(draft, means=means if are_usable else np.zeros(2), totals=means * total)

    @property
    def is_set(self) -> bool:
        """Whether there is a model at which losses are expanded."""
        return self.weight > 0

    @property
    def has_model(self) -> bool:
        """Whether rows are scored by a model."""
        return bool(self.means.any())

    def having_seen(self, rows: ExpandedRows, gradient: FloatArray) -> PilotModel:
        """Return the pilot whose means include these rows, a subset by :func:`counted`, with these gradients."""
        own = self._balanced(rows.weights, rows.y)
        totals = [_EVERY * (own @ each) for each in self._sizes(rows.design, gradient)]
        return replace(self, totals=self.totals + totals, weight=self.weight + _EVERY * float(own.sum()))

    def chosen(
        self, rows: ExpandedRows, gradient: FloatArray, uniforms: FloatArray, rate: float
    ) -> tuple[IntArray, FloatArray]:
        """Return the rows whose uniform is at most ``rate`` times their weight and score, and these scores."""
        if rate == np.inf:
            return np.arange(len(rows.y)), self.scores(rows.design, gradient, rows.y)
        most = rate * rows.weights
        few = np.flatnonzero(~(uniforms > most * self.bounds(rows.design, gradient, rows.y)))
        parts = (few[start : start + _AT_ONCE] for start in range(0, max(1, len(few)), _AT_ONCE))
        scores = np.concatenate([self.scores(rows.design[part], gradient[part], rows.y[part]) for part in parts])
        is_kept = kept(uniforms[few], most[few] * scores)
        return few[is_kept], scores[is_kept]

    def scores(self, design: FloatArray, gradient: FloatArray, y: FloatArray) -> FloatArray:
        """Return the scores of rows with these gradients and targets, about 1 on average."""
        if not self.has_model:
            return np.ones(len(design))
        return self._balanced(self._mixed(*self._sizes(design, gradient)), y)

    def bounds(self, design: FloatArray, gradient: FloatArray, y: FloatArray) -> FloatArray:
        """Return upper bounds of the scores, which are faster to compute."""
        if not self.has_model:
            return np.ones(len(design))
        stretch, lengths = self._stretch, np.empty(len(design))
        for piece in (slice(start, start + _AT_ONCE) for start in range(0, len(design), _AT_ONCE)):
            lengths[piece] = stretch @ np.square(design[piece].T)
        return self._balanced(self._mixed(lengths, np.sqrt(lengths) * self._steepness(gradient)), y)

    @cached_property
    def _stretch(self) -> FloatArray:
        r"""Return s with leverages of at most :math:`\sum_j s_j z_j^2`.

        These are the squared lengths of the rows of the whitening, times a bound of the largest eigenvalue of the
        cosines C between them: the fourth root of the Frobenius norm of :math:`C^4`.
        """
        squares = np.vecdot(self.whitening, self.whitening)
        unit = self.whitening / np.sqrt(squares)[:, None]
        cosines = unit @ unit.T
        twice = cosines @ cosines
        return np.asarray(squares * float(np.linalg.norm(twice @ twice)) ** 0.25)

    def _balanced(self, values: FloatArray, y: FloatArray) -> FloatArray:
        return values * self.factors[y.astype(np.int64)] if self.factors.size else values

    def _mixed(self, leverage: FloatArray, gradient: FloatArray) -> FloatArray:
        means = np.maximum(self.means, self.totals / self.weight)
        return np.asarray(UNIFORM + (LEVERAGE / means[0]) * leverage + (GRADIENT / means[1]) * gradient)

    def scaled(self, factor: float) -> PilotModel:
        """Return the pilot for weights multiplied by a factor."""
        return replace(self, totals=factor * self.totals, weight=factor * self.weight)

    def _sizes(self, design: FloatArray, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the leverage and the gradient norm of each row."""
        leverage = squared_lengths(design, self.whitening)
        return leverage, np.sqrt(leverage) * self._steepness(gradient)

    def _steepness(self, gradient: FloatArray) -> FloatArray:
        """Return the norms of first derivatives, over the root of the mean second derivatives."""
        if gradient.shape[1] == 1:
            return np.abs(gradient[:, 0]) * float(self.curvatures[0] ** -0.5)
        return np.asarray(np.sqrt(np.square(gradient) @ (1 / self.curvatures)))


def counted(ids: IntArray) -> slice | IntArray:
    """Return the positions of the ids, in ascending order, that count for the means.

    >>> counted(np.arange(100, 200)), counted(np.array([60, 61, 122]))
    (slice(22, None, 61), array([1, 2]))
    """
    if not len(ids) or int(ids[-1]) - int(ids[0]) + 1 != len(ids):
        return np.flatnonzero(ids % _EVERY == 0)
    return slice(int(-ids[0] % _EVERY), None, _EVERY)


SCORE, SCALE, PREDICTORS = 1, 2, 3
"""Columns of the targets of a candidate: its score, and the scale and predictors at which it was expanded."""

_PIECE_ENTRIES = 68_000
"""Number of entries of a piece of rows: less than a megabyte."""


_ARRAYS = 6
"""Number of arrays of the size of the predictors that a piece needs, with several predictors."""


class AnchoredSample(NamedTuple):
    """A coreset with all that the solver needs."""

    loss: PredictorLoss
    frame: Standardizer
    classes: expansion.Classes

    anchored: ExpandedRows
    """Rows with their weights in the coreset, and the predictors at which they were expanded."""
    multipliers: FloatArray
    """Factors by which sampling has multiplied the weights of rows."""
    sums: Expansion
    """Sums of the expansions of all rows; empty if the coreset holds all of them as they are."""
    weight: float
    """Weight of all rows."""
    effective_rows: float
    """Effective sample size."""
    expansions: RowExpansions | None
    """Expansions of the rows of the coreset, part of these sums; None if it holds all rows as they are."""
    moments: FloatArray
    """Second moments of its rows, (p, p)."""
    factors: tuple[float, ...] = ()
    """Weights of balanced classes."""
    kept: FloatArray | None = None
    """Projection (p, p) of parameters onto the directions that are not nearly collinear; None for all."""

    def cost(self, losses: FloatArray, theta: FloatArray, order: int) -> float:
        """Return the total loss of all rows, given those (n,) of the coreset at theta (K, p), by a Taylor order."""
        if not order or self.expansions is None:
            return float(self.anchored.weights @ losses)
        left = losses - self.expansions.value((theta @ self.anchored.design.T).T, order)
        return self.sums.quadratic(order).value(theta) + float(self.anchored.weights @ left)


@storable
@dataclass(frozen=True)
class ExpansionState:
    """Coordinates, the pilot model, the sums of all expansions, and the codes of classes in order of appearance."""

    loss: PredictorLoss
    frame: Standardizer
    pilot: PilotModel
    sums: ClassExpansions
    classes: expansion.Classes

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
        require(
            self.pilot.scale > 0 or self.can_be_first_order, "scale of the pilot: found 0, expected more for this loss"
        )

    @property
    def can_be_first_order(self) -> bool:
        """Whether expansions can leave out second derivatives, which a scale of zero encodes."""
        return not self.loss.has_scale and len(self.pilot.theta) == 1

    @classmethod
    def first(
        cls, loss: PredictorLoss, frame: Standardizer, classes: expansion.Classes, is_balanced: bool = False
    ) -> ExpansionState:
        """Return the state before the first row."""
        k, p = loss.n_outputs(len(classes)), frame.n_columns
        return cls(
            loss, frame, PilotModel.nothing(k, p), ClassExpansions.empty(k, p, len(classes), is_balanced), classes
        )

    def coded(self, rows: Rows) -> FloatArray:
        """Return the targets as arguments of the loss: numbers less their origin, or positions of classes."""
        targets = rows.targets[:, 0]
        return expansion.positions(self.classes, targets) if self.loss.has_classes else targets - self.frame.origin

    def holding(self, rows: Rows, y: FloatArray, words: WordArray) -> tuple[ExpansionState, Candidates]:
        """Return the state with rows that are not expanded yet, and these as candidates."""
        one = (np.ones(len(rows)), np.zeros((len(rows), len(self.pilot.theta))))
        return replace(self, sums=self.sums.holding(rows.weights, y)), self._candidates(rows, words, *one)

    def expanding(self, rows: Rows, words: WordArray) -> tuple[ExpansionState, Candidates]:
        """Return the state with the expansions of rows that it has held so far, and these as candidates."""
        new, pilot = self.first(self.loss, self.frame, self.classes, self.sums.is_balanced), self.pilot
        if pilot.is_set:
            here = self.placed(rows, rows.weights)
            moments = weighted_gram(here.design, here.weights)
            new = replace(new, pilot=self.piloted(pilot.theta, pilot.scale, here, moments).pilot)
        return new.expanded(rows, self.coded(rows), words)

    def expanded(
        self, rows: Rows, y: FloatArray, words: WordArray, rate: float = np.inf
    ) -> tuple[ExpansionState, Candidates]:
        """Return the state with the expansions of these rows, and the rows that may be in the coreset.

        ``y`` are their coded targets. A row is kept if its random draw is within ``rate`` times its weight and score.
        Rows are processed in pieces that fit into the cache of a processor.
        """
        after, sums, few = self, self.sums, []
        seen = counted(rows.ids)
        if self.pilot.has_model and len(y[seen]):  # means include the rows before any of them is scored
            here, local = self._here(rows[seen], y[seen])
            after = replace(self, pilot=self.pilot.having_seen(here, local[1]))
        step = max(1, _PIECE_ENTRIES // (self.frame.n_columns + _ARRAYS * (len(self.pilot.theta) - 1)))
        for start in range(0, len(rows), step):
            piece = slice(start, start + step)
            here, local = after._here(rows[piece], y[piece])
            keep, scores = after.pilot.chosen(here, local[1], sampling.inclusion_uniforms(words[piece]), rate)
            few.append(after._candidates(rows[piece][keep], words[piece][keep], scores, here.eta[keep]))
            sums = sums.including(self.loss, here, local)
        return replace(after, sums=sums), Candidates.joined(few)

    def _here(self, rows: Rows, y: FloatArray) -> tuple[ExpandedRows, Local]:
        """Return rows expanded at the pilot model, with values and derivatives of their losses."""
        design, weights, scale = self.frame.design(rows.points), np.ascontiguousarray(rows.weights), self.pilot.scale
        eta = (self.pilot.theta @ design.T).T
        return ExpandedRows(design, y, weights, eta, scale), self.loss.expanded(eta, y, scale)

    def _candidates(self, rows: Rows, words: WordArray, scores: FloatArray, eta: FloatArray) -> Candidates:
        """Return rows as candidates: scores, scales and predictors are stored beside their targets."""
        targets = np.empty((len(rows), PREDICTORS + eta.shape[1]))
        targets[:, 0], targets[:, SCORE], targets[:, SCALE] = rows.targets[:, 0], scores, self.pilot.scale
        targets[:, PREDICTORS:] = eta
        return Candidates(Rows(rows.points, targets, rows.weights, rows.ids), words, ones(len(rows)))

    def piloted(self, theta: FloatArray, scale: float, rows: ExpandedRows, moments: FloatArray) -> ExpansionState:
        """Return the state with this pilot model, whose means are those of weighted rows with these second moments."""
        if not len(rows.y):
            return replace(self, pilot=PilotModel.nothing(*theta.shape))
        here = rows._replace(eta=(theta @ rows.design.T).T, scale=scale)
        factors = self.sums.factors if self.sums.is_balanced else None
        return replace(self, pilot=PilotModel.of(self.loss, theta, here, moments, factors))

    def recoded(self, classes: expansion.Classes, matrix: FloatArray) -> ExpansionState:
        """Return the state in terms of these classes, without a pilot model."""
        k, p = self.loss.n_outputs(len(classes)), self.frame.n_columns
        places = expansion.positions(classes, np.array(self.classes)).astype(np.int64)
        sums = self.sums.of_classes(matrix, places, len(classes))
        return replace(self, sums=sums, classes=classes, pilot=PilotModel.nothing(k, p))

    def merged(self, other: ExpansionState) -> ExpansionState:
        """Return the state with the expansions of another one of the same classes in the same order."""
        translated = other.sums.translated(self.frame.origin - other.frame.origin)
        moved = translated.moved(np.eye(len(other.pilot.theta)), other.frame.to(self.frame))
        return replace(self, sums=self.sums + moved)

    def placed(self, rows: Rows, weights: FloatArray) -> ExpandedRows:
        """Return candidates with these weights, times those of classes, and the predictors of their expansions."""
        y, eta = self.coded(rows), np.asfortranarray(rows.targets[:, PREDICTORS:])
        scale = np.ascontiguousarray(rows.targets[:, SCALE])
        return ExpandedRows(self.frame.design(rows.points), y, self.sums.balanced(weights, y), eta, scale)

    def in_full(
        self, here: ExpandedRows, multipliers: FloatArray, total: tuple[float, float], is_complete: bool
    ) -> AnchoredSample:
        """Return the input of the solver for these candidates; ``total`` is the weight and the number of all rows."""
        if is_complete:
            with_matrix = self.sums.n_orders == 3
            sums, expansions = Expansion.empty(len(self.pilot.theta), self.frame.n_columns, with_matrix), None
        else:
            sums, expansions = self.sums.total(), RowExpansions.of(self.loss, here)
        factors = tuple(self.sums.factors.tolist()) if self.sums.is_balanced else ()
        moments = weighted_gram(here.design, here.weights)
        known = (self.loss, self.frame, self.classes, here, multipliers, sums, *total)
        return AnchoredSample(*known, expansions, moments, factors)


@storable
@dataclass(frozen=True)
class ScorePerWeight(Statistics):
    """Score of a row, which is about 1 on average, over the weight of all rows; up to ``size`` rows all are kept.

    It is not the share in the sum of scores: scores of later rows depend on models that depend on what was kept, so a
    row would take part in its own probability.
    """

    total: Weight
    rows: Count
    size: Annotated[float, at_least(1)]

    @property
    def keeps_all(self) -> bool:
        """Whether all rows are kept."""
        return self.rows <= self.size

    def with_rows(self, rows: Rows) -> ScorePerWeight:
        """Return the statistics with these rows."""
        return ScorePerWeight(self.total + float(rows.weights.sum()), self.rows + len(rows), self.size)

    def add(self, rows: Rows) -> tuple[ScorePerWeight, FloatArray]:
        new = self.with_rows(rows)
        return new, new.scores(rows)

    def scaled(self, factor: float) -> ScorePerWeight:
        return ScorePerWeight(self.total * factor, self.rows, self.size)

    def merged(self, other: ScorePerWeight) -> ScorePerWeight:
        return ScorePerWeight(self.total + other.total, self.rows + other.rows, min(self.size, other.size))

    def scores(self, rows: Rows) -> FloatArray:
        if self.keeps_all:
            return np.full(len(rows), np.inf)
        return np.asarray(rows.weights * rows.targets[:, SCORE] / self.total)

    bounds = scores


def translated_candidates(candidates: Candidates, by: float) -> Candidates:
    """Return candidates with predictors reduced by this amount."""
    rows = candidates.rows
    targets = rows.targets.copy()
    targets[:, PREDICTORS:] -= by
    return Candidates(Rows(rows.points, targets, rows.weights, rows.ids), candidates.words, candidates.limits)


def recoded_candidates(candidates: Candidates, matrix: FloatArray) -> Candidates:
    """Return candidates with predictors in terms of other classes."""
    rows = candidates.rows
    eta = expansion.recoded(rows.targets[:, PREDICTORS:], matrix)
    targets = np.concatenate([rows.targets[:, :PREDICTORS], eta], axis=1)
    return Candidates(Rows(rows.points, targets, rows.weights, rows.ids), candidates.words, candidates.limits)
