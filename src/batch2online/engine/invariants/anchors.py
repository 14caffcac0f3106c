"""Anchored coresets, and the models and problems that go with them."""

from __future__ import annotations

import math

import numpy as np

from batch2online.engine.invariants.rows import is_finite
from batch2online.methods.linear_losses.class_expansions import SumsByClass
from batch2online.methods.linear_losses.expansion import Expansion
from batch2online.methods.linear_losses.expansion_state import PREDICTORS, SCORE, WIDTH, Anchors, ScorePerWeight
from batch2online.methods.linear_losses.losses.base import PredictorLoss
from batch2online.methods.linear_losses.pilot import Pilot
from batch2online.methods.linear_losses.problem import GeneralizedLinear, LinearPredictor
from batch2online.methods.linear_losses.sketch import Anchored
from batch2online.numerics.standardizer import Frame
from batch2online.schema import check_of, require


@check_of(Frame)
def check_frame(frame: Frame) -> None:
    require(frame.shift.ndim == 1 and frame.scale.shape == frame.shift.shape, "each column has a shift and a scale.")
    require(is_finite(frame.shift, frame.scale) and (frame.scale > 0).all(), "scales are positive.")
    require((np.frexp(frame.scale)[0] == 0.5).all(), "scales are powers of two.")
    require(math.isfinite(frame.origin), "an origin is a number.")
    require(frame.intercept or not (frame.shift.any() or frame.origin), "without an intercept there is no shift.")


@check_of(Expansion)
def check_expansion(sums: Expansion) -> None:
    require(sums.constants.shape == (2,) and sums.linear.ndim == 3 and len(sums.linear) == 2, "sums have two orders.")
    size = sums.linear[0].size
    require(sums.matrix.shape in ((0, 0), (size, size)), "a matrix has a row for each parameter.")
    require(is_finite(sums.constants, sums.linear, sums.matrix), "sums are finite.")


@check_of(Pilot)
def check_pilot(pilot: Pilot) -> None:
    require(pilot.theta.ndim == 2 and is_finite(pilot.theta), "parameters are finite.")
    k, p = pilot.theta.shape
    require(0 <= pilot.width < math.inf and 0 <= pilot.weight < math.inf, "widths are not negative.")
    require(pilot.means.shape == pilot.totals.shape == (2,), "there are means of leverage and of gradients.")
    require(is_finite(pilot.means, pilot.totals) and (pilot.means >= 0).all(), "means are finite.")
    require(((pilot.means > 0).all() and pilot.weight > 0) or not pilot.has_model, "means are positive.")
    require((pilot.totals >= 0).all(), "totals are not negative.")
    shapes = (pilot.whitening.shape, pilot.curvatures.shape)
    is_nothing = not pilot.has_model and shapes == ((0, 0), (0,))
    require(shapes == ((p, p), (k,)) or is_nothing, "scores fit the parameters.")
    require(is_finite(pilot.whitening, pilot.curvatures), "scores are finite.")
    require((pilot.curvatures > 0).all(), "curvatures are positive.")
    require(pilot.factors.ndim == 1 and is_finite(pilot.factors), "weights of classes are finite.")
    require((pilot.factors > 0).all(), "weights of classes are positive.")


@check_of(SumsByClass)
def check_sums(sums: SumsByClass) -> None:
    n = len(sums.parts)
    require(n >= 1 and sums.masses.shape == (n if sums.is_balanced else 0,), "each class has its sums.")
    require(sums.is_balanced or n == 1, "all rows have the same sums.")
    require(len({(part.linear.shape, part.matrix.shape) for part in sums.parts}) == 1, "sums have the same parameters.")
    require(is_finite(sums.masses) and (sums.masses >= 0).all(), "masses are not negative.")


@check_of(Anchors)
def check_anchors(anchors: Anchors) -> None:
    k, p = anchors.loss.n_outputs(len(anchors.classes)), anchors.frame.n_columns
    shape, n = anchors.sums.parts[0].linear.shape[1:], len(anchors.classes)
    require(anchors.pilot.theta.shape == shape == (k, p), "all parts have the same parameters.")
    require(not anchors.sums.is_balanced or len(anchors.sums.parts) == n, "each class has its sums.")
    require(len(anchors.pilot.factors) in ((0, n) if anchors.sums.is_balanced else (0,)), "each class has its weight.")
    require(len(set(anchors.classes)) == len(anchors.classes), "a class is known once.")
    require(all(map(math.isfinite, anchors.classes)), "codes of classes are numbers.")
    require(anchors.loss.has_classes or not anchors.classes, "only labels have classes.")
    require(anchors.pilot.width > 0 or can_be_flat(anchors), "widths are positive.")


def can_be_flat(anchors: Anchors) -> bool:
    """Whether expansions may have no second derivatives, which a width of zero says."""
    return not anchors.loss.has_width and len(anchors.pilot.theta) == 1


@check_of(ScorePerWeight)
def check_score_per_weight(statistics: ScorePerWeight) -> None:
    require(statistics.rows >= 0 <= statistics.total < math.inf and statistics.size >= 1, "scores are not negative.")


@check_of(Anchored, {"loss": PredictorLoss, "intercept": bool, "balanced": bool, "anchors": Anchors | None})
def check_anchored(construction: Anchored) -> None:
    anchors = construction.anchors
    require((anchors is not None) == bool(construction.n_rows), "rows have their anchors.")
    if construction.shape is not None:
        statistics = construction.statistics
        require(
            statistics.rows == construction.n_rows and statistics.size == construction.expected_size, "counts agree."
        )
        require(construction.constant == construction.expected_size, "sizes agree.")
        require(construction.shape[1] == 1, "there is one target.")
    if anchors is None:
        return
    assert construction.shape is not None
    settings = (anchors.loss, anchors.frame.intercept, len(anchors.frame.shift), anchors.sums.is_balanced)
    own = (construction.loss, construction.intercept, construction.shape[0], construction.balanced)
    require(settings == own, "settings agree.")
    for part in construction.parts:
        targets = part.rows.targets
        require(targets.shape[1] == PREDICTORS + len(anchors.pilot.theta), "rows have their predictors.")
        require((targets[:, SCORE] > 0).all() and (targets[:, WIDTH] >= 0).all(), "scores are positive.")
        require((targets[:, WIDTH] > 0).all() or can_be_flat(anchors), "widths are positive.")
        require((anchors.coded(part.rows) >= 0).all() or not anchors.loss.has_classes, "each row has a known class.")
    held = sum(map(len, construction.parts))
    require(not construction.is_complete or held == construction.n_rows, "all rows are kept.")


@check_of(LinearPredictor)
def check_linear_predictor(model: LinearPredictor) -> None:
    shape = model.intercepts.shape
    require(model.coefficients.ndim == 2 and shape == model.coefficients.shape[:1], "each predictor has an intercept.")
    require(is_finite(model.coefficients, model.intercepts), "coefficients are finite.")
    require(all(map(math.isfinite, (model.width, model.error, model.unknown, *model.classes))), "numbers are finite.")
    require(model.width > 0 <= model.error and model.order in (0, 1, 2), "a model has its order.")


@check_of(GeneralizedLinear)
def check_generalized_linear(problem: GeneralizedLinear) -> None:
    require(not problem.labels, "labels stand beside the problem.")
