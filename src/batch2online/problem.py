"""The interface of a batch problem."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.quality import Baseline, ClassScores
from batch2online.rows import Rows
from batch2online.sketches.base import Coreset, Sketch, Snapshot
from batch2online.theory.bounds import DependsOn
from batch2online.theory.sizes import adaptive_epsilon
from batch2online.warm_up import Scored, WarmUp

if TYPE_CHECKING:
    from batch2online.record import Averages


class FitResult(NamedTuple):
    """A fitted model.

    Attributes
    ----------
    model
        What ``losses`` and ``cost`` take.
    n_rows : int
        Rows that it was fitted to.
    costs : (float, float) or None
        Costs of the current model and of this one, where the solver computes them anyway.
    ess_ratio : float
        Effective-sample-size ratio of the losses: the share of the rows that would say as much if all cost the same.
    """

    model: Any
    n_rows: int
    costs: tuple[float, float] | None = None
    ess_ratio: float = 1.0


class Totals(NamedTuple):
    """The loss of rows in total and their second number in total; the largest loss, and what gives the loss of each.

    ``least`` is a lower bound of all losses.
    """

    loss: float
    second: float
    largest: float
    losses: Callable[[], FloatArray]
    least: float = 0.0


class Problem(ABC):
    """A batch problem: what a model is, what it costs, and how to solve for one."""

    sketch_type: ClassVar[type] = Sketch
    """The type of sketch that models are fitted on."""

    loss_bound: float | None = None
    """No row costs more than this; None where nothing is known."""

    costs_are_exact: ClassVar[bool] = False
    """Whether ``cost`` and ``optimum`` are those of all rows seen; otherwise ``cost`` is measured on the coreset."""

    optimum_is_held_out: ClassVar[bool] = False
    """Whether ``optimum`` may be measured on other rows than the models were fitted to, and so exceed their cost."""

    tries_changes: ClassVar[bool] = False
    """Whether a replaced model is scored beside its successor for a while, for the ``trial`` of a change."""

    labels: Mapping[float, Any] = MappingProxyType({})
    """Labels of classes by their codes, if targets are such."""

    @property
    def best_model(self) -> str:
        """The best model that the loss of a stream is compared with, in words."""
        return "model known"

    @property
    def counts_errors(self) -> bool:
        """Whether the loss of a row is 1 for an error and 0 otherwise."""
        return False

    def label_of(self, code: float) -> Any:
        """Return the label of a class."""
        return self.labels.get(code, code)

    def quality(self, rows: Averages) -> dict[str, float]:
        """Return measures of quality in the units of the data, from the losses of rows."""
        return {"mean loss": rows.mean_loss}

    def further_metrics(self, data: Snapshot, model: Any) -> dict[str, float]:
        """Return measures of the current model that are no averages of losses."""
        return {}

    def gain_over_seeds(self, data: Snapshot, model: Any) -> float | None:
        """Return the share by which clusters cost less than seeds of k-means++; None where there are no clusters."""
        return None

    @property
    def secondary_name(self) -> str:
        """Name of the secondary loss, see :meth:`losses`."""
        return "secondary loss"

    @property
    def depends_on(self) -> DependsOn:
        """What ``fit`` depends on: the guarantees are weaker if it is more than the coreset."""
        return DependsOn.CORESET

    def refit_cost(self, keeps_history: bool) -> Literal["moments", "low", "high", "any"]:
        """Return what a refit takes, which decides how many half-lives ``half_life="auto"`` compares."""
        return "moments" if self.depends_on is DependsOn.ALL_ROWS else "high"

    def sensitivity(self, data: Snapshot) -> Callable[[int], float]:
        """Return a bound of the average sensitivity of a model of n rows: that of the coreset, if it depends on no
        more; 1 where none is proved.
        """
        bound: Callable[[int], float] = data.sketch.sensitivity
        return bound

    accuracy_scale: ClassVar[float] = 2.0
    """With ``epsilon="auto"``, the accuracy after t rows is this over the root of t."""

    def accuracy(self, data: Snapshot) -> Callable[[int], float]:
        """Return the accuracy epsilon of a model of n rows, on which certificates rest as a condition."""
        settings = data.sketch.settings
        if settings.is_adaptive:
            return lambda n: adaptive_epsilon(n, self.accuracy_scale, settings.epsilon)
        return lambda n: float(settings.epsilon)

    def stability(self, data: Snapshot) -> Callable[[int], float] | None:
        """Return a bound of the mean increase of the loss of a row that is left out of n rows, in units of the loss
        bound.

        For models of statistics of all rows; None where none is proved.
        """
        return None

    @abstractmethod
    def first_check(self, width: int, n_targets: int) -> int:
        """Return the number of rows needed for a first model."""

    def enough_rows(self, width: int, n_targets: int) -> int:
        """Return how many rows models must be fitted to before their costs on these rows can be compared.

        While a stream has fewer, the checks of :class:`refresh.Adaptive` come at doublings and replace the model. By
        default costs can always be compared.
        """
        return 0

    @abstractmethod
    def warm_up(self) -> WarmUp:
        """Return a fresh warm-up, which scores rows until the first model."""

    def baseline(self) -> Baseline | None:
        """Return a fresh baseline, which is scored beside the model on all rows; None where there is none."""
        return None

    def class_scores(self, model: Any, rows: Rows, losses: Scored) -> ClassScores | None:
        """Return errors and probabilities of classes, given loss and secondary loss of each row; None for numbers."""
        return None

    @abstractmethod
    def initial_model(self, prediction: Any, width: int, n_targets: int) -> Any:
        """Return the model used before the first fit, from the prediction of the warm-up, None before the first row."""

    @abstractmethod
    def losses(self, model: Any, points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the loss and the secondary loss of each row; ``secondary_name`` names the latter."""

    def as_numbers(self, rows: Rows) -> Rows:
        """Return rows as numbers that can be compared, codes of strings and missing values included."""
        return rows

    def spread_of(self, rows: Rows) -> FloatArray | None:
        """Return the values (n, k) whose spread the loss is compared with (R2, variance kept), or None."""
        return None

    @abstractmethod
    def fit(self, data: Snapshot, current: Any) -> FitResult:
        """Run the batch algorithm on the coreset or the statistics; it may start from the current model, None at first.

        ``fit_result`` makes the result of a model.
        """

    def fit_online(self, data: Snapshot, current: Any) -> FitResult:
        """Return the model of a check of a stream, by default that of ``fit``.

        It predicts the next rows: override it where another model does so better while rows are few. Estimators'
        ``fit``, ``merge`` and ``forget`` have the model of ``fit``.
        """
        return self.fit(data, current)

    @abstractmethod
    def cost(self, model: Any, data: Snapshot) -> float:
        """Return the total loss on all rows seen: exact, or measured on the coreset."""

    def lower_bound(self, data: Snapshot) -> float | None:
        """Return a lower bound of the cost of every model, 0 if nothing better is known.

        A check whose current model is within tolerance of it does not refit. None where ``fit`` mostly returns costs:
        the current model is then not priced before.
        """
        return 0.0

    @abstractmethod
    def optimum(self, data: Snapshot, model: Any) -> float:
        """Return the hindsight optimum on all rows seen, or the best that is known."""

    def hindsight(self, data: Snapshot, model: Any) -> Hindsight:
        """Return the optimum and its error, by default that of a cost measured on the coreset.

        Override it if ``optimum`` is measured on all rows.
        """
        optimum, coreset = self.optimum(data, model), data.coreset
        if self.costs_are_exact or len(coreset) == data.totals.n_rows or model is None:
            return Hindsight(optimum)
        losses = self.losses(model, coreset.points, _targets_of(coreset))[0]
        return Hindsight(optimum, sampling_error(coreset.weights, losses, certain=certain_weight(data)))

    def fit_result(self, model: Any, data: Snapshot) -> FitResult:
        """Return a model that was fitted to the coreset, or to all rows if models depend on them."""
        is_exact = self.depends_on is DependsOn.ALL_ROWS
        return FitResult(model, data.totals.n_rows if is_exact else len(data.coreset))

    def gradient_norms(self, losses: FloatArray) -> FloatArray:
        """Return the gradient norms of rows with these losses, by default the losses themselves."""
        return np.maximum(losses, 0.0)

    def piloted(self, sketch: Any, model: Any, data: Snapshot) -> Any:
        """Return the sketch that scores further rows by a new model."""
        if sketch.pilot != "gradients":
            return sketch.with_model(model)
        coreset = data.coreset
        losses = self.losses(model, coreset.points, _targets_of(coreset))[0]
        return sketch.with_model(model, coreset, self.gradient_norms(losses))

    def n_fit_rows(self, data: Snapshot, current: Any) -> int:
        """Return how many rows ``fit`` would use now."""
        return len(data.coreset)

    def degrees_of_freedom(self, model: Any, data: Snapshot) -> float:
        """Return the degrees of freedom of a model, relative to those of the loss of one row.

        The loss of a model on the n rows it was fitted on is about ``1 - degrees_of_freedom / n`` times its loss on
        new rows. :class:`refresh.Adaptive` sets its tolerance by it.
        """
        return 1.0

    def noise_factor(self, model: Any, data: Snapshot) -> float:
        """Return the heteroscedasticity factor of a model, at least 1.

        The excess loss of a new model is its degrees of freedom times this factor, over n: 1 if all rows have the same
        expected loss, more if rows of high leverage have larger losses. :class:`refresh.Adaptive` uses it before it
        replaces a model.
        """
        return 1.0

    @abstractmethod
    def difference(self, old: Any, new: Any, data: Snapshot) -> dict[str, Any]:
        """Return how far the model moved, as fields of a ``ChangeEvent``, at least ``magnitude``."""

    @abstractmethod
    def same(self, old: Any, new: Any) -> bool:
        """Return whether two models are identical."""


def _targets_of(coreset: Coreset) -> FloatArray:
    """Return the targets of a coreset as (n, t), with no columns where there are none."""
    targets = np.empty((len(coreset), 0)) if coreset.targets is None else coreset.targets
    return targets.reshape(len(coreset), -1)


def totals_of(losses: FloatArray, second: FloatArray) -> Totals:
    """Return the totals of rows with these losses and second numbers."""
    sums = float(np.add.reduce(losses)), float(np.add.reduce(second))  # methods of arrays take longer
    return Totals(*sums, float(np.maximum.reduce(losses)), lambda: losses, float(np.minimum.reduce(losses)))


def check_losses(losses: FloatArray, ids: IntArray) -> None:
    """Raise ValueError if a loss is not a number.

    >>> check_losses(np.array([1.0, np.nan]), np.array([7, 8]))
    Traceback (most recent call last):
    ValueError: loss gave NaN for row 8 of the stream.
    """
    missing = np.isnan(losses)
    if missing.any():
        raise ValueError(f"loss gave NaN for row {int(ids[missing.argmax()])} of the stream.")


def check_problem(problem: object) -> None:
    """Refuse what lacks a method of a problem."""
    missing = sorted(name for name in Problem.__abstractmethods__ if not hasattr(problem, name))
    if missing:
        raise TypeError(f"A problem must have the methods of Problem; {type(problem).__name__} lacks {missing[0]}.")


def check_sketch(problem: object, sketch: object) -> None:
    """Refuse a sketch that a problem cannot be fitted on.

    >>> from batch2online.coresets import Uniform
    >>> from batch2online.methods.least_squares.problem import LeastSquares
    >>> check_sketch(LeastSquares(), Uniform().new_sketch(2, 1))
    Traceback (most recent call last):
    TypeError: LeastSquares is fitted on a coreset of type Leverage, got Uniform.
    """
    needed = getattr(problem, "sketch_type", Sketch)
    if not isinstance(sketch, needed):
        kind, found = (cls.__name__.removesuffix("Sketch") for cls in (needed, type(sketch)))
        raise TypeError(f"{type(problem).__name__} is fitted on a coreset of type {kind}, got {found}.")


_ROUNDING = 1e-9
"""Distances below this share of the spread of the rows are rounding."""
_CANTELLI = 19.0
"""With a chance of at most 1 in 20 a number exceeds its mean by the root of this many variances (Cantelli)."""


@dataclass(frozen=True)
class Hindsight:
    """The loss of the best model on all rows seen, and the loss of the simplest model for comparison.

    Attributes
    ----------
    optimum : float
        Least loss of any single model, or of the best one known; NaN if none is known.
    error : float
        How far the optimum of all rows may be below this one, measured on the coreset: it is at least
        ``optimum / (1 + error)`` with probability 95 %. 0 where all rows are in it.
    shortfall : float
        How far it may be above, as a share: models are fitted to the rows that they are measured on. Infinite where
        that is not known; of no meaning where the error is 0.
    total : float
        Loss of the simplest model: the mean of the targets or of the rows; not a number where it is not known.
    resolution : float
        Losses up to this are rounding.
    secondary : float or None
        Least secondary loss; None where it is not known.
    """

    optimum: float
    error: float = 0.0
    shortfall: float = math.inf
    total: float = math.nan
    resolution: float = 0.0
    secondary: float | None = None


def resolution(total: float, weight: float, offset: float, power: float = 2.0) -> float:
    """Return the loss that rounding alone brings about, given the total, the weight and how far rows are from zero."""
    return float(total * _ROUNDING**power + weight * (16 * np.finfo(np.float64).eps * offset) ** power)


def sampling_error(weights: FloatArray, losses: FloatArray, *, certain: float = 1.0) -> float:
    """Return how far a cost measured on a coreset may be from that on all rows, as a share of it (Lemma 7).

    For centers that do not depend on the draws, the mean of ``sum w l`` is their cost on all rows, and its variance
    that of ``sum w (w - 1) l^2``. The largest term is added once more, for rows like it that were not drawn.
    ``certain`` is the weight of rows that are drawn in any case: 1, or 0, which makes a bound, where rows have weights.

    >>> sampling_error(np.ones(4), np.ones(4)), round(sampling_error(np.full(10_000, 2.0), np.ones(10_000)), 3)
    (0.0, 0.031)
    """
    with np.errstate(over="ignore"):
        cost = float(weights @ losses)
        return _deviation(weights, losses, certain) / cost if cost else 0.0


def held_out_bound(weights: FloatArray, losses: FloatArray, is_fitted: BoolArray, *, certain: float = 1.0) -> float:
    """Return an upper bound of the cost of the best model on all rows, with probability 95 % (Lemma 7, second part).

    ``losses`` are those of a model that was fitted to some rows of the coreset, ``is_fitted``, each chosen with a
    chance of 1/2. It costs no less than the best one. Given the fitted rows, each other row is in the rest of the
    coreset with the probability for which its unbiased weight is ``2 w - 1``; fitted rows count once.

    >>> held_out_bound(np.ones(4), np.ones(4), np.array([True, False, True, False]))
    4.0
    """
    with np.errstate(over="ignore"):
        raised, own = 2 * weights[~is_fitted] - certain, losses[~is_fitted]
        cost = float(raised @ own) + certain * float(losses[is_fitted].sum())
        return cost + _deviation(raised, own, certain)


def _deviation(weights: FloatArray, losses: FloatArray, certain: float) -> float:
    """Return by how much ``sum w l`` exceeds its mean with a chance of at most 1 in 20."""
    terms = weights * np.maximum(weights - certain, 0.0) * np.square(losses)
    return math.sqrt(_CANTELLI * (float(terms.sum()) + float(terms.max(initial=0.0))))


def certain_weight(data: Snapshot) -> float:
    """Return the weight of a row that is drawn in any case: 1, or 0 where rows have weights of their own."""
    return 1.0 if data.totals.weight == data.totals.n_rows else 0.0


def noise_factor_of(leverages: FloatArray, losses: FloatArray, weights: FloatArray, alike: float) -> float:
    """Return the factor, at least 1, given the sum for homogeneous rows.

    >>> noise_factor_of(np.array([0.1, 0.3]), np.array([1.0, 4.0]), np.array([2.0, 1.0]), alike=0.7)
    2.0
    """
    if not alike > 0:
        return 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        factor = float(weights @ (leverages * losses)) / alike
    return factor if factor > 1 else 1.0
