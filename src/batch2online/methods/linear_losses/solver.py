r"""Fit a model to an anchored coreset, with the expansions of all rows or by the coreset alone.

The gradient has the noise :math:`V = \sum w_i (w_i - 1) |H^{-1/2} z_i r_i|^2` with remainders r of the gradients of
rows: the gradients, less those of the expansions if these are used. H is the Hessian, of several classes the block of
each. The problem with expansions is solved first, from the current model on. The solution is accepted if expansions
leave less noise there, and if the plain objective, that of the coreset alone, is above its minimum by no more than its
noise explains, by one Newton step. That guards against expansions at models far away. Otherwise the plain problem is
solved, and then that with expansions again if they leave less noise. Half of the remaining noise estimates how much
more the solution costs than the best model of all rows.

Nearly collinear columns: rows z are centred (next to a constant) and their columns scaled to norm one. A direction v of
unit length has the squared singular value :math:`s^2 = v' (Z' W Z + \Lambda / h) v`, where Λ is the ridge penalty and h
the mean second derivative of the losses: a penalty counts like additional rows. Models have no component along
directions with s at most ``TOLERANCE`` times the largest singular value of the rows, as in least squares.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from batch2online._types import FloatArray
from batch2online.methods.least_squares.solver import TOLERANCE
from batch2online.methods.linear_losses.newton import Objective, inverses, minimise, predictors
from batch2online.methods.linear_losses.sketch import AnchoredSample
from batch2online.numerics.triangular import column_norms, definite_factor, qr_factor
from batch2online.schema import storable

_ACCURACY = 1e-10
"""Accuracy of a solution, as a share of the cost of the best constant model."""

_ENOUGH = 1e-6
"""Accuracy if the loss is smooth: the last step squares it."""

_INVISIBLE = 1e-5
"""Accuracy of models of many parameters, as a share of their expected excess cost on other rows.

Where classes are nearly separable, minima are up to ten times as far as the last step says.
"""

_MEASURED = 30_000_000
"""Number of products for the leverages of rows whose noise is measured."""

_SUSPICIOUS = 3.0
"""Multiple of its noise by which the plain objective may rise for a solution with expansions."""


@storable
@dataclass(frozen=True)
class Penalty:
    """Elastic-net penalty ``alpha * (l1_ratio * |coef|_1 + (1 - l1_ratio) / 2 * |coef|^2)`` per unit of weight.

    With ``alpha=None`` it is ``|coef|^2 / 2`` for all rows together, as in ``LogisticRegression``.
    """

    alpha: float | None = 0.0
    l1_ratio: float = 0.0

    def __post_init__(self) -> None:
        if self.alpha is not None and not 0 <= self.alpha < np.inf:
            raise ValueError(f"alpha must be a finite number, 0 or more, got {self.alpha!r}.")
        if not 0 <= self.l1_ratio <= 1:
            raise ValueError(f"l1_ratio must be between 0 and 1, got {self.l1_ratio!r}.")

    @property
    def has_absolute_values(self) -> bool:
        """Whether the penalty is not differentiable."""
        return self.l1_ratio > 0 and self.alpha != 0

    def strength(self, weight: float) -> float:
        """Return the factor of the penalty for rows of this total weight."""
        return 1.0 if self.alpha is None else self.alpha * weight


class Fit(NamedTuple):
    """A fitted model in the coordinates of the sample, and its estimated excess cost."""

    theta: FloatArray
    scale: float
    value: float
    is_expanded: bool = False
    """Whether the objective has expansions."""
    left: float = 0.0
    """What the search has left of the objective, if it did not converge."""
    excess: float = 0.0
    """Half the remaining noise of the gradient, times the roughness of the loss, and what the search has left."""
    inverses: FloatArray | None = None
    """Those of :class:`~batch2online.methods.linear_losses.newton.Solution`."""


def fit(sample: AnchoredSample, penalty: Penalty, current: FloatArray | None) -> Fit:
    """Return the model fitted to an anchored coreset; ``current`` parameters (K, p) are one of the starts.

    The model has no component along directions in which rows hardly vary, unless the penalty has absolute values, which
    choose among columns.
    """
    if not penalty.has_absolute_values:
        kept = projection(sample, penalty.strength(sample.weight))
        sample = sample._replace(kept=kept)
        current = current if current is None or kept is None else current @ kept.T
    found, rows = _fitted(sample, penalty, current), sample.anchored
    scale = sample.loss.scale_of(rows.design @ found.theta.T, rows.y, rows.weights)
    if found.left:
        warnings.warn(
            f"The fit of {found.theta.size:,} coefficients did not converge: about {found.left:.1e} of the loss "
            f"of {abs(found.value):.1e} is left. A penalty alpha, or columns of similar scale, make it faster.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found._replace(scale=scale, excess=sample.loss.roughness * found.excess + found.left)


def _fitted(sample: AnchoredSample, penalty: Penalty, current: FloatArray | None) -> Fit:
    others = [] if current is None else [current]
    if sample.expanded is not None and current is not None and not penalty.has_absolute_values:
        found = _solved(sample, penalty, others, is_expanded=True)
        alone, expanded, gap = _noises(sample, penalty, found)
        if np.isfinite(found.value) and expanded <= alone and 0 <= gap <= _SUSPICIOUS * alone:
            return found._replace(excess=expanded / 2)
    plain = _solved(sample, penalty, [_constant(sample), *others], is_expanded=False)
    if sample.expanded is None:
        return plain
    alone, expanded, _ = _noises(sample, penalty, plain)
    if expanded < alone:
        found = _solved(sample, penalty, [plain.theta, *others], is_expanded=True)
        risen = _objective(sample, penalty, plain.scale).at(found.theta).value - plain.value
        if np.isfinite(found.value) and risen <= _SUSPICIOUS * alone:
            return found._replace(excess=_noises(sample, penalty, found)[1] / 2)
    return plain._replace(excess=alone / 2)


def _constant(sample: AnchoredSample) -> FloatArray:
    """Return the parameters of the best constant model, zero without an intercept."""
    rows = sample.anchored
    own = sample.loss.constant(rows.y, rows.weights, len(sample.classes))
    theta = np.zeros((len(own), rows.design.shape[1]))
    if sample.frame.intercept:
        theta[:, 0] = own
    return theta


def _objective(sample: AnchoredSample, penalty: Penalty, scale: float, is_expanded: bool = False) -> Objective:
    rows, strength = sample.anchored, penalty.strength(sample.weight)
    squares = np.broadcast_to(sample.frame.penalties(), (rows.eta.shape[1], rows.design.shape[1]))
    ridge, lasso = squares * (strength * (1 - penalty.l1_ratio)), np.sqrt(squares) * (strength * penalty.l1_ratio)
    return Objective(sample.loss, rows, scale, ridge, lasso, sample.kept, sample.expanded if is_expanded else None)


def _solved(sample: AnchoredSample, penalty: Penalty, starts: list[FloatArray], is_expanded: bool) -> Fit:
    """Return the solution along the scales of the loss; of infinite value if there is no minimum."""
    rows, loss, found = sample.anchored, sample.loss, Fit(starts[0], 1.0, np.inf, is_expanded)
    constant = predictors(rows.design, _constant(sample))
    for turn in count():
        scale = loss.next_scale(turn, found.scale, predictors(rows.design, starts[0]), rows.y, rows.weights)
        if scale is None:
            return found
        unit = max(abs(float(rows.weights @ loss.value(constant, rows.y, scale))), np.finfo(np.float64).tiny)
        objective = _objective(sample, penalty, scale, is_expanded)
        tolerance = _unnoticed(sample) if objective.is_wide else unit * (_ACCURACY if loss.has_scale else _ENOUGH)
        best = min(map(objective.at, starts), key=lambda point: point.value)
        solution = minimise(objective, best, tolerance, -unit)
        if solution.value < -unit:
            return Fit(solution.theta, scale, np.inf, is_expanded)
        starts = [solution.theta]
        left = min(solution.left, abs(solution.value)) if solution.left > _ENOUGH * unit else 0.0
        found = Fit(solution.theta, scale, solution.value, is_expanded, left, inverses=solution.inverses)
    raise AssertionError


def _unnoticed(sample: AnchoredSample) -> float:
    """Return a tolerance far below the noise of a likelihood: each parameter costs half a unit of it on other rows."""
    (_, n_outputs), n_columns = sample.anchored.eta.shape, sample.anchored.design.shape[1]
    mean_weight = sample.weight / sample.effective_rows
    return float(_INVISIBLE * n_outputs * n_columns / 2 * mean_weight)


def _noises(sample: AnchoredSample, penalty: Penalty, found: Fit) -> tuple[float, float, float]:
    """Return the noise of the gradient by the coreset alone and with expansions, and the gap of the plain objective.

    The gap is the decrease that a Newton step predicts. Noise of many rows is that of some of them.
    """
    rows, loss = sample.anchored, sample.loss
    eta = predictors(rows.design, found.theta)
    scale = loss.anchor_scale(loss.scale_of(eta, rows.y, rows.weights), sample.effective_rows)
    plain = _objective(sample, penalty, scale)
    gradient, slope = loss.local(eta, rows.y, found.scale)[1], plain.at(found.theta).gradient
    assert sample.expanded is not None
    left = gradient - sample.expanded.of_rows(eta)[1]
    step = 1 + rows.eta.size * rows.design.shape[1] ** 2 // _MEASURED
    few, alone, expanded, gap = slice(None, None, step), 0.0, 0.0, 0.0
    factor = rows.weights[few] ** 2 * np.maximum(1 - 1 / sample.multipliers[few], 0.0)
    for k, inverse in enumerate(inverses(plain.blocks(found.theta)) if found.inverses is None else found.inverses):
        leverage = step * np.vecdot(rows.design[few] @ inverse, rows.design[few]) * factor
        alone += float(leverage @ gradient[few, k] ** 2)
        expanded += float(leverage @ left[few, k] ** 2)
        gap += float(slope[k] @ inverse @ slope[k]) / 2
    return alone, expanded, gap


_WELL_CONDITIONED = 1e-8
"""Reciprocal condition number of the correlations above which no direction is dropped."""


def projection(sample: AnchoredSample, strength: float) -> FloatArray | None:
    """Return the matrix A (p, p) that removes nearly collinear directions from parameters: ``theta @ A.T``.

    Their mean contribution to predictions goes to the constant. ``strength`` multiplies the ridge penalty. None if
    there is nothing to remove.
    """
    rows, i = sample.anchored, int(sample.frame.intercept)
    gram, penalties = sample.moments, sample.frame.penalties()[i:]
    if _are_independent(gram, np.zeros(len(penalties)), i):
        return None
    roots = np.sqrt(strength / _mean_curvature(sample) * penalties)
    if _are_independent(gram, roots, i):
        return None
    factor = qr_factor(rows.design * np.sqrt(rows.weights)[:, None])
    dropped = _dropped(factor[i:, i:], roots)
    if dropped is None:
        return None
    matrix = np.eye(i + len(dropped))
    matrix[i:, i:] -= dropped
    matrix[:i, i:] = factor[:i, i:] / factor[0, 0] @ dropped
    return matrix


def _dropped(centred: FloatArray, roots: FloatArray) -> FloatArray | None:
    """Return the projection (d, d) onto the directions to remove, given a factor of the rows and roots of penalties."""
    norms = column_norms(centred)
    live = np.flatnonzero(norms)
    unit = centred[:, live] / norms[live]
    stacked = np.concatenate([unit, np.diag(roots[live] / norms[live])])
    values, turned = np.linalg.svd(stacked, full_matrices=False)[1:]
    is_small = values <= TOLERANCE * float(np.linalg.norm(unit, 2)) if live.size else np.zeros(0, dtype=np.bool_)
    if not is_small.any():
        return None
    result, directions = np.zeros_like(centred), turned[is_small]
    result[np.ix_(live, live)] = (directions / norms[live]).T @ (directions * norms[live])
    return result


def _are_independent(gram: FloatArray, roots: FloatArray, i: int) -> bool:
    """Return whether columns with this Gram matrix and these roots of penalties are far from collinear."""
    centred = gram[i:, i:]
    if i:
        centred = centred - np.outer(gram[0, 1:], gram[0, 1:]) / gram[0, 0]
    if not (centred.diagonal() >= 0).all():  # a column is rounding alone
        return False
    return definite_factor(centred + np.diag(roots * roots))[1] > _WELL_CONDITIONED


def _mean_curvature(sample: AnchoredSample) -> float:
    """Return the mean second derivative of the losses under the best constant model."""
    rows, loss = sample.anchored, sample.loss
    constant = loss.constant(rows.y, rows.weights, len(sample.classes)) * sample.frame.intercept
    eta = np.tile(constant, (len(rows.y), 1))
    scale = loss.scale_of(eta, rows.y, rows.weights) if loss.has_scale else 1.0
    curvature = float(np.average(loss.local(eta, rows.y, scale)[2].mean(axis=1), weights=rows.weights))
    return curvature if 0 < curvature < np.inf else 1.0
