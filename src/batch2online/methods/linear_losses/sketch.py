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

from dataclasses import replace
from typing import Any, Self

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.linear_losses import expansion
from batch2online.methods.linear_losses.expansion_state import (
    PREDICTORS,
    SCALE,
    SCORE,
    AnchoredSample,
    ExpansionState,
    PilotModel,
    ScorePerWeight,
    recoded_candidates,
    translated_candidates,
)
from batch2online.methods.linear_losses.losses import named
from batch2online.methods.linear_losses.losses.base import PredictorLoss
from batch2online.numerics.standardizer import Standardizer
from batch2online.rows import Rows
from batch2online.sampling import probabilities
from batch2online.schema import require, require_equal, storable, stores
from batch2online.sketches.antitone import SAFETY, AntitoneSketch, Statistics, no_candidates
from batch2online.sketches.base import RowSource, SketchSettings
from batch2online.sketches.builder import CoresetBuilder, check_statistics_fit
from batch2online.sketches.candidates import copied
from batch2online.theory import sizes


@storable
@stores(statistics=ScorePerWeight, loss=PredictorLoss, intercept=bool, balanced=bool, anchors=ExpansionState | None)
class AnchoredSketch(AntitoneSketch):
    """Sums of expansions of all rows, and candidates that carry what is left of their losses; see :class:`Anchored`."""

    pilot = "model"
    _patience = 1.0  # scores are at hand
    _stores_targets = False  # predictors, scores and widths stand behind them
    _remembered: tuple[ExpansionState, AnchoredSample] | None = None

    def __init__(self, settings: SketchSettings, loss: PredictorLoss, intercept: bool, balanced: bool) -> None:
        self.loss, self.intercept, self.balanced = loss, intercept, balanced
        self.anchors: ExpansionState | None = None
        super().__init__(settings)

    def validate(self) -> None:
        """Require anchors of the same settings, and a predictor, a score and a width of each candidate."""
        anchors, shape, n_rows = self.anchors, self.settings.shape, self.totals.n_rows
        require((anchors is not None) == bool(n_rows), f"anchors: found {anchors} for {n_rows} rows")
        found: tuple[Any, ...] = (self.statistics.rows, self.statistics.size, self.constant, shape[1])
        require_equal("rows and sizes", found, (n_rows, self.settings.size, self.settings.size, 1))
        if anchors is None:
            return
        found = (anchors.loss, anchors.frame.intercept, len(anchors.frame.shift), anchors.sums.is_balanced)
        require_equal("settings of anchors", found, (self.loss, self.intercept, shape[0], self.balanced))
        for part in self.parts:
            targets, k = part.rows.targets, len(anchors.pilot.theta)
            require_equal("targets of candidates", targets.shape[1], PREDICTORS + k)
            widths = targets[:, SCALE]
            require((targets[:, SCORE] > 0).all(), "scores of candidates: found one that is not positive")
            is_possible = (widths > 0).all() or ((widths >= 0).all() and anchors.can_be_first_order)
            require(is_possible, "widths of candidates: found one that is not positive")
            is_known = (anchors.coded(part.rows) >= 0).all() or not anchors.loss.has_classes
            require(is_known, "candidates: found one of an unknown class")
        held = sum(map(len, self.parts))
        require(not self.is_complete or held == n_rows, f"parts: found {held} rows, expected {n_rows}")

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
        self.anchors, self._remembered = None, None
        self.parts = (no_candidates(self.settings.shape[0], PREDICTORS + 1),)
        self._decide_size()

    def _decide_size(self) -> None:
        """Choose the size while all rows are kept, since nothing depends on it yet."""
        size, n_classes = self.settings.coreset_size, 0 if self.anchors is None else len(self.anchors.classes)
        if size is None or size == "theory":
            outputs = self.loss.n_outputs(n_classes)
            usual = sizes.anchored_size(outputs * (self.settings.shape[0] + self.intercept), outputs)
            size = int(self.loss.size_factor * usual)
        self.constant = sizes.sampling_constant(size, 1.0, 1, self.settings.epsilon)
        self.settings = replace(self.settings, size=self.constant)
        self.statistics = ScorePerWeight(self.statistics.total, self.statistics.rows, self.constant)

    # -- rows come ------------------------------------------------------------------------------------

    def _add(self, rows: Rows, gradient_norms: FloatArray | None) -> None:
        """Expand a block at the current model, score it by that, and keep the rows that may be in the coreset."""
        self._remembered = None
        y, words = self._met(rows), self._words(rows.ids)
        assert self.anchors is not None
        if not self.is_complete:
            self._expand_held()
        self.statistics = self.statistics.with_rows(rows)
        if self.is_complete:
            self.anchors, candidates = self.anchors.holding(copied(rows), y, words)
        else:
            rate = self.constant * SAFETY / self.statistics.total
            self.anchors, candidates = self.anchors.expanded(rows, y, words, rate)
        self._add_candidates(candidates)

    def _expand_held(self) -> None:
        """Expand and score the rows that were held as they are, while all were kept, at the current model."""
        if not self.statistics.keeps_all or not self.statistics.rows:
            return
        assert self.anchors is not None
        held = self._kept()
        self.anchors, candidates = self.anchors.expanding(held.rows, held.words)
        self.parts, self.n_unthinned = (candidates,), 0

    def _met(self, rows: Rows) -> FloatArray:
        """Prepare for rows that may be the first of their class; return their encoded targets."""
        if self.anchors is None:
            known = expansion.with_new((), rows.targets[:, 0]) if self.loss.has_classes else ()
            self.anchors = self._first_anchors(self._frame_of(rows), known)
        y = self.anchors.coded(rows)
        if not self.loss.has_classes or (y >= 0).all():
            return y
        self._know(expansion.with_new(self.anchors.classes, rows.targets[:, 0]))
        return self.anchors.coded(rows)

    def _frame_of(self, rows: Rows) -> Standardizer:
        return Standardizer.of(rows.points, self.intercept, rows.targets[:, 0] if self.loss.is_location else None)

    def _first_anchors(self, frame: Standardizer, classes: expansion.Classes) -> ExpansionState:
        check_classes_fit(self.loss, self.intercept, self.balanced, self.settings.shape[0], len(classes))
        anchors = ExpansionState.first(self.loss, frame, classes, self.balanced)
        matrix = np.zeros((1, len(anchors.pilot.theta)))
        self.parts = tuple(recoded_candidates(part, matrix) for part in self.parts)
        return anchors

    def _know(self, classes: expansion.Classes) -> None:
        """Express the state in terms of these classes, which include the current ones."""
        old = self.anchors
        assert old is not None
        if classes == old.classes:
            return
        check_classes_fit(self.loss, self.intercept, self.balanced, self.settings.shape[0], len(classes))
        matrix = expansion.outputs(old.classes, classes)
        self.parts = tuple(recoded_candidates(part, matrix) for part in self.parts)
        self.anchors = old.recoded(classes, matrix)
        if old.pilot.is_set:
            theta = expansion.parameters(old.pilot.theta, matrix, self.totals.n_rows if self.intercept else 0)
            self._set_pilot(theta, old.pilot.scale)

    def _thin(self) -> None:
        """Drop candidates that their scores rule out, part by part: all of them twice would take too much memory."""
        if self.statistics.keeps_all:
            return
        rate = self.constant * SAFETY
        self.parts = tuple(part.within(probabilities(self.statistics.scores(part.rows), rate)) for part in self.parts)
        self.n_unthinned = 0

    # -- models ----------------------------------------------------------------------------------------

    def with_model(self, model: Any, sample: Any = None, gradient_norms: FloatArray | None = None) -> Self:
        """Return the sketch that expands further rows at a new model; all rows, as long as all are kept.

        A model has coefficients (K, d), intercepts (K,), a scale, the codes of its classes, and ``first_order``:
        whether expansions there can do without second derivatives.
        """
        if self.anchors is None or not self.totals.n_rows:
            return self
        new = self._copy()
        if self.is_complete:  # coordinates and size are still open, since nothing depends on them
            new.anchors = replace(self.anchors, frame=self.in_full().frame)
            new._decide_size()
        new._pilot(model)
        return new

    def _pilot(self, model: Any) -> None:
        """Expand further rows at a model."""
        assert self.anchors is not None
        theta = self.anchors.frame.inner(model.coefficients, model.intercepts)
        if model.classes != self.anchors.classes:
            theta = expansion.parameters(
                theta, expansion.outputs(model.classes, self.anchors.classes), self.totals.n_rows
            )
        self._set_pilot(
            theta, 0.0 if model.first_order else self.loss.anchor_scale(model.scale, self.totals.effective_rows)
        )

    def _set_pilot(self, theta: FloatArray, scale: float) -> None:
        """Expand further rows at these parameters; their scores are measured by the coreset once one is needed."""
        assert self.anchors is not None
        if self.statistics.keeps_all:
            self.anchors = replace(self.anchors, pilot=PilotModel.unmeasured(theta, scale, self.totals.weight))
        else:
            sample = self.in_full()
            self.anchors = self.anchors.piloted(theta, scale, sample.anchored, sample.moments)
        self._remembered = None

    # -- reading, merging -------------------------------------------------------------------------------

    def sample(self, history: RowSource | None = None) -> tuple[Rows, FloatArray]:
        if not self.is_complete:
            return super().sample(history)
        rows = self._kept().rows
        return rows, rows.weights

    def in_full(self) -> AnchoredSample:
        """Return the coreset with all that a solver needs; it is remembered until something changes."""
        assert self.anchors is not None
        if self._remembered is None or self._remembered[0] is not self.anchors:
            rows, weights = self.sample()
            anchors = replace(self.anchors, frame=self._frame_of(rows)) if self.is_complete else self.anchors
            here, multipliers = anchors.placed(rows, weights), weights / rows.weights
            del rows, weights  # they are not small, and what follows takes memory as well
            total = (self.totals.weight, self.totals.effective_rows)
            self._remembered = (self.anchors, anchors.in_full(here, multipliers, total, self.is_complete))
        return self._remembered[1]

    def _merge(self, other: Any) -> None:
        if other.anchors is None:
            return
        theirs, self._remembered = other._copy(), None
        if self.anchors is None:
            self.anchors = self._first_anchors(theirs.anchors.frame, theirs.anchors.classes)
        known = self.anchors.classes
        classes = known + tuple(code for code in theirs.anchors.classes if code not in known)
        for each in (self, theirs):
            each._know(classes)
        self.constant = min(self.constant, theirs.constant)
        if self.totals.n_rows + theirs.totals.n_rows <= self.constant:
            self.anchors = replace(self.anchors, sums=self.anchors.sums + theirs.anchors.sums)
        else:
            for each in (self, theirs):
                each._expand_held()
            by = self.anchors.frame.origin - theirs.anchors.frame.origin
            theirs.parts = tuple(translated_candidates(part, by) for part in theirs.parts) if by else theirs.parts
            self.anchors = self.anchors.merged(theirs.anchors)
        self.settings = replace(self.settings, size=self.constant)
        super()._merge(theirs)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_remembered"}

    def _scale(self, factor: float) -> None:
        super()._scale(factor)
        self._remembered = None
        if self.anchors is not None:
            pilot = self.anchors.pilot.scaled(factor)
            self.anchors = replace(self.anchors, sums=self.anchors.sums.scaled(factor), pilot=pilot)

    def _parameters(self) -> dict[str, object]:
        return {"loss": self.loss, "intercept": self.intercept, "balanced": self.balanced}


@storable
@stores(loss=PredictorLoss, intercept=bool, balanced=bool)
class Anchored(CoresetBuilder):
    """Losses of a linear predictor expanded at the current model, and a coreset of what is left of them.

    Parameters
    ----------
    loss : str or PredictorLoss
        ``"logistic"``, ``"poisson"``, ``"gamma"``, ``"tweedie"``, ``"huber"``, ``"quantile"`` or ``"absolute"``, or an
        object of :mod:`batch2online.methods.linear_losses.losses`.
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
        self.loss = named(loss)
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
