r"""Anchored coresets: for losses of a linear predictor that are not squares.

A row is expanded at the model that is current when it comes (:mod:`~batch2online.methods.linear_losses.expansion`). The
sums of all expansions are exact and small; the coreset carries only what is left of the losses:

.. math:: F(\theta) = \sum_{\text{all}} T_i(\theta) + \sum_{\text{coreset}} w_i (l_i(\theta) - T_i(\theta)).

This is unbiased for each theta, whatever the models were: a model depends on earlier rows and their draws, never on
the draw of the row that it expands, and inclusion probabilities only fall. Its noise is that of the remainders, which
are of third order in the distance of theta from the models.

Scores are fixed when a row comes, by the current model. So the coreset is a pure function of the sequence and the
seed, not of the set of rows. Shards that are merged were expanded at their own models: the objective stays unbiased,
but it is not that of one stream, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from batch2online import sampling
from batch2online._types import FloatArray, WordArray
from batch2online.engine.builder import CoresetBuilder, check_statistics_fit
from batch2online.methods.linear_losses.classes import Classes, outputs, parameters, positions, recoded, with_new
from batch2online.methods.linear_losses.expansion import Expanded, ExpandedRows, Expansion
from batch2online.methods.linear_losses.grams import weighted_gram
from batch2online.methods.linear_losses.pilot import PilotModel, counted
from batch2online.methods.losses import PredictorLoss, predictor_loss
from batch2online.numerics.standardizer import Standardizer
from batch2online.rows import Rows, ones
from batch2online.sampling import kept, probabilities
from batch2online.schema import storable, stores
from batch2online.sketches.antitone import SAFETY, AntitoneSketch, Statistics, no_candidates
from batch2online.sketches.base import RowSource, SketchSettings
from batch2online.sketches.candidates import Candidates, copied
from batch2online.theory import sizes

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
    classes: Classes

    anchored: ExpandedRows
    """Rows with their weights in the coreset, and the predictors at which they were expanded."""
    multipliers: FloatArray
    """Factors by which sampling has multiplied the weights of rows."""
    expanded: Expanded | None
    """None if the coreset holds all rows as they are."""
    weight: float
    """float of all rows."""
    effective_rows: float
    """Effective sample size."""
    moments: FloatArray
    """Second moments of the rows of the coreset, (p, p)."""
    factors: tuple[float, ...] = ()
    """Weights of balanced classes."""
    kept: FloatArray | None = None
    """Projection (p, p) of parameters onto the directions that are not nearly collinear; None for all."""

    def cost(self, losses: FloatArray, theta: FloatArray, is_expanded: bool = True) -> float:
        """Return the total loss of all rows, given those (n,) of the coreset at theta (K, p).

        Expansions are used where they leave less noise than the coreset alone.
        """
        weights, eta = self.anchored.weights, (theta @ self.anchored.design.T).T
        if self.expanded is None or not is_expanded:
            return float(weights @ losses)
        noise, left = np.square(weights) * (1 - 1 / self.multipliers), losses - self.expanded.of_rows(eta)[0]
        if noise @ np.square(left) < noise @ np.square(losses):
            return self.expanded.of_all(theta)[0] + float(weights @ left)
        return float(weights @ losses)


@storable
@dataclass(frozen=True)
class ScorePerWeight(Statistics):
    """Score of a row, which is about 1 on average, over the weight of all rows; up to ``size`` rows all are kept.

    It is not the share in the sum of scores: scores of later rows depend on models that depend on what was kept, so a
    row would take part in its own probability.
    """

    total: float
    rows: int
    size: float

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


@storable
@stores(
    statistics=ScorePerWeight,
    loss=PredictorLoss,
    intercept=bool,
    balanced=bool,
    frame=Standardizer,
    classes=Classes,
    pilot_model=PilotModel,
    sums=Expansion,
)
class AnchoredSketch(AntitoneSketch):
    """Sums of expansions of all rows, and candidates that carry what is left of their losses; see :class:`Anchored`.

    Attributes
    ----------
    frame : Standardizer
        Coordinates of rows; those of the first rows until the coreset no longer holds all of them.
    classes : tuple of float
        Codes of the known classes, in order of appearance.
    pilot_model : PilotModel
        The model at which further rows are expanded.
    sums : Expansion
        Sums of the expansions of all rows; empty while the coreset holds all of them as they are.
    """

    pilot = "model"
    _patience = 1.0  # scores are at hand
    _stores_targets = False  # predictors, scores and scales stand behind them
    _remembered: AnchoredSample | None = None

    def __init__(self, settings: SketchSettings, loss: PredictorLoss, intercept: bool, balanced: bool) -> None:
        self.loss, self.intercept, self.balanced = loss, intercept, balanced
        super().__init__(settings)

    @property
    def is_complete(self) -> bool:
        """Whether the coreset holds all rows, each as it came."""
        return bool(self.totals.n_rows <= self.settings.size)

    def _new_statistics(self) -> tuple[Statistics, float, int]:
        width, n_targets = self.settings.shape
        if n_targets != 1:
            raise ValueError(f"A loss of a linear predictor has one target, got {n_targets} columns of y.")
        return ScorePerWeight(0.0, 0, 0.0), 1.0, width + self.intercept

    def _begin(self) -> None:
        super()._begin()
        width = self.settings.shape[0]
        self.frame = Standardizer(np.zeros(width), np.ones(width), self.intercept)
        self._clear(())
        self.parts = (no_candidates(width, PREDICTORS + 1),)
        self.decide_size()

    def _clear(self, classes: Classes) -> None:
        """Forget all expansions and the pilot model."""
        k, p = self.loss.n_outputs(len(classes)), self.frame.n_columns
        self.classes, self.pilot_model = classes, PilotModel.unmeasured(np.zeros((k, p)))
        self.sums, self._remembered = Expansion.empty(k, p, len(classes), self.balanced), None

    def decide_size(self) -> None:
        """Choose the size while all rows are kept, since nothing depends on it yet."""
        size, n_classes = self.settings.coreset_size, len(self.classes)
        if size is None or size == "theory":
            n_outputs = self.loss.n_outputs(n_classes)
            usual = sizes.anchored_size(n_outputs * self.frame.n_columns, n_outputs)
            size = int(self.loss.size_factor * usual)
        self.constant = sizes.sampling_constant(size, 1.0, 1, self.settings.epsilon)
        self.settings = replace(self.settings, size=self.constant)
        self.statistics = ScorePerWeight(self.statistics.total, self.statistics.rows, self.constant)

    # -- rows come ------------------------------------------------------------------------------------

    def _add(self, rows: Rows, gradient_norms: FloatArray | None) -> None:
        """Expand a block at the current model, score it by that, and keep the rows that may be in the coreset."""
        y, words = self._met(rows), self._words(rows.ids)
        if not self.is_complete:
            self.expand_held()
        self.statistics = self.statistics.with_rows(rows)
        if self.is_complete:
            self.sums = self.sums.holding(rows.weights, y)
            nowhere = np.zeros((len(rows), len(self.pilot_model.theta)))
            self._add_candidates(self._as_candidates(copied(rows), words, np.ones(len(rows)), nowhere))
        else:
            self._add_candidates(self._expanded(rows, y, words, self.constant * SAFETY / self.statistics.total))
        self._remembered = None

    def _met(self, rows: Rows) -> FloatArray:
        """Prepare for rows that may be the first of their class; return their encoded targets."""
        if not self.statistics.rows:
            self.frame = self._frame_of(rows)
        y = self._coded(rows)
        if not self.loss.has_classes or (y >= 0).all():
            return y
        self.know(with_new(self.classes, rows.targets[:, 0]))
        return self._coded(rows)

    def _coded(self, rows: Rows) -> FloatArray:
        """Return the targets as arguments of the loss: numbers less their origin, or positions of classes."""
        targets = rows.targets[:, 0]
        return positions(self.classes, targets) if self.loss.has_classes else targets - self.frame.origin

    def _frame_of(self, rows: Rows) -> Standardizer:
        return Standardizer.of(rows.points, self.intercept, rows.targets[:, 0] if self.loss.is_location else None)

    def know(self, classes: Classes) -> None:
        """Express the state in terms of these classes, which include the current ones."""
        if classes == self.classes:
            return
        check_classes_fit(self.loss, self.intercept, self.balanced, self.settings.shape[0], len(classes))
        matrix, old, sums = outputs(self.classes, classes), self.pilot_model, self.sums
        places = positions(classes, np.array(self.classes)).astype(np.int64)
        self._clear(classes)
        self.sums = sums.of_classes(matrix, places, len(classes))
        self.parts = tuple(_recoded(part, matrix) for part in self.parts)
        if old.is_set:
            theta = parameters(old.theta, matrix, self.totals.n_rows if self.intercept else 0)
            self.set_pilot(theta, old.scale)

    def expand_held(self) -> None:
        """Expand and score the rows that were held as they are, while all were kept, at the current model."""
        if not self.statistics.keeps_all or not self.statistics.rows:
            return
        held, pilot = self.kept(), self.pilot_model
        if pilot.is_set:
            here = self.placed(held.rows, held.rows.weights)
            pilot = self._measured(pilot.theta, pilot.scale, here, weighted_gram(here.design, here.weights))
        self._clear(self.classes)
        self.pilot_model = pilot
        self.parts, self.n_unthinned = (self._expanded(held.rows, self._coded(held.rows), held.words, np.inf),), 0

    def _expanded(self, rows: Rows, y: FloatArray, words: WordArray, rate: float) -> Candidates:
        """Add the expansions of these rows; return those whose draw is within ``rate`` times their weight and score.

        Rows are processed in pieces that fit into the cache of a processor.
        """
        seen, few = counted(rows.ids), []
        if self.pilot_model.has_model and len(y[seen]):  # means include the rows before any of them is scored
            here = self._here(rows[seen], y[seen])
            gradient = self.loss.expanded(here.eta, here.y, here.scale)[1]
            self.pilot_model = self.pilot_model.having_seen(here, gradient)
        step = max(1, _PIECE_ENTRIES // (self.frame.n_columns + _ARRAYS * (len(self.pilot_model.theta) - 1)))
        for piece in (slice(start, start + step) for start in range(0, len(rows), step)):
            here, own = self._here(rows[piece], y[piece]), words[piece]
            local = self.loss.expanded(here.eta, here.y, here.scale)
            scores = self.pilot_model.scores(here, local[1])
            keep = np.flatnonzero(kept(sampling.inclusion_uniforms(own), rate * here.weights * scores))
            few.append(self._as_candidates(rows[piece][keep], own[keep], scores[keep], here.eta[keep]))
            self.sums = self.sums.including(here, self.loss, local)
        return Candidates.joined(few)

    def _here(self, rows: Rows, y: FloatArray) -> ExpandedRows:
        """Return rows as they are expanded at the pilot model."""
        design, weights = self.frame.design(rows.points), np.ascontiguousarray(rows.weights)
        return ExpandedRows(design, y, weights, (self.pilot_model.theta @ design.T).T, self.pilot_model.scale)

    def _as_candidates(self, rows: Rows, words: WordArray, scores: FloatArray, eta: FloatArray) -> Candidates:
        """Return rows as candidates: scores, scales and predictors are stored beside their targets."""
        targets = np.empty((len(rows), PREDICTORS + eta.shape[1]))
        targets[:, 0], targets[:, SCORE], targets[:, SCALE] = rows.targets[:, 0], scores, self.pilot_model.scale
        targets[:, PREDICTORS:] = eta
        return Candidates(replace(rows, targets=targets), words, ones(len(rows)))

    def placed(self, rows: Rows, weights: FloatArray) -> ExpandedRows:
        """Return candidates with these weights, times those of classes, and the predictors of their expansions."""
        y, eta = self._coded(rows), np.asfortranarray(rows.targets[:, PREDICTORS:])
        scale = np.ascontiguousarray(rows.targets[:, SCALE])
        return ExpandedRows(self.frame.design(rows.points), y, self.sums.balanced(weights, y), eta, scale)

    def thin(self) -> None:
        """Drop candidates that their scores rule out, part by part: all of them twice would take too much memory."""
        if self.statistics.keeps_all:
            return
        rate = self.constant * SAFETY
        self.parts = tuple(part.within(probabilities(self.statistics.scores(part.rows), rate)) for part in self.parts)
        self.n_unthinned = 0

    # -- models ----------------------------------------------------------------------------------------

    def with_model(self, model: Any, sample: Any = None, gradient_norms: FloatArray | None = None) -> Self:
        """Return the sketch that expands further rows at a new model; all rows, as long as all are kept.

        A model has coefficients (K, d), intercepts (K,), a scale and the codes of its classes.
        """
        if not self.totals.n_rows:
            return self
        new = self.copy()
        if self.is_complete:  # coordinates and size are still open, since nothing depends on them
            new.frame, new._remembered = self.in_full().frame, None
            new.decide_size()
        theta = new.frame.inner(model.coefficients, model.intercepts)
        if model.classes != self.classes:
            theta = parameters(theta, outputs(model.classes, self.classes), self.totals.n_rows)
        new.set_pilot(theta, self.loss.anchor_scale(model.scale, self.totals.effective_rows))
        return new

    def set_pilot(self, theta: FloatArray, scale: float) -> None:
        """Expand further rows at these parameters; their scores are measured by the coreset once one is needed."""
        if self.statistics.keeps_all:
            self.pilot_model = PilotModel.unmeasured(theta, scale, self.totals.weight)
        else:
            sample = self.in_full()
            self.pilot_model = self._measured(theta, scale, sample.anchored, sample.moments)

    def _measured(self, theta: FloatArray, scale: float, rows: ExpandedRows, moments: FloatArray) -> PilotModel:
        """Return a pilot model whose means are those of weighted rows, with these second moments."""
        if not len(rows.y):
            return PilotModel.unmeasured(np.zeros_like(theta))
        here = rows._replace(eta=(theta @ rows.design.T).T, scale=scale)
        return PilotModel.of(self.loss, theta, here, moments, self.sums.factors if self.balanced else np.zeros(0))

    # -- reading, merging -------------------------------------------------------------------------------

    def sample(self, history: RowSource | None = None) -> tuple[Rows, FloatArray]:
        if not self.is_complete:
            return super().sample(history)
        rows = self.kept().rows
        return rows, rows.weights

    def in_full(self) -> AnchoredSample:
        """Return the coreset with all that a solver needs; it is remembered until something changes."""
        if self._remembered is None:
            self._remembered = self._in_full()
        return self._remembered

    def _in_full(self) -> AnchoredSample:
        rows, weights = self.sample()
        own, expanded = self, None
        if self.is_complete:
            own = self.copy()
            own.frame = self._frame_of(rows)
        here, multipliers = own.placed(rows, weights), weights / rows.weights
        del rows, weights  # they are not small, and what follows takes memory as well
        if not self.is_complete:
            expanded = Expanded(*self.sums.total(), self.loss, here, self.loss.expanded(here.eta, here.y, here.scale))
        moments = weighted_gram(here.design, here.weights)
        factors = tuple(self.sums.factors.tolist()) if self.balanced else ()
        given = (self.loss, own.frame, self.classes, here, multipliers, expanded)
        return AnchoredSample(*given, self.totals.weight, self.totals.effective_rows, moments, factors)

    def _merge(self, other: Any) -> None:
        if not other.totals.n_rows:
            return
        theirs = other.copy()
        if not self.totals.n_rows:
            self.frame = theirs.frame
        classes = self.classes + tuple(code for code in theirs.classes if code not in self.classes)
        for each in (self, theirs):
            each.know(classes)
        self.constant = min(self.constant, theirs.constant)
        if self.totals.n_rows + theirs.totals.n_rows <= self.constant:
            self.sums = self.sums + theirs.sums
        else:
            for each in (self, theirs):
                each.expand_held()
            by = self.frame.origin - theirs.frame.origin
            theirs.parts = tuple(_translated(part, by) for part in theirs.parts)
            moved = theirs.sums.translated(by).moved(np.eye(len(theirs.pilot_model.theta)), theirs.frame.to(self.frame))
            self.sums = self.sums + moved
        self.settings, self._remembered = replace(self.settings, size=self.constant), None
        super()._merge(theirs)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_remembered"}

    def _scale(self, factor: float) -> None:
        super()._scale(factor)
        self.sums, self.pilot_model = self.sums.scaled(factor), self.pilot_model.scaled(factor)
        self._remembered = None

    def parameters(self) -> dict[str, object]:
        return {"loss": self.loss, "intercept": self.intercept, "balanced": self.balanced}


def _translated(candidates: Candidates, by: float) -> Candidates:
    """Return candidates with predictors reduced by this amount."""
    targets = candidates.rows.targets.copy()
    targets[:, PREDICTORS:] -= by
    return replace(candidates, rows=replace(candidates.rows, targets=targets))


def _recoded(candidates: Candidates, matrix: FloatArray) -> Candidates:
    """Return candidates with predictors in terms of other classes."""
    eta = recoded(candidates.rows.targets[:, PREDICTORS:], matrix)
    targets = np.concatenate([candidates.rows.targets[:, :PREDICTORS], eta], axis=1)
    return replace(candidates, rows=replace(candidates.rows, targets=targets))


@storable
@stores(loss=PredictorLoss, intercept=bool, balanced=bool)
class Anchored(CoresetBuilder):
    """Losses of a linear predictor expanded at the current model, and a coreset of what is left of them.

    Parameters
    ----------
    loss : str or PredictorLoss
        ``"logistic"``, ``"poisson"``, ``"gamma"``, ``"tweedie"``, ``"huber"``, ``"quantile"`` or ``"absolute"``, or an
        object of :mod:`batch2online.methods.losses`.
    intercept : bool, default True
        Whether models have an intercept.
    balanced : bool, default False
        Whether all classes weigh the same in the objective, however many rows each has.
    epsilon, coreset_size, random_state, first_id, keep_history
        As for every coreset. All rows are kept while they are no more than the size, which by default grows with
        the number of parameters.

    Notes
    -----
    In a stream rows are expanded at the current model. Without one all rows are expanded at zero and score the same.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(5_000, 3))
    >>> labels = (rows[:, 0] > 1).astype(float)
    >>> coreset = Anchored("logistic", coreset_size=500, random_state=0).add(rows, labels).coreset()
    >>> 400 < len(coreset) < 600
    True
    """

    advice = (
        "Use fewer columns or classes, for example columns of sklearn.random_projection.SparseRandomProjection; or "
        "BatchToOnline(estimator), which keeps rows alone where they have many columns."
    )

    def __init__(
        self,
        loss: str | PredictorLoss = "logistic",
        *,
        intercept: bool = True,
        balanced: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.loss = predictor_loss(loss)
        self.intercept = bool(intercept)
        self.balanced = bool(balanced)
        if self.balanced and not self.loss.has_classes:
            raise ValueError("Only classes can be balanced: the loss must be 'logistic'.")

    def _statistics_size(self, width: int, n_targets: int) -> float:
        return _numbers(self.loss, self.intercept, self.balanced, width, 0)

    def check_classes_fit(self, width: int, n_classes: int) -> None:
        """Raise an error if the statistics of this many classes would not fit into memory."""
        check_classes_fit(self.loss, self.intercept, self.balanced, width, n_classes)

    def _new_sketch(self, settings: SketchSettings) -> AnchoredSketch:
        return AnchoredSketch(settings, self.loss, self.intercept, self.balanced)


def _numbers(loss: PredictorLoss, intercept: bool, balanced: bool, width: int, n_classes: int) -> float:
    """Return how many numbers statistics hold at most."""
    columns, outputs = width + intercept, loss.n_outputs(n_classes)
    by_class = 2.0 * n_classes * outputs * columns if balanced else 0.0
    return max(13, 3 * outputs) * float(columns) ** 2 + by_class


def check_classes_fit(loss: PredictorLoss, intercept: bool, balanced: bool, width: int, n_classes: int) -> None:
    """Raise an error if the statistics of this many classes would not fit into memory."""
    what = f"Anchored of rows of {width:,} columns" + (f" and {n_classes:,} classes" if n_classes > 2 else "")
    check_statistics_fit(what, _numbers(loss, intercept, balanced, width, n_classes), Anchored.advice)
