"""Linear least squares as an online problem.

Models are fitted to moments: those of the weighted coreset (the paper), or those of all rows (``exact``). The moments
of all rows give the exact cost of any model and the hindsight optimum at any time, at the cost of a factorisation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from batch2online._types import FloatArray
from batch2online.methods.least_squares.few_rows import FewRows
from batch2online.methods.least_squares.moments import Moments
from batch2online.methods.least_squares.sketch import LeverageSketch
from batch2online.methods.least_squares.solver import TOLERANCE, coreset_moments, least_share, least_squares, ridge
from batch2online.metrics import Metrics, regression_quality
from batch2online.numerics.triangular import column_norms
from batch2online.problem import FitResult, Hindsight, Problem, noise_factor_of, resolution
from batch2online.quality import Baseline, MeanBaseline
from batch2online.record import Averages
from batch2online.results import most_moved
from batch2online.rows import Rows
from batch2online.schema import shape, storable
from batch2online.sketches.base import Snapshot
from batch2online.theory.bounds import DependsOn, coreset_excess, exact_stability
from batch2online.warm_up import MeanSoFar


@storable
@dataclass(frozen=True)
class LinearModel:
    """A linear model: ``predictions = points @ coefficients.T + intercepts``, one row of coefficients per target."""

    coefficients: Annotated[FloatArray, shape("t", "d")]
    intercepts: Annotated[FloatArray, shape("t")]

    def predict(self, points: FloatArray) -> FloatArray:
        return np.asarray(points @ self.coefficients.T + self.intercepts)

    def residuals(self, points: FloatArray, targets: FloatArray) -> FloatArray:
        """Return predictions less targets (n,), for a single target."""
        residuals = points @ self.coefficients[0]
        residuals += self.intercepts[0]
        residuals -= targets[:, 0]
        return np.asarray(residuals)


@storable
@dataclass(frozen=True)
class LeastSquares(Problem):
    """Least squares: minimise the squared loss of linear predictions, on the coreset or on all rows (``exact``).

    With ``ridge_first`` the models of a stream are ridge regressions while it has few rows for its columns.
    """

    sketch_type: ClassVar[type] = LeverageSketch
    costs_are_exact: ClassVar[bool] = True
    exact: bool = False
    ridge_first: bool = False

    @property
    def secondary_name(self) -> str:
        return "absolute residual"

    @property
    def depends_on(self) -> DependsOn:
        return DependsOn.ALL_ROWS if self.exact else DependsOn.CORESET

    def first_check(self, width: int, n_targets: int) -> int:
        """Return three rows per coefficient; ten rows at most for ridge regression."""
        return min(_FIRST_ROWS, 3 * (width + 1)) if self.ridge_first else 3 * (width + 1)

    def enough_rows(self, width: int, n_targets: int) -> int:
        """Return thirty rows per coefficient, up to which models are ridge regressions; 0 if none are."""
        return _ENOUGH_ROWS * (width + 1) if self.ridge_first else 0

    def warm_up(self) -> MeanSoFar:
        return MeanSoFar(of_targets=True)

    def baseline(self) -> Baseline:
        return MeanBaseline(self.warm_up())

    @property
    def best_model(self) -> str:
        return "possible linear fit"

    def quality(self, rows: Averages) -> Metrics:
        return regression_quality(rows)

    def initial_model(self, prediction: FloatArray | None, width: int, n_targets: int) -> LinearModel:
        """Return a model that predicts the mean of the targets."""
        return LinearModel(np.zeros((n_targets, width)), np.zeros(n_targets) if prediction is None else prediction)

    def losses(self, model: LinearModel, points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        if targets.shape[1] == 1:  # the usual case, in few passes
            residual = model.residuals(points, targets)
            return residual * residual, np.abs(residual)
        squared = np.square(targets - model.predict(points)).sum(axis=1)
        return squared, np.sqrt(squared)

    def spread_of(self, rows: Rows) -> FloatArray:
        return rows.targets

    def fit(self, data: Snapshot, current: LinearModel | None) -> FitResult:
        """Return the least-squares model of the coreset or of all rows; the current model is not consulted.

        With ``epsilon="auto"`` it is that of all rows where the coreset holds less than half of the squared length of
        all rows in some direction: Theorem 8 of ``docs/proofs.md`` needs this.

        It can cost more than the optimum where directions are dropped. Costs are compared with those of such models,
        never with the optimum alone, so that a refit takes place where it gains.
        """
        moments = data.sketch.moments
        if not self.exact:
            of_coreset = coreset_moments(data.coreset, data.sketch.intercept)
            if not (data.sketch.settings.is_adaptive and least_share(of_coreset, moments) < _LEAST_SHARE):
                moments = of_coreset
        return self.fit_result(LinearModel(*least_squares(moments)), data)

    def fit_online(self, data: Snapshot, current: LinearModel | None) -> FitResult:
        """Return the ridge regression of all rows while they are few, see ``enough_rows``; then least squares."""
        moments, n_rows = data.sketch.kept_moments, data.totals.effective_rows
        if n_rows >= self.enough_rows(moments.width, moments.n_targets):
            return self.fit(data, current)
        return self.fit_result(LinearModel(*ridge(moments, n_rows)), data)

    def cost(self, model: LinearModel, data: Snapshot) -> float:
        """Return the exact squared loss of the model on all rows seen."""
        moments = data.sketch.kept_moments
        return float(np.square(moments.shifted_factor @ _deviation(model, moments)).sum())

    def lower_bound(self, data: Snapshot) -> float:
        """Return the optimum over all linear models: the corner of the factor that belongs to the targets."""
        moments = data.sketch.moments
        corner = moments.regular_factor[moments.n_inputs :, moments.n_inputs :]
        return float(np.square(corner).sum())

    def optimum(self, data: Snapshot, model: LinearModel) -> float:
        """Return the lower bound, the exact minimum over the rows, also where a model drops directions."""
        return self.lower_bound(data)

    def stability(self, data: Snapshot) -> Callable[[int], float] | None:
        """Return the bound of exact solutions, Lemma 6 of ``docs/proofs.md``; None where a solution is not exact.

        With ``epsilon="auto"``, that of solutions on the coreset, Theorem 8.

        It is not if directions were dropped along which targets vary, see
        :func:`batch2online.methods.least_squares.solver.least_squares`. Nothing is claimed for few rows, nor up to the
        next doubling, when the last ridge regression may still be current.
        """
        moments, is_adaptive = data.sketch.moments, data.sketch.settings.is_adaptive
        enough, columns = self.enough_rows(moments.width, moments.n_targets), moments.n_inputs
        if not ((self.exact or is_adaptive) and self._is_exact_for(data)):
            return None
        excess = self.accuracy(data) if is_adaptive else lambda n: 0.0
        return lambda n: min(1.0, exact_stability(n, columns) * (1 + excess(n - 1))) if n > 2 * enough else 1.0

    def accuracy(self, data: Snapshot) -> Callable[[int], float]:
        """Return the excess loss of rows that a model has not seen, Theorem 8 of ``docs/proofs.md``, with "auto"."""
        sketch, columns = data.sketch, data.sketch.moments.n_inputs
        if not sketch.settings.is_adaptive:
            return super().accuracy(data)
        return lambda n: coreset_excess(sketch.constant_at(n), columns, sketch.settings.epsilon)

    def _is_exact_for(self, data: Snapshot) -> bool:
        """Return whether the solution of all rows attains the optimum."""
        model = LinearModel(*least_squares(data.sketch.moments))
        known, least = self.hindsight(data, model), self.cost(model, data)
        return least <= (1 + _ROUNDING) * known.optimum + known.resolution

    def degrees_of_freedom(self, model: LinearModel, data: Snapshot) -> float:
        """Return the number of coefficients of one target."""
        return float(data.sketch.kept_moments.n_inputs)

    def noise_factor(self, model: LinearModel, data: Snapshot) -> float:
        rows, weights = data.sketch.sample()
        leverages = data.sketch.statistics.total.scores_of_inputs(rows)
        losses, _ = self.losses(model, rows.points, rows.targets)
        mean_loss = self.lower_bound(data) / data.totals.effective_rows
        return noise_factor_of(leverages, losses, weights, self.degrees_of_freedom(model, data) * mean_loss)

    def hindsight(self, data: Snapshot, model: LinearModel) -> Hindsight:
        """Return the optimum beside the cost of the mean; without an intercept, beside that of predicting zero."""
        moments = data.sketch.moments
        factor, targets = moments.shifted_factor, slice(moments.n_inputs, None)
        spreads, offset = factor[:, targets], float(np.abs(moments.shift[targets]).max(initial=0.0))
        if moments.intercept and np.any(factor[:, 0]):
            constant = factor[:, :1]
            spreads = spreads - constant * (constant.T @ spreads) / float(constant[:, 0] @ constant[:, 0])
        total = float(np.square(spreads).sum())
        rounding = resolution(total, data.totals.weight, offset)
        return Hindsight(self.optimum(data, model), total=total, resolution=rounding)

    def difference(self, old: LinearModel, new: LinearModel, data: Snapshot) -> dict[str, Any]:
        """Return the root mean square change of the predictions on all rows seen."""
        moments = data.sketch.kept_moments
        moved = moments.shifted_factor @ (_deviation(new, moments) - _deviation(old, moments))
        magnitude = float(np.sqrt(np.square(moved).sum() / data.totals.weight))
        moved_most = _moved_most(old, new, moments)
        return {"magnitude": magnitude, "prediction_change": magnitude, "coefficients": moved_most}

    def same(self, old: LinearModel, new: LinearModel) -> bool:
        return np.array_equal(old.coefficients, new.coefficients) and np.array_equal(old.intercepts, new.intercepts)


_LEAST_SHARE = 0.5
"""Least ratio of the squared length of the coreset to that of all rows, over directions, for a fit to the coreset."""

_FIRST_ROWS = 10
"""Rows of the first ridge regression."""

_ENOUGH_ROWS = 30
"""Rows per coefficient from which on least squares needs no penalty."""

_ROUNDING = 1e-6
"""Relative excess cost of a solution that counts as rounding."""


def _moved_most(
    old: LinearModel, new: LinearModel, moments: Moments | FewRows
) -> tuple[tuple[int, float, float], ...] | None:
    """Return the columns whose coefficients moved predictions most, with their values before and after."""
    if len(new.coefficients) != 1:
        return None
    before, after = old.coefficients[0], new.coefficients[0]
    effects = np.abs(after - before) * moments.input_spreads
    return most_moved(effects, before, after)


def standard_errors(data: Snapshot, newest_weight: float = 1.0) -> FloatArray:
    """Return standard errors (n_targets, d) of the coefficients of least squares on all rows.

    They are those of the directions that least squares keeps: dropped ones have no coefficient and no error. With decay
    ``newest_weight`` is the weight of the last row, by which the others are measured.
    """
    moments = data.sketch.moments
    i, inputs = int(moments.intercept), moments.n_inputs
    factor = moments.regular_factor
    centred, right = factor[i:inputs, i:inputs], factor[i:inputs, inputs:]
    scale = column_norms(centred)
    unit = centred / np.where(scale > 0, scale, 1.0)
    inverse = np.linalg.pinv(unit, rcond=TOLERANCE)
    rank = np.linalg.matrix_rank(unit, tol=TOLERANCE * float(np.linalg.norm(unit, 2)))
    freedom = data.totals.weight / newest_weight - i - rank
    if freedom <= 0:
        return np.full((moments.n_targets, moments.width), np.inf)
    lengths = column_norms(inverse.T) / np.where(scale > 0, scale, np.inf)
    left = np.concatenate([factor[inputs:, inputs:], right - unit @ (inverse @ right)])
    return np.asarray(np.outer(column_norms(left) / np.sqrt(freedom), lengths))


def _deviation(model: LinearModel, moments: Moments | FewRows) -> FloatArray:
    """Return the matrix v with ``(m - shift) v`` = prediction minus target, for rows m = [1 | a | b]."""
    i, d = int(moments.intercept), moments.width
    identity = np.eye(moments.n_targets)
    if not i:
        return np.concatenate([model.coefficients.T, -identity])
    shift = moments.shift
    constant = model.intercepts + model.coefficients @ shift[i : i + d] - shift[i + d :]
    return np.concatenate([constant[None], model.coefficients.T, -identity])
